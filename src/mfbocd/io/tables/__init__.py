"""Read tables in CSV, JSON, Parquet or Arrow format once, in constant memory."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, Literal, cast

from .arrow import ArrowTable, ParquetTable
from .base import ROWS, Rules, Table
from .cells import BadCells, Chunk, Missing, TableError, number
from .objects import JsonArrayTable, JsonTable
from .sources import COMPRESSED, decompressed, recoded
from .text import CsvTable

__all__ = ["FORMATS", "ROWS", "Chunk", "Format", "OnBad", "Table", "TableError", "number", "open_table"]

Format = Literal["csv", "jsonl", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet", "arrow")
"""Names of the formats."""
OnBad = Literal["stop", "skip"]
_SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}


def open_table(
    path: str | Path,
    format: Format | None = None,
    *,
    na: Collection[str] = (),
    on_bad: OnBad = "stop",
    decimal: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Open the table in a file or on standard input.

    The format is determined by the file name or, failing that, by the first bytes. Text may be compressed with gzip,
    xz or bzip2, or be the only file in a zip archive. JSON is one object per line or an array.

    Parameters
    ----------
    path : str or Path
        The file, or ``-`` for standard input.
    format : {"csv", "jsonl", "parquet", "arrow"} or None
        The format; determined from the file by default.
    na : collection of str
        Cells that mean a missing reading, in addition to empty ones, NA, NaN, null and none.
    on_bad : {"stop", "skip"}
        What happens at a cell that is not a number, or a row that cannot be read: an error (default), or the cell
        is a missing reading and the row is left out. ``table.rules.skipped`` counts them.
    decimal : {".", ","} or None
        Decimal separator of text; by default a comma if semicolons separate the columns, else a point.
    encoding : str or None
        Encoding of text; by default UTF-8, or UTF-16 if the file begins with its mark.

    Returns
    -------
    Table
        The open table; use it as a context manager to close it.

    Raises
    ------
    ValueError
        If `format`, `on_bad`, `decimal` or `encoding` is unknown.
    TableError
        If the file is empty or is not in the expected format.
    OSError
        If the file cannot be opened.
    ImportError
        If a Parquet or Arrow table is opened and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("time,imu,gps\\n09:00,0.1,\\n09:01,oops,0.3\\n")
    >>> with open_table(file) as table:
    ...     for chunk in table.chunks(["gps"]):
    ...         print([chunk.number(i, "gps") for i in range(len(chunk))])
    [None, 0.3]
    >>> with open_table(file, on_bad="skip") as table:
    ...     for chunk in table.chunks(["imu"]):
    ...         print([chunk.number(i, "imu") for i in range(len(chunk))])
    [0.1, None]
    """
    for name, value, allowed in (
        ("format", format, (None, *FORMATS)),
        ("on_bad", on_bad, ("stop", "skip")),
        ("decimal", decimal, (None, ".", ",")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(filter(None, allowed))}, not {value!r}")
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError:
        raise ValueError(f"encoding must be known to Python, such as latin-1, not {encoding!r}") from None
    rules = Rules(Missing.of(na), decimal, BadCells() if on_bad == "skip" else None)
    if str(path) == "-":
        return _opened("standard input", sys.stdin.buffer, None, format, encoding, rules)
    path = Path(path)
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    file = path.open("rb")
    try:
        return _opened(path.name, file, path, format or _SUFFIXES.get(inner.suffix.lower()), encoding, rules)
    except BaseException:
        file.close()
        raise


def _opened(
    name: str, file: IO[bytes], path: Path | None, format: Format | None, encoding: str | None, rules: Rules
) -> Table:
    about = os.fstat(file.fileno())
    regular = stat.S_ISREG(about.st_mode)
    raw, source = decompressed(name, file, _first(file), regular=regular)
    first = _first(raw)
    if format is None:
        format = _format_of(first)
    if format in ("parquet", "arrow") and raw is not file:
        raise TableError(f"{name} is {format.capitalize()} in a compressed file: decompress it")
    if format == "parquet":
        if path is None or not regular:
            raise TableError(f"{name} is Parquet, which cannot be read from a pipe: its index is at the end")
        file.close()
        return ParquetTable(path, rules)
    if format == "arrow":
        is_file = first.startswith(b"ARROW1")
        if is_file and (path is None or not regular):
            raise TableError(f"{name} is an Arrow file, which cannot be read from a pipe; use an Arrow stream")
        if is_file:
            file.close()
        return ArrowTable(name, cast(Path, path) if is_file else file, not is_file, rules)
    array = first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    kind: Any = CsvTable if format == "csv" else JsonArrayTable if array else JsonTable
    text = recoded(raw, first, encoding)
    return cast(Table, kind(name, text, source, about.st_size if regular else None, not regular, rules))


def _first(file: IO[bytes]) -> bytes:
    """Return the first bytes of a stream without reading them."""
    try:
        return bytes(file.peek(8)[:8])  # type: ignore[attr-defined]
    except (EOFError, OSError, ValueError):  # a damaged file, which fails again when it is read
        return b""


def _format_of(first: bytes) -> Format:
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")) else "csv"

"""Read tables in CSV, JSON Lines, Parquet or Arrow format once, in constant memory."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from pathlib import Path
from typing import IO, Literal, cast

from .arrow import ArrowTable, ParquetTable
from .base import ROWS, Table
from .cells import Chunk, TableError, number
from .text import CsvTable, JsonTable

__all__ = ["FORMATS", "ROWS", "Chunk", "Format", "Table", "TableError", "number", "open_table"]

Format = Literal["csv", "jsonl", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet", "arrow")
"""Names of the formats."""
_SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}


def open_table(path: str | Path, format: Format | None = None) -> Table:
    """Open the table in a file or on standard input.

    The format is determined by the file name or, failing that, by the first bytes. Text may be compressed with gzip.

    Parameters
    ----------
    path : str or Path
        The file, or ``-`` for standard input.
    format : {"csv", "jsonl", "parquet", "arrow"} or None
        The format; determined from the file by default.

    Returns
    -------
    Table
        The open table; use it as a context manager to close it.

    Raises
    ------
    ValueError
        If `format` is unknown.
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
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    if str(path) == "-":
        return _opened("standard input", sys.stdin.buffer, None, format)
    path = Path(path)
    gzipped = path.suffix.lower() == ".gz"
    known = format or _SUFFIXES.get((path.with_suffix("") if gzipped else path).suffix.lower())
    file = path.open("rb")
    try:
        return _opened(path.name, file, path, known)
    except BaseException:
        file.close()
        raise


def _opened(name: str, file: IO[bytes], path: Path | None, format: Format | None) -> Table:
    about = os.fstat(file.fileno())
    regular = stat.S_ISREG(about.st_mode)
    first = file.peek(8)[:8]  # type: ignore[attr-defined]
    if format is None:
        format = _format_of(first)
    if format == "parquet":
        if path is None or not regular:
            raise TableError(f"{name} is Parquet, which cannot be read from a pipe: its index is at the end")
        file.close()
        return ParquetTable(path)
    if format == "arrow":
        is_file = first.startswith(b"ARROW1")
        if is_file and (path is None or not regular):
            raise TableError(f"{name} is an Arrow file, which cannot be read from a pipe; use an Arrow stream")
        if is_file:
            file.close()
        return ArrowTable(name, cast(Path, path) if is_file else file, not is_file)
    raw = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if first.startswith(b"\x1f\x8b") else file
    total = about.st_size if regular else None
    kind = JsonTable if format == "jsonl" else CsvTable
    return kind(name, raw, file, total, live=not regular)


def _format_of(first: bytes) -> Format:
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"

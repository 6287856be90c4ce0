"""CSV and JSON Lines tables, plain or gzipped, from a file or a pipe."""

from __future__ import annotations

import csv
import json
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any, ClassVar

from .base import Table
from .cells import MISSING, Chunk, TableError, number, shortened

ONLY_COLUMN = "x"
"""Name of the only column of a table without column names."""
_DELIMITERS = "\t;,"  # a decimal comma is more common than a tab or semicolon inside a field: the comma comes last


class _Text(Table):
    """A table of UTF-8 lines, with the number of bytes read for a progress bar."""

    where: ClassVar[str] = "line"
    decimal = "."

    def __init__(self, name: str, raw: IO[bytes], source: IO[bytes], total: int | None, live: bool) -> None:
        """Read `raw` and count the bytes of `source`; they differ if the file is compressed."""
        self.name, self.total, self.live = name, total, live
        self._source, self._raw = source, raw
        self._counted = total is not None
        self.line = 0
        try:
            self._rows = self._open()
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> int:
        return self._source.tell() if self._counted else 0

    def close(self) -> None:
        if self._source.fileno() != 0:  # standard input stays open
            self._raw.close()
            self._source.close()

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                # Decoded line by line: a reader that decodes ahead cannot name the bad line.
                line = self._raw.readline().decode("utf-8-sig" if self.line == 0 else "utf-8")
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                raise TableError(f"line {self.line + 1}: byte 0x{bad:02x} is not UTF-8 text") from None
            except (EOFError, OSError, zlib.error) as error:  # a damaged or truncated gzip file
                raise TableError(f"line {self.line + 1}: {self.name} is damaged or truncated: {error}") from None
            if not line:
                return
            self.line += 1
            yield line

    @abstractmethod
    def _open(self) -> Iterator[tuple[int, Any]]:
        """Set `columns` and return the rows with their line numbers, each checked for its shape."""

    @abstractmethod
    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        """Return the cells of the rows by column."""

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        lines: list[int] = []
        found: list[Any] = []

        def chunk() -> Chunk:
            return Chunk(self.where, lines, self._cells(found, columns), self.decimal)

        try:
            for line, row in self._rows:
                lines.append(line)
                found.append(row)
                if len(found) == rows:
                    yield chunk()
                    lines, found = [], []
        except TableError:
            if found:  # rows before the bad one are still returned
                yield chunk()
            raise
        if found:
            yield chunk()


class CsvTable(_Text):
    """A CSV table: fields separated by tab, semicolon or comma, whichever the first line contains.

    A first line that contains a number is not a header; columns are then named "1", "2", ... by position, or "x" if
    there is only one. An empty line is skipped, or is a missing reading if there is one column.

    Parameters
    ----------
    name : str
        Name of the table in errors.
    raw : IO[bytes]
        The text, decompressed.
    source : IO[bytes]
        The file whose position measures the progress.
    total : int or None
        Size of `source` in bytes, if it is known.
    live : bool
        Whether rows arrive while they are being written.
    """

    def _open(self) -> Iterator[tuple[int, Any]]:
        lines = self._lines()
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            raise TableError(f"{self.name} is empty")
        bare = "".join(first.split('"')[::2])  # the text outside quotes
        delimiter = next((d for d in _DELIMITERS if d in bare), ",")
        self.decimal = "," if delimiter == ";" else "."
        offset = self.line - 1  # empty lines before the first record
        reader = csv.reader(chain([first], lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        records = self._records(reader, offset)
        line, row = next(records)
        header = not any(_is_number(cell, self.decimal) for cell in row)
        if len(row) == 1 and row[0].strip().lower() in MISSING:
            header = False
        if header:
            self.columns = tuple(cell.strip() for cell in row)
            double = next((name for name in self.columns if self.columns.count(name) > 1), None)
            if double is not None:
                raise TableError(f"line {line}: duplicate column name {double!r}")
            return self._checked(records)
        self.columns = (ONLY_COLUMN,) if len(row) == 1 else tuple(str(i + 1) for i in range(len(row)))
        return self._checked(chain([(line, row)], records))

    def _records(self, reader: Any, offset: int) -> Iterator[tuple[int, list[str]]]:
        while True:
            line = offset + reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise TableError(f"line {line}: not CSV: {error}") from None
            yield line, row

    def _checked(self, records: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
        width = len(self.columns)
        for line, row in records:
            if not row:
                if width > 1:
                    continue
                row = [""]
            if len(row) != width:
                raise TableError(f"line {line}: expected {width} fields as in the first line, not {len(row)}")
            yield line, row

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row[j] for row in rows] for c, j in ((c, self.columns.index(c)) for c in columns)}


class JsonTable(_Text):
    """A JSON Lines table: one object per line, whose keys are the columns, or one number per line (column "x").

    Parameters
    ----------
    name : str
        Name of the table in errors.
    raw : IO[bytes]
        The text, decompressed.
    source : IO[bytes]
        The file whose position measures the progress.
    total : int or None
        Size of `source` in bytes, if it is known.
    live : bool
        Whether rows arrive while they are being written.
    """

    def _open(self) -> Iterator[tuple[int, Any]]:
        self.columns = (ONLY_COLUMN,)
        rows = self._objects()
        first = next(rows, None)
        if first is None:
            raise TableError(f"{self.name} is empty")
        self.columns = tuple(first[1])
        if not self.columns:
            raise TableError(f"line {first[0]}: the object has no keys")
        return chain([first], rows)

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for text in self._lines():
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError):
                raise TableError(f"line {self.line}: not JSON: {shortened(text.strip())}") from None
            if not isinstance(row, dict):
                if self.columns != (ONLY_COLUMN,):
                    raise TableError(f"line {self.line}: {shortened(row)} is not an object, but the first line is")
                row = {ONLY_COLUMN: row}
            yield self.line, row

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row.get(c) for row in rows] for c in columns}


def _is_number(cell: str, decimal: str) -> bool:
    try:
        return number(cell, decimal) is not None
    except ValueError:
        return False

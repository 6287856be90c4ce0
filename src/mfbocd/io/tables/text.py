"""CSV and JSON Lines, plain or gzipped, from a file or as they are written to a pipe."""

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

PLAIN = "x"
"""The column of a table that has one and does not name it."""
_DELIMITERS = "\t;,"  # a decimal comma is more common than a tab or semicolon inside a field: the comma comes last


class _Text(Table):
    """Lines of UTF-8, with the bytes read so far for a progress bar."""

    where: ClassVar[str] = "line"
    decimal = "."

    def __init__(self, name: str, raw: IO[bytes], source: IO[bytes], total: int | None, live: bool) -> None:
        """`raw` is read and `source` counted: they differ where the file is compressed."""
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
        if self._source.fileno() != 0:  # standard input is not ours to close
            self._raw.close()
            self._source.close()

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                # Decoded a line at a time: a reader that decodes ahead cannot tell which line is bad.
                line = self._raw.readline().decode("utf-8-sig" if self.line == 0 else "utf-8")
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                raise TableError(f"line {self.line + 1}: byte 0x{bad:02x} is not UTF-8 text") from None
            except (EOFError, OSError, zlib.error) as error:  # a gzip that is broken or cut
                raise TableError(f"line {self.line + 1}: {self.name} breaks off: {error}") from None
            if not line:
                return
            self.line += 1
            yield line

    @abstractmethod
    def _open(self) -> Iterator[tuple[int, Any]]:
        """Find `columns`; the rows with their lines, each checked for its shape."""

    @abstractmethod
    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        """The rows' cells by column."""

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
            if found:  # what came before the bad row still counts
                yield chunk()
            raise
        if found:
            yield chunk()


class CsvTable(_Text):
    """Comma, semicolon or tab between fields, whichever the first line has; a first line with a number is no header.

    Without a header columns are named by position, "1", "2", ...; a single one is "x". An empty line is skipped, or
    a missing reading where there is one column.
    """

    def _open(self) -> Iterator[tuple[int, Any]]:
        lines = self._lines()
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            raise TableError(f"{self.name} is empty")
        bare = "".join(first.split('"')[::2])  # what stands outside quotes
        delimiter = next((d for d in _DELIMITERS if d in bare), ",")
        self.decimal = "," if delimiter == ";" else "."
        offset = self.line - 1  # empty lines above
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
                raise TableError(f"line {line}: two columns are named {double!r}")
            return self._checked(records)
        self.columns = (PLAIN,) if len(row) == 1 else tuple(str(i + 1) for i in range(len(row)))
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
                raise TableError(f"line {line}: {len(row)} fields, where the first line has {width}")
            yield line, row

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row[j] for row in rows] for c, j in ((c, self.columns.index(c)) for c in columns)}


class JsonTable(_Text):
    """One JSON object a line, its keys the columns; or one number a line, which is one column, "x"."""

    def _open(self) -> Iterator[tuple[int, Any]]:
        self.columns = (PLAIN,)
        rows = self._objects()
        first = next(rows, None)
        if first is None:
            raise TableError(f"{self.name} is empty")
        self.columns = tuple(first[1])
        if not self.columns:
            raise TableError(f"line {first[0]}: an object with no keys")
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
                if self.columns != (PLAIN,):
                    raise TableError(f"line {self.line}: {shortened(row)} is not an object, as the first line is")
                row = {PLAIN: row}
            yield self.line, row

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row.get(c) for row in rows] for c in columns}


def _is_number(cell: str, decimal: str) -> bool:
    try:
        return number(cell, decimal) is not None
    except ValueError:
        return False

"""Tables of text lines, and CSV, from a file or a pipe."""

from __future__ import annotations

import csv
import lzma
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any, ClassVar
from zipfile import BadZipFile

from .base import Rules, Table
from .cells import MISSING, Chunk, TableError, number

ONLY_COLUMN = "x"
"""Name of the only column of a table without column names."""
_DELIMITERS = "\t;,|"  # a decimal comma is more common than a tab or semicolon inside a field: the comma comes late


class TextTable(Table):
    """A table of UTF-8 text, with the number of bytes read for a progress bar.

    Parameters
    ----------
    name : str
        Name of the table in errors.
    raw : IO[bytes]
        The text, decompressed.
    source : IO[bytes]
        The file whose position measures the progress; it differs from `raw` if the file is compressed.
    total : int or None
        Size of `source` in bytes, if it is known.
    live : bool
        Whether rows arrive while they are being written.
    rules : Rules
        How cells are read.
    """

    where: ClassVar[str] = "line"
    decimal = "."

    def __init__(
        self, name: str, raw: IO[bytes], source: IO[bytes], total: int | None, live: bool, rules: Rules
    ) -> None:
        self.name, self.total, self.live, self.rules = name, total, live, rules
        self._source, self._raw = source, raw
        self._counted = total is not None
        self.line = 0
        if rules.decimal is not None:
            self.decimal = rules.decimal
        try:
            self._rows = self._open()
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> int:
        """Bytes of the file that were read."""
        return self._source.tell() if self._counted else 0

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._source.fileno() != 0:
            self._raw.close()
            self._source.close()

    def _bytes(self, size: int = -1) -> bytes:
        """Return the next line, or as many bytes as there are, at most `size`."""
        read = getattr(self._raw, "read1", self._raw.read)  # a pipe returns what has arrived
        try:
            return self._raw.readline() if size < 0 else bytes(read(size))
        except UnicodeError as error:
            raise TableError(f"line {self.line + 1}: not in the given encoding: {error}") from None
        except (EOFError, OSError, zlib.error, lzma.LZMAError, BadZipFile) as error:  # damaged or truncated
            raise TableError(f"line {self.line + 1}: {self.name} is damaged or truncated: {error}") from None

    def _lines(self) -> Iterator[str]:
        while line := self._bytes():
            self.line += 1
            try:
                # Decoded line by line: a reader that decodes ahead cannot name the bad line.
                yield line.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                self._skip(f"line {self.line}: byte 0x{bad:02x} is not UTF-8 text")

    def _skip(self, error: str) -> None:
        """Count a row that cannot be read, or raise its error."""
        if self.rules.skipped is None:
            raise TableError(error)
        self.rules.skipped.add(error)

    @abstractmethod
    def _open(self) -> Iterator[tuple[int, Any]]:
        """Set `columns` and return the rows with their line numbers, each checked for its shape."""

    @abstractmethod
    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        """Return the cells of the rows by column."""

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield all remaining rows, also those before a row that cannot be read."""
        lines: list[int] = []
        found: list[Any] = []

        def chunk() -> Chunk:
            cells = self._cells(found, columns)
            return Chunk(self.where, lines, cells, self.decimal, self.rules.missing, self.rules.skipped)

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


class CsvTable(TextTable):
    """A CSV table: fields separated by tab, semicolon, comma, | or spaces, whichever the first line contains.

    Lines before it that begin with # are comments; the last of them may contain the column names. A first line that
    contains a number is not a header; columns are then named "1", "2", ... by position, or "x" if there is only one.
    An empty line is skipped, or is a missing reading if there is one column.
    """

    def _open(self) -> Iterator[tuple[int, Any]]:
        lines = self._lines()
        comment = ""
        first = ""
        for line in lines:
            if line.startswith("#"):
                comment = line
            elif line.strip():
                first = line
                break
        if not first:
            raise TableError(f"{self.name} is empty")
        offset = self.line - 1  # lines before the first record
        delimiter, lines = self._delimiter(first, lines)
        if self.rules.decimal is None:
            self.decimal = {";": ",", ",": "."}.get(delimiter, "")
        if delimiter == " ":
            first, lines = first.strip(), (line.strip() + "\n" for line in lines)
        reader = csv.reader(chain([first], lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        records = self._records(reader, offset)
        record = next(records, None)
        if record is None:  # it was skipped
            raise TableError(f"{self.name} has no row that can be read")
        number_of_line, row = record
        if not self._is_header(row):
            width = len(row)
            split = comment.lstrip("# ").rstrip().split(None if delimiter == " " else delimiter)
            names = [name.strip() for name in split]
            by_position = [ONLY_COLUMN] if width == 1 else [str(i + 1) for i in range(width)]
            self._name(names if width == len(names) > 1 and self._is_header(names) else by_position, offset)
            return self._checked(chain([(number_of_line, row)], records))
        while len(row) > 1 and not row[-1].strip():  # a delimiter at the end of each line
            row.pop()
        self._name([cell.strip() for cell in row], number_of_line)
        return self._checked(records)

    def _delimiter(self, first: str, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
        """Return the delimiter, and the lines after the first one."""
        bare = "".join(first.split('"')[::2])  # the text outside quotes
        comma = self.rules.decimal == ","
        for delimiter in _DELIMITERS.replace(",", "") if comma else _DELIMITERS:
            if delimiter in bare:
                return delimiter, lines
        none = ";" if comma else ","
        fields = bare.split()
        if len(fields) < 2:
            return none, lines
        if all(self._is_number(field) for field in fields):
            return " ", lines
        # A name such as "air temperature" has a space as well: the next line decides.
        ahead: list[str] = []
        for line in lines:
            ahead.append(line)
            if line.strip():
                break
        row = ahead[-1].split() if ahead else []
        spaces = len(row) == len(fields) and any(self._is_number(field) for field in row)
        return " " if spaces else none, chain(ahead, lines)

    def _is_number(self, cell: str) -> bool:
        try:
            return number(cell, self.decimal, self.rules.missing) is not None
        except ValueError:
            return False

    def _is_header(self, row: Sequence[str]) -> bool:
        if len(row) == 1 and (text := row[0].strip().lower()) in MISSING | self.rules.missing.texts:
            return text == ""
        return not any(self._is_number(cell) for cell in row)

    def _name(self, names: list[str], line: int) -> None:
        """Set the names of the columns; one without a name gets its position."""
        self.columns = tuple(name or str(i + 1) for i, name in enumerate(names))
        double = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if double is not None:
            raise TableError(f"line {line}: duplicate column name {double!r}")

    def _records(self, reader: Any, offset: int) -> Iterator[tuple[int, list[str]]]:
        while True:
            line = offset + reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._skip(f"line {line}: not CSV: {error}")
                continue
            yield line, row

    def _checked(self, records: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
        width = len(self.columns)
        for line, row in records:
            if not row:
                if width > 1:
                    continue
                row = [""]
            if len(row) > width and not any(row[width:]):
                del row[width:]  # delimiters at the end
            if len(row) != width:
                fields = f"{width} field{'' if width == 1 else 's'}"
                self._skip(f"line {line}: expected {fields} as in the first line, not {len(row)}")
                continue
            yield line, row

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row[j] for row in rows] for c, j in ((c, self.columns.index(c)) for c in columns)}

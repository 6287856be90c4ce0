"""JSON Lines, and JSON arrays."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from .cells import TableError, shortened
from .text import ONLY_COLUMN, TextTable

_BLOCK = 65_536  # bytes of an array that are read at once
_EXPECTED = "expected one JSON object per line, or an array of objects or numbers"


class JsonTable(TextTable):
    """A JSON Lines table: one object per line, whose keys are the columns, or one number per line (column "x")."""

    def _open(self) -> Iterator[tuple[int, Any]]:
        rows = self._objects()
        first = next(rows, None)
        if first is None:
            raise TableError(f"{self.name} is empty")
        self.columns = tuple(first[1])
        if not self.columns:
            raise TableError(f"{self.where} {first[0]}: the object has no keys")
        if all(isinstance(cell, (list, dict)) for cell in first[1].values()):
            raise TableError(f"{self.name} contains columns or nested objects; {_EXPECTED}")
        return chain([first], rows)

    def _objects(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        expected = ""
        for line, value in self._values():
            row, kind = _as_row(value)
            expected = expected or kind
            if kind != expected:
                here = self.where
                self._skip(f"{here} {line}: {shortened(value)} is not {expected}, but the first {here} is")
                continue
            yield line, row

    def _values(self) -> Iterator[tuple[int, Any]]:
        for text in self._lines():
            if not text.strip():
                continue
            try:
                yield self.line, json.loads(text)
            except (ValueError, RecursionError):
                expected = f"; {_EXPECTED}" if self.line == 1 else ""
                self._skip(f"line {self.line}: not JSON: {shortened(text.strip())}{expected}")

    def _cells(self, rows: list[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
        return {c: [row.get(c) for row in rows] for c in columns}


class JsonArrayTable(JsonTable):
    """A JSON array of objects, of numbers (column "x"), or of arrays (columns "1", "2", ...).

    It is read in blocks, so that memory does not grow with the file.
    """

    where = "item"

    def _values(self) -> Iterator[tuple[int, Any]]:
        decoder, decode = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")().decode
        text, at, count, ended = "", 0, 0, False

        def more() -> bool:
            """Read another block; False at the end of the file."""
            nonlocal text, at, ended
            block = self._bytes(_BLOCK)
            try:
                text, at = text[at:] + decode(block, final=not block), 0
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                raise TableError(f"item {count + 1}: byte 0x{bad:02x} is not UTF-8 text") from None
            ended = not block
            return bool(block)

        def next_character() -> str:
            nonlocal at
            while True:
                while at < len(text) and text[at].isspace():
                    at += 1
                if at < len(text):
                    return text[at]
                if not more():
                    return ""

        next_character()
        at += 1  # the bracket, by which the format was recognized
        while next_character() != "]":
            try:
                value, end = decoder.raw_decode(text, at)
                if not ended and len(text) - end < 3 and text[end:].strip() not in (",", "]"):
                    raise ValueError("a number such as 1.5 or 1e+5 may continue in the next block")
            except (ValueError, RecursionError):
                if not ended:
                    more()
                    continue
                raise TableError(f"item {count + 1}: not JSON: {shortened(text[at : at + 60])}") from None
            count, at = count + 1, end
            yield count, value
            if next_character() == ",":
                at += 1
            elif next_character() != "]":
                what = shortened(text[at : at + 60]) if text[at:] else "the end of the file"
                raise TableError(f"item {count + 1}: expected a comma or ], not {what}")
        at += 1
        if next_character():
            raise TableError(f"after the end of the array: {shortened(text[at : at + 60])}; {_EXPECTED}")


def _as_row(value: Any) -> tuple[Mapping[str, Any], str]:
    """Return a value as cells by column, and its kind."""
    if isinstance(value, dict):
        return value, "an object"
    if isinstance(value, list):
        return {str(i + 1): cell for i, cell in enumerate(value)}, "an array"
    return {ONLY_COLUMN: value}, "a number"

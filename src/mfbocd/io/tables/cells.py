"""One cell of a table as a number, and rows read together; an error names the line and the column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
_BITS = {"true": 1.0, "false": 0.0}
_NUMBERS = (bool, int, float, np.integer, np.floating, np.bool_, Decimal)  # numpy counts timedelta64 among them


class TableError(ValueError):
    """A table that cannot be read, and where."""


def number(cell: Any, decimal: str = ".") -> float | None:
    """A cell as a finite number, None if it is missing; ValueError otherwise.

    >>> number("1.5"), number("NA"), number(True), number("1,5", decimal=",")
    (1.5, None, 1.0, 1.5)
    """
    if isinstance(cell, str):
        if decimal != "." and "." not in cell:
            cell = cell.replace(decimal, ".")
        try:
            value = float(cell)
        except ValueError:
            text = cell.strip().lower()
            if text in MISSING:
                return None
            if text not in _BITS:
                raise ValueError(f"{shortened(cell)} is not a number") from None
            value = _BITS[text]
        if "_" in cell:  # Python's own way to write numbers, nobody else's
            raise ValueError(f"{shortened(cell)} is not a number")
    elif cell is None:
        return None
    elif isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64):
        try:
            value = float(cell)
        except OverflowError:
            value = math.inf
    else:
        raise ValueError(f"{shortened(cell)} is not a number")
    if math.isinf(value):
        raise ValueError(f"{shortened(cell)} is not a finite number")
    return None if math.isnan(value) else value


def shortened(cell: Any, most: int = 60) -> str:
    """A cell as it stands in an error.

    >>> shortened("abc" * 100, 12)
    "'abcabca..."
    """
    text = repr(cell)
    return text if len(text) <= most else f"{text[: most - 4]}..."


def label(cell: Any) -> str | int | float | None:
    """A timestamp as JSON can carry it: text and numbers as they are, dates as in ISO 8601.

    >>> label(datetime(2024, 5, 1, 12))
    '2024-05-01T12:00:00'
    """
    if isinstance(cell, (datetime, date, time)):
        return cell.isoformat()
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    if cell is None or isinstance(cell, (str, int, float)):
        return cell
    return str(cell)


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table, unread: a cell becomes a number when it is asked for, and only then can be wrong."""

    unit: str
    """What `numbers` count: "line" or "row"."""
    numbers: Sequence[int]
    """Where each row stands, from 1."""
    cells: Mapping[str, Sequence[Any]]
    """By column."""
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, i: int, column: str) -> float | None:
        """The reading in row i; None if missing.

        >>> Chunk("line", [17], {"gps": ["abc"]}).number(0, "gps")
        Traceback (most recent call last):
        ...
        mfbocd.io.tables.cells.TableError: line 17, column 'gps': 'abc' is not a number
        """
        try:
            return number(self.cells[column][i], self.decimal)
        except ValueError as error:
            raise TableError(f"{self.where(i, column)}: {error}") from None

    def label(self, i: int, column: str) -> str | int | float | None:
        """The timestamp in row i."""
        return label(self.cells[column][i])

    def where(self, i: int, column: str) -> str:
        """How errors name a cell."""
        return f"{self.unit} {self.numbers[i]}, column {column!r}"

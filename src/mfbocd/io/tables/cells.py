"""Conversion of table cells to numbers, and chunks of rows; errors name the line and the column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that mean a missing reading, in lower case."""
_BITS = {"true": 1.0, "false": 0.0}
_NUMBERS = (
    bool,
    int,
    float,
    np.integer,
    np.floating,
    np.bool_,
    Decimal,
)  # numpy's integers include timedelta64, excluded below


class TableError(ValueError):
    """A table cannot be read; the message says where and why."""


def number(cell: Any, decimal: str = ".") -> float | None:
    """Return a cell as a finite number.

    Parameters
    ----------
    cell : Any
        Text, or a value of Python, numpy or Arrow.
    decimal : str
        Decimal separator of text; "." by default.

    Returns
    -------
    float or None
        The number; None if the cell is missing.

    Raises
    ------
    ValueError
        If the cell is not a finite number.

    Examples
    --------
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
        if "_" in cell:  # only Python accepts 1_000
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
    """Return the representation of a cell for an error message, shortened.

    Parameters
    ----------
    cell : Any
        The cell.
    most : int
        Characters at most; 60 by default.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> shortened("abc" * 100, 12)
    "'abcabca..."
    """
    text = repr(cell)
    return text if len(text) <= most else f"{text[: most - 4]}..."


def label(cell: Any) -> str | int | float | None:
    """Return a timestamp as a JSON value: text and numbers unchanged, dates in ISO 8601.

    Parameters
    ----------
    cell : Any
        The cell.

    Returns
    -------
    str or int or float or None
        The label; None for a missing one.

    Examples
    --------
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
    """Rows of a table; a cell is converted to a number, and can raise an error, only when it is requested.

    Attributes
    ----------
    unit : str
        What `numbers` count: "line" or "row".
    numbers : Sequence[int]
        Line or row number of each row, from 1.
    cells : Mapping[str, Sequence[Any]]
        The cells of each column.
    decimal : str
        Decimal separator of text cells.
    """

    unit: str
    numbers: Sequence[int]
    cells: Mapping[str, Sequence[Any]]
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, i: int, column: str) -> float | None:
        """Return a reading.

        Parameters
        ----------
        i : int
            Index of the row in this chunk.
        column : str
            Name of the column.

        Returns
        -------
        float or None
            The reading; None if it is missing.

        Raises
        ------
        TableError
            If the cell is not a finite number.

        Examples
        --------
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
        """Return a timestamp.

        Parameters
        ----------
        i : int
            Index of the row in this chunk.
        column : str
            Name of the column.

        Returns
        -------
        str or int or float or None
            The timestamp as a JSON value.
        """
        return label(self.cells[column][i])

    def where(self, i: int, column: str) -> str:
        """Return the position of a cell for an error message.

        Parameters
        ----------
        i : int
            Index of the row in this chunk.
        column : str
            Name of the column.

        Returns
        -------
        str
            Such as "line 17, column 'gps'".
        """
        return f"{self.unit} {self.numbers[i]}, column {column!r}"

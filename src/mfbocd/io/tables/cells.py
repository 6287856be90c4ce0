"""Conversion of table cells to numbers, and chunks of rows; errors name the line and the column."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
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


_GROUPED = {  # by decimal separator: digits in groups of three, which the other separator divides
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*|(?<=\.\d{3}\.\d{3}))"),
}
_EITHER = re.compile(r"[+-]?\d+(,\d+)+")  # a decimal comma, or groups of digits


class TableError(ValueError):
    """A table cannot be read; the message says where and why."""


@dataclass
class BadCells:
    """What was skipped in a table: how many cells and rows, and the error of the first one."""

    count: int = 0
    first: str = ""

    def add(self, error: object) -> None:
        """Count an error."""
        if not self.count:
            self.first = str(error)
        self.count += 1


@dataclass(frozen=True)
class Missing:
    """Texts and numbers that mean a missing reading, in addition to an empty cell, NA, NaN, null and none.

    Attributes
    ----------
    texts : frozenset of str
        The texts, in lower case.
    numbers : frozenset of float
        Those of them that are numbers, such as -999, however they are written.
    """

    texts: frozenset[str] = frozenset()
    numbers: frozenset[float] = frozenset()

    @classmethod
    def of(cls, texts: Collection[str]) -> Missing:
        """Return the marks for texts.

        Parameters
        ----------
        texts : collection of str
            The texts; upper and lower case are the same.

        Returns
        -------
        Missing
            The marks.

        Examples
        --------
        >>> Missing.of(["ERROR", "-999"]).numbers
        frozenset({-999.0})
        """
        given = frozenset(text.strip().lower() for text in texts)
        numbers = set()
        for text in given:
            try:
                numbers.add(float(text))
            except ValueError:
                continue
        return cls(given, frozenset(numbers))


NONE_MISSING = Missing()
"""No texts in addition to the usual ones."""


def number(cell: Any, decimal: str = ".", missing: Missing = NONE_MISSING) -> float | None:
    """Return a cell as a finite number.

    Parameters
    ----------
    cell : Any
        Text, or a value of Python, numpy or Arrow.
    decimal : str
        Decimal separator of text: "." (default) or ",", the other of which may divide groups of three digits; ""
        for a point where a comma could mean either, and is an error.
    missing : Missing
        What means a missing reading, in addition to the usual texts; nothing by default.

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
    >>> number("1.5"), number("NA"), number(True), number("1,5", decimal=","), number("1,200")
    (1.5, None, 1.0, 1.5, 1200.0)
    >>> number("-999.0", missing=Missing.of(["-999"])) is None
    True
    """
    if isinstance(cell, str):
        plain = cell
        if decimal == "," and "." not in cell:
            plain = cell.replace(",", ".")
        try:
            value = float(plain)
        except ValueError:
            text = cell.strip().lower()
            if text in MISSING or text in missing.texts:
                return None
            if text in _BITS:
                value = _BITS[text]
            elif not decimal and _EITHER.fullmatch(text):
                raise ValueError(
                    f"the comma of {shortened(cell)} can divide thousands or decimals: set decimal"
                ) from None
            elif decimal and _GROUPED[decimal].fullmatch(text):
                value = float(text.replace("," if decimal == "." else ".", "").replace(",", "."))
            else:
                raise ValueError(f"{shortened(cell)} is not a number") from None
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
    if value in missing.numbers or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError(f"{shortened(cell)} is not a finite number")
    return value


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
    missing : Missing
        What means a missing reading, in addition to the usual texts.
    skipped : BadCells or None
        Counts the cells that are not numbers, which are then missing; None if they are errors.
    """

    unit: str
    numbers: Sequence[int]
    cells: Mapping[str, Sequence[Any]]
    decimal: str = "."
    missing: Missing = NONE_MISSING
    skipped: BadCells | None = field(default=None, compare=False)

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
            If the cell is not a finite number and `skipped` is None.

        Examples
        --------
        >>> Chunk("line", [17], {"gps": ["abc"]}).number(0, "gps")
        Traceback (most recent call last):
        ...
        mfbocd.io.tables.cells.TableError: line 17, column 'gps': 'abc' is not a number
        """
        try:
            return number(self.cells[column][i], self.decimal, self.missing)
        except ValueError as error:
            bad = TableError(f"{self.where(i, column)}: {error}")
        if self.skipped is None:
            raise bad
        self.skipped.add(bad)
        return None

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

"""The interface of every kind of table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .cells import NONE_MISSING, BadCells, Chunk, Missing, TableError

ROWS = 4096
"""Rows per chunk by default; a live table yields one row per chunk."""


@dataclass(frozen=True)
class Rules:
    """How cells are read.

    Attributes
    ----------
    missing : Missing
        What means a missing reading, in addition to the usual texts.
    decimal : str or None
        Decimal separator of text, "." or ","; determined from the table if None.
    skipped : BadCells or None
        Counts the cells and rows that cannot be read; None if they are errors.
    """

    missing: Missing = NONE_MISSING
    decimal: str | None = None
    skipped: BadCells | None = None


class Table(ABC):
    """A table that is read once, from the first row to the last, one chunk at a time.

    Memory does not grow with the table.
    """

    name: str
    """Name of the table in errors."""
    columns: tuple[str, ...]
    """Names of the columns."""
    live = False
    """Whether rows arrive while they are being written; a chunk is then one row, so that no row waits for another."""
    total: int | None = None
    """Size of the table in `unit`; None if it is not known."""
    unit = "B"
    """Unit of `total` and `done`: "B" for bytes, or "row"."""
    rules = Rules()
    """How cells are read."""

    @property
    @abstractmethod
    def done(self) -> int:
        """How much has been read, in `unit`."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield all remaining rows.

        Parameters
        ----------
        columns : Sequence[str]
            Columns to read.
        rows : int
            Rows per chunk, at most.

        Returns
        -------
        Iterator[Chunk]
            The chunks.

        Raises
        ------
        TableError
            If a row cannot be read.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file; standard input stays open."""

    def chunks(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[Chunk]:
        """Yield all remaining rows, after a check of the columns.

        Parameters
        ----------
        columns : Sequence[str] or None
            Columns to read; all by default.
        rows : int or None
            Rows per chunk, at most; 4096 by default. A live table always yields one.

        Returns
        -------
        Iterator[Chunk]
            The chunks.

        Raises
        ------
        TableError
            If a column does not exist, or a row cannot be read.
        """
        wanted = self.columns if columns is None else tuple(columns)
        for column in wanted:
            if column not in self.columns:
                raise TableError(f"{self.name} has no column {column!r}, only {', '.join(map(repr, self.columns))}")
        return self.read(wanted, 1 if self.live else rows or ROWS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""What every kind of table offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from .cells import Chunk, TableError

ROWS = 4096
"""Rows a chunk holds, unless the table is live."""


class Table(ABC):
    """A table read once, from first row to last, a chunk at a time: memory does not grow with it."""

    name: str
    columns: tuple[str, ...]
    live = False
    """Whether rows come as somebody writes them: then a chunk is one row, and nothing waits for a second."""
    total: int | None = None
    """How much there is to read, in `unit`; None if nobody knows."""
    unit = "B"

    @property
    @abstractmethod
    def done(self) -> int:
        """How much was read, in `unit`."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """All rows left, at most `rows` a chunk, with these columns."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    def chunks(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[Chunk]:
        """All rows left with these columns, or with all; a column that is not there is an error."""
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

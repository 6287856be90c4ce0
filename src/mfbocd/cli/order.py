"""The order of rows by their timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inputs.times import Times
from ..io.tables import ROWS, TableError

if TYPE_CHECKING:
    from ..io.tables import Chunk


def sort_rows(chunks: Iterable[Chunk], column: str) -> Iterator[Chunk]:
    """Yield all rows in the order of their timestamps; rows with equal ones keep their order.

    All rows are read first.
    """
    read = list(chunks)
    if not read:
        return
    labels = [chunk.label(i, column) for chunk in read for i in range(len(chunk))]
    times = Times.of(labels)
    if times.at is None:
        chunk, i = [(chunk, i) for chunk in read for i in range(len(chunk))][times.bad]
        raise TableError(f"{chunk.where(i, column)}: {labels[times.bad]!r} cannot be sorted: it is not a time")
    numbers = [number for chunk in read for number in chunk.numbers]
    cells = {name: [cell for chunk in read for cell in chunk.cells[name]] for name in read[0].cells}
    order = np.argsort(times.at, kind="stable").tolist()
    for start in range(0, len(order), ROWS):
        rows = order[start : start + ROWS]
        picked = {name: [column_cells[k] for k in rows] for name, column_cells in cells.items()}
        yield replace(read[0], numbers=[numbers[k] for k in rows], cells=picked)


class OrderCheck:
    """Notice the first row whose timestamp is earlier than the one before it."""

    def __init__(self, column: str) -> None:
        self.column, self.first = column, ""
        self._last: list[Any] = []  # the last timestamp

    def check(self, chunk: Chunk) -> None:
        """Look at the rows of a chunk."""
        if self.first or not self.column:
            return
        labels = [chunk.label(i, self.column) for i in range(len(chunk))]
        back = Times.of([*self._last, *labels]).first_decrease()
        if back >= 0:
            self.first = chunk.where(back - len(self._last), self.column)
        self._last = labels[-1:]

    def warnings(self) -> list[str]:
        """Return what to print at the end."""
        if not self.first:
            return []
        return [
            f"Warning: The timestamps in column {self.column!r} are not sorted ({self.first}): rows were used in "
            "their order; --sort sorts them."
        ]

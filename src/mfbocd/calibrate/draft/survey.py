"""Which columns of a table are readings, which is the time, and which are neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...io.tables import Chunk, number

Array = NDArray[np.float64]

TIMES = {"time", "timestamp", "datetime", "date", "t", "ts", "tick", "index", "row", "id", "seconds", "ms", "epoch"}
"""Names of columns that are hardly ever a reading, if they do not go down."""
MOSTLY = 0.9
"""Share of a column's cells that must be numbers: the others are then bad cells, to be named when they are read."""


@dataclass(frozen=True)
class Survey:
    """The columns of a table, as far as it was looked at."""

    rows: int
    readings: dict[str, Array]
    """By column, NaN where missing or no number."""
    time: str | None
    """The column of timestamps."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a column is the time, or was left out."""


def survey(chunks: Iterable[Chunk], columns: Sequence[str], *, time: str | None = None) -> Survey:
    """Look at rows of a table; `time` names its column of timestamps if that is known.

    >>> chunk = Chunk("line", [2, 3], {"at": ["09:00", "09:01"], "imu": ["0.1", ""], "note": ["", ""]})
    >>> found = survey([chunk], ["at", "imu", "note"])
    >>> found.time, found.readings["imu"], found.reasons["note"]
    ('at', array([0.1, nan]), 'it is empty')
    """
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    decimal = "."
    for chunk in chunks:
        decimal = chunk.decimal
        for name in columns:
            cells[name].extend(chunk.cells[name])
    rows = len(cells[columns[0]])
    reasons: dict[str, str] = {}
    readings: dict[str, Array] = {}
    words: list[str] = []
    for name in columns:
        if name == time:
            continue
        values, odd, given = _numbers(cells[name], decimal)
        wordy = odd > (1.0 - MOSTLY) * given
        if given == 0:
            reasons[name] = "it is empty"
        elif name.strip().lower() in TIMES and (wordy or _never_falls(values)) and len(columns) > 1:
            reasons[name] = "its name says so" if time is None else "by its name it is no reading"
            time = time or name
        elif wordy:
            words.append(name)
        else:
            readings[name] = values
    if time is None and readings:
        time = next((name for name in words if len(set(map(str, cells[name]))) == rows), None)
        if time is not None:
            reasons[time] = "it holds no numbers and never repeats"
    if time is None and len(readings) > 1:
        time = next((name for name, values in readings.items() if _counts_up(values)), None)
        if time is not None:
            del readings[time]
            reasons[time] = "it grows by equal steps"
    reasons |= {name: "its cells are not numbers" for name in words if name != time}
    return Survey(rows, readings, time, reasons)


def _numbers(cells: Sequence[Any], decimal: str) -> tuple[Array, int, int]:
    """Cells as numbers, how many are neither numbers nor missing, and how many are not missing."""
    values, odd, given = np.full(len(cells), np.nan), 0, 0
    for i, cell in enumerate(cells):
        try:
            value = number(cell, decimal)
        except ValueError:
            odd += 1
            given += 1
            continue
        if value is not None:
            values[i] = value
            given += 1
    return values, odd, given


def _never_falls(values: Array) -> bool:
    return bool((np.diff(values[np.isfinite(values)]) >= 0.0).all())


def _counts_up(values: Array) -> bool:
    steps = np.diff(values)
    return bool(steps.size >= 2 and steps[0] > 0.0 and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0))

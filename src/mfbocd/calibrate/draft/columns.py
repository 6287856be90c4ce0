"""Classify the columns of a table: readings, timestamps, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...inputs.times import Times
from ...io.tables import Chunk, number
from ...io.tables.cells import shortened

Array = NDArray[np.float64]

TIMES = {"time", "timestamp", "datetime", "date", "t", "ts", "tick", "index", "row", "id", "seconds", "ms", "epoch"}
"""Names of columns that are rarely readings, if their values do not decrease."""
CLEAR_TIMES = {"timestamp", "datetime", "date", "epoch"}
"""Names of columns that are never readings, even if their values are not sorted."""
_TIME_PARTS = ("time", "date", "stamp", "epoch", "unix", "utc", "_at", "_ts")
NUMERIC_SHARE = 0.9
"""Fraction of a column's cells that must be numbers; the others are bad cells, reported when they are read."""
SKIPPED_SHARE = 0.5
"""The same if bad cells are skipped."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, as far as it was examined.

    Attributes
    ----------
    rows : int
        Number of rows examined.
    readings : dict[str, numpy.ndarray]
        Readings by column, NaN where missing or not a number.
    time : str or None
        The column of timestamps, if there is one.
    reasons : dict[str, str]
        Why a column is the timestamps, or was left out.
    """

    rows: int
    readings: dict[str, Array]
    time: str | None
    reasons: dict[str, str] = field(default_factory=dict)


def classify_columns(chunks: Iterable[Chunk], columns: Sequence[str], *, time: str | None = None) -> TableColumns:
    """Classify the columns of a table.

    Parameters
    ----------
    chunks : Iterable[Chunk]
        Rows of the table.
    columns : Sequence[str]
        The columns to classify.
    time : str or None
        The column of timestamps, if it is known; detected by default.

    Returns
    -------
    TableColumns
        The readings, the timestamps, and the reasons.

    Examples
    --------
    >>> chunk = Chunk("line", [2, 3], {"at": ["09:00", "09:01"], "imu": ["0.1", ""], "note": ["", ""]})
    >>> found = classify_columns([chunk], ["at", "imu", "note"])
    >>> found.time, found.readings["imu"], found.reasons["note"]
    ('at', array([0.1, nan]), 'it is empty')
    """
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    last: Chunk | None = None
    for chunk in chunks:
        last = chunk
        for name in columns:
            cells[name].extend(chunk.cells[name])
    rows = len(cells[columns[0]])
    reasons: dict[str, str] = {}
    readings: dict[str, Array] = {}
    texts: list[str] = []
    for name in columns:
        if name == time:
            continue
        values, bad, given = _numbers(cells[name], last)
        share = NUMERIC_SHARE if last is None or last.skipped is None else SKIPPED_SHARE
        is_text = bad > (1.0 - share) * given
        if given == 0:
            reasons[name] = "it is empty"
        elif len(columns) > 1 and _is_time(name.strip().lower(), values, is_text):
            reasons[name] = "its name says so" if time is None else "by its name it is not a reading"
            time = time or name
        elif is_text:
            texts.append(name)
        else:
            readings[name] = values
    if time is None and readings:
        time = next((name for name in texts if len(set(map(str, cells[name]))) == rows), None)
        if time is not None:
            reasons[time] = "it contains no numbers and never repeats"
    if time is None and readings:
        numbers = [name for name in readings if len(readings) > 1]
        time = next((name for name in (*texts, *numbers) if _are_dates(name, cells[name])), None)
        if time is not None:
            readings.pop(time, None)
            reasons[time] = "its cells are times"
    if time is None and len(readings) > 1:
        time = next((name for name, values in readings.items() if _is_arithmetic(values)), None)
        if time is not None:
            del readings[time]
            reasons[time] = "it increases by equal steps"
    reasons |= {name: _not_numbers(cells[name], last) for name in texts if name != time}
    return TableColumns(rows, readings, time, reasons)


def _numbers(cells: Sequence[Any], chunk: Chunk | None) -> tuple[Array, int, int]:
    """Return the cells as numbers, how many are neither numbers nor missing, and how many are not missing."""
    values, bad, given = np.full(len(cells), np.nan), 0, 0
    rules = () if chunk is None else (chunk.decimal, chunk.missing)
    for i, cell in enumerate(cells):
        try:
            value = number(cell, *rules)
        except ValueError:
            bad += 1
            given += 1
            continue
        if value is not None:
            values[i] = value
            given += 1
    return values, bad, given


def _not_numbers(cells: Sequence[Any], chunk: Chunk | None) -> str:
    """Say how many cells are not numbers, with an example if only some are."""
    _, bad, given = _numbers(cells, chunk)
    if bad == given:
        return "its cells are not numbers"
    example = next(cell for cell in cells if _numbers([cell], chunk)[1])
    return f"{bad} of its {given} cells are not numbers, such as {shortened(example)}"


def _is_time(name: str, values: Array, is_text: bool) -> bool:
    return name in CLEAR_TIMES or (name in TIMES and (is_text or _never_falls(values)))


def _never_falls(values: Array) -> bool:
    return bool((np.diff(values[np.isfinite(values)]) >= 0.0).all())


def _are_dates(name: str, cells: Sequence[Any]) -> bool:
    """Tell whether a column holds dates; Unix times also need a name that suggests it, since counters look alike."""
    times = Times.of(cells)
    if times.at is None or times.at.dtype.kind != "M" or not times.increasing:
        return False
    return not times.epoch or any(part in name.lower() for part in _TIME_PARTS)


def _is_arithmetic(values: Array) -> bool:
    steps = np.diff(values)
    return bool(steps.size >= 2 and steps[0] > 0.0 and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0))

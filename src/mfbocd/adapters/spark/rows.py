"""The rows of one stream in a micro-batch: their order, which of them can be applied, and the rows of the result."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np

from ...detector.step import Step
from .record import Record

NO_TIME = -(2**63)
"""An empty time. A number instead of null, because pandas would turn a column with nulls into floats."""


class InputRow(NamedTuple):
    """One row of a stream."""

    time: int
    raw: Any
    """The input of the observers; where fidelities have columns, their values in the order of `Job.columns`."""
    rejected: str | None = None
    """Why the row was rejected before it reached the worker."""


class OutputRow(NamedTuple):
    """One row of the result: a step, or the problem with an input row."""

    key: Any
    time: int | None
    step: Step | None
    problem: str | None


class StreamRows:
    """The rows of one stream in the order of their times.

    A row that was applied before is skipped. Reported without effect are: another row of a time that was applied, a
    late row (before the last applied time and not among the remembered ones), a row too far ahead, and a row that no
    detector can use.

    Parameters
    ----------
    key : Any
        Key of the stream.
    rows : list of InputRow
        Its rows in this micro-batch, in any order.
    record : Record or None
        What was stored after the last micro-batch; None for a new stream.
    max_ahead : int or None
        How far a time may lie ahead of the last applied one.
    unknown : str or None
        Why no row can be applied, if the key is the reason.
    """

    def __init__(
        self,
        key: Any,
        rows: list[InputRow],
        record: Record | None,
        max_ahead: int | None,
        unknown: str | None = None,
    ) -> None:
        self.key, self.size = key, len(rows)
        self.times = list(record.times) if record else []
        self.checksums = list(record.checksums) if record else []
        self.result: list[OutputRow] = []
        self.changed = False
        """Whether a row was applied."""
        self._max_ahead, self._unknown = max_ahead, unknown
        self._rest = iter(_ordered(rows))
        self._find()

    def _find(self) -> None:
        """Set `row` to the next one that can be applied, None after the last; report those before it."""
        self.row: InputRow | None = None
        for row in self._rest:
            problem = row.rejected or self._unknown or self._problem(row)
            if problem is None:
                self.row = row
                return
            if problem:
                self.result.append(OutputRow(self.key, _time(row), None, problem))

    def applied(self, row: InputRow, step: Step) -> None:
        """Note that a row led to this step, and go on to the next."""
        self.times.append(row.time)
        self.checksums.append(_checksum(row))
        self.changed = True
        self.result.append(OutputRow(self.key, row.time, step, None))
        self._find()

    def failed(self, row: InputRow, error: Exception) -> None:
        """Report the error that a row led to, and go on to the next."""
        self.result.append(OutputRow(self.key, row.time, None, f"{type(error).__name__}: {error}"))
        self._find()

    def _problem(self, row: InputRow) -> str | None:
        """Return why a row cannot be applied; None if it can, "" if it was applied before and is to be skipped."""
        times = self.times
        if row.time == NO_TIME:
            return "the time is empty"
        if not times:
            return None
        if row.time > times[-1]:
            most = self._max_ahead
            if most is None or row.time - times[-1] <= most:
                return None
            return f"ahead: {row.time - times[-1]} after {times[-1]}, more than max_ahead = {most}"
        index = bisect_left(times, row.time)
        if index == len(times) or times[index] != row.time:
            return f"late: {times[-1]} was seen before it"
        return "" if self.checksums[index] == _checksum(row) else "conflict: another row of this time was applied"


def _ordered(rows: list[InputRow]) -> list[InputRow]:
    """Sort by time; rows with the same time are sorted by content, so that their order of arrival does not matter."""
    if len({row.time for row in rows}) < len(rows):
        return sorted(rows, key=lambda row: (row.time, repr(_comparable(row.raw))))
    return sorted(rows, key=lambda row: row.time)


def _checksum(row: InputRow) -> int:
    """Return a checksum of the row's content, the same in every process."""
    return zlib.crc32(repr(_comparable(row.raw)).encode())


def _comparable(raw: Any) -> Any:
    """Bring equal numbers, and missing ones, into one form."""
    if type(raw) is float:  # by far the most frequent
        return None if raw != raw else raw + 0.0  # 0.0 of -0.0 too
    if isinstance(raw, dict):
        return {name: _comparable(value) for name, value in raw.items()}
    if isinstance(raw, (list, tuple)):
        return [_comparable(value) for value in raw]
    if isinstance(raw, np.ndarray):
        return _comparable(raw.tolist())
    return _comparable(float(raw)) if isinstance(raw, (float, np.floating)) else raw


def _time(row: InputRow) -> int | None:
    return None if row.time == NO_TIME else row.time

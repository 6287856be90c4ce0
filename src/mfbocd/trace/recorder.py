"""Record a detector's steps, and the detail that plots need, while it runs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..belief.records import RunLength, Surprise
from ..detector.base import BaseDetector
from ..detector.step import Step
from ..inputs.arguments import probability
from .trace import Detail, Trace, season_of

Array = NDArray[np.float64]

ROWS = 1024  # ticks for which the band and the posterior are kept
BINS = 256  # run-length bins
PACKED = 4096  # steps that are kept as objects, which take several times the memory of arrays
BEYOND_LAST_BIN = 1e-3  # probability allowed beyond the last bin before the bins are widened


class Recorder:
    """Record a detector at every tick without changing it.

    Memory grows only with the steps and gains, by some 100 bytes per tick. When there are more than 1024 rows, every
    second row is dropped and from then on only every second tick is recorded. The run-length bins are merged in pairs
    when more than 1e-3 of the probability lies beyond the last one.

    Parameters
    ----------
    detector : BaseDetector
        The detector to record.
    level : float
        Probability of the prediction band and of the intervals of changes, in (0, 1); 0.9 by default.
    ticks : int
        Expected number of ticks, which avoids recording rows that would be dropped; 0, the default, if it is unknown.

    Raises
    ------
    ValueError
        If `level` is not in (0, 1).

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
    >>> recorder = Recorder(detector)
    >>> for x in (0.1, -0.3, 0.2, 6.0, 6.1):
    ...     recorder.before_tick()
    ...     recorder.after_tick(detector.step(x))
    >>> trace = recorder.trace()
    >>> trace.changes[0].changed_at, trace.detail.began
    (3, array([[3, 3]]))
    """

    def __init__(self, detector: BaseDetector, level: float = 0.9, ticks: int = 0) -> None:
        self.detector = detector
        self.level = probability("", "level", level)
        self.ticks = 0
        self._steps: list[Step] = []  # the most recent ones; earlier ones are in `_parts`
        self._parts: list[Trace] = []
        self._now = -1  # the last tick
        self._gain = detector.policy.gain or "joint"
        self._gains = array("d")
        self._last_alarm = detector.last_alarm
        self._best = max(detector.fidelities, key=lambda f: f.zeta)
        self._began: list[tuple[int, int]] = []
        self._rows: list[tuple[int, float, float, Array]] = []
        self._stride = 1
        while ticks > ROWS * self._stride:
            self._stride *= 2
        self._bin_width = 1

    @property
    def ticks_to_row(self) -> int:
        """Number of ticks up to and including the next one whose band and posterior are recorded."""
        return (-self.ticks) % self._stride + 1

    def before_tick(self) -> None:
        """Record the expected gain of every fidelity; call it before each tick."""
        self._gains.extend(self.detector.expected_gains(self._gain).tolist())

    def after_tick(self, step: Step) -> None:
        """Record a step and the detector's state after it.

        Parameters
        ----------
        step : Step
            The step the detector has just made.
        """
        self.after_ticks([step])

    def after_ticks(self, steps: Sequence[Step]) -> None:
        """Record steps that were made at once, and the detector's state after them.

        Parameters
        ----------
        steps : Sequence[Step]
            The steps the detector has just made, at most `ticks_to_row`. The interval of a change that is not
            reported by the last one also uses the readings up to the last one.
        """
        self._steps.extend(steps)
        self.ticks += len(steps)
        self._now = steps[-1].tick if steps else self._now
        if len(self._steps) >= PACKED:
            self._pack()
        for step in steps:
            if step.alarm:
                self._began.append(self._change_interval(step))
                self._last_alarm = step.tick
        if (self.ticks - 1) % self._stride:
            return
        row = (
            self._now,
            *self._band(),
            self._binned_posterior(),
        )  # computed before the append: it may merge the bins of earlier rows
        self._rows.append(row)
        if len(self._rows) > ROWS:
            del self._rows[1::2]
            self._stride *= 2

    def trace(self, **fields: Any) -> Trace:
        """Return everything recorded so far.

        Parameters
        ----------
        **fields : Any
            Further fields of the trace, such as ``posterior``.

        Returns
        -------
        Trace
            The steps, with `detail`.
        """
        if self._steps or not self._parts:
            self._pack()
        trace = _joined(self._parts)
        fields = {"season": season_of(self.detector, trace.x, trace.first)} | fields
        return replace(trace, detail=self._detail(), **fields)

    def _pack(self) -> None:
        self._parts.append(Trace.of(self._steps, self.detector))
        self._steps = []

    def _change_interval(self, step: Step) -> tuple[int, int]:
        """Return the equal-tailed interval of when an alarm's regime began, among the run lengths it counts."""
        alarm, at = self.detector.alarm, step.changed_at
        assert alarm is not None
        assert at is not None
        since = max(step.tick - alarm.within, self._last_alarm, 0)
        interval = change_interval(self.detector.run_length, self._now, (since, step.tick), self.level)
        if interval is None:  # another structure than the most probable one reported the change
            return at, at
        return min(interval[0], at), max(interval[1], at)

    def _band(self) -> tuple[float, float]:
        if self._best.zeta == 0.0:
            return np.nan, np.nan
        low, high = self.detector.interval(self.level, self._best)
        if not np.isfinite(high - low):
            return np.nan, np.nan
        return low, high

    def _binned_posterior(self) -> Array:
        """Return the run-length posterior in bins of the current width."""
        length, weight = self.detector.run_length
        while weight[length >= BINS * self._bin_width].sum() > BEYOND_LAST_BIN:
            self._bin_width *= 2
            self._rows = [(tick, low, high, _merge_pairs(row)) for tick, low, high, row in self._rows]
        bins = np.minimum(length // self._bin_width, BINS - 1)
        return np.bincount(bins, weight, minlength=BINS).astype(np.float64)

    def _detail(self) -> Detail:
        weight = np.array([row for *_, row in self._rows]).reshape(-1, BINS)
        filled = np.flatnonzero(weight.any(axis=0))
        bins = int(filled[-1]) + 1 if filled.size else 0
        return Detail(
            level=self.level,
            gain=self._gain,
            gains=np.array(self._gains).reshape(-1, len(self.detector.fidelities)),
            began=np.array(self._began, dtype=np.int64).reshape(-1, 2),
            tick=np.array([tick for tick, *_ in self._rows], dtype=np.int64),
            low=np.array([low for _, low, _, _ in self._rows]),
            high=np.array([high for _, _, high, _ in self._rows]),
            length=np.arange(bins + 1, dtype=np.int64) * self._bin_width,
            weight=weight[:, :bins],
        )


def change_interval(
    run_length: RunLength, now: int, between: tuple[int, int], level: float
) -> tuple[int, int] | None:
    """Return the equal-tailed credible interval of when a regime began, given that it did in a stretch of ticks.

    Parameters
    ----------
    run_length : RunLength
        The run-length posterior after tick `now`.
    now : int
        The tick.
    between : tuple[int, int]
        The tick before the stretch, and the last tick of it.
    level : float
        Probability of the interval.

    Returns
    -------
    tuple[int, int] or None
        First and last tick; None if the posterior has no such regime.
    """
    length, weight = run_length
    birth = now - length
    counted = (birth > between[0]) & (birth <= between[1])
    births, cumulative = birth[counted][::-1], np.cumsum(weight[counted][::-1])  # oldest first
    if not (cumulative.size and cumulative[-1] > 0.0):
        return None
    tail = 0.5 * (1.0 - level) * cumulative[-1]
    low = int(np.searchsorted(cumulative, tail, side="right"))
    high = int(np.searchsorted(cumulative, cumulative[-1] - tail))
    return int(births[min(low, births.size - 1)]), int(births[min(high, births.size - 1)])


def _joined(parts: Sequence[Trace]) -> Trace:
    """Return consecutive traces of one detector as one."""
    if len(parts) == 1:
        return parts[0]
    each = ("choice", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence")
    fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in each}
    if any(part.outlier is not None for part in parts):
        fields["outlier"] = np.concatenate(
            [np.full(len(part), np.nan) if part.outlier is None else part.outlier for part in parts]
        )
    some = next((part.surprise for part in parts if part.surprise is not None), None)
    if some is not None:
        absent = [np.full((1, *np.shape(field)[1:]), np.nan) for field in some]
        columns: list[Any] = [
            np.concatenate(
                [np.repeat(gap, len(part), axis=0) if part.surprise is None else part.surprise[i] for part in parts]
            )
            for i, gap in enumerate(absent)
        ]
        fields["surprise"] = Surprise(*columns)
    return replace(parts[0], **fields)


def _merge_pairs(row: Array) -> Array:
    """Add neighbouring bins together; the upper half becomes empty."""
    return np.concatenate([row.reshape(-1, 2).sum(axis=1), np.zeros(BINS // 2)])

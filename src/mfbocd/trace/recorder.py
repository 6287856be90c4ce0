"""Steps and what the pictures need of them, collected while a detector runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.gains import Gain, expected_gains
from ..detector.detector import Detector
from ..detector.step import Step
from ..inputs.arguments import probability
from ..models import Bernoulli
from .trace import Detail, Trace

Array = NDArray[np.float64]

ROWS = 1024  # ticks the band and the posterior are kept of
BINS = 256  # run-length bins
BEYOND = 1e-3  # probability that may lie beyond the last bin before the bins are made wider


class Watch:
    """Looks at a detector at every tick and changes nothing in it; memory grows only with the steps and gains.

    When there are more ticks than `ROWS`, every second row is dropped, and from then on only every second tick is
    looked at; likewise the run-length bins are merged in pairs when more than `BEYOND` lies past the last. `ticks`
    is how many are expected, which spares rows that would be dropped.

    >>> from mfbocd import Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
    >>> watch = Watch(detector)
    >>> for x in (0.1, -0.3, 0.2, 6.0, 6.1):
    ...     watch.before()
    ...     watch.after(detector.step(x))
    >>> trace = watch.trace()
    >>> trace.changes[0].changed_at, trace.detail.began
    (3, array([[3, 3]]))
    """

    def __init__(self, detector: Detector, level: float = 0.9, ticks: int = 0) -> None:
        self.detector = detector
        self.level = probability("", "level", level)
        self.steps: list[Step] = []
        self._gain: Gain = detector.policy.gain or "joint"
        self._gains: list[Array] = []
        self._best = max(detector.fidelities, key=lambda f: f.zeta)
        self._fired = int(detector._filter.state[layout.FIRED])
        self._began: list[tuple[int, int]] = []
        self._rows: list[tuple[int, float, float, Array]] = []
        self._stride = 1
        while ticks > ROWS * self._stride:
            self._stride *= 2
        self._width = 1

    def before(self) -> None:
        """To be called before each tick: what a reading at each fidelity is expected to tell."""
        self._gains.append(expected_gains(self.detector._filter, self.detector.policy.zeta, self._gain))

    def after(self, step: Step) -> None:
        """To be called with each step."""
        self.steps.append(step)
        if step.alarm:
            self._began.append(self._interval(step.tick))
            self._fired = step.tick
        if (step.tick - self.steps[0].tick) % self._stride:
            return
        row = (step.tick, *self._band(), self._weights())  # first: it may merge the bins of the rows there are
        self._rows.append(row)
        if len(self._rows) > ROWS:
            del self._rows[1::2]
            self._stride *= 2

    def trace(self, **more: Any) -> Trace:
        """What was seen so far; `more` are other fields of the trace."""
        return Trace.of(self.steps, self.detector, detail=self._detail(), **more)

    def _interval(self, tick: int) -> tuple[int, int]:
        """Equal-tailed, of when the regime of an alarm began, among those that count towards it."""
        alarm = self.detector.alarm
        assert alarm is not None
        length, weight = self.detector.run_length
        fresh = length < tick - max(tick - alarm.within, self._fired, 0)
        below = np.cumsum(weight[fresh][::-1])  # of the births, oldest first
        tail = 0.5 * (1.0 - self.level) * below[-1]
        low = int(np.searchsorted(below, tail, side="right"))
        high = int(np.searchsorted(below, below[-1] - tail))
        births = tick - length[fresh][::-1]
        return int(births[min(low, births.size - 1)]), int(births[min(high, births.size - 1)])

    def _band(self) -> tuple[float, float]:
        if self._best.zeta == 0.0:
            return np.nan, np.nan
        if isinstance(self.detector.model, Bernoulli):
            # The same in closed form: bisection towards an end that is exactly 0 takes a thousand steps.
            tail = 0.5 * (1.0 - self.level)
            zero = 1.0 - self.detector._filter.predictive(self._best.zeta)[0]
            return float(tail > zero), float(1.0 - tail > zero)
        return self.detector.interval(self.level, self._best)

    def _weights(self) -> Array:
        """The run-length posterior in bins of the present width."""
        length, weight = self.detector.run_length
        while weight[length >= BINS * self._width].sum() > BEYOND:
            self._width *= 2
            self._rows = [(tick, low, high, _paired(row)) for tick, low, high, row in self._rows]
        bins = np.minimum(length // self._width, BINS - 1)
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
            length=np.arange(bins + 1, dtype=np.int64) * self._width,
            weight=weight[:, :bins],
        )


def _paired(row: Array) -> Array:
    """Neighbouring bins added together; the upper half is empty."""
    return np.concatenate([row.reshape(-1, 2).sum(axis=1), np.zeros(BINS // 2)])

"""What the whole stream says of each tick, once it is known: smoothing, and the most probable changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .batch import follow
from .detector import Detector
from .filter import table
from .hazard import Hazard
from .tick import level_of
from .trace import Trace

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


class Changepoint(NamedTuple):
    """A change of the most probable segmentation."""

    at: int
    """The first tick of the new regime."""
    low: int
    """The credible interval's ends: between the halfway points to its neighbours, the change lies in low..high."""
    high: int
    probability: float
    """P(at least one regime begins between the halfway points to the neighbouring changes)."""


class Hindsight:
    """The filtered posteriors of every tick of a stream, and what follows from them.

    Given that a regime begins at b, what came before is independent of what came after, so that the regime before
    it began at b' with P(b' | b) proportional to P(r_{b-1} = b - 1 - b' | x_1..x_{b-1}) h(b - 1 - b'). Hence the
    beginnings of regimes, read backwards from the last tick, are a Markov chain: its marginals are the smoothed
    probabilities, its most probable path is the MAP segmentation (max-product, Viterbi). Both are exact if the
    detector prunes nothing, for any model and any fidelities, and cost one pass over the kept hypotheses.

    >>> from mfbocd import Gaussian
    >>> back = hindsight(Detector(Gaussian(0, 9, 1), hazard=0.02), [0.1, -0.3, 0.2, 0.1, 4.0, 4.3, 3.9])
    >>> back.changepoints()
    [Changepoint(at=4, low=4, high=4, probability=0.99...)]
    >>> back.smoothed.round(3)[3:6], back.lagged(1).round(3)[3:6]
    (array([0.011, 0.993, 0.006]), array([0.026, 0.986, 0.006]))
    """

    def __init__(self, hazard: Hazard) -> None:
        self.hazard = hazard
        self.trace: Trace | None = None
        """What the detector did on the way, if `hindsight` fed it."""
        self._births: list[Ticks] = []
        self._weights: list[Array] = []  # (candidate hazards, hypotheses); one row where the hazard is known

    def __len__(self) -> int:
        return len(self._births)

    def add(self, detector: Detector) -> None:
        """Keep the posterior after the tick a detector has just seen: to be called at every tick, from the first."""
        if detector.ticks != len(self) + 1:
            raise ValueError(f"tick {len(self)} comes next, but the detector is at {detector.ticks - 1}")
        live = table(detector.filter.state)
        weight, birth = live[:2]
        alive = weight > 0.0
        share = weight[alive] / weight.sum()
        many = detector.filter.candidates.size
        self._births.append(birth[alive].astype(np.int64))
        self._weights.append(share * live[-many:, alive] if many else share[None])

    def _before(self, begin: int) -> tuple[Ticks, Array]:
        """Beginnings of the regime before one that begins at `begin`, and their probabilities by each hazard."""
        birth, weight = self._births[begin - 1], self._weights[begin - 1]
        # a candidate's own hazard is the same for every regime, and cancels
        share = weight * self.hazard(begin - 1 - birth) if len(weight) == 1 else weight
        total = share.sum(axis=1, keepdims=True)
        return birth, share / np.where(total > 0.0, total, 1.0)

    @property
    def smoothed(self) -> Array:
        """P(a regime begins at t | the whole stream), (T,); the start of the stream is no change, 0."""
        return self._marginals(len(self) - 1, 1) if len(self) else np.zeros(0)

    def lagged(self, lag: int) -> Array:
        """P(a regime begins at t | x_1..x_{t + lag}), (T,): fixed-lag smoothing; lag 0 is the filter's P(r_t = 0)."""
        if isinstance(lag, bool) or not isinstance(lag, int) or lag < 0:
            raise ValueError(f"lag must be a whole number of at least 0, not {lag!r}")
        out = np.zeros(len(self))
        for t in range(1, len(self)):
            out[t] = self._marginals(min(t + lag, len(self) - 1), t)[t]
        return out

    def _marginals(self, end: int, first: int) -> Array:
        """P(a regime begins at t | x_1..x_end) for t from `first` on; earlier entries mean nothing and are 0."""
        begins = np.zeros((len(self._weights[end]), end + 1))
        begins[:, self._births[end]] = self._weights[end]
        for b in range(end, first, -1):
            if begins[:, b].any():
                birth, share = self._before(b)
                begins[:, birth] += begins[:, b, None] * share
        begins[:, :first] = 0.0
        return np.asarray(begins.sum(axis=0))

    def segmentation(self) -> list[int]:
        """First ticks of the regimes after the first in the most probable history of all (max-product).

        Where the hazard is learnt, together with the most probable candidate.
        """
        ticks = len(self)
        if ticks == 0:
            return []
        best = np.full((len(self._weights[-1]), ticks), -math.inf)
        after = np.full(best.shape, ticks, dtype=np.int64)
        with np.errstate(divide="ignore"):
            best[:, self._births[-1]] = np.log(self._weights[-1])
            for b in range(ticks - 1, 0, -1):
                if (best[:, b] > -math.inf).any():
                    birth, share = self._before(b)
                    reached = best[:, b, None] + np.log(share)
                    better = reached > best[:, birth]
                    best[:, birth] = np.where(better, reached, best[:, birth])
                    after[:, birth] = np.where(better, b, after[:, birth])
        path = after[int(best[:, 0].argmax())]
        changes = []
        b = int(path[0])
        while b < ticks:
            changes.append(b)
            b = int(path[b])
        return changes

    def changepoints(self, level: float = 0.9) -> list[Changepoint]:
        """The most probable history's changes, each with its probability and a `level` credible interval."""
        tail = 0.5 * (1.0 - level_of(level))
        found, smoothed = self.segmentation(), self.smoothed
        out = []
        for change, (low, high) in zip(found, _windows(found, len(self)), strict=True):
            below = np.cumsum(smoothed[low : high + 1])
            left = low + int(np.searchsorted(below, tail * below[-1], side="right"))
            right = low + int(np.searchsorted(below, (1.0 - tail) * below[-1]))
            some = 1.0 - self.none(low, high)
            out.append(Changepoint(change, min(left, change), min(max(right, change), high), some))
        return out

    def none(self, low: int, high: int) -> float:
        """P(no regime begins at any of the ticks low..high | the whole stream)."""
        if not 0 < low <= high < len(self):
            raise ValueError(f"low and high must be ticks from 1 to {len(self) - 1}, in order, not {low!r}, {high!r}")
        # of a regime that begins at b: P(none before it begins in low..high), by each hazard
        free = np.zeros((len(self._weights[-1]), len(self)))
        free[:, :low] = 1.0
        for b in range(high + 1, len(self)):
            birth, share = self._before(b)
            free[:, b] = (share * free[:, birth]).sum(axis=1)
        return min(float((self._weights[-1] * free[:, self._births[-1]]).sum()), 1.0)


def _windows(changes: list[int], ticks: int) -> Iterator[tuple[int, int]]:
    """Each change's own ticks, up to the halfway points to its neighbours; they share none."""
    edges = [0, *changes, ticks]
    for before, change, after in zip(edges[:-2], changes, edges[2:], strict=True):
        yield (before + change) // 2 + 1, min((change + after) // 2, ticks - 1)


def hindsight(detector: Detector, readings: Any, raws: Any = None) -> Hindsight:
    """Feed a finished stream to a fresh detector (as `run` does) and look back on it."""
    if detector.ticks:
        raise ValueError(f"hindsight needs a detector that has seen nothing, not {detector.ticks} ticks")
    back = Hindsight(detector.hazard)
    back.trace = follow(detector, readings, lambda _: back.add(detector), raws)
    return back

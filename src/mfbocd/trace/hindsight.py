"""What the whole stream says of each tick, once it is known: smoothing, and the most probable changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..detector.detector import Detector
from ..detector.step import Step
from ..inputs.arguments import probability, whole
from .run import follow
from .trace import Trace

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]

LIVE = 8192
"""Ticks up to which everything is exact by default: one hypothesis a tick is alive, and none is ever dropped."""
CELLS = LIVE * LIVE // 2
"""Hypotheses followed in all, ticks times those alive, where a longer stream is given; at most 12 bytes each."""
FEWEST = 256
FAINT = 46.0  # nats: what is 1e-20 of the sum of a tick is left out of sums, never of the hypotheses followed


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
    """A finished stream's regimes: every place where one may begin, and what follows from all readings.

    Given that a regime begins at b, what came before is independent of what came after, so that the regime before
    it began at b' with P(b' | b) proportional to P(r_{b-1} = b - 1 - b' | x_1..x_{b-1}) h(b - 1 - b'). Hence the
    beginnings of regimes, read backwards from the last tick, are a Markov chain: its marginals are the smoothed
    probabilities. The most probable history is found on the way forward (max-product, Viterbi).

    Both are exact, for any model and any fidelities and whatever the detector prunes, while the stream has no more
    than `live` ticks: a hypothesis is then followed from every tick, in logarithms, to the end. On a longer stream
    the youngest `live // 2` are all kept, and of the older ones the `live // 4` most probable: `exact` is then False,
    and the segmentation is at least as probable as every history whose regimes last at most `reach` ticks each.

    Time is that of `live` predictives a tick. Memory is at most 12 bytes for each hypothesis of each tick, less
    where most have a probability below 1e-20 of the rest.

    Parameters
    ----------
    detector: whose model, fidelities and hazard these are; how it prunes does not matter.
    live: hypotheses followed at once, at least 4.

    >>> from mfbocd import Gaussian
    >>> back = hindsight(Detector(Gaussian(0, 9, 1), hazard=0.02), [0.1, -0.3, 0.2, 0.1, 4.0, 4.3, 3.9])
    >>> back.changepoints()
    [Changepoint(at=4, low=4, high=4, probability=0.99...)]
    >>> back.smoothed.round(3)[3:6], back.lagged(1).round(3)[3:6]
    (array([0.011, 0.993, 0.006]), array([0.026, 0.986, 0.006]))
    >>> back.exact
    True
    """

    def __init__(self, detector: Detector, live: int = LIVE) -> None:
        self.live = whole("", "live", live, 4)
        self.exact = True
        """Whether every history was weighed."""
        self.trace: Trace | None = None
        """What the detector did on the way, if `hindsight` fed it."""
        self._model = detector.model
        self._zeta = {f.name: f.zeta for f in detector.fidelities}
        self._nothing = detector._no_reading
        self._hazard = _LogHazard(detector.hazard)
        # of the live hypotheses, oldest first: where each began, log p(its readings); by each hazard, log of the sum
        # over the histories before it, what the best of them falls short of it, and the sum if it ends now
        self._stats: Array = np.empty((self._model.columns, 0))
        self._birth: Ticks = np.empty(0, dtype=np.int64)
        self._like: Array = np.empty(0)
        self._sum: Array = np.empty((self._hazard.many, 0))
        self._short: Array = np.empty((self._hazard.many, 0))
        self._ended: Array = np.empty((self._hazard.many, 0))
        # of every tick: hypotheses that are not faint after it; before it, the sum, and where the best regime began
        self._births: list[NDArray[np.int32]] = []
        self._likes: list[Array] = []
        self._sums: Array = np.empty((self._hazard.many, 64))  # with room for more
        self._came: list[Ticks] = []

    def __len__(self) -> int:
        return len(self._births)

    @property
    def reach(self) -> int:
        """Regimes of up to this many ticks were all weighed: every one if `exact`."""
        return len(self) if self.exact else self.live // 2

    def add(self, step: Step) -> None:
        """Take the step the detector has just made: to be called at every tick, from the first."""
        if step.tick != len(self):
            raise ValueError(f"tick {len(self)} comes next, but the detector is at {step.tick}")
        if step.x is None or step.fidelity is None:
            self._add(self._nothing, 0.0)
        else:
            self._add(np.array(step.x) if isinstance(step.x, tuple) else step.x, self._zeta[step.fidelity])

    def _add(self, x: Any, zeta: float) -> None:
        tick = len(self)
        born = self._model.new_regime(self._stats)[:, None]
        if tick == 0:
            begin = best = self._hazard.prior
            came = np.zeros(begin.size, dtype=np.int64)
        else:
            # the faint ones are nothing in this sum, but may be the best of what is to come
            begin = _log_sum(self._before_log(tick))
            ways = self._ended + self._short
            where = ways.argmax(axis=1)
            came, best = self._birth[where], ways[np.arange(len(ways)), where]
        stats = np.concatenate([self._stats, born], axis=1)
        logs = self._model.log_predictive(stats, x, zeta)
        self._stats = self._model.update(stats, x, zeta) if zeta > 0.0 else self._model.skip(stats)
        # what all histories share is taken out of each, so that the logarithms stay small
        self._like = np.append(self._like, 0.0) + (logs - logs.max())
        self._birth = np.append(self._birth, tick)
        self._sum = np.concatenate([self._sum, begin[:, None]], axis=1)
        possible = np.isfinite(begin)
        short = np.where(possible, best, 0.0) - np.where(possible, begin, 0.0)
        self._short = np.concatenate([self._short, short[:, None]], axis=1)
        if tick == self._sums.shape[1]:
            self._sums = np.concatenate([self._sums, np.empty_like(self._sums)], axis=1)
        self._sums[:, tick] = begin
        self._came.append(came)
        after = self._now(tick)
        self._ended = after + self._hazard.ends(tick - self._birth)
        shown = [log > log.max(axis=1, keepdims=True) - FAINT for log in (after, self._ended)]
        kept = (shown[0] | shown[1]).any(axis=0)
        self._births.append(self._birth[kept].astype(np.int32))
        self._likes.append(self._like[kept])
        if self._birth.size > self.live:
            self._drop(after)

    def _now(self, tick: int) -> Array:
        """log of the sum over histories with each live hypothesis, by each hazard, after `tick`."""
        return np.asarray(self._sum + self._like + self._hazard.lasted(tick - self._birth))

    def _drop(self, after: Array) -> None:
        """Keep the youngest `live // 2` and, of the older, the `live // 4` most probable."""
        self.exact = False
        older = self._birth.size - self.live // 2
        value = (after + self._short).max(axis=0)[:older]
        kept = np.arange(self._birth.size) >= older
        kept[np.argsort(value, kind="stable")[-(self.live // 4) :]] = True
        self._stats = np.ascontiguousarray(self._stats[:, kept])
        self._birth, self._like = self._birth[kept], self._like[kept]
        self._sum, self._short, self._ended = self._sum[:, kept], self._short[:, kept], self._ended[:, kept]

    def _kept(self, tick: int) -> tuple[Ticks, Array]:
        """The hypotheses kept of a tick, and their log probabilities but for the hazard since they began."""
        birth = self._births[tick].astype(np.int64)
        return birth, self._sums[:, birth] + self._likes[tick]

    def _after(self, tick: int) -> tuple[Ticks, Array]:
        """Beginnings of the regime of a tick and P(each, each hazard | readings so far), (hazards, beginnings)."""
        birth, log = self._kept(tick)
        log = log + self._hazard.lasted(tick - birth)
        weight = np.exp(log - log.max())
        return birth, weight / weight.sum()

    def _before_log(self, begin: int) -> Array:
        birth, log = self._kept(begin - 1)
        age = begin - 1 - birth
        return np.asarray(log + self._hazard.lasted(age) + self._hazard.ends(age))

    def _before(self, begin: int) -> tuple[Ticks, Array]:
        """Beginnings of the regime before one that begins at `begin`, and their probabilities by each hazard."""
        log = self._before_log(begin)
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - np.where(np.isfinite(top), top, 0.0))
        total = share.sum(axis=1, keepdims=True)
        return self._births[begin - 1].astype(np.int64), share / np.where(total > 0.0, total, 1.0)

    @property
    def smoothed(self) -> Array:
        """P(a regime begins at t | the whole stream), (T,); the start of the stream is no change, 0."""
        return self._marginals(len(self) - 1, 1) if len(self) else np.zeros(0)

    def lagged(self, lag: int) -> Array:
        """P(a regime begins at t | x_1..x_{t + lag}), (T,): fixed-lag smoothing; lag 0 is the filter's P(r_t = 0)."""
        lag = whole("", "lag", lag, 0)
        out = np.zeros(len(self))
        for t in range(1, len(self)):
            out[t] = self._marginals(min(t + lag, len(self) - 1), t)[t]
        return out

    def _marginals(self, end: int, first: int) -> Array:
        """P(a regime begins at t | x_1..x_end) for t from `first` on; earlier entries mean nothing and are 0."""
        birth, weight = self._after(end)
        begins = np.zeros((len(weight), end + 1))
        begins[:, birth] = weight
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
        if len(self) == 0:
            return []
        last = self._now(len(self) - 1) + self._short
        hazard, where = np.unravel_index(int(last.argmax()), last.shape)
        changes = []
        begin = int(self._birth[where])
        while begin > 0:
            changes.append(begin)
            begin = int(self._came[begin][hazard])
        return changes[::-1]

    def changepoints(self, level: float = 0.9) -> list[Changepoint]:
        """The most probable history's changes, each with its probability and a `level` credible interval."""
        tail = 0.5 * (1.0 - probability("", "level", level))
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
        last, weight = self._after(len(self) - 1)
        free = np.zeros((len(weight), len(self)))
        free[:, :low] = 1.0
        for b in range(high + 1, len(self)):
            birth, share = self._before(b)
            free[:, b] = (share * free[:, birth]).sum(axis=1)
        return min(float((weight * free[:, last]).sum()), 1.0)


class _LogHazard:
    """log P(a regime has lasted so long) and log P(it then ends), by each candidate hazard."""

    def __init__(self, hazard: Hazard) -> None:
        self._hazard = hazard
        table, candidates = hazard.setup
        self.many = max(candidates, 1)
        self.prior: Array = np.log(table[candidates:]) if candidates else np.zeros(1)
        self._lasted: Array = np.zeros((self.many, 1))
        self._ends: Array = np.empty((self.many, 0))

    def _grow(self, longest: int) -> None:
        known = self._ends.shape[1]
        if longest < known:
            return
        ages = np.arange(known, max(2 * known, longest + 64))
        rate = (
            self._hazard(ages)[None] if self.many == 1 else np.repeat(self._hazard.table[:, None], ages.size, axis=1)
        )
        with np.errstate(divide="ignore"):
            self._ends = np.concatenate([self._ends, np.log(rate)], axis=1)
            stays = self._lasted[:, -1:] + np.cumsum(np.log1p(-rate), axis=1)
        self._lasted = np.concatenate([self._lasted, stays], axis=1)

    def _at(self, table: Array, age: Ticks) -> Array:
        longest = int(age[0])
        if age.size == longest + 1:  # none is missing, oldest first
            return table[:, longest::-1]
        return table[:, age]

    def lasted(self, age: Ticks) -> Array:
        """log P(a regime has outlasted `age` ticks after its first); ages fall."""
        self._grow(int(age[0]))
        return self._at(self._lasted, age)

    def ends(self, age: Ticks) -> Array:
        """log P(it ends then, having lasted so long); ages fall."""
        self._grow(int(age[0]))
        return self._at(self._ends, age)


def _log_sum(log: Array) -> Array:
    """log of the sum of e^log along the last axis."""
    top = log.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(log - top[:, None]).sum(axis=1)))


def _windows(changes: list[int], ticks: int) -> Iterator[tuple[int, int]]:
    """Each change's own ticks, up to the halfway points to its neighbours; they share none."""
    edges = [0, *changes, ticks]
    for before, change, after in zip(edges[:-2], changes, edges[2:], strict=True):
        yield (before + change) // 2 + 1, min((change + after) // 2, ticks - 1)


def hindsight(detector: Detector, readings: Any, raws: Any = None, live: int | None = None) -> Hindsight:
    """Feed a finished stream to a fresh detector (as `run` does) and look back on it.

    Exact up to `LIVE` ticks; a longer stream has as many hypotheses followed at once as keep ticks times hypotheses
    at `CELLS`, but at least `FEWEST`. `live` sets that number: as many as there are ticks is exact (see `Hindsight`).
    """
    if detector.ticks:
        raise ValueError(f"hindsight needs a detector that has seen nothing, not {detector.ticks} ticks")
    back = Hindsight(detector, live_for(len(readings)) if live is None else live)
    back.trace = follow(detector, readings, back.add, raws)
    return back


def live_for(ticks: int) -> int:
    """Hypotheses followed at once by default.

    >>> live_for(8192), live_for(10_000), live_for(100_000), live_for(1_000_000)
    (8192, 3355, 335, 256)
    """
    return LIVE if ticks <= LIVE else max(CELLS // ticks, FEWEST)

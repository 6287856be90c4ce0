"""The forward pass over a finished stream: every hypothesis is followed from its first tick, in log space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models import Model
from .log_hazard import LogHazard

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]

NEGLIGIBLE = 46.0  # nats: hypotheses below 1e-20 of a tick's sum are left out of sums, but still followed


class ForwardPass:
    """Sums over the histories of a stream and the best of them, tick by tick (sum-product and max-product).

    Parameters
    ----------
    model : Model
        The model of the readings.
    hazard : LogHazard
        The hazard; a learned one has several candidates, the rows of the arrays.
    live : int
        Hypotheses followed at the same time.

    Attributes
    ----------
    exact : bool
        Whether every history was considered: no hypothesis was dropped.
    """

    def __init__(self, model: Model, hazard: LogHazard, live: int) -> None:
        self.live = live
        self.exact = True
        self._model = model
        self._hazard = hazard
        # Followed hypotheses, oldest first: beginning, log p(readings since). For each candidate hazard: log of the
        # sum over the histories before it, log of the best of them minus that sum, log of the sum if it ends now.
        self._stats: Array = np.empty((self._model.columns, 0))
        self._birth: Ticks = np.empty(0, dtype=np.int64)
        self._like: Array = np.empty(0)
        self._sum: Array = np.empty((self._hazard.candidates, 0))
        self._best_minus_sum: Array = np.empty((self._hazard.candidates, 0))
        self._ended: Array = np.empty((self._hazard.candidates, 0))
        # For every tick: hypotheses that are not negligible after it; the sum before it, and the beginning of the
        # best previous regime.
        self._births: list[NDArray[np.int32]] = []
        self._likes: list[Array] = []
        self._sums: Array = np.empty((self._hazard.candidates, 64))  # grown by doubling
        self._previous: list[Ticks] = []

    def __len__(self) -> int:
        return len(self._births)

    def add(self, x: Any, zeta: float) -> None:
        """Follow every hypothesis for one more tick, with the reading x at zeta."""
        tick = len(self)
        new = self._model.new_regime(self._stats)[:, None]
        if tick == 0:
            begin = best = self._hazard.prior
            previous = np.zeros(begin.size, dtype=np.int64)
        else:
            # negligible hypotheses add nothing to this sum, but one of them may become the best later
            begin = _log_sum(self._before_log(tick))
            paths = self._ended + self._best_minus_sum
            where = paths.argmax(axis=1)
            previous, best = self._birth[where], paths[np.arange(len(paths)), where]
        stats = np.concatenate([self._stats, new], axis=1)
        logs, self._stats = self._model.assimilate(stats, x, zeta)
        # the factor common to all histories is removed, so that the logarithms stay small
        self._like = np.append(self._like, 0.0) + (logs - logs.max())
        self._birth = np.append(self._birth, tick)
        self._sum = np.concatenate([self._sum, begin[:, None]], axis=1)
        possible = np.isfinite(begin)
        best_minus_sum = np.where(possible, best, 0.0) - np.where(possible, begin, 0.0)
        self._best_minus_sum = np.concatenate([self._best_minus_sum, best_minus_sum[:, None]], axis=1)
        if tick == self._sums.shape[1]:
            self._sums = np.concatenate([self._sums, np.empty_like(self._sums)], axis=1)
        self._sums[:, tick] = begin
        self._previous.append(previous)
        after = self._now(tick)
        self._ended = after + self._hazard.ends(tick - self._birth)
        shown = [log > log.max(axis=1, keepdims=True) - NEGLIGIBLE for log in (after, self._ended)]
        kept = (shown[0] | shown[1]).any(axis=0)
        self._births.append(self._birth[kept].astype(np.int32))
        self._likes.append(self._like[kept])
        if self._birth.size > self.live:
            self._drop(after)

    def _now(self, tick: int) -> Array:
        """Return log sum over the histories with each followed hypothesis after `tick`, (hazards, hypotheses)."""
        return np.asarray(self._sum + self._like + self._hazard.lasted(tick - self._birth))

    def _drop(self, after: Array) -> None:
        """Keep the youngest `live // 2` hypotheses and the `live // 4` most probable of the older ones."""
        self.exact = False
        older = self._birth.size - self.live // 2
        value = (after + self._best_minus_sum).max(axis=0)[:older]
        kept = np.arange(self._birth.size) >= older
        kept[np.argsort(value, kind="stable")[-(self.live // 4) :]] = True
        self._stats = np.ascontiguousarray(self._stats[:, kept])
        self._birth, self._like = self._birth[kept], self._like[kept]
        self._sum, self._best_minus_sum, self._ended = (
            self._sum[:, kept],
            self._best_minus_sum[:, kept],
            self._ended[:, kept],
        )

    def _kept(self, tick: int) -> tuple[Ticks, Array]:
        """Return the hypotheses kept at a tick and their log probabilities, without the hazard since they began."""
        birth = self._births[tick].astype(np.int64)
        return birth, self._sums[:, birth] + self._likes[tick]

    def after(self, tick: int) -> tuple[Ticks, Array]:
        """Return the beginnings of a tick's regime and P(beginning, hazard | readings so far)."""
        birth, log = self._kept(tick)
        log = log + self._hazard.lasted(tick - birth)
        weight = np.exp(log - log.max())
        return birth, weight / weight.sum()

    def _before_log(self, begin: int) -> Array:
        birth, log = self._kept(begin - 1)
        age = begin - 1 - birth
        return np.asarray(log + self._hazard.lasted(age) + self._hazard.ends(age))

    def before(self, begin: int) -> tuple[Ticks, Array]:
        """Return the beginnings of the regime before one that begins at `begin`, and P(beginning | hazard)."""
        log = self._before_log(begin)
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - np.where(np.isfinite(top), top, 0.0))
        total = share.sum(axis=1, keepdims=True)
        return self._births[begin - 1].astype(np.int64), share / np.where(total > 0.0, total, 1.0)

    def best_changes(self) -> list[int]:
        """Return the first tick of every regime of the most probable history, except that of the first."""
        last = self._now(len(self) - 1) + self._best_minus_sum
        hazard, where = np.unravel_index(int(last.argmax()), last.shape)
        changes = []
        begin = int(self._birth[where])
        while begin > 0:
            changes.append(begin)
            begin = int(self._previous[begin][hazard])
        return changes[::-1]


def _log_sum(log: Array) -> Array:
    """Return log sum exp(log) along the last axis."""
    top = log.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(log - top[:, None]).sum(axis=1)))

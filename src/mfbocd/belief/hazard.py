"""P(a regime ends now), given how long it has run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.base import finite, positive, room_for

Array = NDArray[np.float64]

HORIZON = 10_000
"""Run lengths a function is tabulated for; longer runs keep the last value, so that memory stays bounded."""


class Hazard:
    """A table: entry l is P(r_{t+1} = 0 | r_t = l), and the last entry holds for every longer run.

    r_t = l means that l + 1 points belong to the regime so far. Build one from

    - a number in (0, 1): constant, regimes are geometric with mean 1 / h;
    - a sequence: the table itself;
    - a function of an array of run lengths, tabulated for the first `horizon` of them;
    - `Hazard.weibull(shape, scale)`: wearing out (shape > 1) or settling in (shape < 1);
    - `Hazard.from_lengths(p)`: the distribution of the regimes' lengths.

    >>> Hazard(1 / 250).table
    array([0.004])
    >>> Hazard(lambda l: 1 / (l + 2), horizon=3).table.round(3)
    array([0.5  , 0.333, 0.25 ])
    >>> bool(np.all(np.diff(Hazard.weibull(shape=2, scale=100).table) >= 0))
    True
    >>> Hazard.from_lengths([0, 0.5, 0.5]).table  # two or three points: never one, never four
    array([0. , 0.5, 1. ])
    """

    def __init__(self, hazard: Any, *, horizon: int = HORIZON) -> None:
        if isinstance(hazard, Hazard):
            self.table: Array = hazard.table
            return
        if callable(hazard):
            _check_horizon(horizon)
            lengths = np.arange(horizon)
            values = np.broadcast_to(np.asarray(hazard(lengths), dtype=float), lengths.shape)
        elif isinstance(hazard, (Sequence, np.ndarray)) and not isinstance(hazard, str):
            values = np.asarray(hazard, dtype=float)
        else:
            h = finite("Detector", "hazard", hazard)
            if not 0.0 < h < 1.0:
                raise ValueError(f"hazard must lie in (0, 1), not {hazard!r}")
            values = np.array([h])
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"hazard must be a table of one dimension, not of shape {values.shape}")
        bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
        if bad.size:
            raise ValueError(f"hazard at run length {bad[0]} must lie in [0, 1], not {values[bad[0]]!r}")
        if values.size > 1 and not values.any():
            raise ValueError("hazard must be positive at some run length: 0 everywhere means no change ever")
        if values.size > 1 and (values == values[0]).all():
            values = values[:1]  # a flat table is a constant, which the kernels treat faster
        if values.size == 1 and not 0.0 < values[0] < 1.0:
            raise ValueError(f"hazard must lie in (0, 1), not {values[0]!r}")
        self.table = np.array(values)

    @property
    def setup(self) -> tuple[Array, int]:
        """What the kernels read: a table, and how many candidates it weighs, 0 where the hazard is known."""
        return self.table, 0

    def __repr__(self) -> str:
        if self.table.size == 1:
            return f"Hazard({self.table[0]:g})"
        return f"Hazard(<{self.table.size} run lengths, {self.table[0]:.3g} .. {self.table[-1]:.3g}>)"

    def __call__(self, run_length: Any) -> Array:
        """The hazard at each run length."""
        return self.table[np.minimum(np.asarray(run_length, dtype=np.int64), self.table.size - 1)]

    def mean_length(self) -> float:
        """Expected points in a regime.

        >>> round(Hazard(0.01).mean_length(), 9), round(Hazard.from_lengths([0, 0.5, 0.5]).mean_length(), 9)
        (100.0, 2.5)
        """
        stay = np.cumprod(1.0 - self.table[:-1])
        tail = 1.0 / max(float(self.table[-1]), 1e-12)  # held for ever after the table's end
        return float(1.0 + stay[:-1].sum() + stay[-1] * tail) if self.table.size > 1 else tail

    @classmethod
    def weibull(cls, shape: float, scale: float, *, horizon: int = HORIZON) -> Hazard:
        """Regimes longer than l with probability exp(-(l / scale)^shape): increasing hazard if shape > 1."""
        shape, scale = positive("weibull", "shape", shape), positive("weibull", "scale", scale)
        _check_horizon(horizon)
        ages = (np.arange(horizon + 1) / scale) ** shape
        return cls(-np.expm1(-np.diff(ages)))

    @classmethod
    def from_lengths(cls, probabilities: Sequence[float]) -> Hazard:
        """Regimes of 1, 2, ... points with these probabilities; h(l) = P(length = l + 1) / P(length > l)."""
        p = np.asarray(probabilities, dtype=float)
        if p.ndim != 1 or p.size == 0 or (p < 0.0).any() or not math.isclose(p.sum(), 1.0, rel_tol=1e-9):
            raise ValueError(f"probabilities must be non-negative and sum to 1, not {probabilities!r}")
        p = p[: int(np.flatnonzero(p)[-1]) + 1]
        left = np.cumsum(p[::-1])[::-1]
        return cls(np.where(left > 0.0, p / np.where(left > 0.0, left, 1.0), 1.0).clip(0.0, 1.0))


class Learned(Hazard):
    """An unknown constant hazard, learnt while running: a grid of candidates from `low` to `high`.

    The candidates are `points` numbers at equal ratios, with equal prior probability. What is computed is the
    mixture of one filter a candidate, exactly, at little more than the cost of one: statistics do not depend on
    the hazard. `Detector.hazards` tells what has been learnt.

    >>> Learned(low=1e-3, high=0.1, points=3).table.round(4)
    array([0.001, 0.01 , 0.1  ])
    """

    def __init__(self, low: float = 1 / 5000, high: float = 1 / 5, points: int = 12) -> None:
        self.low, self.high = positive("Learned", "low", low), positive("Learned", "high", high)
        if not self.low < self.high < 1.0:
            raise ValueError(f"Learned needs 0 < low < high < 1, not {low!r} and {high!r}")
        if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= 64:
            raise ValueError(f"Learned.points must be a whole number from 2 to 64, not {points!r}")
        self.points = points
        self.table = np.geomspace(self.low, self.high, points)

    @property
    def setup(self) -> tuple[Array, int]:
        """The candidates, then their prior."""
        return np.append(self.table, np.full(self.points, 1.0 / self.points)), self.points

    def __repr__(self) -> str:
        return f"Learned({self.low:g}, {self.high:g}, {self.points})"

    def __call__(self, run_length: Any) -> Array:
        """P(a regime of that run length ends), by the prior alone: what was learnt is the filter's to know."""
        stay = np.power(1.0 - self.table, np.asarray(run_length, dtype=float)[..., None])
        return np.asarray((stay * self.table).sum(axis=-1) / stay.sum(axis=-1))

    def mean_length(self) -> float:
        """Expected points in a regime, by the prior.

        >>> round(Learned(0.01, 0.1, 2).mean_length(), 9)
        55.0
        """
        return float(np.mean(1.0 / self.table))


def _check_horizon(horizon: int) -> None:
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise ValueError(f"horizon must be a whole number of at least 1, not {horizon!r}")
    room_for(f"horizon = {horizon}", 4.0 * horizon)


def hazard_of(hazard: Any) -> Hazard:
    """The hazard itself, or one made of a number, a table or a function."""
    return hazard if isinstance(hazard, Hazard) else Hazard(hazard)

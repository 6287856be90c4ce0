"""P(a regime ends at the coming tick), given its run length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import positive, probability, room_for, whole

Array = NDArray[np.float64]

HORIZON = 10_000
"""Run lengths that a function is tabulated for; longer runs use the last value, so that memory stays bounded."""


class Hazard:
    """P(change) by run length: entry l of a table is P(r_{t+1} = 0 | r_t = l).

    r_t = l means that l + 1 points belong to the regime so far. The last entry holds for every longer run.
    `Hazard.weibull` and `Hazard.from_lengths` build other common hazards.

    Parameters
    ----------
    hazard : float, sequence of float, callable or Hazard
        A number in (0, 1) is a constant hazard: regimes are geometric with mean 1 / hazard. A sequence is the table.
        A function of an array of run lengths is tabulated.
    horizon : int
        How many run lengths a function is tabulated for.

    Attributes
    ----------
    table : ndarray
        The hazard by run length; one entry if it is constant.

    Raises
    ------
    TypeError, ValueError
        If it is not a number in (0, 1) or a table of probabilities that are not all 0.

    Examples
    --------
    >>> Hazard(1 / 250).table
    array([0.004])
    >>> Hazard(lambda l: 1 / (l + 2), horizon=3).table.round(3)
    array([0.5  , 0.333, 0.25 ])
    >>> bool(np.all(np.diff(Hazard.weibull(shape=2, scale=100).table) >= 0))
    True
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
            values = np.array([probability("", "hazard", hazard)])
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
        """The array that the kernels read, and how many candidate hazards it contains; 0 if the hazard is known."""
        return self.table, 0

    def __repr__(self) -> str:
        if self.table.size == 1:
            return f"Hazard({self.table[0]:g})"
        return f"Hazard(<{self.table.size} run lengths, {self.table[0]:.3g} .. {self.table[-1]:.3g}>)"

    def __call__(self, run_length: Any) -> Array:
        """Return the hazard at each run length."""
        return self.table[np.minimum(np.asarray(run_length, dtype=np.int64), self.table.size - 1)]

    def mean_length(self) -> float:
        """Return the expected number of points in a regime.

        Returns
        -------
        float
            The expectation; by the prior if the hazard is learned.

        Examples
        --------
        >>> round(Hazard(0.01).mean_length(), 9), round(Hazard.from_lengths([0, 0.5, 0.5]).mean_length(), 9)
        (100.0, 2.5)
        """
        stay = np.cumprod(1.0 - self.table[:-1])
        tail = 1.0 / max(float(self.table[-1]), 1e-12)  # which holds for every run beyond the table
        return float(1.0 + stay[:-1].sum() + stay[-1] * tail) if self.table.size > 1 else tail

    @classmethod
    def weibull(cls, shape: float, scale: float, *, horizon: int = HORIZON) -> Hazard:
        """Return the hazard of regimes that are longer than l with probability exp(-(l / scale)^shape).

        Parameters
        ----------
        shape : float
            Above 1 the hazard increases with the run length (wear), below 1 it decreases (early failures).
        scale : float
            Run length that a share 1/e of the regimes exceeds, in ticks.
        horizon : int
            How many run lengths are tabulated.

        Returns
        -------
        Hazard
            The hazard.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type or is out of range.

        Examples
        --------
        >>> Hazard.weibull(shape=2, scale=100, horizon=3).table.round(4)
        array([0.0001, 0.0003, 0.0005])
        """
        shape, scale = positive("weibull", "shape", shape), positive("weibull", "scale", scale)
        _check_horizon(horizon)
        ages = (np.arange(horizon + 1) / scale) ** shape
        return cls(-np.expm1(-np.diff(ages)))

    @classmethod
    def from_lengths(cls, probabilities: Sequence[float]) -> Hazard:
        """Return the hazard of regimes with a given distribution of lengths.

        h(l) = P(length = l + 1) / P(length > l).

        Parameters
        ----------
        probabilities : sequence of float
            P(a regime has 1, 2, ... points); they must sum to 1.

        Returns
        -------
        Hazard
            The hazard.

        Raises
        ------
        ValueError
            If `probabilities` is empty or has several dimensions, or its numbers are negative or do not sum to 1.

        Examples
        --------
        >>> Hazard.from_lengths([0, 0.5, 0.5]).table  # two or three points: never one, never four
        array([0. , 0.5, 1. ])
        """
        p = np.asarray(probabilities, dtype=float)
        if p.ndim != 1 or p.size == 0 or (p < 0.0).any() or not math.isclose(p.sum(), 1.0, rel_tol=1e-9):
            raise ValueError(f"probabilities must be non-negative and sum to 1, not {probabilities!r}")
        p = p[: int(np.flatnonzero(p)[-1]) + 1]
        left = np.cumsum(p[::-1])[::-1]
        return cls(np.where(left > 0.0, p / np.where(left > 0.0, left, 1.0), 1.0).clip(0.0, 1.0))


class Learned(Hazard):
    """An unknown constant hazard, learned online from a grid of candidates.

    The candidates are spaced at equal ratios and have equal prior probability. The result is exactly the mixture of
    one filter per candidate, at little more than the cost of one: the statistics do not depend on the hazard.
    `Detector.hazard_posterior` is what has been learned.

    Parameters
    ----------
    low, high : float
        The smallest and the largest candidate, in (0, 1). A `low` above the true hazard gives
        more false alarms in a long stream.
    points : int
        Number of candidates, 2 to 64. By default they are a factor of 1.9 apart.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `low` is not below `high`.

    Examples
    --------
    >>> Learned(low=1e-3, high=0.1, points=3).table.round(4)
    array([0.001, 0.01 , 0.1  ])
    """

    def __init__(self, low: float = 1e-6, high: float = 1 / 5, points: int = 20) -> None:
        self.low, self.high = positive("Learned", "low", low), positive("Learned", "high", high)
        if not self.low < self.high < 1.0:
            raise ValueError(f"Learned needs 0 < low < high < 1, not {low!r} and {high!r}")
        self.points = whole("Learned", "points", points, 2, 64)
        self.table = np.geomspace(self.low, self.high, self.points)

    @property
    def setup(self) -> tuple[Array, int]:
        """The candidates, then their prior."""
        return np.append(self.table, np.full(self.points, 1.0 / self.points)), self.points

    def __repr__(self) -> str:
        return f"Learned({self.low:g}, {self.high:g}, {self.points})"

    def __call__(self, run_length: Any) -> Array:
        """Return P(a regime of that run length ends) by the prior; what was learned is in the filter."""
        stay = np.power(1.0 - self.table, np.asarray(run_length, dtype=float)[..., None])
        return np.asarray((stay * self.table).sum(axis=-1) / stay.sum(axis=-1))

    def mean_length(self) -> float:
        """Return the expected number of points in a regime, by the prior.

        Examples
        --------
        >>> round(Learned(0.01, 0.1, 2).mean_length(), 9)
        55.0
        """
        return float(np.mean(1.0 / self.table))


def _check_horizon(horizon: int) -> None:
    whole("", "horizon", horizon, 1)
    room_for(f"horizon = {horizon}", 4.0 * horizon)


def hazard_of(hazard: Any) -> Hazard:
    """Return a hazard: the argument itself, or one made from a number, a table or a function."""
    return hazard if isinstance(hazard, Hazard) else Hazard(hazard)

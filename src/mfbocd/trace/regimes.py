"""The levels of regimes, from their readings.

The level is the mean of a full-fidelity reading. In the models whose posterior is updated by ``chi' = chi + zeta x,
nu' = nu + zeta`` (equation `mf_posterior`), the posterior mean of the level is the mean of the readings weighted by
zeta, drawn towards the prior. The levels here are that weighted mean without the prior, so they mean the same for
every model, for the automatic detector, and for steps that were stored without their detector.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..detector.level_rule import FULL, Array, LevelRule, Support, Ticks
from ..inputs.copies import Independent
from .intervals import Dependence, Noise, Sample, level_of, sample
from .levels import Level, Levels

CONFIDENCE = 0.95
"""Probability of the intervals."""
NEAREST = 2000
"""Largest number of readings of a regime that its level is computed from: those nearest to the change."""


class Past(NamedTuple):
    """What is kept of the regimes before: noise of the last one, autocorrelation, and whether any has outliers."""

    noise: Noise = Noise(0.0, 0.0)
    dependence: Dependence = Dependence()
    outliers: bool = False


class Regime(NamedTuple):
    """The readings of a regime: a sample for each number of a reading or each category, None where there is none."""

    columns: tuple[Sample | None, ...]
    several: bool

    def tell(self) -> tuple[Dependence, ...]:
        """Return what each column tells of its autocorrelation."""
        return tuple(Dependence() if one is None else one.dependence for one in self.columns)

    def outliers(self) -> tuple[bool, ...]:
        """Return whether each column has outliers."""
        return tuple(one is not None and one.outliers for one in self.columns)


class Regimes(Independent):
    """Compute the levels of consecutive regimes.

    Parameters
    ----------
    rule : LevelRule
        How levels follow from the readings.
    confidence : float, default 0.95
        Probability of the intervals.

    Notes
    -----
    With weights w, W = sum w and n readings, the level is m = sum w x / W. Its interval assumes that sqrt(w) (x - m)
    is an AR(1) with standard deviation s and lag-1 autocorrelation rho, both unknown. Given rho, it is

        m +- t s sqrt(sum_ij w_i w_j rho^|i-j|) / W,
        s^2 = (k s0^2 + e' R^-1 e) / (k + n - 1),  k = min(4, degrees of s0)

    with Student's t for k + n - 1 degrees, e the residuals about the best level given rho, R their correlation, and
    s0 the estimate of the previous regime, so that a regime that has just begun has a useful interval. The interval
    averages this over rho, with the likelihood of rho without the level and the scale (REML: not biased downwards by
    the fitted level) and a prior of .3 for no autocorrelation and the rest uniform up to .97. The likelihoods of the
    other regimes of the series count too, with the weight of 150 readings at most. Fewer than 20 readings in all are
    taken to be independent unless that has a probability below .05. `Level.trusted` is False if the readings probably
    span fewer than 4 times (1 + rho) / (1 - rho) readings: then a longer memory cannot be excluded.

    If any regime has readings farther than 6 robust standard deviations from its level (more where it is short), as
    with outliers or a long tail, the intervals of all regimes are those of their medians. The signs of x - median
    have a known variance and, for readings that are a monotone function of an AR(1), the correlation
    2 / pi arcsin(rho^|i-j|), with rho from the ranks. So the interval consists of the quantiles 1/2 +- h/2 of the
    readings, with h the half-width of an interval of the mean sign, and assumes nothing about their distribution.

    If all readings are 0 or 1 it is Wilson's interval for as many independent readings as they are worth. For
    corrected labels (`LevelRule.rates`) it also covers Wilson's and lies within 0 and 1. For counts the lower end is
    at least 0, and the upper end of all zeros is that of the Poisson distribution. Where the readings follow a season
    that the model does not know, the interval is wide, since their variation counts as noise.
    """

    def __init__(self, rule: LevelRule, confidence: float = CONFIDENCE) -> None:
        self.rule, self.confidence = rule, confidence
        self.past: dict[int, Past] = {}  # of each number of a reading, up to the change reported last

    def before(self, x: Array, weight: Array, support: Support, begin: int, at: int) -> Regime:
        """Prepare the readings before a change.

        Parameters
        ----------
        x : ndarray
            Readings of the stream, NaN where missing; shape (T,) or (T, d).
        weight : ndarray
            Their weights, (T,).
        support : {"binary", "share", "count", "number"}
            What readings of the stream can be.
        begin, at : int
            First row of the regime, and row of the change.

        Returns
        -------
        Regime
            The readings nearest to the change.
        """
        rows = np.arange(max(begin, at - NEAREST), at)
        return self._regime(x[rows], weight[rows], (rows - at).astype(float), support)

    def following(self, x: Array, weight: Array, support: Support, at: int, end: int) -> Regime:
        """Prepare the readings after a change.

        Parameters
        ----------
        x, weight, support
            As in `before`.
        at, end : int
            Row of the change, and the row after the last one of the regime.

        Returns
        -------
        Regime
            The readings nearest to the change.
        """
        rows = np.arange(at, min(end, at + NEAREST))
        return self._regime(x[rows], weight[rows], (rows - at).astype(float), support)

    def around(
        self,
        left: Regime,
        right: Regime,
        later: Sequence[Dependence] | None = None,
        outliers: Sequence[bool] | None = None,
    ) -> tuple[Levels, Levels]:
        """Return the levels before and after a change.

        Parameters
        ----------
        left, right : Regime
            The readings before and after it. Those before become a part of `past`.
        later : sequence of Dependence, optional
            What regimes after `right` tell, for each column.
        outliers : sequence of bool, optional
            Whether any regime of the stream has outliers, for each column; by default any so far.

        Returns
        -------
        tuple
            The levels.
        """
        before: list[Level | None] = []
        told = right.tell()
        far = right.outliers()
        for j, readings in enumerate(left.columns):
            past = self.past.get(j, Past())
            others = past.dependence.plus(told[j])
            median = past.outliers or far[j] or (readings is not None and readings.outliers)
            if later is not None:
                others = others.plus(later[j])
            if outliers is not None:
                median = outliers[j]
            if readings is None:
                before.append(None)
                continue
            level, noise = level_of(readings, past.noise, others, median, self.confidence)
            before.append(level)
            self.past[j] = Past(noise, past.dependence.plus(readings.dependence), past.outliers or readings.outliers)
        return _plain(before, left.several), self.after(right, later, outliers)

    def after(
        self, right: Regime, later: Sequence[Dependence] | None = None, outliers: Sequence[bool] | None = None
    ) -> Levels:
        """Return the level after a change whose level before was computed last.

        Parameters
        ----------
        right : Regime
            The readings after it.
        later, outliers
            As in `around`.

        Returns
        -------
        Level, tuple or None
            The level after.
        """
        levels: list[Level | None] = []
        for j, readings in enumerate(right.columns):
            if readings is None:
                levels.append(None)
                continue
            past = self.past.get(j, Past())
            others = past.dependence if later is None else past.dependence.plus(later[j])
            median = past.outliers or readings.outliers
            if outliers is not None:
                median = outliers[j]
            levels.append(level_of(readings, past.noise, others, median, self.confidence)[0])
        return _plain(levels, right.several)

    def _regime(self, x: Array, weight: Array, tick: Array, support: Support) -> Regime:
        k = self.rule.categories
        if k:
            x = np.where(np.isnan(x)[:, None], np.nan, (x[:, None] == np.arange(k)).astype(float))
            support = "binary"
        columns = x[:, None] if x.ndim == 1 else x
        return Regime(tuple(self._sample(column, weight, tick, support) for column in columns.T), several=x.ndim > 1)

    def _sample(self, x: Array, weight: Array, tick: Array, support: Support) -> Sample | None:
        seen = np.isfinite(x) & (weight > 0.0)
        if not seen.any():
            return None
        return sample(x[seen], weight[seen], tick[seen], self.rule.line, support)


def _plain(levels: list[Level | None], several: bool) -> Levels:
    return tuple(levels) if several else levels[0]


def support_of(x: Array) -> Support:
    """Tell what readings can be, from all of them.

    Parameters
    ----------
    x : ndarray
        Readings, NaN where missing.

    Returns
    -------
    {"binary", "count", "number"}
        Whether all are 0 or 1, all are whole and not negative, or neither.
    """
    seen = x[np.isfinite(x)]
    if bool(((seen == 0.0) | (seen == 1.0)).all()):
        return "binary"
    return "count" if bool(((seen >= 0.0) & (seen == np.floor(seen))).all()) else "number"


def stacked_readings(rows: Collection[tuple[Any, int]]) -> tuple[Array, Ticks]:
    """Return readings and fidelities as arrays.

    Parameters
    ----------
    rows : collection of tuple
        For each tick the reading, None if it is missing, and the index of its fidelity, -1 if nothing was read.

    Returns
    -------
    tuple of ndarray
        The readings, NaN where missing, of shape (T,) or (T, d), and the indices.
    """
    width = next((len(x) for x, _ in rows if isinstance(x, tuple)), 0)
    missing = (math.nan,) * width if width else math.nan
    x = np.array([missing if value is None else value for value, _ in rows], dtype=np.float64)
    return x, np.array([j for _, j in rows], dtype=np.int64)


def levels_around(
    x: Array, changes: Sequence[int], rule: LevelRule = FULL, choice: Ticks | None = None
) -> list[tuple[Levels, Levels]]:
    """Return the levels before and after each change of a finished stream.

    Parameters
    ----------
    x : ndarray
        All readings, NaN where missing; shape (T,) or (T, d).
    changes : sequence of int
        Rows at which new regimes began, ascending. A row before the first one stands for the first.
    rule : LevelRule
        How levels follow from the readings; by default all have the same weight.
    choice : ndarray of int, optional
        Index of the fidelity of each reading; the first one by default.

    Returns
    -------
    list of tuple
        For each change, the level of the readings since the change before it, and up to the change after it; at most
        the `NEAREST` ones.
    """
    if not changes:
        return []
    choice = np.zeros(len(x), dtype=np.int64) if choice is None else choice
    x, support = rule.corrected(x, choice, support_of(x))
    weight = rule.weights_of(choice)
    regimes = Regimes(rule)
    edges = [0, *(min(max(at, 0), len(x)) for at in changes), len(x)]
    left = [regimes.before(x, weight, support, begin, at) for begin, at in pairwise(edges[:-1])]
    right = [regimes.following(x, weight, support, at, end) for at, end in pairwise(edges[1:])]
    outliers = [any(column) for column in zip(*(one.outliers() for one in [*left, *right]), strict=True)]
    later = [(Dependence(),) * len(outliers)]  # of the regimes after each change but the first of them
    for one in right[:0:-1]:
        later.append(tuple(a.plus(b) for a, b in zip(one.tell(), later[-1], strict=True)))
    return [
        regimes.around(before, after, told, outliers)
        for before, after, told in zip(left, right, reversed(later), strict=True)
    ]

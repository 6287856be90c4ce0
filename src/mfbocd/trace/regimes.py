"""The levels of regimes, from their readings.

The level is the mean of a full-fidelity reading. In the models whose posterior is updated by ``chi' = chi + zeta x,
nu' = nu + zeta`` (equation `mf_posterior`), the posterior mean of the level is the mean of the readings weighted by
zeta, drawn towards the prior. The levels here are that weighted mean without the prior, so they mean the same for
every model, for the automatic detector, and for steps that were stored without their detector.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..detector.level_rule import FULL, Array, LevelRule, Support, Ticks
from .intervals import Noise, fit_level
from .levels import Level, Levels

CONFIDENCE = 0.95
"""Probability of the intervals."""
NEAREST = 2000
"""Largest number of readings of a regime that its level is computed from: those nearest to the change."""


class Regimes:
    """Compute the levels of consecutive regimes, each with the noise of the one before it as a prior.

    Parameters
    ----------
    rule : LevelRule
        How levels follow from the readings.
    confidence : float, default 0.95
        Probability of the intervals.

    Notes
    -----
    With weights w, W = sum w and n readings, the level is m = sum w x / W. Readings farther than 6 robust standard
    deviations from the median are first moved to that distance, so that an outlier does not decide. The variance of a
    full reading is estimated as

        s2 = (k s0 + sum w (x - m)^2) / (k + n - 1),  k = min(4, degrees of s0)

    where s0 is the estimate of the previous regime, so that a regime that has just begun has a useful interval. The
    interval is

        m +- t sqrt(s2 / (W f)),  f = (1 - r) / (1 + r)

    with Student's t for k + (n - 1) f degrees and r the lag-1 autocorrelation if it is positive, averaged with that
    of the previous regime in the same way. If all readings are 0 or 1 it is Wilson's interval for W f readings. For
    corrected labels (`LevelRule.rates`) it also covers Wilson's and lies within 0 and 1. For counts the lower end is
    at least 0, and the upper end of all zeros is -log(0.025) / (W f), that of the Poisson distribution. Where the
    readings follow a season that the model does not know, the interval is wide, since their variation counts as
    noise.
    """

    def __init__(self, rule: LevelRule, confidence: float = CONFIDENCE) -> None:
        self.rule, self.confidence = rule, confidence
        self.noise: dict[int, Noise] = {}  # of each number of a reading, in the previous regime

    def around(self, x: Array, weight: Array, support: Support, rows: tuple[int, int, int]) -> tuple[Levels, Levels]:
        """Return the levels before and after a change.

        Parameters
        ----------
        x : ndarray
            Readings of the stream, NaN where missing; shape (T,) or (T, d).
        weight : ndarray
            Their weights, (T,).
        support : {"binary", "share", "count", "number"}
            What readings of the stream can be.
        rows : tuple of int
            First row of the previous regime, row of the change, and the row after the last one of the new regime.

        Returns
        -------
        tuple
            The level before, whose noise becomes the prior of the next regime, and the level after.
        """
        begin, at, end = rows
        before = np.arange(max(begin, at - NEAREST), at)
        left = self._of(x[before], weight[before], (before - at).astype(float), support, keep=True)
        return left, self.after(x, weight, support, (at, end))

    def after(self, x: Array, weight: Array, support: Support, rows: tuple[int, int]) -> Levels:
        """Return the level after a change whose level before was computed last.

        Parameters
        ----------
        x, weight, support
            As in `around`.
        rows : tuple of int
            Row of the change, and the row after the last one of the regime.

        Returns
        -------
        Level, tuple or None
            The level after.
        """
        at, end = rows
        after = np.arange(at, min(end, at + NEAREST))
        return self._of(x[after], weight[after], (after - at).astype(float), support, keep=False)

    def _of(self, x: Array, weight: Array, tick: Array, support: Support, *, keep: bool) -> Levels:
        """Return the level of a regime; `keep` makes its noise the prior of the next."""
        k = self.rule.categories
        if k:
            x = np.where(np.isnan(x)[:, None], np.nan, (x[:, None] == np.arange(k)).astype(float))
            support = "binary"
        if x.ndim == 1:
            return self._one(0, x, weight, tick, support, keep)
        return tuple(self._one(j, x[:, j], weight, tick, support, keep) for j in range(x.shape[1]))

    def _one(self, j: int, x: Array, weight: Array, tick: Array, support: Support, keep: bool) -> Level | None:
        seen = np.isfinite(x) & (weight > 0.0)
        if not seen.any():
            return None
        level, noise = fit_level(
            x[seen], weight[seen], tick[seen], self.noise.get(j), self.rule.line, support, self.confidence
        )
        if keep:
            self.noise[j] = noise
        return level


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
    return [
        regimes.around(x, weight, support, (begin, at, end))
        for begin, at, end in zip(edges[:-2], edges[1:-1], edges[2:], strict=True)
    ]

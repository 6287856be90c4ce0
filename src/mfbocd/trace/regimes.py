"""The levels of regimes, from their readings.

The level is the mean of a full-fidelity reading. In the models whose posterior is updated by ``chi' = chi + zeta x,
nu' = nu + zeta`` (equation `mf_posterior`), the posterior mean of the level is the mean of the readings weighted by
zeta, drawn towards the prior. The levels here are that weighted mean without the prior, so they mean the same for
every model, for the automatic detector, and for steps that were stored without their detector.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.copies import Independent
from ..models import Categorical, Confusion, Model, RobustTrend, Trend
from ..policy.fidelity import Fidelity
from .intervals import Noise, Support, fit_level
from .levels import Level, Levels

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]

CONFIDENCE = 0.95
"""Probability of the intervals."""
NEAREST = 2000
"""Largest number of readings of a regime that its level is computed from: those nearest to the change."""


@dataclass(frozen=True)
class LevelRule:
    """How levels follow from the readings of a model.

    Attributes
    ----------
    weights : tuple of float
        Weight of a reading at each fidelity: zeta. If zeta only names a likelihood (`Model.ordered` is False), only
        the readings of the best fidelity count, because the others have a different mean; but see `rates`.
    line : bool
        Whether regimes may be lines. A slope that differs from 0 by 3 standard errors is then used, and the level is
        the value of the line at the tick of the change.
    categories : int
        Number of categories, if readings are indices of categories; else 0. The levels are then their shares.
    rates : tuple of tuple
        For the labels of a `Confusion`, P(label 1 | truth 0) = q0 and P(label 1 | truth 1) = q1 at each fidelity;
        else empty. A label x then counts as (x - q0) / (q1 - q0) with weight (q1 - q0)^2, which is unbiased for the
        rate of true ones (Rogan and Gladen 1978).
    """

    weights: tuple[float, ...]
    line: bool = False
    categories: int = 0
    rates: tuple[tuple[float, float], ...] = ()

    def corrected(self, x: Array, choice: Ticks, support: Support) -> tuple[Array, Support]:
        """Return readings whose mean is the level, and what they can be.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        choice : ndarray of int
            Index of the fidelity of each reading; -1 where nothing was read.
        support : {"binary", "count", "number"}
            What the readings can be.

        Returns
        -------
        tuple
            The readings as they are, or corrected labels and ``"share"``.
        """
        if not self.rates or support != "binary":
            return x, support
        low, high = np.array([*self.rates, (0.0, 1.0)])[choice].T
        apart = high - low
        return np.where(apart == 0.0, np.nan, (x - low) / np.where(apart == 0.0, 1.0, apart)), "share"

    def weights_of(self, choice: Ticks) -> Array:
        """Return the weight of each reading.

        Parameters
        ----------
        choice : ndarray of int
            Index of the fidelity of each reading; -1 where nothing was read.

        Returns
        -------
        ndarray
            The weights, 0 where nothing was read.
        """
        return np.array([*self.weights, 0.0])[choice]

    @classmethod
    def of(cls, model: Model, fidelities: Sequence[Fidelity]) -> LevelRule:
        """Return the rule of a model.

        Parameters
        ----------
        model : Model
            The model.
        fidelities : sequence of Fidelity
            The fidelities of the detector.

        Returns
        -------
        LevelRule
            The rule.
        """
        zetas = [f.zeta for f in fidelities]
        if isinstance(model, Confusion):
            known = [model.matrices.get(zeta, np.eye(2)) for zeta in zetas]
            rates = tuple((float(matrix[0, 1]), float(matrix[1, 1])) for matrix in known)
            return cls(tuple((q1 - q0) ** 2 for q0, q1 in rates), rates=rates)
        if not model.ordered:
            zetas = [float(zeta == max(zetas)) for zeta in zetas]
        families = list(_families(model))
        categories = model.columns if isinstance(model, Categorical) else 0
        return cls(tuple(zetas), any(isinstance(one, Trend | RobustTrend) for one in families), categories)


FULL = LevelRule((1.0,))
"""The rule of one fidelity."""


def _families(model: Model) -> Iterator[Model]:
    """Yield a model and those it is composed of."""
    yield model
    inner = getattr(model, "model", None)
    for part in [*getattr(model, "parts", ()), *([inner] if isinstance(inner, Model) else [])]:
        yield from _families(part)


class Regimes(Independent):
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

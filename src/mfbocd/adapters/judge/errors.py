"""What the labels of a cheap check and of a judge say: error rates, the model of both, and learning from pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...belief.serialization import Array
from ...inputs.arguments import probability
from ...models import Confusion, Grid

Errors = float | Sequence[float] | Sequence[Sequence[float]]
PRIOR_PAIRS = 20.0
"""Declared rates count as so many items of each kind."""
CHECK, BOTH = 0.5, 0.9
"""Keys of the likelihoods of a check's level, and of a level with a judgement."""
_ROUNDS = 500  # of the EM algorithm
_LEAST = 1e-6  # probability of a level of a check: no level is impossible


def rates_of(name: str, errors: Any, levels: int = 2) -> Array:
    """Return P(level | truth), truth by row: from one error rate, two of them, or the rates of every level."""
    owner = "JudgeMonitor"
    given: list[Any] = [errors, errors] if np.ndim(errors) == 0 else list(errors)
    if len(given) != 2:
        raise ValueError(f"{owner}.{name} must be one error rate, two, or two rows of rates, not {errors!r}")
    if np.ndim(given[0]) == 0:
        if levels != 2:
            raise ValueError(f"{owner}.{name} must have two rows of {levels} rates, one per level, not {errors!r}")
        false, missed = (probability(owner, name, value, "[0, 1]") for value in given)
        given = [[1.0 - false, false], [missed, 1.0 - missed]]
    rates = np.array([[probability(owner, name, value, "[0, 1]") for value in row] for row in given])
    if rates.shape != (2, levels) or np.abs(rates.sum(axis=1) - 1.0).max() > 1e-6:
        raise ValueError(f"{owner}.{name} must have two rows of {levels} rates that sum to 1, not {errors!r}")
    return rates


def informative(name: str, errors: Any, rates: Array) -> Array:
    """Return rates of `rates_of`; raise an error if they are no better than chance, or worse."""
    passing, failing = np.cumsum(rates[:, :0:-1], axis=1)  # P(this level or a higher one), from the highest on
    if (failing - passing).max() < 0.01:
        raise ValueError(
            f"JudgeMonitor.{name} = {errors!r} is no better than chance: items that fail are not put into higher "
            "levels than items that pass. Two error rates must have a sum of less than 1; a check or judge that is "
            "mostly wrong says the opposite of its label"
        )
    return rates


def level_rates(
    scores: ArrayLike,
    failed: ArrayLike,
    cuts: Sequence[float] = (0.5,),
    judge_errors: float | Sequence[float] = 0.0,
) -> list[list[float]]:
    """Estimate how often a check's score lies in each level, for items that pass and for items that fail.

    If the judge who labelled the items errs, plain counts are wrong: where few items fail, many of those that are
    labelled as failures pass. The maximum of the likelihood is found by the EM algorithm.

    Parameters
    ----------
    scores : array_like of float
        The scores, or labels 0 and 1, of past items.
    failed : array_like of bool
        The judge's labels of these items; 1 if it fails.
    cuts : sequence of float, default (0.5,)
        The scores at which a new level begins, ascending.
    judge_errors : float or pair of float, default 0.0
        Error rates of the judge, as in `JudgeMonitor`.

    Returns
    -------
    list of list of float
        The argument `cheap_errors` of `JudgeMonitor`. Every count is increased by 1/2, so that no rate is 0.

    Raises
    ------
    ValueError
        If there are not as many scores as labels.

    Examples
    --------
    >>> rates = level_rates([0.1, 0.2, 0.4, 0.9, 0.4, 0.8], [0, 0, 0, 0, 1, 1], cuts=(0.3, 0.7))
    >>> [[round(rate, 2) for rate in row] for row in rates]
    [[0.45, 0.27, 0.27], [0.14, 0.43, 0.43]]
    """
    score, label = np.asarray(scores, dtype=float), np.asarray(failed).astype(bool)
    if score.shape != label.shape or score.ndim != 1:
        raise ValueError(f"scores and failed must have the same length, not {score.shape} and {label.shape}")
    level = np.searchsorted(np.asarray(cuts, dtype=float), score, side="right")
    seen = np.stack([np.bincount(level[label == value], minlength=len(cuts) + 1) for value in (False, True)])
    judge = rates_of("judge_errors", judge_errors)
    counts = seen.astype(float)  # by truth and level; at first the label is taken as the truth
    for _ in range(_ROUNDS if judge[0, 1] + judge[1, 0] > 0.0 else 1):
        prior = (counts + 0.5) / (counts.sum() + counts.size / 2)  # P(truth, level)
        joint = prior[:, None, :] * judge[:, :, None]  # by truth, label and level
        counts = (seen * joint / np.maximum(joint.sum(axis=0), 1e-300)).sum(axis=1)
    counts = counts + 0.5
    rates: list[list[float]] = (counts / counts.sum(axis=1, keepdims=True)).tolist()
    return rates


class LabelModel(Grid):
    """The failure rate p behind the levels of a check and the labels of a judge, on a grid.

        P(level) = (1 - p) check[0, level] + p check[1, level]
        P(level, label) = (1 - p) check[0, level] judge[0, label] + p check[1, level] judge[1, label]

    Parameters
    ----------
    check : ndarray
        P(level | truth), truth by row.
    judge : ndarray
        P(label | truth), truth by row.
    fail_rate : float
        Mean of the prior of p, which is Beta(1, 1 / fail_rate - 1).
    points : int
        Size of the grid.

    Notes
    -----
    A reading is a number: 0 and 1 are the truth (key 1.0), then follow the levels (key `CHECK`), then the pairs of
    level and label (key `BOTH`; `given(level)` is the key of the label given the level).

    Examples
    --------
    >>> model = LabelModel(np.array([[0.9, 0.1], [0.3, 0.7]]), np.eye(2), fail_rate=0.1, points=100)
    >>> stats = model.update(model.prior(), model.pair(1, 1.0), BOTH)
    >>> round(float(model.parameter(stats)[0]), 2)
    0.18
    """

    def __init__(self, check: Array, judge: Array, fail_rate: float, points: int) -> None:
        check = np.maximum(check, _LEAST)
        check = check / check.sum(axis=1, keepdims=True)
        self.levels = int(check.shape[1])
        size = 2 + 3 * self.levels
        truth, levels, pairs = (np.zeros((2, size)) for _ in range(3))
        truth[:, :2] = np.eye(2)
        levels[:, 2 : 2 + self.levels] = check
        pairs[:, 2 + self.levels :] = (check[:, :, None] * judge[:, None, :]).reshape(2, -1)
        ways: dict[float, _Likelihood] = {
            1.0: _Likelihood(truth),
            CHECK: _Likelihood(levels),
            BOTH: _Likelihood(pairs),
        }
        for level in range(self.levels):
            only = np.zeros((2, size))
            at = slice(int(self.pair(level, 0.0)), int(self.pair(level, 1.0)) + 1)
            only[:, at] = pairs[:, at]
            ways[self.given(level)] = _Likelihood(only, conditional=True)
        prior = Confusion({}, 1.0, 1.0 / fail_rate - 1.0, points)
        super().__init__(prior.theta, ways, list(range(size)), np.exp(prior.prior()))

    def pair(self, level: int, label: float) -> float:
        """Return the reading that stands for a level with a judgement."""
        return 2.0 + self.levels + 2 * level + int(label)

    def given(self, level: int) -> float:
        """Return the key of the likelihood of a judgement whose level is known."""
        return 0.6 + 0.2 * level / self.levels


class _Likelihood:
    """P(reading | p), from that given each truth."""

    def __init__(self, table: Array, conditional: bool = False) -> None:
        self.table, self.conditional = table, conditional

    def __call__(self, x: Array, rate: Array) -> Array:
        passes, fails = self.table[:, x.astype(int)]
        value = (1.0 - rate) * passes + rate * fails
        if self.conditional:
            passes, fails = self.table.sum(axis=1)
            value = value / ((1.0 - rate) * passes + rate * fails)
        return np.asarray(value)


class PairCounts:
    """Learns P(level | truth) of a check from judged items, with a judge that errs (online EM).

        P(t | label, level) ~ P(t) P(label | t) P(level | t)
        counts[t, level] = (1 - 1 / memory) counts[t, level] + P(t | label, level)

    Parameters
    ----------
    rates : ndarray
        The declared P(level | truth), truth by row.
    memory : float
        How many items are remembered.

    Attributes
    ----------
    counts : ndarray
        Expected number of items by truth and level.
    """

    def __init__(self, rates: Array, memory: float) -> None:
        self.memory = memory
        self.counts = PRIOR_PAIRS * rates

    def add(self, level: int, label: float, check: Array, judge: Array, rate: float) -> Array:
        """Count an item.

        Parameters
        ----------
        level : int
            Its level.
        label : float
            The judge's label.
        check, judge : ndarray
            The rates in use.
        rate : float
            The failure rate.

        Returns
        -------
        ndarray
            The new P(level | truth).
        """
        truth = np.array([1.0 - rate, rate]) * judge[:, int(label)] * np.maximum(check[:, level], _LEAST)
        self.counts *= 1.0 - 1.0 / self.memory
        self.counts[:, level] += truth / truth.sum()
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

"""Labels of a classifier with known confusion matrices, exact on a grid of rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from ..inputs.arguments import finite, positive, whole
from ..inputs.readings import cells, missing
from .base import Array
from .bernoulli import bernoulli_divergences
from .grid import ROUNDING, Grid
from .regression import MOST

Pairs = Mapping[float, Any] | Sequence[tuple[float, Any]]


class Confusion(Grid):
    """Labels 0 and 1 of a classifier with known confusion matrices, with a Beta prior on the rate of true ones.

        p ~ Beta(alpha, beta)
        P(label | p) = (1 - p) matrix[0][label] + p matrix[1][label]

    Unlike a zeta of `Bernoulli`, this describes a one-sided classifier correctly: if it misses many ones but gives no
    false alarm, its ones are certain and its zeros say little.

    Parameters
    ----------
    matrices : mapping or sequence of pairs
        For the zeta of each fidelity a 2 x 2 matrix: ``matrices[zeta][truth][label]`` is the probability of reporting
        `label`, and each row sums to 1. At zeta = 1 the default is the identity.
    alpha : float, default 1.0
        Prior weight of ones, in readings.
    beta : float, default 1.0
        Prior weight of zeros, in readings.
    points : int, default 200
        Size of the grid over (0, 1).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    The interval (0, 1) is divided into `points` equal cells. A grid point has the prior mass of its cell and lies at
    the prior mean within it, because a prior with alpha < 1 is unbounded at 0.

    Examples
    --------
    >>> model = Confusion({0.3: [[1.0, 0.0], [0.6, 0.4]]})
    >>> after = [model.update(model.prior(), label, zeta=0.3) for label in (0.0, 1.0)]
    >>> [round(float(model.parameter(stats)[0]), 3) for stats in after]
    [0.458, 0.667]
    """

    def __init__(self, matrices: Pairs, alpha: float = 1.0, beta: float = 1.0, points: int = 200) -> None:
        self.alpha = positive("Confusion", "alpha", alpha, 1e9)
        self.beta = positive("Confusion", "beta", beta, 1e9)
        size = whole("Confusion", "points", points, 2, MOST)
        pairs = list(matrices.items()) if isinstance(matrices, Mapping) else [tuple(pair) for pair in matrices]
        self.matrices = {finite("Confusion", "matrices", z): _matrix(z, m) for z, m in [(1.0, np.eye(2)), *pairs]}
        rate, mass = _beta_cells(self.alpha, self.beta, size)
        ways = {zeta: _Labels(matrix) for zeta, matrix in self.matrices.items()}
        super().__init__(rate, ways, [0.0, 1.0], mass)
        self.points = size

    @classmethod
    def from_labels(
        cls,
        labels: Any,
        truth: Any,
        zeta: float = 0.5,
        *,
        positive: Any = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        points: int = 200,
    ) -> Confusion:
        """Estimate the confusion matrix of a classifier from two columns of labels of the same items.

        With n items of a truth, of which k were given a label, its probability is (k + 1/2) / (n + 1), the mean under
        Jeffreys' prior: never 0 or 1, because a label of probability 0 for both truths would leave no possible rate.

        Parameters
        ----------
        labels : array-like
            Labels of the classifier.
        truth : array-like
            True labels of the same items, for instance those of an expensive judge. Items with a missing label (None
            or NaN) in either column are left out.
        zeta : float, default 0.5
            The zeta of the classifier's fidelity, below 1, which only names it; the truth has zeta = 1.
        positive : Any, optional
            The label that counts as 1, such as ``"fail"``; all others count as 0. By default labels must be 0 and 1,
            or False and True.
        alpha, beta : float, default 1.0
            Prior weight of ones and of zeros, in readings.
        points : int, default 200
            Size of the grid over (0, 1).

        Returns
        -------
        Confusion
            The model, with the matrix at `zeta`.

        Raises
        ------
        ValueError
            If the columns differ in length, have no complete item of either truth, or contain other labels.

        Examples
        --------
        >>> heuristic = ["fail", "ok", "ok", "fail", "ok", "ok"]
        >>> judge = ["fail", "ok", "fail", "ok", None, "ok"]
        >>> model = Confusion.from_labels(heuristic, judge, 0.3, positive="fail")
        >>> model.matrices[0.3]
        array([[0.625, 0.375],
               [0.5  , 0.5  ]])
        """
        given, true = _ones("labels", labels, positive), _ones("truth", truth, positive)
        if given.shape != true.shape:
            raise ValueError(f"labels and truth must have the same length, not {given.size} and {true.size}")
        if not 0.0 < finite("Confusion", "zeta", zeta) < 1.0:
            raise ValueError(f"zeta must be between 0 and 1, where 1 is the truth, not {zeta!r}")
        both = np.isfinite(given) & np.isfinite(true)
        matrix = []
        for value in (0.0, 1.0):
            of = given[both & (true == value)]
            if of.size == 0:
                raise ValueError(f"truth must contain both labels of labelled items: it has no {value:.0f}")
            one = (float(of.sum()) + 0.5) / (of.size + 1.0)
            matrix.append([1.0 - one, one])
        return cls({zeta: matrix}, alpha, beta, points)

    def divergence(self, mean: Array, variance: Array, mean_0: Any, variance_0: Any) -> Array:
        """Return KL(Bern(mean) || Bern(mean_0))."""
        return bernoulli_divergences(mean, mean_0)

    def spec(self) -> dict[str, Any]:
        """Return the arguments, with the matrices as pairs [zeta, matrix]."""
        pairs = [[zeta, matrix.tolist()] for zeta, matrix in self.matrices.items()]
        return {"matrices": pairs, "alpha": self.alpha, "beta": self.beta, "points": self.points}


def _beta_cells(alpha: float, beta: float, size: int) -> tuple[Array, Array]:
    """Return the mean and the mass of Beta(alpha, beta) in each of `size` equal parts of (0, 1)."""
    edge = np.linspace(0.0, 1.0, size + 1)

    def masses(a: float, b: float) -> Array:
        one, other = np.full(size + 1, a), np.full(size + 1, b)
        below = beta_cdfs(one, other, edge, 1.0 - edge)
        above = beta_cdfs(other, one, 1.0 - edge, edge)
        # difference of the smaller of the two tails: no cancellation
        return np.where(edge[1:] * (a + b) <= a, np.diff(below), -np.diff(above))

    mass = masses(alpha, beta)
    share = masses(alpha + 1.0, beta) * (alpha / (alpha + beta))
    middle = 0.5 * (edge[1:] + edge[:-1])
    mean = np.where(mass > 0.0, share / np.where(mass > 0.0, mass, 1.0), middle)
    return np.clip(mean, edge[:-1], edge[1:]), np.maximum(mass, 0.0)


def _ones(name: str, column: Any, positive: Any) -> Array:
    """Return labels as 0 and 1, NaN where missing."""
    given = cells(column)
    if given.ndim != 1:
        raise ValueError(f"{name} must be one column, not of shape {given.shape}")
    out = np.empty(given.size)
    for i, label in enumerate(given.tolist()):
        if missing(label) or label != label:
            out[i] = np.nan
        elif positive is not None:
            out[i] = label == positive
        elif isinstance(label, (bool, int, float)) and label in (0, 1):
            out[i] = label
        else:
            raise ValueError(f"{name} must be 0 or 1, not {label!r}: name the label that counts as 1 with positive=")
    return out


class _Labels:
    """P(label | rate) by a confusion matrix."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    def __call__(self, x: Array, rate: Array) -> Array:
        zero, one = self.matrix[:, x.astype(int)]
        return np.asarray((1.0 - rate) * zero + rate * one)


def _matrix(zeta: float, given: Any) -> Array:
    try:
        matrix = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"Confusion.matrices at zeta = {zeta!r} must be numbers, not {given!r}") from None
    if matrix.shape != (2, 2) or not ((matrix >= 0.0) & (matrix <= 1.0)).all():
        raise ValueError(f"Confusion.matrices at zeta = {zeta!r} must be (2, 2) probabilities, not {given!r}")
    if np.abs(matrix.sum(axis=1) - 1.0).max() > ROUNDING:
        raise ValueError(f"Confusion.matrices at zeta = {zeta!r} must have rows that sum to 1, not {given!r}")
    return matrix

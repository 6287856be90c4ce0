"""Any likelihood of a one-dimensional parameter, with a different one for each fidelity, exact on a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.beta import beta_cdfs
from ..inputs.arguments import finite, positive, whole
from ..inputs.readings import cells, missing
from .base import Array
from .bernoulli import bernoulli_divergences
from .cost import CostBound, whole_number
from .lattice import NEVER, Lattice, Nodes, panels
from .regression import MOST

Likelihood = Callable[..., Any]
Pairs = Mapping[float, Any] | Sequence[tuple[float, Any]]

_ROUND = 1e-6  # tolerated difference of a likelihood's sum over x from 1


class Grid(Lattice):
    """A parameter on a grid of values, with a separate likelihood for each fidelity.

        P(theta_g | x) ~ P(theta_g) p_zeta(x | theta_g)

    Other models treat a low-fidelity reading as a full one of smaller weight. Where that is too crude, give the
    likelihood p(x | theta) of each fidelity here; zeta is then only the key under which it is found. The posterior,
    the predictive and the gains of discrete readings are exact on the grid.

    Parameters
    ----------
    theta : sequence of float
        The G values of the parameter, two or more.
    likelihood : mapping or callable
        A mapping from the zeta of each fidelity to its function (x, theta), or one function (x, theta, zeta). Each is
        called with x of shape (N, 1) and theta of shape (G,) and must return p(x | theta) of shape (N, G). It must
        sum or integrate to 1 over `support` for every theta, which is checked. zeta = 1 is required: predictions use
        it.
    support : sequence of float
        What x can be: a list of values, or a tuple (low, high) of finite numbers for continuous readings.
    prior : sequence of float, optional
        Prior weights of the values of theta; equal by default.
    atoms : sequence of float, default ()
        Values in [low, high] that have a positive probability, such as the limit of a sensor. There the
        likelihood is that probability, elsewhere a density.
    points : int, default 512
        Nodes of the Gauss-Legendre integrals over (low, high). A density narrower than 10 (high - low) / points needs
        more.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or there are fewer than two values of `theta`.

    Notes
    -----
    The statistics of a hypothesis are the normalized log posterior weights of the G values.

    Examples
    --------
    The rate of defects, seen by a classifier whose labels are right 9 times in 10 and by a person who is always
    right:

    >>> ways = {0.4: lambda x, p: np.where(x == 1, 0.9 * p + 0.1 * (1 - p), 0.1 * p + 0.9 * (1 - p)),
    ...         1.0: lambda x, p: np.where(x == 1, p, 1 - p)}
    >>> model = Grid(np.linspace(0.005, 0.995, 100), ways, support=[0, 1])
    >>> stats = model.update(model.prior(), 1.0, zeta=0.4)
    >>> round(float(model.parameter(stats)[0]), 3), round(float(model.predictive(stats, zeta=0.4)[0]), 3)
    (0.633, 0.607)
    """

    ordered = False

    def __init__(
        self,
        theta: Sequence[float] | Array,
        likelihood: Likelihood | Mapping[float, Likelihood],
        support: Sequence[float] | tuple[float, float],
        prior: Sequence[float] | Array | None = None,
        *,
        atoms: Sequence[float] = (),
        points: int = 512,
    ) -> None:
        owner = type(self).__name__
        values = np.array([finite(owner, "theta", v) for v in np.asarray(theta).ravel().tolist()])
        if values.size < 2:
            raise ValueError(f"{owner}.theta must be two values or more, not {theta!r}")
        self._ways = _ways(owner, likelihood)
        self.likelihood = likelihood
        self.points = whole(owner, "points", points, 8, MOST)
        self.atoms = np.unique([finite(owner, "atoms", v) for v in atoms])
        self.discrete = not isinstance(support, tuple)
        self.support = np.array([finite(owner, "support", v) for v in support])
        if self.discrete:
            self.support = np.unique(self.support)
        if self.support.size < 2 or not (self.discrete or (self.support.size == 2 and np.diff(self.support) > 0)):
            raise ValueError(f"{owner}.support must be a list of values or (low, high), low < high, not {support!r}")
        if self.atoms.size and (self.discrete or not self._inside(self.atoms).all()):
            raise ValueError(f"{owner}.atoms must lie in support = (low, high), not {atoms!r}")
        self._start(values, _log_prior(owner, prior, values.size))
        for zeta in list(self._ways) or [1.0]:
            self._nodes(zeta)

    def __repr__(self) -> str:
        ends = f"{self.theta[0]:g}..{self.theta[-1]:g}"
        zetas = ", ".join(f"{zeta:g}" for zeta in self._ways) if self._ways else "any"
        return f"{type(self).__name__}({self.theta.size} values {ends}, zeta: {zetas})"

    @staticmethod
    def confusion(matrices: Pairs, alpha: float = 1.0, beta: float = 1.0, points: int = 200) -> Confusion:
        """Build the model of a binary classifier with known confusion matrices; same as `Confusion`.

        Parameters
        ----------
        matrices : mapping or sequence of pairs
            As in `Confusion`.
        alpha : float, default 1.0
            As in `Confusion`.
        beta : float, default 1.0
            As in `Confusion`.
        points : int, default 200
            As in `Confusion`.

        Returns
        -------
        Confusion
            The model.
        """
        return Confusion(matrices, alpha, beta, points)

    def check(self, x: float) -> float:
        """Accept what is in the support."""
        if not self.possible(np.array([x]))[0]:
            if self.discrete:
                raise self.outside(x, ", ".join(f"{v:g}" for v in self.support))
            raise self.outside(x, f"[{self.support[0]:g}, {self.support[1]:g}]")
        return x

    def _inside(self, x: Array) -> NDArray[np.bool_]:
        return np.asarray((x >= self.support[0]) & (x <= self.support[-1]))

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept what is in the support."""
        return np.isin(x, self.support) if self.discrete else self._inside(x)

    def nearest(self, x: float) -> float:
        """Return the nearest value of a discrete support."""
        return float(self.support[np.abs(self.support - x).argmin()]) if self.discrete else x

    def _density(self, x: Array, zeta: float) -> Array:
        """Return p(x | theta) of N values, shape (N, G)."""
        if not self._ways:
            given = self.likelihood(x[:, None], self.theta, zeta)  # type: ignore[operator]
        elif zeta in self._ways:
            given = self._ways[zeta](x[:, None], self.theta)
        else:
            known = ", ".join(f"{z:g}" for z in self._ways)
            raise ValueError(f"{type(self).__name__}.likelihood has no zeta = {zeta!r}, only {known}")
        value = np.asarray(given, dtype=float)
        if value.shape != (x.size, self.theta.size):
            raise ValueError(
                f"{type(self).__name__}.likelihood at zeta = {zeta:g} must return shape {(x.size, self.theta.size)}, "
                f"not {value.shape}"
            )
        if not (np.isfinite(value).all() and (value >= 0.0).all()):
            raise ValueError(f"{type(self).__name__}.likelihood at zeta = {zeta:g} must be finite and not negative")
        return value

    def _log_likelihood(self, x: float, zeta: float) -> Array:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self._density(np.array([x]), zeta)[0]), NEVER)

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the normalized sum of the log weights and log p(x | theta, zeta)."""
        if zeta > 1.0 or (self._ways and zeta not in self._ways and zeta > 0.0):
            # `Budget.initialize` asks for the state after many readings, as one reading of a large zeta. A real
            # reading never gets here: its predictive is computed first and refuses an unknown zeta.
            return self._tempered(stats, x, zeta)
        return super().update(stats, x, zeta)

    def _tempered(self, stats: Array, x: float, zeta: float) -> Array:
        value = self.nearest(x) if self.discrete else x
        logs = self._logs(stats) + np.maximum(zeta * self._log_likelihood(value, 1.0), NEVER)[:, None]
        return (logs - np.logaddexp.reduce(logs, axis=0)).reshape(stats.shape)

    def _make_nodes(self, zeta: float) -> Nodes:
        if self.discrete:
            x, share = self.support, np.ones(self.support.size)
        else:
            x, share = panels(np.linspace(self.support[0], self.support[1], self.points // 8 + 1))
            x, share = np.append(x, self.atoms), np.append(share, np.ones(self.atoms.size))
        nodes = Nodes.of(x, share, self._density(x, zeta))
        total = share @ nodes.density
        worst = int(np.argmax(np.abs(total - 1.0)))
        if abs(total[worst] - 1.0) > _ROUND:
            raise ValueError(
                f"{type(self).__name__}.likelihood at zeta = {zeta:g} and theta = {self.theta[worst]:g} must sum to "
                f"1 over the support, not to {total[worst]:.9g}"
            )
        return nodes

    def _moments(self, zeta: float) -> tuple[Array, Array]:
        nodes = self._nodes(zeta)
        mean = (nodes.share * nodes.x) @ nodes.density
        apart = nodes.x[:, None] - mean
        return mean, nodes.share @ (nodes.density * apart**2)

    def _below(self, x: float, zeta: float) -> Array:
        return self._mass(-np.inf, x, zeta)

    def _mass(self, start: float, end: float, zeta: float) -> Array:
        """Return P(start <= x' <= end | theta), shape (G,)."""
        if self.discrete:
            nodes = self._nodes(zeta)
            return np.asarray(((nodes.x >= start) & (nodes.x <= end)) @ nodes.density, dtype=float)
        start, end = max(start, self.support[0]), min(end, self.support[1])
        if start > end:
            return np.zeros(self.theta.size)
        points, share = panels(np.linspace(start, end, self.points // 8 + 1))
        reached = self.atoms[(self.atoms >= start) & (self.atoms <= end)]
        value = share @ self._density(points, zeta)
        return value + self._density(reached, zeta).sum(axis=0) if reached.size else value

    def _log_tails(self, x: float, zeta: float) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log(self._mass(-np.inf, x, zeta)), np.log(self._mass(x, np.inf, zeta))


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
        self.alpha = positive("Confusion", "alpha", alpha)
        self.beta = positive("Confusion", "beta", beta)
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
        Jeffreys' prior: never 0 or 1, because after a label that was impossible nothing is possible any more.

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

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Grows with `points`."""
        points = whole_number(arguments, "points", 200)
        return CostBound(points, 60 * points, 40 * points, "points")

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
    if np.abs(matrix.sum(axis=1) - 1.0).max() > _ROUND:
        raise ValueError(f"Confusion.matrices at zeta = {zeta!r} must have rows that sum to 1, not {given!r}")
    return matrix


def _ways(owner: str, likelihood: Any) -> dict[float, Likelihood]:
    """Return the functions by zeta; empty where one function takes zeta itself."""
    if callable(likelihood):
        return {}
    if not isinstance(likelihood, Mapping):
        raise TypeError(f"{owner}.likelihood must be a function, or one for each zeta, not {likelihood!r}")
    ways = {positive(owner, "likelihood's zeta", zeta, 1.0): way for zeta, way in likelihood.items()}
    for zeta, way in ways.items():
        if not callable(way):
            raise TypeError(f"{owner}.likelihood at zeta = {zeta:g} must be a function, not {way!r}")
    if 1.0 not in ways:
        raise ValueError(f"{owner}.likelihood must have zeta = 1, where predictions are made, not only {list(ways)}")
    return ways


def _log_prior(owner: str, prior: Any, size: int) -> Array:
    if prior is None:
        return np.zeros(size)
    weights = np.asarray(prior, dtype=float)
    if weights.shape != (size,) or not np.isfinite(weights).all() or (weights < 0.0).any() or not weights.sum() > 0.0:
        raise ValueError(f"{owner}.prior must be {size} weights, none negative and not all 0, not {prior!r}")
    return np.where(weights > 0.0, np.log(np.where(weights > 0.0, weights, 1.0)), NEVER)

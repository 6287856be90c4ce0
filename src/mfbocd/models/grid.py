"""Any likelihood of a one-dimensional parameter, with a different one for each fidelity, exact on a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import finite, positive, whole
from .base import Array
from .bells import Table
from .lattice import KEPT, NEVER, Lattice, panels
from .regression import MOST

if TYPE_CHECKING:
    from .confusion import Confusion, Pairs

Likelihood = Callable[..., Any]

ROUNDING = 1e-6
"""Tolerated difference of a likelihood's sum over x from 1."""


class Nodes(NamedTuple):
    """The values of x at one fidelity, or the nodes of a quadrature over them.

    Attributes
    ----------
    x : ndarray
        Shape (N,).
    share : ndarray
        1 for a value, the weight of a node in an integral; shape (N,).
    density : ndarray
        Probability or density of x for each parameter, shape (N, G).
    sharpness : ndarray
        Sum of share * density * log density, shape (G,).
    """

    x: Array
    """(N,)"""
    share: Array
    """(N,): 1 for a value, the length a node stands for in an integral."""
    density: Array
    """(N, G): the probability or density of x for each parameter."""
    sharpness: Array
    """(G,): sum of share * density * log density."""

    @classmethod
    def of(cls, x: Array, share: Array, density: Array) -> Nodes:
        """Build the nodes and compute their `sharpness`.

        Parameters
        ----------
        x : ndarray
            Shape (N,).
        share : ndarray
            Shape (N,).
        density : ndarray
            Shape (N, G).

        Returns
        -------
        Nodes
            The nodes.
        """
        return cls(x, share, density, share @ _xlogx(density))


def _xlogx(p: Array) -> Array:
    return p * np.log(np.where(p > 0.0, p, 1.0))


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
        self._known: dict[float, Nodes] = {}
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
        from .confusion import Confusion  # which imports this module

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

    def _nodes(self, zeta: float) -> Nodes:
        known = self._known.get(zeta)
        if known is None:
            known = self._make_nodes(zeta)
            if len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[zeta] = known
        return known

    def _make_nodes(self, zeta: float) -> Nodes:
        if self.discrete:
            x, share = self.support, np.ones(self.support.size)
        else:
            x, share = panels(np.linspace(self.support[0], self.support[1], self.points // 8 + 1))
            x, share = np.append(x, self.atoms), np.append(share, np.ones(self.atoms.size))
        nodes = Nodes.of(x, share, self._density(x, zeta))
        total = share @ nodes.density
        worst = int(np.argmax(np.abs(total - 1.0)))
        if abs(total[worst] - 1.0) > ROUNDING:
            raise ValueError(
                f"{type(self).__name__}.likelihood at zeta = {zeta:g} and theta = {self.theta[worst]:g} must sum to "
                f"1 over the support, not to {total[worst]:.9g}"
            )
        return nodes

    def _table(self, stats: Array, zeta: float) -> Table:
        """Return the weighted sums of the densities of all theta."""
        nodes = self._nodes(zeta)
        return Table(nodes.x, nodes.share, nodes.density @ np.exp(stats))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta; x), the entropy of x minus its entropy given theta."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        nodes = self._nodes(zeta)
        weight = np.exp(self._logs(stats))
        gain = nodes.sharpness @ weight - nodes.share @ _xlogx(nodes.density @ weight)
        return np.maximum(gain, 0.0).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x) = Var_x E(theta | x)."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        nodes = self._nodes(zeta)
        weight = np.exp(self._logs(stats))
        centre = self.theta @ weight
        each = nodes.density @ weight
        moved = (nodes.density * self.theta) @ weight - each * centre
        gain = nodes.share @ (moved**2 / np.where(each > 0.0, each, 1.0))
        return np.asarray(gain).reshape(stats.shape[1:])

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

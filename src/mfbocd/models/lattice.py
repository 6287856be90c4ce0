"""Shared code of the models on a grid of parameter values: exact sums over the grid for any likelihood."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from .._kernels.compile import kernel
from .._kernels.scalar import exp
from .base import Array, Model
from .bells import Table

NEVER = -1e290
"""Replaces the log of a zero probability, so that sums stay finite."""
KEPT = 16
"""Fidelities whose nodes are cached; a policy uses the same few at every tick."""


@kernel
def _evidence(logs: Array, added: Array) -> Array:
    """log sum_g exp(logs[g, k] + added[g]) of each hypothesis."""
    size, n = logs.shape
    high = np.full(n, -1e308)
    total = np.zeros(n)
    for g in range(size):
        row, more = logs[g], added[g]
        for k in range(n):
            high[k] = max(high[k], row[k] + more)
    for g in range(size):
        row, more = logs[g], added[g]
        for k in range(n):
            total[k] += exp(row[k] + more - high[k])
    for k in range(n):
        total[k] = high[k] + math.log(total[k])
    return total


@kernel
def _reweigh(logs: Array, added: Array) -> None:
    """logs + added, normalized, in place."""
    total = _evidence(logs, added)
    for g in range(logs.shape[0]):
        row, more = logs[g], added[g]
        for k in range(total.size):
            row[k] += more - total[k]


@kernel
def _averages(logs: Array, values: Array) -> Array:
    """sum_g exp(logs[g, k]) values[i, g], shape (values, K)."""
    size, n = logs.shape
    out = np.zeros((values.shape[0], n))
    weight = np.empty(n)
    for g in range(size):
        row = logs[g]
        for k in range(n):
            weight[k] = exp(row[k])
        for i in range(values.shape[0]):
            value, total = values[i, g], out[i]
            for k in range(n):
                total[k] += value * weight[k]
    return out


class Lattice(Model):
    """Base class of the models whose parameter takes one of G values, with any likelihood for each fidelity.

    Notes
    -----
    The statistics of a hypothesis are the normalized log posterior weights of the G values. A reading adds its log
    likelihood, and the predictive is the weighted sum of the likelihoods: exact and normalized for any likelihood.
    """

    theta: Array
    """(G,)"""
    _log_prior: Array

    @abstractmethod
    def _log_likelihood(self, x: float, zeta: float) -> Array:
        """Return log p(x | theta, zeta) of each theta, shape (G,)."""

    @abstractmethod
    def _moments(self, zeta: float) -> tuple[Array, Array]:
        """Return the mean and variance of x for each theta, shape (G,) each."""

    @abstractmethod
    def _below(self, x: float, zeta: float) -> Array:
        """Return P(x' <= x | theta), shape (G,)."""

    @abstractmethod
    def _table(self, stats: Array, zeta: float) -> Table:
        """Return the weighted sums of the densities of all theta."""

    def _log_tails(self, x: float, zeta: float) -> tuple[Array, Array]:
        """Return log P(x' <= x | theta) and log P(x' >= x | theta), shape (G,) each; the latter down to 1e-16."""
        with np.errstate(divide="ignore"):
            upper = np.log1p(-np.minimum(self._below(math.nextafter(x, -math.inf), zeta), 1.0))
            return np.log(self._below(x, zeta)), upper

    def _start(self, theta: Array, log_prior: Array) -> None:
        self.theta = theta
        self.columns = theta.size
        self._log_prior = np.maximum(log_prior - np.logaddexp.reduce(log_prior), NEVER)

    def _logs(self, stats: Array) -> Array:
        return np.ascontiguousarray(stats.reshape(self.columns, -1))

    def sound(self, stats: Array) -> bool:
        """Check that each hypothesis has a value of theta that is possible."""
        return bool((stats < np.inf).all() and np.isfinite(stats).any(axis=0).all())

    def prior(self) -> Array:
        """Return the log prior weights."""
        return self._log_prior.copy()

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the normalized sum of the log weights and log p(x | theta, zeta)."""
        if zeta == 0.0:
            return stats
        logs = np.array(stats.reshape(self.columns, -1))
        _reweigh(logs, self._log_likelihood(x, zeta))
        return logs.reshape(stats.shape)

    def update_doubtful(self, stats: Array, x: float, zeta: float, trust: Array) -> Array:
        """Return the mixture trust p(theta | x) + (1 - trust) p(theta) itself: on a grid it is exact."""
        with np.errstate(divide="ignore"):
            read, not_read = self.update(stats, x, zeta) + np.log(trust), stats + np.log1p(-trust)
        return np.maximum(np.logaddexp(read, not_read), NEVER)

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return log sum_theta weight p(x | theta, zeta); minus infinity where no theta can produce x."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        value = _evidence(self._logs(stats), self._log_likelihood(x, zeta))
        return np.where(value < 0.1 * NEVER, -np.inf, value).reshape(stats.shape[1:])

    def _mixed(self, stats: Array, mean: Array, var: Array) -> tuple[Array, Array]:
        """Return the mean and variance of a mixture over theta, from those of its components."""
        centre = float(np.exp(self._log_prior) @ mean)  # subtracted to reduce cancellation
        apart = mean - centre
        first, second = _averages(self._logs(stats), np.stack([apart, var + apart**2]))
        return (centre + first).reshape(stats.shape[1:]), (second - first**2).reshape(stats.shape[1:])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of theta."""
        return self._mixed(stats, self.theta, np.zeros_like(self.theta))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the mixture over theta."""
        if zeta == 0.0:
            return self.predictive(stats)[0], np.full(stats.shape[1:], np.inf)
        mean, var = self._moments(zeta)
        if np.isinf(var).any():
            return self._mixed(stats, mean, np.zeros_like(mean))[0], np.full(stats.shape[1:], np.inf)
        return self._mixed(stats, mean, var)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the weighted sum of the distribution functions of all theta."""
        below = _averages(self._logs(stats), self._below(x, zeta)[None])[0]
        return np.minimum(below, 1.0).reshape(stats.shape[1:])

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the log of the weighted sum of the tails of all theta."""
        logs = self._logs(stats)
        found = (_evidence(logs, np.maximum(tail, NEVER)) for tail in self._log_tails(x, zeta))
        lower, upper = (np.where(tail < 0.1 * NEVER, -np.inf, np.minimum(tail, 0.0)) for tail in found)
        return lower.reshape(stats.shape[1:]), upper.reshape(stats.shape[1:])

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return sum_l w_l sum_x p_l log(p_l / p), over the values of x or the nodes of its quadrature."""
        if zeta == 0.0:
            return 0.0
        return self._table(stats, zeta).information(weight)

    def tabulate(self, stats: Array, zeta: float) -> Table:
        """Return the weighted sums of the densities of all theta."""
        return self._table(stats, zeta)


def panels(edges: Array) -> tuple[Array, Array]:
    """Return the nodes and weights of the Gauss-Legendre rule of 8 points between neighbouring `edges`.

    Examples
    --------
    >>> x, share = panels(np.array([0.0, 1.0, 3.0]))
    >>> round(float(share @ x**2), 12)
    9.0
    """
    node, share = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * node).ravel(), (half * share).ravel()

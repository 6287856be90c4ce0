"""The multivariate Gaussian with known covariance and a Normal prior on its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Array
from .elliptical import Components, Elliptical, matrix_of, standard, vector_of
from .tails import normal_tails

_LOG_2PI = math.log(2.0 * math.pi)

Matrix = float | Sequence[float] | Sequence[Sequence[float]] | NDArray[np.float64]
"""A number or a diagonal stands for the matrix that has it on its diagonal and zeros elsewhere."""


class MultivariateGaussian(Elliptical):
    """Readings of d numbers, normal with known covariance and a normal prior on their mean.

        theta ~ N(mean, var),  x | theta ~ N(theta, noise_var / zeta)

    This is equation `mf_gaussian` in d dimensions.

    Parameters
    ----------
    mean : sequence of float
        Prior mean of the level, d numbers, two or more.
    var : float, sequence of float or matrix, default 1.0
        Prior covariance of the level, shape (d, d); one number or d numbers are its diagonal.
    noise_var : float, sequence of float or matrix, default 1.0
        Covariance of a reading at zeta = 1, in the same forms.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or a covariance is not positive definite.

    Notes
    -----
    In the basis where noise_var is the identity and var is diagonal (computed once), the d coordinates are d
    independent univariate Gaussians. Statistics of a hypothesis in that basis: the sum of zeta and the d posterior
    means. Coordinate i has precision 1 / lambda_i + sum of zeta, with lambda_i its prior variance. Results do not
    depend on the units or axes of the data.

    A number more than 1e140 standard deviations from the prior mean counts as exactly that far.

    Examples
    --------
    >>> model = MultivariateGaussian(mean=[0, 0], var=9, noise_var=[[1.0, 0.5], [0.5, 1.0]])
    >>> stats = model.update(model.prior(), np.array([2.0, 2.0]), zeta=0.5)
    >>> theta, var = model.parameter(stats)
    >>> theta.round(4), var.round(4)
    (array([1.5, 1.5]), array([1.575, 1.575]))
    """

    elementwise = True

    def __init__(self, mean: Sequence[float] | Array, var: Matrix = 1.0, noise_var: Matrix = 1.0) -> None:
        self.mean = vector_of("MultivariateGaussian", "mean", mean)
        self.dimension = d = self.mean.size
        self.columns = d + 1
        self.var = matrix_of("MultivariateGaussian", "var", var, d)
        self.noise_var = matrix_of("MultivariateGaussian", "noise_var", noise_var, d)
        # Divide by the units first: columns of size 1e-6 and 1e6 are then equally accurate.
        self._sd = np.sqrt(np.diag(self.noise_var))
        units = np.outer(self._sd, self._sd)
        root = np.linalg.cholesky(self.noise_var / units)
        inverse = np.linalg.inv(root)
        ratio, axes = np.linalg.eigh(inverse @ (self.var / units) @ inverse.T)
        if ratio[0] <= 0.0:
            raise ValueError(f"MultivariateGaussian.var must be positive definite relative to noise, not {var!r}")
        self._precision = 1.0 / ratio
        self._into = axes.T @ inverse
        self._back = root @ axes
        self._log_unit = float(np.log(np.diag(root)).sum() + np.log(self._sd).sum())

    def __repr__(self) -> str:
        return f"MultivariateGaussian of {self.dimension} numbers"

    def prior(self) -> Array:
        """Return zeros: no reading, and standardized means of 0."""
        return np.zeros(self.columns)

    def check(self, x: Array) -> Array:
        """Accept every d finite numbers."""
        return x

    def update(self, stats: Array, x: Array, zeta: float) -> Array:
        """Move the mean of each coordinate zeta / (precision + zeta) of the way to the reading."""
        mean = stats[1:]
        step = zeta / (self._precisions(stats) + zeta)
        return np.concatenate([stats[:1] + zeta, mean + step * (self._standardized(x, stats) - mean)])

    def log_predictive(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return log N(x | mu, noise_var / zeta + var_theta)."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        precision = self._precisions(stats)
        k = zeta * precision / (precision + zeta)
        away = self._standardized(x, stats) - stats[1:]
        return np.asarray(0.5 * (np.log(k) - _LOG_2PI - k * away * away).sum(axis=0) - self._log_unit)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the posterior mean of the d means and the diagonal of their covariance."""
        mean = self._sd * (self._back @ stats[1:]).T + self.mean
        return mean.T, ((self._back**2 @ (1.0 / self._precisions(stats))).T * self._sd**2).T

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the mean mu and the diagonal of noise_var / zeta + var_theta."""
        mean, var = self.parameter(stats)
        return mean, var + (_column(self._sd**2, stats) / zeta if zeta > 0.0 else math.inf)

    def predictive_cdf(self, stats: Array, x: Array, zeta: float = 1.0) -> Array:
        """Return the normal distribution function of each number."""
        mean, variance = self.predictive(stats, zeta)
        z = (_column(x, stats) - mean) / np.sqrt(2.0 * variance)
        return 0.5 * np.vectorize(math.erfc, otypes=[float])(-z)

    def log_tails(self, stats: Array, x: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the normal, for each number."""
        mean, variance = self.predictive(stats, zeta)
        return normal_tails((_column(x, stats) - mean) / np.sqrt(variance))

    def components(self, stats: Array, zeta: float) -> Components:
        """Return normals, with diagonal covariances in the model's basis."""
        variance = 1.0 / zeta + 1.0 / self._precisions(stats).T
        shape = variance[:, :, None] * np.eye(self.dimension)
        return Components(stats[1:].T, shape, np.full(stats.shape[1], math.inf))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta; x) = log det(1 + zeta var_theta / noise_var) / 2."""
        return np.asarray(0.5 * np.log1p(zeta / self._precisions(stats)).sum(axis=0))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the trace of (Cov(theta) - Cov(theta | x)) / noise_var.

        It is in units of the noise, summed over d directions.
        """
        precision = self._precisions(stats)
        return np.asarray((zeta / (precision * (precision + zeta))).sum(axis=0))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ N(mean, var), then x ~ N(theta, noise_var)."""
        theta = rng.multivariate_normal(self.mean, self.var, method="cholesky")
        return rng.multivariate_normal(theta, self.noise_var, ticks, method="cholesky")

    def spec(self) -> dict[str, Any]:
        """Return `mean`, `var` and `noise_var`."""
        return {"mean": self.mean.tolist(), "var": self.var.tolist(), "noise_var": self.noise_var.tolist()}

    def _precisions(self, stats: Array) -> Array:
        return _column(self._precision, stats) + stats[0]

    def _standardized(self, x: Array, stats: Array) -> Array:
        return _column(self._into @ standard(x, self.mean, self._sd), stats)


def _column(values: Array, like: Array) -> Array:
    """Reshape values, one per row, to broadcast over the hypotheses."""
    return values.reshape(values.shape + (1,) * (like.ndim - 1))

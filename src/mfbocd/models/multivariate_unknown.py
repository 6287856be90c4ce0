"""The multivariate Gaussian with unknown mean and covariance: a Normal-inverse-Wishart prior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.cholesky import log_determinant, rank_one_update, solve_squared, unpack
from .._kernels.compile import kernel
from .._kernels.gamma_ratio import log_gamma_ratio, log_gamma_ratios
from .._kernels.wishart import covariance_gain
from ..inputs.arguments import positive
from .base import Array, Predictive, predictive_of
from .elliptical import Components, Elliptical, matrix_of, standard, vector_of
from .multivariate import Matrix
from .tails import student_tails
from .unknown_noise import UnknownNoise, Weighting, weighting_of

_LOG_PI = math.log(math.pi)


@kernel
def _wishart_rise(degrees: Array, zeta: float, d: int) -> Array:
    """log of Gamma_d((degrees + zeta) / 2) / Gamma_d(degrees / 2), the multivariate gamma function."""
    out = np.zeros(degrees.size)
    for j in range(d):
        for k in range(degrees.size):
            out[k] += log_gamma_ratio(0.5 * (degrees[k] - j), 0.5 * zeta)
    return out


class MultivariateGaussianUnknown(UnknownNoise, Elliptical):
    """Readings of d numbers, normal with unknown mean and covariance, and a Normal-inverse-Wishart prior.

        C ~ InverseWishart(degrees, scale)
        theta | C ~ N(mean, C / count)
        x | theta, C ~ N(theta, C)

    A reading at fidelity zeta has the covariance C / zeta.

    Parameters
    ----------
    mean : sequence of float
        Prior mean of the level, d numbers, two or more.
    count : float, default 1.0
        Number of readings that the prior mean is worth.
    degrees : float, optional
        Number of readings that the prior covariance is worth, at least d; by default d + 2, for which E[C] = scale.
    scale : float, sequence of float or matrix, default 1.0
        Scale matrix of the prior of C, shape (d, d); one number or d numbers are its diagonal.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which density a reading at zeta < 1 has if its likelihood is tempered; see Notes.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose covariance is C / zeta, or a fraction zeta of a reading of
        covariance C (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `degrees` is below the number of
        dimensions.

    Notes
    -----
    A reading changes count += zeta, degrees += 1, scale += c (x - mean) (x - mean)^T with
    c = zeta count / (count + zeta), and moves the mean zeta / (count + zeta) of the way. The next reading is
    Student's t about the mean with df = degrees + 1 - d degrees of freedom and the scale matrix scale / (c df).

    With ``weighting="tempered"`` it changes degrees += zeta only (equation `mf_posterior`). With q = (x - mean)^T
    scale^-1 (x - mean) the tempered likelihood integrates to a multiple of (1 + c q)^(-(degrees + zeta) / 2). At
    zeta < 1 there are two predictives (see `Bernoulli`), which are equal at zeta = 1:

    - ``"paper"``: that integral as it is (`mf_posterior_predictive`), which is not a density in x;
    - ``"normalized"``: the same divided by its integral over x. It is Student's t about the mean with
      df = degrees + zeta - d degrees of freedom and the scale matrix scale / (c df).

    Statistics of a hypothesis, relative to the prior mean and in units of the prior scale: the sum of zeta, the d
    means, the diagonal of the scale in the data's axes, the Cholesky factor of the scale, packed row by row, and
    unless tempered the number of readings.
    Results do not depend on the units or axes of the data.

    Examples
    --------
    >>> model = MultivariateGaussianUnknown(mean=[0, 0], count=0.5, degrees=4, scale=2)
    >>> stats = model.update(model.prior(), np.array([3.0, 0.0]), zeta=1.0)
    >>> theta, _ = model.parameter(stats)
    >>> theta, model.covariance(stats)
    (array([2., 0.]), array([[2.5, 0. ],
           [0. , 1. ]]))
    """

    elementwise = True

    def __init__(
        self,
        mean: Sequence[float] | Array,
        count: float = 1.0,
        degrees: float | None = None,
        scale: Matrix = 1.0,
        predictive: Predictive = "normalized",
        weighting: Weighting = "precision",
    ) -> None:
        owner = "MultivariateGaussianUnknown"
        self.mean = vector_of(owner, "mean", mean)
        self.dimension = d = self.mean.size
        last = 1 + 2 * d + d * (d + 1) // 2
        self._factor = slice(1 + 2 * d, last)
        self.columns = last + (weighting == "precision")
        self.count = positive(owner, "count", count)
        self.degrees = d + 2.0 if degrees is None else positive(owner, "degrees", degrees, 1e9)
        if self.degrees < d:
            raise ValueError(f"{owner}.degrees must be at least {d}, the numbers of a reading, not {degrees!r}")
        self.scale = matrix_of(owner, "scale", scale, d)
        self.kind = predictive_of(owner, predictive)
        self.weighting = weighting_of(owner, weighting, self.kind)
        self._sd = np.sqrt(np.diag(self.scale))
        self._back = np.linalg.cholesky(self.scale / np.outer(self._sd, self._sd))
        self._into = np.linalg.inv(self._back)
        self._log_unit = float(np.log(np.diag(self._back)).sum() + np.log(self._sd).sum())

    def __repr__(self) -> str:
        return (
            f"MultivariateGaussianUnknown of {self.dimension} numbers, count={self.count:g}, "
            f"degrees={self.degrees:g}, predictive={self.kind!r}, weighting={self.weighting!r}"
        )

    def prior(self) -> Array:
        """Return no reading, standardized means of 0 and scale 1."""
        d = self.dimension
        i, j = np.tril_indices(d)
        return np.concatenate([np.zeros(1 + d), np.ones(d), (i == j).astype(float), np.zeros(self._counted)])

    @property
    def _counted(self) -> int:
        """1 if the last statistic is the number of readings, which otherwise is the sum of zeta."""
        return int(self.weighting == "precision")

    def _df(self, rows: Array) -> Array:
        """Return the degrees of freedom of the posterior of C."""
        return np.asarray(self.degrees + (rows[-1] if self._counted else rows[0]))

    def check(self, x: Array) -> Array:
        """Accept every d finite numbers."""
        return x

    def _learned(self, stats: Array, x: Array, zeta: Any, deviations: Any) -> Array:
        """Update count, degrees and mean, and rotate the reading into the Cholesky factor of the scale."""
        d = self.dimension
        out = np.array(stats.reshape(self.columns, -1))  # a contiguous copy: the kernel runs along its rows
        y = standard(x, self.mean, self._sd)
        count = self.count + out[0]
        away = (self._into @ y)[:, None] - out[1 : 1 + d]
        share = zeta * count / (count + zeta)
        out[1 + d : 1 + 2 * d] += share * (y[:, None] - self._back @ out[1 : 1 + d]) ** 2
        out[1 : 1 + d] += zeta / (count + zeta) * away
        rank_one_update(out[self._factor], np.sqrt(share) * away)
        out[0] += zeta
        if self._counted:
            out[-1] += deviations
        return out.reshape(stats.shape)

    def log_predictive(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return the log of Student's t, or of the paper's tempered integral."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        d = self.dimension
        rows = stats.reshape(self.columns, -1)
        count, nu, deviations = self.count + rows[0], self._df(rows), self._deviations(zeta)
        factor = np.ascontiguousarray(rows[self._factor])
        share = zeta * count / (count + zeta)
        away = (self._into @ standard(x, self.mean, self._sd))[:, None] - rows[1 : 1 + d]
        tail = -0.5 * (nu + deviations) * np.log1p(share * solve_squared(factor, away))
        root = log_determinant(factor, d) + self._log_unit
        if self.kind == "normalized":
            front = (
                log_gamma_ratios(0.5 * (nu + deviations - d), 0.5 * d) + 0.5 * d * (np.log(share) - _LOG_PI) - root
            )
        else:
            front = _wishart_rise(nu, zeta, d) - 0.5 * d * (zeta * _LOG_PI + np.log1p(zeta / count)) - zeta * root
        return (front + tail).reshape(stats.shape[1:])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of the d means; the variance is infinite up to d + 1 degrees."""
        d = self.dimension
        rows = stats.reshape(self.columns, -1)
        mean = self.mean[:, None] + self._sd[:, None] * (self._back @ rows[1 : 1 + d])
        left = self._df(rows) - d - 1.0
        var = self._diagonal(rows) * _reciprocal(left) / (self.count + rows[0])
        return mean.reshape(d, *stats.shape[1:]), var.reshape(d, *stats.shape[1:])

    def covariance(self, stats: Array) -> Array:
        """Return the posterior mean of the covariance C.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        ndarray
            Shape (d, d) or (d, d, K); infinite up to d + 1 degrees.
        """
        d = self.dimension
        rows = stats.reshape(self.columns, -1)
        root = self._sd[:, None] * (self._back @ unpack(np.ascontiguousarray(rows[self._factor]), d))
        scale = np.moveaxis(root @ root.transpose(0, 2, 1), 0, -1)
        return (scale * _reciprocal(self._df(rows) - d - 1.0)).reshape(d, d, *stats.shape[1:])

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of Student's t; a variance is infinite up to two degrees of freedom."""
        d = self.dimension
        rows = stats.reshape(self.columns, -1)
        mean, _ = self.parameter(stats)
        share, df = self._student(rows, zeta)
        with np.errstate(divide="ignore"):
            var = self._diagonal(rows) * _reciprocal(df - 2.0) / share
        return mean, var.reshape(d, *stats.shape[1:])

    def _squares(self, rows: Array, x: Array, zeta: float) -> tuple[Array, Array, Array]:
        """Return the centre of each number, its t^2 / df, and df."""
        mean, _ = self.parameter(rows)
        share, df = self._student(rows, zeta)
        return mean, share * np.minimum(np.abs(x[:, None] - mean), 1e150) ** 2 / self._diagonal(rows), df

    def predictive_cdf(self, stats: Array, x: Array, zeta: float = 1.0) -> Array:
        """Return the distribution function of Student's t for each number."""
        d = self.dimension
        mean, square, df = self._squares(stats.reshape(self.columns, -1), x, zeta)
        a, ones = np.broadcast_to(0.5 * df, square.shape), np.full(square.size, 0.5)
        tail = 0.5 * beta_cdfs(a.ravel(), ones, (1.0 / (1.0 + square)).ravel(), (square / (1.0 + square)).ravel())
        below = np.where(x[:, None] < mean, tail.reshape(square.shape), 1.0 - tail.reshape(square.shape))
        return below.reshape(d, *stats.shape[1:])

    def log_tails(self, stats: Array, x: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of Student's t, for each number."""
        mean, square, df = self._squares(stats.reshape(self.columns, -1), x, zeta)
        lower, upper = student_tails(x[:, None] - mean, square, df)
        ends = (self.dimension, *stats.shape[1:])
        return lower.reshape(ends), upper.reshape(ends)

    def components(self, stats: Array, zeta: float) -> Components:
        """Return Student's t, in units of the prior scale."""
        d = self.dimension
        share, df = self._student(stats, zeta)
        root = unpack(np.ascontiguousarray(stats[self._factor]), d)
        return Components(stats[1 : 1 + d].T, root @ root.transpose(0, 2, 1) / (share * df)[:, None, None], df)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta, C; x) = d/2 log(1 + zeta / count) + F(nu) - F(nu + 1), with nu = degrees.

        Here F(nu) = log Gamma_d(nu / 2) + d nu / 2 - nu / 2 psi_d(nu / 2). The first term is the information about
        theta given C, the second that about C of one deviation; tempered, it is F(nu) - F(nu + zeta), that of a
        scatter matrix with zeta degrees of freedom (see `GaussianUnknown`).
        """
        rows = stats.reshape(self.columns, -1)
        d = self.dimension
        gain = 0.5 * d * np.log1p(zeta / (self.count + rows[0]))
        gain = gain + covariance_gain(self._df(rows), self._deviations(zeta), d)
        return np.asarray(gain).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the trace of (Cov(theta | C) - Cov(theta | C, x)) / C = d / count - d / (count + zeta)."""
        count = self.count + stats[0]
        return np.asarray(self.dimension * zeta / (count * (count + zeta)))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw C ~ InverseWishart(degrees, scale), theta ~ N(mean, C / count), then x ~ N(theta, C)."""
        d = self.dimension
        # Bartlett: the inverse of C is W W^T with W lower triangular about the Cholesky factor of the scale's inverse
        factor = np.tril(rng.normal(size=(d, d)), -1) + np.diag(np.sqrt(rng.chisquare(self.degrees - np.arange(d))))
        root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(self.scale)) @ factor).T
        theta = self.mean + root @ rng.normal(size=d) / np.sqrt(self.count)
        return np.asarray(theta + rng.normal(size=(ticks, d)) @ root.T)

    def spec(self) -> dict[str, Any]:
        """Return the six arguments."""
        return {
            "mean": self.mean.tolist(),
            "count": self.count,
            "degrees": self.degrees,
            "scale": self.scale.tolist(),
            "predictive": self.kind,
            "weighting": self.weighting,
        }

    def _diagonal(self, rows: Array) -> Array:
        """The diagonal of the scale in the data's units and axes, (d, K)."""
        d = self.dimension
        return self._sd[:, None] ** 2 * rows[1 + d : 1 + 2 * d]

    def _student(self, rows: Array, zeta: float) -> tuple[Array, Array]:
        """c and the degrees of freedom of the predictive, each (K,)."""
        count = self.count + rows[0]
        return zeta * count / (count + zeta), self._df(rows) + self._deviations(zeta) - self.dimension


def _reciprocal(left: Array) -> Array:
    """1 / left; infinite where there is no such moment."""
    with np.errstate(divide="ignore"):
        return np.where(left > 0.0, 1.0 / left, math.inf)

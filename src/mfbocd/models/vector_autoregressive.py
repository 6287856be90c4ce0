"""Readings of several numbers that depend linearly on the readings before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.cholesky import FAR, rank_one_update, solve_squared, unpack
from .._kernels.gamma_ratio import log_gamma_ratios
from .._kernels.wishart import covariance_gain
from ..inputs.arguments import positive, whole
from .base import Array
from .elliptical import Components, Elliptical, matrix_of, standard, vector_of
from .multivariate import Matrix
from .regression import MOST, counts_of, ratio
from .tails import student_tails
from .unknown_noise import UnknownNoise, Weighting, weighting_of

_LOG_PI = math.log(math.pi)


class VectorAutoregressive(UnknownNoise, Elliptical):
    """Readings of d numbers that depend linearly on the p readings before them, VAR(p).

        x_t - mean = a + A_1 (x_{t-1} - mean) + ... + A_p (x_{t-p} - mean) + e
        e ~ N(0, C)

    The offset and the coefficients have prior mean 0, the prior of C is InverseWishart(degrees, scale), and all are
    learned again in every regime. Order 0 is `MultivariateGaussianUnknown`.

    Parameters
    ----------
    order : int
        Number p of lags, at least 0.
    mean : sequence of float
        Prior mean of a reading, d numbers, two or more.
    count : float or sequence of float, default 1.0
        Number of readings that the priors are worth: one number, two (for a, and for every coefficient), or 1 + p d.
    degrees : float, optional
        Number of readings that the prior covariance of the noise is worth, at least d; d + 2 by default.
    scale : float, sequence of float or matrix, default 1.0
        Scale matrix of the prior of C, shape (d, d); one number or d numbers are its diagonal.
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
    With u = (1, lags), in units of the prior scale, and B all coefficients, B | C is matrix normal about 0 with row
    covariance 1 / count and column covariance C. With P the precision of B, e = x - B^T u and q = 1 / zeta + u . P^-1
    u, a reading at fidelity zeta changes

        B += P^-1 u e^T / q,  P += zeta u u^T
        degrees += 1,  scale += e e^T / q

    The predictive is Student's t about B^T u with df = degrees + 1 - d degrees of freedom and the scale matrix
    scale q / df. Tempered (equation `mf_posterior`), degrees += zeta and df = degrees + zeta - d.

    Lags are as in `Autoregressive`: those of the stream, also across the start of a regime. A lag that was not read
    is replaced by the value its regime predicted there, or by `mean` if it lies before the regime. A lag that was
    read below full fidelity is replaced by what prediction and reading give together; the variance that remains is
    not added to the noise of the next ticks. Tempered, it enters as it was read.

    Statistics of a hypothesis: the Cholesky factor of [P, P B; B^T P, B^T P B + scale], packed row by row; the number
    of readings, tempered the sum of zeta; the lags of the hypothesis and those of a regime that begins now.

    Examples
    --------
    >>> model = VectorAutoregressive(1, mean=[0, 0], count=(100, 0.01))
    >>> stats = model.prior()
    >>> for x in ((8, 0), (0, 8), (-8, 0), (0, -8), (8, 0), (0, 8)):  # a quarter turn per tick
    ...     stats = model.update(stats, np.array(x, dtype=float), zeta=1.0)
    >>> model.predictive(stats)[0].round(0)
    array([-8.,  0.])
    """

    elementwise = True

    def __init__(
        self,
        order: int,
        mean: Sequence[float] | Array,
        count: float | Sequence[float] | Array = 1.0,
        degrees: float | None = None,
        scale: Matrix = 1.0,
        weighting: Weighting = "precision",
    ) -> None:
        owner = "VectorAutoregressive"
        self.weighting = weighting_of(owner, weighting)
        self.order = whole(owner, "order", order, 0, MOST)
        self.mean = vector_of(owner, "mean", mean)
        self.dimension = d = self.mean.size
        self._lags = self.order * d
        self._size = 1 + self._lags
        given = np.atleast_1d(np.asarray(count, dtype=object)).tolist()
        if len(given) == 2:
            count = [given[0], *[given[1]] * self._lags]
        self.count = counts_of(owner, count, self._size)
        self.degrees = d + 2.0 if degrees is None else positive(owner, "degrees", degrees, 1e9)
        if self.degrees < d:
            raise ValueError(f"{owner}.degrees must be at least {d}, the numbers of a reading, not {degrees!r}")
        self.scale = matrix_of(owner, "scale", scale, d)
        self._sd = np.sqrt(np.diag(self.scale))
        self._back = np.linalg.cholesky(self.scale / np.outer(self._sd, self._sd))
        self._into = np.linalg.inv(self._back)
        self._log_unit = float(np.log(np.diag(self._back)).sum() + np.log(self._sd).sum())
        both = self._size + d
        self._rows = both * (both + 1) // 2
        self.columns = self._rows + 1 + 2 * self._lags

    def __repr__(self) -> str:
        return (
            f"VectorAutoregressive of {self.dimension} numbers, order={self.order}, degrees={self.degrees:g}, "
            f"weighting={self.weighting!r}"
        )

    def prior(self) -> Array:
        """Return the square roots of the counts, scale 1, no reading, and lags at the prior mean."""
        i, j = np.tril_indices(self._size + self.dimension)
        out = np.zeros(self.columns)
        out[np.flatnonzero(i == j)] = np.append(np.sqrt(self.count), np.ones(self.dimension))
        return out

    def new_regime(self, live: Array) -> Array:
        """Return the prior with the stream's lags."""
        out = self.prior()
        if live.shape[1] and self._lags:
            out[-2 * self._lags :] = np.tile(live[-self._lags :, -1], 2)
        return out

    def check(self, x: Array) -> Array:
        """Accept every d finite numbers."""
        return x

    def _standard(self, x: Array) -> Array:
        return np.clip(self._into @ standard(x, self.mean, self._sd), -FAR, FAR)

    def _next_regressors(self, rows: Array) -> Array:
        """The regressors of the coming tick, (1 + p d, K)."""
        return np.concatenate([np.ones((1, rows.shape[1])), rows[self._rows + 1 : self._rows + 1 + self._lags]])

    def _solved(self, rows: Array, y: Array) -> tuple[Array, Array]:
        """u . P^-1 u, (K,); and the scale's factor inverted times y - B^T u, (d, K)."""
        vector = np.concatenate([self._next_regressors(rows), np.broadcast_to(y[:, None], (y.size, rows.shape[1]))])
        solve_squared(np.ascontiguousarray(rows[: self._rows]), vector)  # leaves L^-1 vector
        return np.asarray((vector[: self._size] ** 2).sum(axis=0)), vector[self._size :]

    def _forecast(self, rows: Array) -> tuple[Array, Array, Array]:
        """B^T u, (d, K), the scale's factor, (K, d, d), and u . P^-1 u, (K,), in units of the prior scale."""
        spread, ahead = self._solved(rows, np.zeros(self.dimension))
        root = unpack(np.ascontiguousarray(rows[: self._rows]), self._size + self.dimension)
        root = root[:, self._size :, self._size :]
        return -np.einsum("kij,jk->ik", root, ahead), root, spread

    def _append_lag(self, rows: Array, here: Array, there: Array) -> None:
        """Let these, (d, K), be the newest lags of the hypothesis, and of a regime that begins now."""
        d = self.dimension
        for first, newest in ((self._rows + 1, here), (self._rows + 1 + self._lags, there)):
            lags = rows[first : first + self._lags]
            lags[d:] = lags[:-d].copy()
            lags[:d] = newest

    def skip(self, stats: Array) -> Array:
        """Append the predicted reading to the lags; nothing else changes."""
        if self._lags == 0:
            return stats
        rows = np.array(stats.reshape(self.columns, -1))
        here = np.clip(self._forecast(rows)[0], -FAR, FAR)
        self._append_lag(rows, here, np.zeros_like(here))
        return rows.reshape(stats.shape)

    def _filtered(self, rows: Array, y: Array, zeta: Any) -> Array:
        """Return the expectation of a full reading given the prediction and a reading y of covariance C / zeta."""
        zeta = np.minimum(zeta, 1.0)
        if self.weighting == "tempered" or not (zeta < 1.0).any():
            return y
        centre, _, spread = self._forecast(rows)
        return np.asarray(y - (1.0 - (1.0 + spread) / (1.0 / zeta + spread)) * (y - centre))

    def _learned(self, stats: Array, x: Array, zeta: Any, deviations: Any) -> Array:
        """Rotate sqrt(zeta) (u, x) into the Cholesky factor, equation `mf_posterior`."""
        rows = np.array(stats.reshape(self.columns, -1))
        y = np.broadcast_to(self._standard(x)[:, None], (self.dimension, rows.shape[1]))
        factor = rows[: self._rows].copy()
        rank_one_update(factor, np.sqrt(zeta) * np.concatenate([self._next_regressors(rows), y]))
        if self._lags:
            # The fidelity of a doubtful reading is that of the reading, not what is left of its weight.
            self._append_lag(rows, self._filtered(rows, y, zeta / deviations), y)
        rows[: self._rows] = factor
        rows[self._rows] += deviations
        return rows.reshape(stats.shape)

    def log_predictive(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return the log of Student's t."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        d = self.dimension
        rows = stats.reshape(self.columns, -1)
        spread, away = self._solved(rows, self._standard(x))
        q = 1.0 / zeta + spread
        nu = self.degrees + rows[self._rows]
        i, j = np.tril_indices(self._size + d)
        root = np.log(rows[np.flatnonzero(i == j)[self._size :]]).sum(axis=0) + self._log_unit
        deviations = self._deviations(zeta)
        front = log_gamma_ratios(0.5 * (nu + deviations - d), 0.5 * d) - 0.5 * d * (np.log(q) + _LOG_PI) - root
        tail = 0.5 * (nu + deviations) * np.log1p((away**2).sum(axis=0) / q)
        return np.asarray(front - tail).reshape(stats.shape[1:])

    def _ahead(self, rows: Array, zeta: float) -> tuple[Array, Array, Array]:
        """The mean of the coming reading, the squares of its scale times df, both (d, K), and df, (K,)."""
        centre, root, spread = self._forecast(rows)
        own = self._sd[:, None] * (self._back @ root)
        with np.errstate(divide="ignore"):
            square = (own**2).sum(axis=2).T * (np.divide(1.0, zeta) + spread)
        mean = self.mean[:, None] + self._sd[:, None] * (self._back @ centre)
        return mean, square, self.degrees + rows[self._rows] + self._deviations(zeta) - self.dimension

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of Student's t; a variance is infinite up to two degrees of freedom."""
        mean, square, df = self._ahead(stats.reshape(self.columns, -1), zeta)
        ends = (self.dimension, *stats.shape[1:])
        return mean.reshape(ends), ratio(square, np.broadcast_to(df - 2.0, square.shape)).reshape(ends)

    def predictive_cdf(self, stats: Array, x: Array, zeta: float = 1.0) -> Array:
        """Return the distribution function of Student's t for each number."""
        mean, t, df = self._squares(stats, x, zeta)
        a, half = np.broadcast_to(0.5 * df, t.shape).ravel(), np.full(t.size, 0.5)
        tail = 0.5 * beta_cdfs(a, half, (1.0 / (1.0 + t)).ravel(), (t / (1.0 + t)).ravel()).reshape(t.shape)
        return np.where(x[:, None] < mean, tail, 1.0 - tail).reshape((self.dimension, *stats.shape[1:]))

    def log_tails(self, stats: Array, x: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of Student's t, for each number."""
        mean, t, df = self._squares(stats, x, zeta)
        lower, upper = student_tails(x[:, None] - mean, t, df)
        ends = (self.dimension, *stats.shape[1:])
        return lower.reshape(ends), upper.reshape(ends)

    def _squares(self, stats: Array, x: Array, zeta: float) -> tuple[Array, Array, Array]:
        """Return the centre of each number, its t^2 / df, and df."""
        mean, square, df = self._ahead(stats.reshape(self.columns, -1), zeta)
        return mean, np.minimum(np.abs(x[:, None] - mean), 1e150) ** 2 / square, df

    def components(self, stats: Array, zeta: float) -> Components:
        """Return Student's t, in units of the prior scale."""
        centre, root, spread = self._forecast(stats)
        df = self.degrees + stats[self._rows] + self._deviations(zeta) - self.dimension
        return Components(centre.T, root @ root.transpose(0, 2, 1) * ((1.0 / zeta + spread) / df)[:, None, None], df)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the moments of mean + a and then of A_1, ..., A_p row by row: d (1 + p d) numbers.

        The variances are infinite up to d + 1 degrees.
        """
        d, rows = self.dimension, stats.reshape(self.columns, -1)
        factor = unpack(np.ascontiguousarray(rows[: self._rows]), self._size + d)
        inner = np.linalg.inv(factor[:, : self._size, : self._size])
        # from the units of the prior scale to those of the data: u = into . lags, x = back . reading
        back = self._sd[:, None] * self._back
        into = np.eye(self._size)
        into[1:, 1:] = np.kron(np.eye(self.order), self._into / self._sd)
        mean = back @ (factor[:, self._size :, : self._size] @ inner) @ into
        mean[:, :, 0] += self.mean
        noise_var = ((back @ factor[:, self._size :, self._size :]) ** 2).sum(axis=2)
        spread = ((inner @ into) ** 2).sum(axis=1)
        left = self.degrees + rows[self._rows] - d - 1.0
        var = ratio(noise_var[:, :, None] * spread[:, None, :], np.broadcast_to(left[:, None, None], mean.shape))
        return self._listed(mean).reshape((-1, *stats.shape[1:])), self._listed(var).reshape((-1, *stats.shape[1:]))

    def _listed(self, table: Array) -> Array:
        """(K, d, 1 + p d) as one column per hypothesis: the first column of each, then lag by lag, row by row."""
        k, d, _ = table.shape
        lags = table[:, :, 1:].reshape(k, d, self.order, d).transpose(0, 2, 1, 3).reshape(k, -1)
        return np.concatenate([table[:, :, 0], lags], axis=1).T

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return d/2 log(1 + zeta u . P^-1 u) for the coefficients, plus the gain for C.

        The latter is that of `MultivariateGaussianUnknown`.
        """
        rows = stats.reshape(self.columns, -1)
        spread, _ = self._solved(rows, np.zeros(self.dimension))
        gain = covariance_gain(self.degrees + rows[self._rows], self._deviations(zeta), self.dimension)
        return np.asarray(0.5 * self.dimension * np.log1p(zeta * spread) + gain).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the trace of the reduction of Cov(B^T u) relative to C; B^T u is the level of the coming tick."""
        spread, _ = self._solved(stats.reshape(self.columns, -1), np.zeros(self.dimension))
        return np.asarray(self.dimension * zeta * spread**2 / (1.0 + zeta * spread)).reshape(stats.shape[1:])

    def spec(self) -> dict[str, Any]:
        """Return the six arguments."""
        prior = {"order": self.order, "mean": self.mean.tolist(), "count": self.count.tolist()}
        noise = {"degrees": self.degrees, "scale": self.scale.tolist(), "weighting": self.weighting}
        return {**prior, **noise}

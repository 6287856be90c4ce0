"""Bayesian linear regression on covariates that come with each reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.cholesky import FAR
from ..inputs.arguments import boolean, finite, whole
from .base import Array
from .regression import MOST, Regression
from .unknown_noise import Weighting


class LinearRegression(Regression):
    """Readings that depend linearly on covariates, which every reading brings with it.

        y = intercept + coefficients . u + noise,  noise ~ N(0, s2 / zeta)

    A reading is (y, u_1, ..., u_q), of which only y is random: given u it is normal about a line. A change point is a
    change of the coefficients or of the noise. `Regression` has the formulas.

    Parameters
    ----------
    covariates : int
        Number q of covariates per reading, at least 1. Each must be at most 1e50 in size.
    mean : float or sequence of float, default 0.0
        Prior means of the intercept and then of the coefficients. One number is the prior mean of the intercept;
        those of the coefficients are then 0.
    count : float or sequence of float, default 1.0
        Number of readings with covariate 1 that the prior of each coefficient is worth; one number for all or one
        each.
    shape : float, optional
        Shape of the InverseGamma prior of the noise variance; 1 by default. Not with `noise_var`.
    scale : float, optional
        Scale of that prior, in squared units of y; 1 by default. Not with `noise_var`.
    noise_var : float, optional
        The noise variance, if it is known. By default it is learned.
    intercept : bool, default True
        False omits the intercept; `mean` and `count` then begin with the coefficients.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `mean` does not have one number per
        coefficient.

    Notes
    -----
    The covariates of the coming tick are unknown before it comes. Predictions (mean, interval, gains) use those of
    the last reading, or zeros before the first. The predicted covariates are the last ones, with variance 0.

    Statistics of a hypothesis: those of `Regression`, then the last covariates.

    Examples
    --------
    >>> model = LinearRegression(1, count=0.01, noise_var=1)
    >>> stats = model.prior()
    >>> for u in (0.0, 1.0, 2.0, 3.0):
    ...     stats = model.update(stats, np.array([5 + 2 * u, u]), zeta=1.0)
    >>> model.parameter(stats)[0].round(2)
    array([4.97, 2.01])
    >>> model.predictive(stats)[0].round(2)
    array([11., 3.])
    """

    def __init__(
        self,
        covariates: int,
        mean: float | Sequence[float] | Array = 0.0,
        count: float | Sequence[float] | Array = 1.0,
        shape: float | None = None,
        scale: float | None = None,
        noise_var: float | None = None,
        intercept: bool = True,
        weighting: Weighting = "precision",
    ) -> None:
        owner = "LinearRegression"
        self.covariates = whole(owner, "covariates", covariates, 1, MOST)
        self.intercept = boolean(owner, "intercept", intercept)
        size = self.covariates + intercept
        given = np.atleast_1d(np.asarray(mean, dtype=object)).tolist()
        means = [finite(owner, "mean", v) for v in given]
        if len(means) == 1:
            means += [0.0] * (size - 1)
        if len(means) != size:
            raise ValueError(f"{owner}.mean must be one number or {size}, not {mean!r}")
        self._set(np.array(means), count, shape, scale, noise_var, weighting)
        self.dimension = 1 + self.covariates
        self.columns += self.covariates

    def spec(self) -> dict[str, Any]:
        """Return the arguments; those of an unused prior are left out."""
        prior = {"covariates": self.covariates, "mean": self._mean.tolist(), "count": self._counts()}
        return {**prior, **self._noise(), "intercept": self.intercept}

    def check(self, x: Array) -> Array:
        """Accept every finite y with covariates of at most 1e50 in size."""
        if (np.abs(x[1:]) > FAR).any():
            raise self.outside(x.tolist(), "covariates must be at most 1e50 in size")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept every finite y with covariates of at most 1e50 in size."""
        finite_ = np.isfinite(x).all(axis=1)
        return np.asarray(finite_ & (np.abs(np.where(np.isfinite(x), x, 0.0)[:, 1:]) <= FAR).all(axis=1))

    def new_regime(self, live: Array) -> Array:
        """Return the prior with the last covariates."""
        out = self.prior()
        if live.shape[1]:
            out[self._rows + 1 :] = live[self._rows + 1 :, -1]
        return out

    def _line(self, covariates: Array, k: int) -> tuple[Array, Array]:
        """Return the regressors (p, K) and the prior mean (K,) for covariates of shape (q, K) or (q, 1)."""
        u = np.broadcast_to(covariates, (self.covariates, k))
        if self.intercept:
            u = np.concatenate([np.ones((1, k)), u])
        return u, self._mean @ u

    def _next_regressors(self, rows: Array) -> tuple[Array, Array]:
        return self._line(rows[self._rows + 1 :], rows.shape[1])

    def _at(self, rows: Array, x: Any) -> tuple[Array, Array]:
        u, offset = self._line(np.asarray(x, dtype=float)[1:, None], rows.shape[1])
        return u, self._standard(float(x[0]), offset)

    def _advance_extra(self, rows: Array, x: Any, zeta: Any) -> None:
        if x is not None:
            rows[self._rows + 1 :] = np.asarray(x)[1:, None]

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of y at the last covariates, and those covariates with variance 0."""
        rows = stats.reshape(self.columns, -1)
        mean, var = self._expected(rows, zeta)
        last = rows[self._rows + 1 :]
        ends = (self.dimension, *stats.shape[1:])
        both = np.concatenate([mean[None], last]), np.concatenate([var[None], np.zeros_like(last)])
        return both[0].reshape(ends), both[1].reshape(ends)

    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the distribution function of y at the covariates of x, and a step function for each covariate."""
        rows = stats.reshape(self.columns, -1)
        step = (rows[self._rows + 1 :] <= np.asarray(x)[1:, None]).astype(np.float64)
        below = np.concatenate([self._below(rows, x, zeta)[None], step])
        return below.reshape((self.dimension, *stats.shape[1:]))

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the log tails of y at the covariates of x; those of the covariates, which are given, are 0."""
        tails = self._tails(stats.reshape(self.columns, -1), x, zeta)
        given = np.zeros((self.covariates, tails[0].size))
        ends = (self.dimension, *stats.shape[1:])
        lower, upper = (np.concatenate([tail[None], given]).reshape(ends) for tail in tails)
        return lower, upper

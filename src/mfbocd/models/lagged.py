"""The lags of regressions on earlier readings, as part of the statistics."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from .._kernels.cholesky import FAR
from .base import Array
from .regression import Regression


class Lagged(Regression):
    """Base class of the regressions whose regressors are functions of the last `order` readings.

    Notes
    -----
    Statistics of a hypothesis: those of `Regression`, then, newest first, relative to `mean` and in units of the
    prior noise, the lags of the hypothesis and the lags of a regime that begins now. A lag is one number, or as many
    as `_unknown` has.
    """

    order: int
    mean: float
    _unknown: ClassVar[tuple[float, ...]] = (0.0,)
    """A lag that was read neither in the regime nor before it."""

    def _set(
        self, mean: Array, count: Any, shape: float | None, scale: float | None, noise_var: float | None
    ) -> None:
        super()._set(mean, count, shape, scale, noise_var)
        self._memory = len(self._unknown) * self.order
        self.columns += 2 * self._memory

    @abstractmethod
    def _regressors(self, lags: Array) -> Array:
        """Return the regressors (p, K) for lags of shape (numbers of a lag, order, K)."""

    def _lag_variance(self, lags: Array) -> Array | float:
        """Return the variance due to uncertain lags, in units of the noise variance, shape (K,)."""
        return 0.0

    def _expected_lag(self, rows: Array) -> Array:
        """Return what replaces the coming reading if it is not read, shape (numbers of a lag, K)."""
        u, _ = self._next_regressors(rows)
        return np.clip(self._forecast(rows, u)[0], -FAR, FAR)[None]

    def _lags(self, rows: Array) -> Array:
        """Return the lags of each hypothesis, shape (numbers of a lag, order, K)."""
        own = rows[self._rows + 1 : self._rows + 1 + self._memory]
        return own.reshape(len(self._unknown), self.order, rows.shape[1])

    def prior(self) -> Array:
        """Return the prior of `Regression` with unknown lags."""
        out = super().prior()
        out[self._rows + 1 :] = np.tile(np.repeat(self._unknown, self.order), 2)
        return out

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw noise and coefficients from the prior, then readings with lags; the first has unknown lags."""
        beta, sd = self._regime(rng)
        y = np.empty(ticks)
        lags = np.repeat(self._unknown, self.order).reshape(-1, self.order, 1)
        for t in range(ticks):
            width = sd * np.sqrt(1.0 + self._lag_variance(lags))
            y[t] = here = (beta @ self._regressors(lags) + width * rng.normal()).item()
            _push(lags, np.array([[here], *[[0.0]] * (len(self._unknown) - 1)]))
        return self.mean + self._unit * y

    def new_regime(self, live: Array) -> Array:
        """Return the prior with the stream's lags."""
        out = self.prior()
        if live.shape[1] and self.order:
            lags = live[-self._memory :, -1]  # the same for all
            out[-2 * self._memory :] = np.tile(lags, 2)
        return out

    def _next_regressors(self, rows: Array) -> tuple[Array, Array]:
        return self._regressors(self._lags(rows)), np.full(rows.shape[1], self.mean)

    def _weight(self, rows: Array, zeta: float) -> Array | float:
        return zeta / (1.0 + zeta * self._lag_variance(self._lags(rows)))

    def _advance_extra(self, rows: Array, x: Any) -> None:
        k = rows.shape[1]
        here = np.zeros((len(self._unknown), k))
        if x is None:
            here[:] = self._expected_lag(rows)
        else:
            here[0] = self._standard(x, np.full(k, self.mean))
        there = here if x is not None else np.array(self._unknown)[:, None]
        both = rows[self._rows + 1 :].reshape(2, len(self._unknown), self.order, k)
        for lags, newest in zip(both, (here, there), strict=True):
            _push(lags, newest)


def _push(lags: Array, newest: Array) -> None:
    """Shift lags of shape (numbers of a lag, order, K) by one tick."""
    if lags.shape[1]:
        lags[:, 1:] = lags[:, :-1].copy()
        lags[:, 0] = newest

"""The lags of regressions on earlier readings, as part of the statistics."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

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
    _unknown: tuple[float, ...] = (0.0,)
    """A lag that was read neither in the regime nor before it; a second number is its variance."""

    def _set(
        self,
        mean: Array,
        count: Any,
        shape: float | None,
        scale: float | None,
        noise_var: float | None,
        weighting: str,
    ) -> None:
        super()._set(mean, count, shape, scale, noise_var, weighting)
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

    def _filtered(self, rows: Array, y: Array, zeta: Any) -> tuple[Array, Array]:
        """Return mean and variance of what a full reading would have been, given a reading y of s2 / zeta.

        The regime predicts it with variance s2 (1 + u . P^-1 u), and the reading adds noise of s2 (1 / zeta - 1).
        """
        centre, spread, shape, scale = self._forecast(rows, self._next_regressors(rows)[0])
        s2 = scale / shape if self.noise_var is None else 1.0
        noise = s2 * (1.0 / zeta - 1.0)
        expected = s2 * (1.0 / self._weight(rows, 1.0) + spread)
        gain = expected / (expected + noise)
        return y - (1.0 - gain) * (y - centre), noise * gain

    def _advance_extra(self, rows: Array, x: Any, zeta: Any) -> None:
        k = rows.shape[1]
        here = np.zeros((len(self._unknown), k))
        there = np.zeros_like(here)
        if x is None:
            here[:] = self._expected_lag(rows)
            there[:] = np.array(self._unknown)[:, None]
        else:
            y = self._standard(x, np.full(k, self.mean))
            here[0] = there[0] = y
            zeta = np.minimum(zeta, 1.0)
            if self.order and self.weighting == "precision" and (zeta < 1.0).any():
                here[0], here[1] = self._filtered(rows, y, zeta)
                # A regime that begins now predicts nothing about the tick before it.
                s2 = 1.0 / self.shape if self.noise_var is None else 1.0
                there[1] = s2 * (1.0 / zeta - 1.0)
        both = rows[self._rows + 1 :].reshape(2, len(self._unknown), self.order, k)
        for lags, newest in zip(both, (here, there), strict=True):
            _push(lags, newest)


def _push(lags: Array, newest: Array) -> None:
    """Shift lags of shape (numbers of a lag, order, K) by one tick."""
    if lags.shape[1]:
        lags[:, 1:] = lags[:, :-1].copy()
        lags[:, 0] = newest

"""Readings that depend linearly on the readings before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._kernels.cholesky import unpack
from ..inputs.arguments import finite, whole
from .base import Array
from .lagged import Lagged
from .regression import MOST
from .unknown_noise import Weighting


class Autoregressive(Lagged):
    """Readings that depend linearly on the p readings before them, AR(p).

        x_t - mean = a + phi_1 (x_{t-1} - mean) + ... + phi_p (x_{t-p} - mean) + e

    The noise e is normal. The offset a and the coefficients phi have prior mean 0 and are learned again in every
    regime. `Regression` has the formulas. Order 0 is `GaussianUnknown`.

    Parameters
    ----------
    order : int, default 1
        Number p of lags, at least 0.
    mean : float, default 0.0
        Prior mean of a reading.
    count : float or sequence of float, default 1.0
        Number of readings that the priors are worth: one number, two (for a, and for every phi), or 1 + p.
    shape : float, optional
        Shape of the InverseGamma prior of the noise variance; 1 by default. Not with `noise_var`.
    scale : float, optional
        Scale of that prior, in squared units of the readings; 1 by default. Not with `noise_var`.
    noise_var : float, optional
        The noise variance, if it is known. By default it is learned.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    The lags are those of the stream, also across the start of a regime: the first reading of a regime depends on the
    last of the one before. A lag that was not read is replaced by the value its regime predicted there; by `mean` if
    it lies before the regime or before the stream. A reading of variance s2 / zeta is a full reading of variance s2
    with noise of variance s2 (1 / zeta - 1). Its lag is what the full reading is expected to have been, given the
    prediction and the reading (a Kalman filter), and the variance that remains, times phi^2, adds to the noise of the
    next ticks; the errors of different lags are taken as independent. Tempered, lags enter as they were read, and the
    noise of a low-fidelity reading adds to that of the next tick.

    Statistics of a hypothesis: those of `Regression`, then the lags.

    Examples
    --------
    >>> model = Autoregressive(1, count=0.01, noise_var=1)
    >>> stats = model.prior()
    >>> for x in (8.0, -4.0, 2.0, -1.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.predictive(stats)[0]), 1)
    2.9
    """

    def __init__(
        self,
        order: int = 1,
        mean: float = 0.0,
        count: float | Sequence[float] | Array = 1.0,
        shape: float | None = None,
        scale: float | None = None,
        noise_var: float | None = None,
        weighting: Weighting = "precision",
    ) -> None:
        self.order = whole("Autoregressive", "order", order, 0, MOST)
        self.mean = finite("Autoregressive", "mean", mean)
        if weighting == "precision":
            self._unknown = (0.0, 0.0)  # a lag, and its variance
        given = np.atleast_1d(np.asarray(count, dtype=object)).tolist()
        if len(given) == 2:
            count = [given[0], *[given[1]] * self.order]
        self._set(np.append(self.mean, np.zeros(self.order)), count, shape, scale, noise_var, weighting)
        self._units[1:] = 1.0  # phi has no unit

    def rescaled(self, offset: float, scale: float) -> Autoregressive:
        """As for any model; coefficients of lags have no unit."""
        return type(self)(**(self.spec() | {"mean": offset + scale * self.mean} | self._rescaled_noise(scale)))

    def spec(self) -> dict[str, Any]:
        """Return the arguments; those of an unused prior are left out."""
        return {"order": self.order, "mean": self.mean, "count": self._counts(), **self._noise()}

    def _expected_lag(self, rows: Array) -> Array:
        expected = np.zeros((len(self._unknown), rows.shape[1]))
        expected[0] = super()._expected_lag(rows)[0]
        return expected

    def _weight(self, rows: Array, zeta: float) -> Array | float:
        if self.weighting == "tempered":
            return zeta
        doubt = self._lags(rows)[1]
        if not doubt.any():
            return zeta
        inner = np.linalg.inv(unpack(np.ascontiguousarray(rows[: self._rows]), self._size))
        square = 0.5 * rows[self._rows - 1] ** 2
        s2 = square / (self.shape + 0.5 * rows[self._rows]) if self.noise_var is None else 1.0
        z = rows[self._rows - 1 - self._size : self._rows - 1]
        phi = np.einsum("kji,jk->ik", inner, z)[1:]
        lost = (doubt * (phi**2 / s2 + np.einsum("kji,kji->ik", inner, inner)[1:])).sum(axis=0)
        return zeta / (1.0 + zeta * lost)

    def _regressors(self, lags: Array) -> Array:
        return np.concatenate([np.ones((1, lags.shape[2])), lags[0]])

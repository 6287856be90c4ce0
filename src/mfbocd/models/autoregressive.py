"""Readings that lean on the ones before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..inputs.arguments import finite, whole
from .base import Array
from .cost import CostBound, whole_number
from .lagged import Lagged
from .regression import MOST


class Autoregressive(Lagged):
    """AR(p): x_t - mean = a + phi_1 (x_{t-1} - mean) + ... + phi_p (x_{t-p} - mean) + noise.

    `mean` is the prior mean of the readings, a number; a and phi are learnt in every regime anew, about 0.
    `Regression` has the formulas, in units of the prior noise; the noise is unknown unless told. Order 0 is
    `GaussianUnknown`.

    The lags are the stream's, also across the start of a regime: the first reading of a regime leans on the last of
    the one before. A lag that was not read counts as what its regime expected there; as `mean` if it lies before the
    regime, or before the stream. Lags enter as they were read, at whatever fidelity: a poor reading is a poor lag,
    and its noise then adds to the next tick's.

    Parameters
    ----------
    order: how many lags, p; 0 or more.
    mean: what a reading is expected to be before anything is known.
    count: how many readings the priors are worth: one number, two (of a, of every phi), or 1 + p.
    shape, scale: of the InverseGamma prior of the noise variance, 1 and 1 unless told.
    noise: the noise variance, if it is known.

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
    ) -> None:
        self.order = whole("Autoregressive", "order", order, 0, MOST)
        self.mean = finite("Autoregressive", "mean", mean)
        given = np.atleast_1d(np.asarray(count, dtype=object)).tolist()
        if len(given) == 2:
            count = [given[0], *[given[1]] * self.order]
        self._set(np.append(self.mean, np.zeros(self.order)), count, shape, scale, noise_var)
        self._units[1:] = 1.0  # phi has no unit

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Grows with the square of `order`."""
        order = whole_number(arguments, "order", 1)
        return cls._cost_bound(1 + order, 2 * order, "order")

    def spec(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {"order": self.order, "mean": self.mean, "count": self._counts(), **self._noise()}

    def _regressors(self, lags: Array) -> Array:
        return np.concatenate([np.ones((1, lags.shape[2])), lags[0]])

"""The information of a reading about an unknown covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .gamma_ratio import digamma_difference, scale_gain

Array = NDArray[np.float64]


@kernel
def covariance_gain(degrees: Array, zeta: float, d: int) -> Array:
    """Information of a d-dimensional scatter with zeta degrees of freedom about an inverse Wishart covariance.

    This is what a reading at zeta adds to the posterior; `degrees` are the posterior's degrees of freedom. With
    F(n) = log Gamma_d(n / 2) + d n / 2 - n / 2 psi_d(n / 2) it is F(degrees) - F(degrees + zeta): 0 at zeta = 0 and
    increasing in zeta.
    """
    out = np.zeros(degrees.size)
    if zeta == 0.0:
        return out
    for k in range(degrees.size):
        value = 0.0
        for j in range(d):
            s = 0.5 * (degrees[k] - j)
            value += scale_gain(s, 0.5 * zeta) + 0.5 * j * digamma_difference(s, 0.5 * zeta)
        out[k] = value
    return out

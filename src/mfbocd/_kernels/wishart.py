"""What is learnt of an unknown covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .gamma_ratio import digamma_rise, scale_gain

Array = NDArray[np.float64]


@kernel
def covariance_gain(degrees: Array, zeta: float, d: int) -> Array:
    """What a scatter of d numbers with zeta degrees of freedom tells of a covariance, inverse Wishart with `degrees`.

    That is what a reading at zeta adds to the posterior, and at zeta = 1 what a reading is. With
    F(n) = log Gamma_d(n / 2) + d n / 2 - n / 2 psi_d(n / 2) it is F(degrees) - F(degrees + zeta): 0 at zeta = 0 and
    rising with zeta.
    """
    out = np.zeros(degrees.size)
    if zeta == 0.0:
        return out
    for k in range(degrees.size):
        value = 0.0
        for j in range(d):
            s = 0.5 * (degrees[k] - j)
            value += scale_gain(s, 0.5 * zeta) + 0.5 * j * digamma_rise(s, 0.5 * zeta)
        out[k] = value
    return out

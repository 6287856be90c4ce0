"""What is learnt of an unknown covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .gamma import digamma
from .rise import digamma_rise, log_rise

Array = NDArray[np.float64]


@kernel
def covariance_gain(degrees: Array, zeta: float, d: int) -> Array:
    """What a reading of d numbers at zeta is expected to tell of an unknown noise covariance (`parameter_gain`)."""
    out = np.empty(degrees.size)
    for k in range(degrees.size):
        nu = degrees[k]
        value = 0.5 * nu * digamma_rise(0.5 * (nu + zeta - d), 0.5 * d) - 0.5 * d
        for j in range(d):
            value += 0.5 * zeta * digamma(0.5 * (nu + zeta - j)) - log_rise(0.5 * (nu - j), 0.5 * zeta)
        out[k] = max(value, 0.0)
    return out

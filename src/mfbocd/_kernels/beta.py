"""The incomplete beta function, for the CDFs of Student's t, the beta prime and the negative binomial."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .gamma_ratio import log_gamma_ratio

_EPS = 4e-16
_TINY = 1e-300  # replaces a zero denominator (Lentz's method)


@kernel
def _below(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b) with y = 1 - x, for x at most about the mean a / (a + b), where the continued fraction is short."""
    small, large = min(a, b), max(a, b)
    front = log_gamma_ratio(large, small) - math.lgamma(small) + a * math.log(x) + b * math.log(y)
    value, c, d = _TINY, _TINY, 0.0
    for i in range(100_000):
        m = i // 2
        if i == 0:
            t = 1.0
        elif i % 2 == 0:
            t = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        else:
            t = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + t * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + t / c
        c = c if abs(c) > _TINY else _TINY
        value *= c * d
        if abs(c * d - 1.0) < _EPS:
            break
    return math.exp(front) / a * value


@kernel
def beta_cdf(a: float, b: float, x: float, y: float) -> float:
    """The regularized incomplete beta function I_x(a, b) = P(Beta(a, b) <= x), with y = 1 - x.

    Both x and y are arguments so that neither tail is lost where the other rounds to one.
    """
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _below(b, a, y, x)
    return _below(a, b, x, y)


@kernel
def beta_cdfs(
    a: NDArray[np.float64], b: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`beta_cdf` of each element of four one-dimensional arrays."""
    out = np.empty(a.size)
    for i in range(a.size):
        out[i] = beta_cdf(a[i], b[i], x[i], y[i])
    return out

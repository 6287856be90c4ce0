"""Logarithms of the tail probabilities of a normal, accurate also where the probabilities themselves underflow."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import kernel, scalar

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT = math.sqrt(0.5)
_FAR = -30.0  # below it, eight terms of the asymptotic series are exact


@scalar
def log_complement(value: float) -> float:
    """log(1 - e^value) for value <= 0, without cancellation."""
    if value >= 0.0:
        return -np.inf
    return math.log1p(-math.exp(value)) if value < -0.7 else math.log(-math.expm1(value))


@scalar
def log_normal_cdf(z: float) -> float:
    """log P(Z <= z) of a standard normal; log1p(-P(Z > z)) above 0, the asymptotic series far below."""
    if z > 0.0:
        return math.log1p(-0.5 * math.erfc(_ROOT * z))
    if z > _FAR:
        return math.log(0.5 * math.erfc(-_ROOT * z))
    if z == -np.inf:
        return -np.inf
    r = 1.0 / (z * z)
    series, term = 0.0, 1.0
    for n in range(1, 9):
        term *= -(2.0 * n - 1.0) * r
        series += term
    return -0.5 * z * z - math.log(-z) - _HALF_LOG_2PI + math.log1p(series)


@kernel
def log_normal_tails(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """log P(Z <= z) and log P(Z >= z) of a standard normal, for each element of a one-dimensional array."""
    lower, upper = np.empty(z.size), np.empty(z.size)
    for i in range(z.size):
        lower[i] = log_normal_cdf(z[i])
        upper[i] = log_normal_cdf(-z[i])
    return lower, upper

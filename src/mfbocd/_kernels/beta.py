"""The incomplete beta function, for the CDFs of Student's t, the beta prime and the negative binomial."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .gamma_ratio import log_gamma_ratio
from .tails import log_complement

_EPS = 4e-16
_TINY = 1e-300  # replaces a zero denominator (Lentz's method)


@kernel
def _front(a: float, b: float, log_x: float, log_y: float) -> float:
    """log of x^a y^b / B(a, b)."""
    small, large = min(a, b), max(a, b)
    return log_gamma_ratio(large, small) - math.lgamma(small) + a * log_x + b * log_y


@kernel
def _fraction(a: float, b: float, x: float) -> float:
    """a I_x(a, b) B(a, b) / (x^a y^b), a continued fraction; short for x at most about the mean a / (a + b)."""
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
    return value


@kernel
def _below(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b) with y = 1 - x, for x at most about the mean a / (a + b)."""
    return math.exp(_front(a, b, math.log(x), math.log(y))) / a * _fraction(a, b, x)


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


@kernel
def log_beta_tails(
    a: NDArray[np.float64], b: NDArray[np.float64], odds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """log I_x(a, b) and log(1 - I_x(a, b)) of each element, with x = odds / (1 + odds); both are accurate far out.

    The odds replace x, because log(1 - x) loses digits where x is small and b large.
    """
    lower, upper = np.empty(a.size), np.empty(a.size)
    for i in range(a.size):
        u, p, q = odds[i], a[i], b[i]
        if u <= 0.0:
            lower[i], upper[i] = -np.inf, 0.0
            continue
        if u == np.inf:
            lower[i], upper[i] = 0.0, -np.inf
            continue
        x, y = (u / (1.0 + u), 1.0 / (1.0 + u)) if u < 1.0 else (1.0 / (1.0 + 1.0 / u), 1.0 / (1.0 + u))
        log_y = -math.log1p(u)
        log_x = math.log(u) + log_y if u < 1.0 else -math.log1p(1.0 / u)
        front = _front(p, q, log_x, log_y)
        if x > (p + 1.0) / (p + q + 2.0):
            upper[i] = min(front + math.log(_fraction(q, p, y) / q), 0.0)
            lower[i] = log_complement(upper[i])
        else:
            lower[i] = min(front + math.log(_fraction(p, q, x) / p), 0.0)
            upper[i] = log_complement(lower[i])
    return lower, upper

"""Ratios of gamma functions whose arguments differ by any amount, and differences of their derivatives."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import kernel, scalar
from .gamma import digamma, rising_ten
from .scalar import log

# c_k of log(Gamma(s + 1/2) / Gamma(s)) = log(y) / 2 - sum_k c_k y^-2k, y = s - 1/4: `gamma.coefficients` at 1/2.
_H1 = -1 / 64
_H2 = 5 / 2048
_H3 = -61 / 49152
_H4 = 1385 / 1048576
_H5 = -50521 / 20971520
_H6 = 2702765 / 402653184


@scalar
def log1p(t: float) -> float:
    """log(1 + t) for t >= 0, to full precision also for small t."""
    u = 1.0 + t
    # Add the rounding error of u. It should be divided by u; below 2 that changes nothing that matters, and beyond 2
    # the error itself is below rounding.
    return log(u) + (t - (u - 1.0) if u < 2.0 else 0.0)


@scalar
def half_gamma_ratio(s: float) -> tuple[float, float]:
    """(f, e) with Gamma(s + 1/2) / Gamma(s) = sqrt(f) exp(e), for s in (0, 1e15]; no logarithm is needed.

    Shifted up by ten, where six terms of the series leave an error below 1e-15.
    """
    y = s + 9.75
    q = rising_ten(s) / rising_ten(s + 0.5)
    return y * q * q, half_series(1.0 / (y * y))


@scalar
def half_series(v: float) -> float:
    """log(Gamma(s + 1/2) / Gamma(s)) - log(y) / 2 with v = y^-2, y = s - 1/4, for s >= 10."""
    return -v * (_H1 + v * (_H2 + v * (_H3 + v * (_H4 + v * (_H5 + v * _H6)))))


@scalar
def _tail(y: float) -> float:
    """The remainder of Stirling's formula for log Gamma(y), y >= 10; error below 1e-15."""
    r = 1.0 / y
    v = r * r
    series = 1 / 12 - v * (1 / 360 - v * (1 / 1260 - v * (1 / 1680 - v * (1 / 1188 - v * (691 / 360360)))))
    return r * series


@scalar
def log_gamma_ratio(s: float, d: float) -> float:
    """log(Gamma(s + d) / Gamma(s)) for s in (0, 1e25], d in [0, 1e25]: relative error near 1e-15, 0 at d = 0."""
    y = s + 10.0
    stirling = (y - 0.5) * log1p(d / y) + d * (log(y + d) - 1.0)
    return stirling + (_tail(y + d) - _tail(y)) + log(rising_ten(s) / rising_ten(s + d))


@scalar
def digamma_difference(s: float, d: float) -> float:
    """psi(s + d) - psi(s) for s > 0 and d >= 0, without cancellation where s is large: relative error below 1e-14."""
    low = 0.0
    for j in range(8):
        low += d / ((s + j) * (s + j + d))
    y = s + 8.0
    z = y + d
    gap = d / (y * z)  # 1 / y - 1 / z, without the cancellation
    r = 1.0 / y
    q = 1.0 / z
    # x^-2k differences factor as gap times a sum, but are small compared with the first terms
    u = r * r
    v = q * q
    su = u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132 - u * (691 / 32760))))))
    sv = v * (1 / 12 - v * (1 / 120 - v * (1 / 252 - v * (1 / 240 - v * (1 / 132 - v * (691 / 32760))))))
    return low + log1p(d / y) + 0.5 * gap + (su - sv)


@scalar
def excess(t: float) -> float:
    """t - log(1 + t) for t > -1, never negative: relative error near 1e-15 also for small t."""
    if abs(t) >= 0.25:
        return t - math.log1p(t)
    # log(1 + t) = 2 (u + u^3 / 3 + ..) with u = t / (2 + t), and t - 2 u = t u: nothing large cancels
    u = t / (2.0 + t)
    v = u * u
    p = 1 / 3 + v * (1 / 5 + v * (1 / 7 + v * (1 / 9 + v * (1 / 11 + v * (1 / 13 + v * (1 / 15 + v * (1 / 17)))))))
    return u * (t - 2.0 * v * p)


@scalar
def stirling_remainder(y: float) -> float:
    """log Gamma(y) - (y - 1/2) log(y) + y - log(2 pi) / 2 for y > 0."""
    if y >= 10.0:
        return _tail(y)
    return math.lgamma(y) - (y - 0.5) * math.log(y) + y - 0.5 * math.log(2.0 * math.pi)


@scalar
def digamma_remainder(y: float) -> float:
    """log(y) - 1 / (2 y) - psi(y) for y > 0."""
    if y < 10.0:
        return math.log(y) - 0.5 / y - digamma(y)
    s = 1.0 / (y * y)
    return s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760))))))


@scalar
def _entropy_tail(y: float) -> float:
    """log Gamma(y) + y - y psi(y) + log(y) / 2 up to a constant, y >= 10; error below 1e-14."""
    r = 1.0 / y
    v = r * r
    return r * (1 / 6 - v * (1 / 90 - v * (1 / 210 - v * (1 / 210 - v * (5 / 594 - v * (691 / 30030))))))


@scalar
def scale_gain(a: float, d: float) -> float:
    """f(a) - f(a + d) with f(s) = log Gamma(s) + s - s psi(s): never negative, increasing in d, no cancellation.

    This is the information, in nats, of a reading that adds d to the shape a of the Gamma posterior of a scale (or
    rate): the expected decrease of the entropy of the scale's logarithm, independent of the unit.
    """
    if d == 0.0:
        return 0.0
    if a >= 10.0:
        return 0.5 * log1p(d / a) + (_entropy_tail(a) - _entropy_tail(a + d))
    # f(s) = f(s + 10) + 10 psi(s + 10) - sum_j j / (s + j) - log(s (s + 1) .. (s + 9))
    y = a + 10.0
    shift = log(rising_ten(a + d) / rising_ten(a)) - 10.0 * digamma_difference(y, d)
    for j in range(1, 10):
        shift -= j * d / ((a + j) * (a + j + d))
    return max(0.5 * log1p(d / y) + (_entropy_tail(y) - _entropy_tail(y + d)) + shift, 0.0)


@kernel
def log_gamma_ratios(s: NDArray[np.float64], d: float) -> NDArray[np.float64]:
    """`log_gamma_ratio` of each element of a one-dimensional array."""
    out = np.empty(s.size)
    for i in range(s.size):
        out[i] = log_gamma_ratio(s[i], d)
    return out


@kernel
def half_gamma_ratios(s: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(Gamma(s + 1/2) / Gamma(s)) of each element of a one-dimensional array."""
    out = np.empty(s.size)
    for i in range(s.size):
        f, e = half_gamma_ratio(s[i])
        out[i] = 0.5 * log(f) + e
    return out


@kernel
def scale_gains(a: NDArray[np.float64], d: float) -> NDArray[np.float64]:
    """`scale_gain` of each element of a one-dimensional array."""
    out = np.empty(a.size)
    for i in range(a.size):
        out[i] = scale_gain(a[i], d)
    return out

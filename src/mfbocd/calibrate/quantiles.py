"""Quantiles for confidence intervals; scipy has them, but the core of this library does not depend on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from .._kernels import beta

_EPS = 1e-16
_TINY = 1e-300  # Lentz's method: stands in for a zero denominator


@lru_cache(maxsize=256)
def student(p: float, df: float) -> float:
    """Return a quantile of Student's t distribution.

    Parameters
    ----------
    p : float
        Probability, in (0, 1).
    df : float
        Degrees of freedom.

    Returns
    -------
    float
        The quantile.

    Examples
    --------
    >>> round(student(0.975, 10), 6)
    2.228139
    """
    if p < 0.5:
        return -student(1.0 - p, df)
    # P(|T| > t) = I_x(df / 2, 1 / 2) at x = df / (df + t^2)
    return _solve(lambda t: 1.0 - 0.5 * beta_cdf(0.5 * df, 0.5, df / (df + t * t)), p)


@lru_cache(maxsize=256)
def chi_square(p: float, df: float) -> float:
    """Return a quantile of the chi-square distribution.

    Parameters
    ----------
    p : float
        Probability, in (0, 1).
    df : float
        Degrees of freedom.

    Returns
    -------
    float
        The quantile.

    Examples
    --------
    >>> round(chi_square(0.95, 3), 6)
    7.814728
    """
    return _solve(lambda x: gamma_cdf(0.5 * df, 0.5 * x), p)


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return P(Beta(a, b) <= x), the regularized incomplete beta function I_x(a, b).

    Parameters
    ----------
    a : float
        First shape parameter.
    b : float
        Second shape parameter.
    x : float
        The point, in [0, 1].

    Returns
    -------
    float
        The probability.

    Examples
    --------
    >>> round(beta_cdf(2, 3, 0.4), 6)
    0.5248
    """
    return float(beta.beta_cdf(float(a), float(b), float(x), 1.0 - x))


def gamma_cdf(a: float, x: float) -> float:
    """Return P(Gamma(a, 1) <= x), the regularized lower incomplete gamma function P(a, x).

    Parameters
    ----------
    a : float
        Shape parameter.
    x : float
        The point.

    Returns
    -------
    float
        The probability.

    Examples
    --------
    >>> round(gamma_cdf(1, 1), 6)
    0.632121
    """
    if x <= 0.0:
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        n = a
        while term > _EPS * total:
            n += 1.0
            term *= x / n
            total += term
        return front * total
    tail = _fraction(lambda i: 1.0 if i == 0 else -i * (i - a), lambda i: x + 2.0 * i + 1.0 - a)
    return 1.0 - front * tail


def _fraction(numerator: Callable[[int], float], denominator: Callable[[int], float]) -> float:
    """Return the continued fraction n_0 / (d_0 + n_1 / (d_1 + n_2 / (d_2 + ...))) by Lentz's method."""
    value, c, d = _TINY, _TINY, 0.0
    for i in range(100_000):
        d = denominator(i) + numerator(i) * d
        c = denominator(i) + numerator(i) / c
        d = 1.0 / (d or _TINY)
        c = c or _TINY
        value *= c * d
        if abs(c * d - 1.0) < 4.0 * _EPS:
            break
    return value


def _solve(cdf: Callable[[float], float], p: float) -> float:
    """Return the positive x with cdf(x) = p by doubling and bisection, which cannot fail to converge."""
    low, high = 0.0, 1.0
    while cdf(high) < p:
        low, high = high, 2.0 * high
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return 0.5 * (low + high)

"""The level of one regime with its interval: weighted least squares, and quantiles in closed form."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..detector.level_rule import Array, Support
from .levels import Level

_FAR = 6.0  # robust standard deviations beyond which a reading is moved to that distance
_MOST = 0.95  # largest autocorrelation that is taken into account
_PRIOR = 4.0  # weight of the noise of the previous regime, in readings
_SLOPE = 3.0  # standard errors from which a slope counts, in models that have lines
_LINE = 6  # fewest readings of a line


class Noise(NamedTuple):
    """Standard deviation of a full reading, lag-1 autocorrelation, and degrees of freedom of the estimates."""

    sd: float
    correlation: float
    degrees: float


def fit_level(
    x: Array, w: Array, t: Array, prior: Noise | None, line: bool, support: Support, confidence: float
) -> tuple[Level, Noise]:
    """Return the level of a regime and its noise; `Regimes` has the formulas.

    Parameters
    ----------
    x, w, t : ndarray
        Readings, their weights, and ticks since the change, shape (n,); at least one.
    prior : Noise or None
        Noise of the previous regime.
    line : bool
        Whether the regime may be a line.
    support : {"binary", "share", "count", "number"}
        What readings can be.
    confidence : float
        Probability of the interval.

    Returns
    -------
    tuple
        The level, and the noise including the prior.
    """
    unit = float(np.abs(x).max()) or 1.0  # no overflow
    y = x / unit
    known = prior or Noise(0.0, 0.0, 0.0)
    k = min(_PRIOR, known.degrees)
    flat = _fitted(y, w, np.ones((1, y.size)), support)
    value, gram, rest, parameters = *flat, 1
    n = y.size
    if line and support != "binary" and n >= _LINE:
        sloped = _fitted(y, w, np.array([np.ones(n), t / max(float(np.abs(t).max()), 1.0)]), support)
        r = _correlation(sloped[2])
        s2 = float(sloped[2] @ sloped[2]) / (n - 2) * (1.0 + r) / (1.0 - r)
        if sloped[0][1] ** 2 > _SLOPE**2 * s2 * sloped[1][1, 1]:
            value, gram, rest, parameters = *sloped, 2
    s0 = min(known.sd / unit, 1e150) ** 2
    degrees = n - parameters
    power = float(rest @ rest)
    s2 = (k * s0 + power) / (k + degrees) if k + degrees > 0.0 else math.inf
    r = (k * known.correlation + n * _correlation(rest)) / (k + n)
    f = (1.0 - r) / (1.0 + r)
    noise = Noise(math.sqrt(s2) * unit if math.isfinite(s2) else 0.0, r, k + degrees)
    mean, size = float(value[0]), f / float(gram[0, 0])
    if support == "binary":
        low, high = _wilson(mean * unit, size, confidence)
        return Level(mean * unit, low, high), noise
    error = math.inf
    if math.isfinite(s2):
        error = math.sqrt(s2 / size) * student_quantile(0.5 + 0.5 * confidence, max(k + degrees * f, 1.0))
    low, high = (mean - error) * unit, (mean + error) * unit
    if support == "share":
        mean = min(max(mean * unit, 0.0), 1.0)
        wide = _wilson(mean, size, confidence)  # the corrected labels may be all equal
        return Level(mean, max(min(low, wide[0]), 0.0), min(max(high, wide[1]), 1.0)), noise
    if support == "count":
        low = max(low, 0.0)
        if not x.any():
            high = max(high, -math.log(0.5 - 0.5 * confidence) / size)
    return Level(mean * unit, low, high), noise


def _fitted(y: Array, w: Array, u: Array, support: Support) -> tuple[Array, Array, Array]:
    """Return coefficients by weighted least squares, the inverse of sum w u u^T, and the residuals times sqrt(w)."""
    root = np.sqrt(w)
    gram = np.linalg.inv((u * w) @ u.T).astype(np.float64)
    if support == "number":
        # about the median, or about the line through all readings
        centre = np.full(y.size, float(np.median(y))) if len(u) == 1 else gram @ ((u * w) @ y) @ u
        rest = root * (y - centre)
        far = _FAR * 1.4826 * float(np.median(np.abs(rest)))
        if far > 0.0:
            y = centre + np.clip(rest, -far, far) / root
    value = gram @ ((u * w) @ y)
    return value, gram, root * (y - value @ u)


def _correlation(rest: Array) -> float:
    power = float(rest @ rest)
    return min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), _MOST) if power > 0.0 else 0.0


def _wilson(p: float, size: float, confidence: float) -> tuple[float, float]:
    z = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    q = z * z / size
    middle = (p + 0.5 * q) / (1.0 + q)
    half = math.sqrt(q * p * (1.0 - p) + 0.25 * q * q) / (1.0 + q)
    return max(min(middle - half, p), 0.0), min(max(middle + half, p), 1.0)


def student_quantile(p: float, degrees: float) -> float:
    """Return a quantile of Student's t, by algorithm 396 of Hill (1970).

    Parameters
    ----------
    p : float
        The probability, in (0, 1).
    degrees : float
        Degrees of freedom, at least 1.

    Returns
    -------
    float
        The quantile, to 0.01 % from 2 degrees on; exact for 1, and at most 5 % too far out in between.

    Examples
    --------
    >>> round(student_quantile(0.975, 10), 3), round(student_quantile(0.975, 2), 3)
    (2.228, 4.303)
    """
    if p < 0.5:
        return -student_quantile(1.0 - p, degrees)
    n, tails = degrees, 2.0 * (1.0 - p)
    if n == 1.0:
        return math.tan(0.5 * math.pi * (1.0 - tails))
    if n == 2.0:
        return math.sqrt(max(2.0 / (tails * (2.0 - tails)) - 2.0, 0.0))
    if n > 1e6:
        return NormalDist().inv_cdf(p)
    a = 1.0 / (n - 0.5)
    b = 48.0 / a**2
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(0.5 * a * math.pi) * n
    y = (d * tails) ** (2.0 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(0.5 * tails)
        y = x * x
        if n < 5.0:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = math.expm1(a * y * y)
    else:
        y = 1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)
        base = (d * tails) ** (2.0 / n)
        y = (y * base - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / base
    return math.sqrt(n * y)

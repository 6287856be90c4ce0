"""The level of one regime with its interval, whatever the autocorrelation of the readings.

The interval is an average over the autocorrelations that the readings allow, so that it is wide where they are too
few to tell; `mfbocd.trace.regimes` has the formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..detector.level_rule import Array, Support
from .levels import Level

_FAR = 6.0  # robust standard deviations from the level beyond which a reading is an outlier
_FEW = 10.0  # readings with which that distance is doubled: the scale of a few readings is uncertain
_FINE = 4.0  # robust standard deviation from which counts are as fine as numbers
_PRIOR = 4.0  # weight of the noise of the previous regime, in readings
_SLOPE = 0.0027  # probability by chance from which a slope counts, in models that have lines: 3 standard errors
_LINE = 6  # fewest readings of a line
_BORROWED = 150.0  # largest weight of what other regimes tell of the autocorrelation, in readings
_SPANS = 4.0  # memories of the autocorrelation that readings must span for an interval that can be trusted
_DOUBT = 0.1  # probability that they span fewer, from which the interval is not trusted
_LEAST = 20.0  # readings in all up to which only clear autocorrelation is taken into account
_UNCLEAR = 0.05  # probability of no autocorrelation from which it is not clear

RHO: Array = np.append(0.0, np.tanh(np.linspace(0.0, math.atanh(0.97), 21)[1:]))
"""The lag-1 autocorrelations that are considered."""
_MEMORY: Array = (1.0 + RHO) / (1.0 - RHO)  # readings that are worth one independent reading
_WHITE = 0.3  # prior probability of no autocorrelation; the rest is uniform
_STEPS = np.gradient(RHO[1:])
_LOG_PRIOR: Array = np.log(np.append(_WHITE, (1.0 - _WHITE) * _STEPS / _STEPS.sum()))


class Noise(NamedTuple):
    """Standard deviation of a full reading, and the degrees of freedom of the estimate."""

    sd: float
    degrees: float


class Dependence(NamedTuple):
    """What readings tell of their autocorrelation: how many they are, and a log likelihood for each of `RHO`."""

    readings: float = 0.0
    evidence: tuple[float, ...] = (0.0,) * RHO.size

    def plus(self, other: Dependence) -> Dependence:
        """Return what both tell together."""
        sums = (a + b for a, b in zip(self.evidence, other.evidence, strict=True))
        return Dependence(self.readings + other.readings, tuple(sums))


@dataclass(frozen=True)
class Sample:
    """The readings of one regime, prepared.

    Attributes
    ----------
    y, w : ndarray
        Readings less `centre` in units of `unit`, and their weights.
    clean : ndarray
        The same with outliers moved to the distance from which a reading is one.
    tick : ndarray or None
        Ticks since the change, at most 1 in size; None where the regime cannot be a line.
    unit, centre : float
        Scale and offset of `y`.
    outliers : bool
        Whether there are outliers.
    support : {"binary", "share", "count", "number"}
        What readings can be.
    dependence : Dependence
        What the readings tell of their autocorrelation.
    power : float
        Sum of squares of the independent part of their noise, with `degrees` of freedom.
    """

    y: Array
    w: Array
    clean: Array
    tick: Array | None
    unit: float
    centre: float
    outliers: bool
    support: Support
    dependence: Dependence
    power: float
    degrees: int


class _Fit(NamedTuple):
    """Weighted least squares: coefficients, and the rest for each value of `RHO`."""

    value: Array
    rows: Array  # coefficients are rows @ (sqrt(w) y)
    evidence: Array  # log likelihood without the coefficients and the scale (REML)
    power: Array  # sum of squares of the independent part of the residuals
    degrees: int


def sample(x: Array, w: Array, t: Array, line: bool, support: Support) -> Sample:
    """Prepare the readings of a regime.

    Parameters
    ----------
    x, w, t : ndarray
        Readings, their weights, and ticks since the change, shape (n,); at least one.
    line : bool
        Whether the regime may be a line.
    support : {"binary", "share", "count", "number"}
        What readings can be.

    Returns
    -------
    Sample
        The readings, whether some are outliers, and what they tell of their autocorrelation.
    """
    unit = float(np.abs(x).max()) or 1.0  # no overflow
    y = x / unit
    centre = float(np.median(y)) if support in ("count", "number") else 0.0
    y = y - centre
    tick = None
    if line and support != "binary" and x.size >= _LINE:
        tick = t / max(float(np.abs(t).max()), 1.0)
    clean, outliers = y, False
    if support == "number" or (support == "count" and _robust_sd(y) * unit >= _FINE):
        clean, outliers = _clipped(y, w, np.zeros(y.size))
        if tick is not None:
            clean, outliers = _clipped(y, w, _fit(clean, w, tick).value @ _design(tick, y.size))
    fit = _fit(clean, w, tick)
    if tick is not None and not _has_slope(fit, _posterior(fit.evidence, y.size, Dependence())):
        fit = _fit(clean, w, None)
    evidence = fit.evidence
    if outliers:  # skewed readings are like normal ones in their order
        evidence = _order_evidence(y, y != clean)
    varied = float(y.size) if fit.power.any() else 0.0  # equal readings tell nothing
    dependence = Dependence(varied, tuple(evidence.tolist()))
    power = float(_posterior(evidence, y.size, Dependence()) @ fit.power)
    return Sample(y, w, clean, tick, unit, centre, outliers, support, dependence, power, fit.degrees)


def level_of(
    regime: Sample, prior: Noise, others: Dependence, median: bool, confidence: float
) -> tuple[Level, Noise]:
    """Return the level of a regime and its noise; `Regimes` has the formulas.

    Parameters
    ----------
    regime : Sample
        The readings.
    prior : Noise
        Noise of the previous regime.
    others : Dependence
        What the other regimes tell of the autocorrelation.
    median : bool
        Whether the interval is that of the median.
    confidence : float
        Probability of the interval.

    Returns
    -------
    tuple
        The level, and the noise including the prior.
    """
    weight = min(1.0, _BORROWED / max(others.readings, 1.0))
    borrowed = Dependence(weight * others.readings, tuple(weight * value for value in others.evidence))
    tick = regime.tick
    fit = _fit(regime.clean, regime.w, tick)
    order = np.array(regime.dependence.evidence)
    posterior = _posterior(order if regime.outliers else fit.evidence, regime.dependence.readings, borrowed)
    if tick is not None and not _has_slope(fit, posterior):
        tick = None
        fit = _fit(regime.clean, regime.w, None)
        posterior = _posterior(order if regime.outliers else fit.evidence, regime.dependence.readings, borrowed)
    short = (RHO > 0.0) & (regime.dependence.readings + borrowed.readings < _SPANS * _MEMORY)
    trusted = float(posterior[short].sum()) <= _DOUBT
    k = min(_PRIOR, prior.degrees)
    s0 = min(prior.sd / regime.unit, 1e150) ** 2
    noise = Noise(0.0, 0.0)
    if k + regime.degrees > 0.0:
        square = (k * s0 + regime.power) / (k + regime.degrees)
        noise = Noise(math.sqrt(square) * regime.unit, k + regime.degrees)
    if median:
        return _median_level(regime, tick, posterior, trusted, confidence), noise
    return _mean_level(regime, tick, posterior, (s0, k), trusted, confidence), noise


def _mean_level(
    regime: Sample,
    tick: Array | None,
    posterior: Array,
    prior: tuple[float, float],
    trusted: bool,
    confidence: float,
) -> Level:
    """Return the mean, or the value of the line at the change; `prior` is the noise variance and its weight."""
    unit, support = regime.unit, regime.support
    fit = _fit(regime.y, regime.w, tick)
    mean = float(fit.value[0]) + regime.centre
    factors = _quadratic(fit.rows[0])  # variance of the mean if that of a reading is 1
    size = math.inf
    if support != "number":
        normal = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
        size = (normal / _half_width(posterior, np.sqrt(factors), math.inf, confidence)) ** 2
    if support == "binary":
        return Level(mean * unit, *_wilson(mean * unit, size, confidence), trusted=trusted)
    error = math.inf
    s0, k = prior
    degrees = k + fit.degrees
    if degrees > 0.0:
        s2 = (k * s0 + fit.power) / degrees
        error = _half_width(posterior, np.sqrt(s2 * factors), degrees, confidence)
    low, high = (mean - error) * unit, (mean + error) * unit
    if support == "share":
        mean = min(max(mean * unit, 0.0), 1.0)
        wide = _wilson(mean, size, confidence)  # the corrected labels may be all equal
        return Level(mean, max(min(low, wide[0]), 0.0), min(max(high, wide[1]), 1.0), trusted=trusted)
    if support == "count":
        low = max(low, 0.0)
        if mean == 0.0:
            high = max(high, -math.log(0.5 - 0.5 * confidence) / size)
    return Level(mean * unit, low, high, trusted=trusted)


def _median_level(regime: Sample, tick: Array | None, posterior: Array, trusted: bool, confidence: float) -> Level:
    """Return the median, or the value of the median line at the change, with an interval of quantiles."""
    y, unit = regime.y, regime.unit
    mean = float(_fit(y, regime.w, tick).value[0])
    if tick is not None:
        y = y - _median_slope(regime, tick) * tick
    fit = _fit(y, regime.w, tick)
    share = fit.rows[0] * np.sqrt(regime.w)  # of each reading in the level
    half = _half_width(posterior, np.sqrt(_quadratic(share, signs=True)), math.inf, confidence)
    low, median, high = _quantiles(y, regime.w, (0.5 - 0.5 * half, 0.5, 0.5 + 0.5 * half))
    mean, low, median, high = ((value + regime.centre) * unit for value in (mean, low, median, high))
    return Level(mean, low, high, median, trusted)


def _median_slope(regime: Sample, tick: Array) -> float:
    """Return the slope of least absolute deviations, by reweighted least squares."""
    value = _fit(regime.clean, regime.w, tick).value
    design = _design(tick, regime.y.size)
    least = 1e-3 * _robust_sd(regime.y - value @ design)
    for _ in range(30):
        distance = np.maximum(np.abs(regime.y - value @ design), least)
        value = _fit(regime.y, regime.w / distance, tick).value if least > 0.0 else value
    return float(value[1])


def _quantiles(y: Array, w: Array, shares: tuple[float, ...]) -> list[float]:
    """Return quantiles of weighted readings; infinite beyond the middle of the outermost ones."""
    order = np.argsort(y)
    place = (np.cumsum(w[order]) - 0.5 * w[order]) / w.sum()
    return np.interp(shares, place, y[order], left=-math.inf, right=math.inf).tolist()


def _design(tick: Array | None, n: int) -> Array:
    """Return the columns of a level, or of a line."""
    return np.ones((1, n)) if tick is None else np.array([np.ones(n), tick])


def _fit(y: Array, w: Array, tick: Array | None) -> _Fit:
    """Fit a level or a line; facts on the residuals times sqrt(w) are those of an AR(1) with each value of `RHO`."""
    root = np.sqrt(w)
    u = root * _design(tick, y.size)
    count = len(u)
    rows = np.asarray(np.linalg.solve(u @ u.T, u), dtype=np.float64)
    value = np.asarray(np.linalg.solve(u @ u.T, u @ (root * y)), dtype=np.float64)  # of ones, exactly 1
    degrees = y.size - count
    zero = np.zeros(RHO.size)
    rest = root * y - value @ u
    if degrees == 0 or not rest.any():
        return _Fit(value, rows, zero, zero, degrees)
    # e' R^-1 e = (e'e + rho^2 (inner e'e) - 2 rho (e_1 e_2 + e_2 e_3 + ...)) / (1 - rho^2), for columns and residuals
    both = np.vstack([u, rest])
    inner = both[:, 1:-1]
    shifted = both[:, 1:] @ both[:, :-1].T
    rho = RHO[:, None, None]
    gram = (both @ both.T + rho**2 * (inner @ inner.T) - rho * (shifted + shifted.T)) / (1.0 - rho**2)
    columns, cross = gram[:, :count, :count], gram[:, :count, count:]
    power = gram[:, count, count] - (cross * np.linalg.solve(columns, cross)).sum(axis=(1, 2))
    power = np.maximum(power, 1e-12 * float(rest @ rest))
    evidence = -0.5 * ((y.size - 1) * np.log1p(-(RHO**2)) + np.linalg.slogdet(columns)[1] + degrees * np.log(power))
    return _Fit(value, rows, evidence - evidence[0], power, degrees)


def _posterior(evidence: Array, readings: float, others: Dependence) -> Array:
    """Return the probability of each value of `RHO`; with few readings only strong evidence counts."""
    log_p = _LOG_PRIOR + evidence + np.array(others.evidence)
    p = np.exp(log_p - log_p.max())
    p = p / p.sum()
    if readings + others.readings < _LEAST and p[0] > _UNCLEAR:
        p = np.append(1.0, np.zeros(RHO.size - 1))
    return np.asarray(p)


def _has_slope(fit: _Fit, posterior: Array) -> bool:
    """Tell whether the slope of a line is clear, given the autocorrelation."""
    errors = np.sqrt(fit.power / max(fit.degrees, 1) * _quadratic(fit.rows[1]))
    slope = abs(float(fit.value[1]))
    if not errors.all():
        return slope > 0.0
    return fit.degrees > 0 and _tails(slope, posterior, errors, fit.degrees) < _SLOPE


def _quadratic(a: Array, signs: bool = False) -> Array:
    """Return sum a_i a_j rho^|i-j| for each value of `RHO`; with `signs`, of the signs of normal readings instead."""
    size = 1 << (2 * a.size - 1).bit_length()
    lagged = np.fft.irfft(np.abs(np.fft.rfft(a, size)) ** 2, size)[: a.size]
    lagged[1:] *= 2.0
    powers = np.ones((RHO.size, a.size))
    powers[:, 1:] = RHO[:, None]
    correlation: Array = np.cumprod(powers, axis=1, dtype=np.float64)
    if signs:
        correlation = 2.0 / math.pi * np.arcsin(correlation)
    return np.asarray(correlation @ lagged)


def _tails(distance: float, p: Array, errors: Array, degrees: float) -> float:
    """Return P(a value is farther than this from 0), for Student's t with these standard errors, averaged."""
    t = distance / errors
    if math.isfinite(degrees):  # Wallace (1959)
        t = (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0) * np.sqrt(degrees * np.log1p(t * t / degrees))
    tails = [math.erfc(z / math.sqrt(2.0)) for z in t.tolist()]
    return float(p @ tails)


def _half_width(p: Array, errors: Array, degrees: float, confidence: float) -> float:
    """Return the distance from 0 within which a value is with this probability; see `_tails`."""
    p, errors = p[p > 1e-6], errors[p > 1e-6]
    if not errors.any():
        return 0.0
    normal = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    scale = student = normal
    if math.isfinite(degrees):
        student = student_quantile(0.5 + 0.5 * confidence, max(degrees, 1.0))
        exponent = (normal * (8.0 * degrees + 3.0) / (8.0 * degrees + 1.0)) ** 2 / degrees
        scale = math.sqrt(degrees * math.expm1(exponent))
    low, high = 0.99 * scale * float(errors.min()), 1.01 * scale * float(errors.max())
    share = p.sum()
    while high - low > 1e-7 * high:
        middle = 0.5 * (low + high)
        if _tails(middle, p / share, errors, degrees) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high * student / scale  # exact where the autocorrelation is known


def _robust_sd(rest: Array) -> float:
    return 1.4826 * float(np.median(np.abs(rest - np.median(rest))))


def _clipped(y: Array, w: Array, line: Array) -> tuple[Array, bool]:
    """Return readings with outliers moved to the distance from the line that makes one, and whether there are."""
    root = np.sqrt(w)
    rest = root * (y - line)
    bound = _FAR * (1.0 + (_FEW / y.size) ** 2) * _robust_sd(rest)
    if bound == 0.0 or not (np.abs(rest) > bound).any():
        return y, False
    return line + np.clip(rest, -bound, bound) / root, True


def _order_evidence(y: Array, far: NDArray[np.bool_]) -> Array:
    """Return the evidence on autocorrelation of the ranks, as quantiles of the normal distribution.

    Outliers whose neighbours are none are left out: they are no part of the process. Those of a long tail have others
    beside them if readings are autocorrelated.
    """
    beside = np.append(False, far[:-1]) | np.append(far[1:], False)
    y = y[~far | beside]
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    share = (np.cumsum(count) - 0.5 * count) / y.size  # equal readings have the rank in their middle
    scores = np.array([NormalDist().inv_cdf(p) for p in share.tolist()])[place]
    return _fit(scores, np.ones(y.size), None).evidence


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

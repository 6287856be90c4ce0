"""The systematic error of a cheap sensor, from readings of it and of the best one at the same ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import numbers, require_count, same_length

Array = NDArray[np.float64]

LEAST = 30
"""Pairs that are needed, as for zeta."""
SIGNIFICANT = 5.0
"""Standard errors beyond which an offset or a scale is taken to be real."""
BLOCKS = 16
"""Stretches of the data whose estimates are compared, for standard errors that hold where errors are dependent."""
_STRENGTH = 104.0  # F statistic of an instrument above which t statistics can be trusted (Lee et al. 2022)
_SMALLEST = 0.02  # a scale closer to 1 is left alone
_OUTLIER = 6.0  # standard deviations


@dataclass(frozen=True)
class CorrectionEstimate:
    """The offset and the scale of a sensor, relative to a better one.

    Attributes
    ----------
    offset, scale : float
        Arguments of `Fidelity`: the sensor reads offset + scale * signal. 0 and 1 if no error is detected.
    offset_error, scale_error : float
        Standard errors; `scale_error` is infinite if the signal varies too little to estimate the scale.
    n : int
        Number of pairs.

    Examples
    --------
    >>> estimate = CorrectionEstimate(offset=2.0, scale=1.0, offset_error=0.03, scale_error=0.01, n=500)
    >>> print(estimate)
    reads 2 more (standard error 0.03, 500 pairs)
    """

    offset: float
    scale: float
    offset_error: float
    scale_error: float
    n: int

    @property
    def detected(self) -> bool:
        """Whether there is anything to correct."""
        return (self.offset, self.scale) != (0.0, 1.0)

    def __str__(self) -> str:
        if not self.detected:
            return f"no systematic error was detected in {self.n} pairs"
        pairs = f"{self.n} pairs"
        if self.scale == 1.0:
            side = "more" if self.offset > 0.0 else "less"
            return f"reads {abs(self.offset):g} {side} (standard error {self.offset_error:.2g}, {pairs})"
        sign = "+" if self.offset >= 0.0 else "-"
        errors = f"standard errors {self.scale_error:.2g} and {self.offset_error:.2g}"
        return f"reads {self.scale:g} times the value {sign} {abs(self.offset):g} ({errors}, {pairs})"


def estimate_correction(high: ArrayLike, low: ArrayLike, *, least: int = LEAST) -> CorrectionEstimate:
    """Estimate the offset and the scale of a low fidelity from simultaneous readings of it and of the high one.

    In the model, high = signal + error and low = offset + scale * signal + error. A regression of low on high would
    underestimate the scale, because high has errors as well. So the scale is estimated with an instrument, the mean z
    of the high fidelity's readings before and after,

        scale = cov(z, low) / cov(z, high),    offset = median(low - scale * high),

    which is unbiased if errors of different ticks are independent. It is used only if it differs from 1 by more than
    5 standard errors and 0.02, and if the signal varies enough to estimate it. Otherwise scale = 1, and the offset is
    used if it exceeds 5 standard errors. Standard errors are the larger of those for independent errors and those
    from 16 stretches of the data. Pairs beyond 6 standard deviations do not count in the scale.

    Parameters
    ----------
    high : ArrayLike
        Readings at the high fidelity, in the order of time.
    low : ArrayLike
        Readings at the low fidelity, at the same ticks.
    least : int
        Pairs required, at least 3; 30 by default.

    Returns
    -------
    CorrectionEstimate
        Offset and scale, rounded to a tenth of their standard errors; 0 and 1 if no error is detected.

    Raises
    ------
    CalibrationError
        If there are fewer than `least` pairs.
    ValueError
        If the readings are invalid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signal = np.repeat(rng.normal(20, 5, 10), 50)
    >>> high, low = signal + rng.normal(size=500), signal + 2.0 + 3.0 * rng.normal(size=500)
    >>> print(estimate_correction(high, low))
    reads 1.77 more (standard error 0.16, 500 pairs)
    >>> fahrenheit = 32.0 + 1.8 * (signal + 0.5 * rng.normal(size=500))
    >>> found = estimate_correction(high, fahrenheit)
    >>> round(found.scale, 1), round(found.offset)
    (1.8, 32)
    """
    x, y = numbers("high", high), numbers("low", low)
    n = same_length(high=x, low=y)
    require_count(n, least, "paired readings", "a correction")
    slope, slope_error = _scale(x, y)
    if slope - SIGNIFICANT * slope_error > 0.0 and abs(slope - 1.0) > max(SIGNIFICANT * slope_error, _SMALLEST):
        scale = _rounded(slope, slope_error)
        offset, error = _middle(y - scale * x)
        error = math.hypot(error, float(np.mean(x)) * slope_error)
        return CorrectionEstimate(_rounded(offset, error), scale, error, slope_error, n)
    offset, error = _middle(y - x)
    if abs(offset) <= SIGNIFICANT * error:
        offset = 0.0
    return CorrectionEstimate(_rounded(offset, error), 1.0, error, slope_error, n)


def _middle(values: Array) -> tuple[float, float]:
    """Return the median and its standard error."""
    middle = float(np.median(values))
    independent = 1.2533 * 1.4826 * float(np.median(np.abs(values - middle))) / math.sqrt(values.size)
    parts = [float(np.median(part)) for part in np.array_split(values, BLOCKS)]
    return middle, max(independent, float(np.std(parts, ddof=1)) / math.sqrt(BLOCKS))


def _scale(x: Array, y: Array) -> tuple[float, float]:
    """Return the instrumental estimate of the slope of y on x and its standard error; (1, inf) if x hardly varies."""
    z = 0.5 * (x[:-2] + x[2:])
    x, y = x[1:-1], y[1:-1]
    slope = _slope(z, x, y)
    rest = y - slope * x
    rest -= np.median(rest)
    kept = np.abs(rest) <= _OUTLIER * 1.4826 * float(np.median(np.abs(rest)))
    if 3 <= kept.sum() < kept.size:
        z, x, y = z[kept], x[kept], y[kept]
        slope = _slope(z, x, y)
    z, x, y = (values - values.mean() for values in (z, x, y))
    square = float(z @ x) ** 2 / max(float(z @ z) * float(x @ x), 1e-300)
    if square * z.size <= _STRENGTH * (1.0 - square) or not math.isfinite(slope):
        return 1.0, math.inf
    each = z * (y - slope * x)
    sums = [float(part.sum()) for part in np.array_split(each, BLOCKS)]
    return slope, math.sqrt(max(float(each @ each), float(np.dot(sums, sums)))) / abs(float(z @ x))


def _slope(z: Array, x: Array, y: Array) -> float:
    z = z - z.mean()
    below = float(z @ x)
    return float(z @ y) / below if below else math.inf


def _rounded(value: float, error: float) -> float:
    """Round to a tenth of the standard error."""
    if value == 0.0 or not 0.0 < error < math.inf:
        return float(f"{value:.6g}")
    return round(value, 1 - math.floor(math.log10(error)))

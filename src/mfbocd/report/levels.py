"""The level of the readings before and after a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FAR = 4.0  # robust standard deviations beyond which a reading is moved to that distance
_MOST = 0.95  # largest autocorrelation that is taken into account


class Level(NamedTuple):
    """The mean of the readings of one regime.

    Attributes
    ----------
    mean : float
        The mean; NaN if there is no reading.
    low, high : float
        A 90 % confidence interval of the mean, infinite for a single reading.
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.high - self.low):
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g})"


def level_of(x: Array, confidence: float = 0.9) -> Level:
    """Return the mean of readings and a confidence interval.

    Parameters
    ----------
    x : numpy.ndarray
        Readings of one regime in order, NaN where missing.
    confidence : float, default 0.9
        Probability of the interval.

    Returns
    -------
    Level
        Mean and interval.

    Notes
    -----
    Readings farther than 4 robust standard deviations from the median are moved to that distance, so that an outlier
    does not decide. The interval is that of Student's t for n (1 - r) / (1 + r) independent readings, with r the
    lag-1 autocorrelation if it is positive. Where the readings follow a line or a season, the interval is wide, since
    their variation counts as noise.

    Examples
    --------
    >>> print(level_of(np.array([7.1, 6.9, 7.0, 7.2, 6.8])))
    7 (6.849 to 7.151)
    """
    seen = x[np.isfinite(x)]
    if seen.size == 0:
        return Level(math.nan, math.nan, math.nan)
    unit = float(np.abs(seen).max()) or 1.0  # no overflow
    y = seen / unit
    middle = float(np.median(y))
    spread = 1.4826 * float(np.median(np.abs(y - middle)))
    if spread > 0.0:
        y = np.clip(y, middle - _FAR * spread, middle + _FAR * spread)
    mean = float(y.mean())
    rest = y - mean
    power = float(rest @ rest)
    r = min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), _MOST) if power > 0.0 else 0.0
    count = max(y.size * (1.0 - r) / (1.0 + r), 1.0)
    if y.size == 1:
        return Level(mean * unit, -math.inf, math.inf)
    degrees = max(count - 1.0, 1.0)
    error = math.sqrt(power / (y.size - 1) / count) * student_quantile(0.5 + 0.5 * confidence, degrees)
    return Level(mean * unit, (mean - error) * unit, (mean + error) * unit)


def levels_around(x: Array, changes: Sequence[int]) -> list[tuple[Level, Level]]:
    """Return the levels before and after each change.

    Parameters
    ----------
    x : numpy.ndarray
        All readings, NaN where missing.
    changes : sequence of int
        Rows at which new regimes began, ascending.

    Returns
    -------
    list of tuple
        For each change, the level of the readings since the change before it, and up to the change after it.
    """
    edges = [0, *changes, x.size]
    levels = [level_of(x[start:end]) for start, end in pairwise(edges)]
    return list(pairwise(levels))


def student_quantile(p: float, degrees: float) -> float:
    """Return a quantile of Student's t: the expansion of Cornish and Fisher, exact to 1 % from 3 degrees on.

    Parameters
    ----------
    p : float
        The probability, in (0, 1).
    degrees : float
        Degrees of freedom, at least 1; with 1, the quantile is up to 20 % too small.

    Returns
    -------
    float
        The quantile.

    Examples
    --------
    >>> round(student_quantile(0.95, 10), 3), round(student_quantile(0.95, 3), 2)
    (1.812, 2.35)
    """
    z = NormalDist().inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
    )
    return sum(term / degrees**i for i, term in enumerate(terms))

"""The distribution of readings within a level, from pairs of neighbours, few of which contain a change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..noise import robust_mean_square
from ..quantiles import chi_square

Array = NDArray[np.float64]

BLOCK = 30
"""Readings per block over which the noise is assumed constant when it is compared between blocks."""
CONFIDENCE = 0.99
"""Confidence of the test for constant noise: one stream in a hundred is wrongly rejected."""


def dispersion(x: Array) -> float:
    """Return the variance of counts within a level divided by their mean, which is 1 for a Poisson.

    Given the sum s of two Poisson counts with the same rate, the expected squared difference is s whatever the rate,
    so that the levels need not be known.

    Parameters
    ----------
    x : numpy.ndarray
        The counts.

    Returns
    -------
    float
        The ratio.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> round(dispersion(rng.poisson(np.repeat([2.0, 90.0], 500)).astype(float)), 1)
    1.0
    """
    total = x[1:] + x[:-1]
    steps = np.abs(np.diff(x))[total > 0.0] / np.sqrt(total[total > 0.0])
    if steps.size and np.median(steps) > 0.0:
        return robust_mean_square(steps)
    return float(steps @ steps) / max(steps.size, 1)


def exponential_distance(x: Array) -> float:
    """Return the distance of non-negative readings from an exponential distribution within a level, 0 to 1.

    For two exponential readings with the same rate, |x - y| / (x + y) is uniform in [0, 1] whatever the rate. This is
    the largest distance between its distribution function and the uniform one (Kolmogorov-Smirnov).

    Parameters
    ----------
    x : numpy.ndarray
        The readings.

    Returns
    -------
    float
        The distance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> round(exponential_distance(rng.exponential(np.repeat([1.0, 30.0], 2000))), 2)
    0.01
    >>> round(exponential_distance(rng.random(4000)), 2)
    0.16
    """
    total = x[1:] + x[:-1]
    share = np.sort(np.abs(np.diff(x))[total > 0.0] / total[total > 0.0])
    if share.size == 0:
        return 1.0
    rank = np.arange(share.size) / share.size
    return max(float(np.max(share - rank)), float(np.max(rank - share)) + 1.0 / share.size)


def noise_ratio(x: Array) -> float:
    """Return the ratio of the noise's highest to its lowest standard deviation, or 1 if the noise may be constant.

    The noise is not constant if neighbouring readings differ by more in some blocks than in others. This is tested on
    the ranks of the differences (Kruskal-Wallis), so that the result for constant noise does not depend on its
    distribution, nor on the unit and offset of the readings. Highest and lowest are the 90 % and 10 % quantiles over
    blocks.

    Parameters
    ----------
    x : numpy.ndarray
        The readings.

    Returns
    -------
    float
        The ratio; infinite if the lowest is 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise_ratio(rng.normal(size=600) * np.repeat([1.0, 5.0], 300)) > 3.0
    True
    >>> noise_ratio(rng.normal(size=600) + np.repeat([1.0, 5.0], 300))
    1.0
    """
    even = x.size - x.size % 2
    differences = np.abs(x[1:even:2] - x[0:even:2])  # of disjoint pairs, which are independent
    blocks = x.size // BLOCK
    middle = float(np.median(differences)) if differences.size else 0.0
    if blocks < 2 or middle == 0.0:  # an unknown noise variance would shrink towards 0 on constant readings
        return 1.0
    differences = np.round(differences / middle, 9)  # equal differences stay equal in any unit
    rank = np.searchsorted(np.sort(differences), differences, side="right")
    parts = np.array_split(rank, blocks)
    between = sum(part.size * (float(part.mean()) - float(rank.mean())) ** 2 for part in parts)
    if between <= chi_square(CONFIDENCE, blocks - 1) * float(np.var(rank, ddof=1)):
        return 1.0
    squares = [robust_mean_square(steps) for steps in np.array_split(np.abs(np.diff(x)), blocks)]
    low, high = np.quantile(np.sqrt(squares), [0.1, 0.9])
    return float(high / low) if low > 0.0 else math.inf

"""How readings scatter within a level, told from readings next to each other: a change of level parts few of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..noise import usual_square
from ..quantiles import chi_square

Array = NDArray[np.float64]

BLOCK = 30
"""Readings over which the noise is taken as steady when it is asked whether it is."""
CONFIDENCE = 0.99
"""How seldom steady noise may be called unsteady: once in a hundred streams."""


def dispersion(x: Array) -> float:
    """The variance of counts within a level over their mean: 1 of a Poisson's.

    Of two Poisson counts with the same rate, given their sum s, the squared difference is s on average whatever the
    rate, so that levels need not be known.

    >>> rng = np.random.default_rng(0)
    >>> round(dispersion(rng.poisson(np.repeat([2.0, 90.0], 500)).astype(float)), 1)
    1.0
    """
    total = x[1:] + x[:-1]
    steps = np.abs(np.diff(x))[total > 0.0] / np.sqrt(total[total > 0.0])
    if steps.size and np.median(steps) > 0.0:
        return usual_square(steps)
    return float(steps @ steps) / max(steps.size, 1)


def waiting(x: Array) -> float:
    """How far readings of at least 0 are from scattering as waiting times (an exponential) within a level: 0 to 1.

    Of two exponential readings with the same rate, |x - y| / (x + y) is uniform in [0, 1] whatever the rate. This is
    the largest distance between its distribution function and the uniform's (Kolmogorov-Smirnov).

    >>> rng = np.random.default_rng(0)
    >>> round(waiting(rng.exponential(np.repeat([1.0, 30.0], 2000))), 2), round(waiting(rng.random(4000)), 2)
    (0.01, 0.16)
    """
    total = x[1:] + x[:-1]
    share = np.sort(np.abs(np.diff(x))[total > 0.0] / total[total > 0.0])
    if share.size == 0:
        return 1.0
    rank = np.arange(share.size) / share.size
    return max(float(np.max(share - rank)), float(np.max(rank - share)) + 1.0 / share.size)


def loudness(x: Array) -> float:
    """The noise's standard deviation where it is loud over where it is quiet; 1 if it may be the same throughout.

    Readings next to each other must differ by more in some blocks of readings than in others, which is asked of the
    ranks of their differences (Kruskal-Wallis): what is said of steady noise does not depend on its distribution, nor
    on the unit and zero of the readings. Loud and quiet are then the tenth of the blocks at either end.

    >>> rng = np.random.default_rng(0)
    >>> loudness(rng.normal(size=600) * np.repeat([1.0, 5.0], 300)) > 3.0
    True
    >>> loudness(rng.normal(size=600) + np.repeat([1.0, 5.0], 300))
    1.0
    """
    even = x.size - x.size % 2
    apart = np.abs(x[1:even:2] - x[0:even:2])  # of pairs that share no reading: independent
    blocks = x.size // BLOCK
    middle = float(np.median(apart)) if apart.size else 0.0
    if blocks < 2 or middle == 0.0:  # unknown noise would shrink without end while nothing moves
        return 1.0
    apart = np.round(apart / middle, 9)  # equal differences stay equal in another unit
    rank = np.searchsorted(np.sort(apart), apart, side="right")
    parts = np.array_split(rank, blocks)
    between = sum(part.size * (float(part.mean()) - float(rank.mean())) ** 2 for part in parts)
    if between <= chi_square(CONFIDENCE, blocks - 1) * float(np.var(rank, ddof=1)):
        return 1.0
    squares = [usual_square(steps) for steps in np.array_split(np.abs(np.diff(x)), blocks)]
    quiet, loud = np.quantile(np.sqrt(squares), [0.1, 0.9])
    return float(loud / quiet) if quiet > 0.0 else math.inf

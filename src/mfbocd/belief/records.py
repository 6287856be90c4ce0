"""What the filter returns: the run-length posterior, the start of a regime, the surprise of a reading."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RunLength(NamedTuple):
    """The filtered posterior P(r_t = length), shortest run first; r_t = 0 means that x_t began a new regime.

    Parameters
    ----------
    length : ndarray of int
        Run lengths of the live hypotheses, ascending.
    weight : ndarray
        Their probabilities, which sum to 1.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> for x in [0.1, -0.2, 0.0, 7.9]:
    ...     step = detector.update(x)
    >>> detector.run_length.length, detector.run_length.weight.round(2)
    (array([0, 1, 2, 3]), array([1., 0., 0., 0.]))
    """

    length: NDArray[np.int64]
    weight: Array


class Start(NamedTuple):
    """When the current regime began.

    Parameters
    ----------
    at : int
        The most probable tick.
    low, high : int
        First and last tick of a credible interval.
    probability : float
        P(it began at `at`).

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> for x in [0.1, -0.2, 0.0, 7.9, 8.1]:
    ...     step = detector.update(x)
    >>> start = detector.regime()
    >>> start.at, start.low, start.high, round(start.probability, 3)
    (3, 3, 3, 1.0)
    """

    at: int
    low: int
    high: int
    probability: float


class Surprise(NamedTuple):
    """How surprising a reading is, given the readings before it; all three are natural logarithms.

    Parameters
    ----------
    log_density : float
        Log of the predictive density of the reading, or of its probability where readings are discrete.
    log_lower : float or tuple of float
        log P(X <= x). For readings of several numbers, of each number on its own; NaN for one that is missing.
    log_upper : float or tuple of float
        log P(X >= x), likewise.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> step = Detector(Gaussian(0, 9, 1), surprise=True).update(6.0)
    >>> round(step.surprise.log_density, 2), round(step.surprise.log_upper, 2)
    (-3.87, -3.54)
    """

    log_density: float
    log_lower: Any
    log_upper: Any

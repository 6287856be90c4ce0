"""What the filter returns: the run-length posterior, the start of a regime, the surprise of a reading."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import whole

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

    def p_changed(self, within: int, ticks: int) -> float:
        """Return P(a regime began in the last `within` ticks); the start of the stream does not count as a change.

        Parameters
        ----------
        within : int
            Length of the window in ticks, at least 1.
        ticks : int
            Ticks of the stream so far.

        Returns
        -------
        float
            The probability.

        Raises
        ------
        ValueError
            If `within` is below 1.
        """
        recent = self.length < min(whole("", "within", within, 1), ticks - 1)
        return min(float(self.weight[recent].sum()), 1.0)


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

    @classmethod
    def of(cls, birth: Array, weight: Array, level: float) -> Start:
        """Return the start of the current regime.

        Parameters
        ----------
        birth : ndarray
            First ticks of the regimes that are possible, oldest first.
        weight : ndarray
            Their probabilities.
        level : float
            Least probability of the credible interval, which has equal tails.

        Returns
        -------
        Start
            The most probable tick, the interval, and P(that tick).
        """
        share = weight / weight.sum()
        below = np.cumsum(share)
        tail = 0.5 * (1.0 - level)
        last = share.size - 1
        low = min(int(np.searchsorted(below, tail, side="right")), last)
        high = min(int(np.searchsorted(below, 1.0 - tail)), last)
        top = int(np.argmax(share))
        return cls(int(birth[top]), int(birth[low]), int(birth[high]), float(share[top]))


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

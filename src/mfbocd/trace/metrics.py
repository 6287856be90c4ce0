"""Distances between two runs, and the quality of detections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class DetectionScore(NamedTuple):
    """Counts and delay of detected changes; the result of `detection`.

    Attributes
    ----------
    found : int
        True changes that an alarm detected.
    missed : int
        True changes that no alarm detected.
    delay : float
        Mean number of ticks from a change to its alarm; a missed change counts as `within` ticks.
    false_alarms : int
        Alarms that belong to no true change.
    """

    found: int
    missed: int
    delay: float
    false_alarms: int


def mse(a: ArrayLike, b: ArrayLike) -> float:
    """Return the mean squared difference of two series.

    Parameters
    ----------
    a : ArrayLike
        First series.
    b : ArrayLike
        Second series, of the same shape.

    Returns
    -------
    float
        mean((a - b)^2).

    Examples
    --------
    >>> mse([0.0, 2.0], [0.0, 0.0])
    2.0
    """
    return float(np.mean((np.asarray(a, dtype=float) - np.asarray(b, dtype=float)) ** 2))


def l1(a: ArrayLike, b: ArrayLike) -> float:
    """Return the sum of absolute differences of two run-length posteriors, the paper's L1.

    Parameters
    ----------
    a : ArrayLike
        First posterior, one row per tick.
    b : ArrayLike
        Second posterior, of the same shape.

    Returns
    -------
    float
        sum(|a - b|).

    Examples
    --------
    >>> l1([[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]])
    1.0
    """
    return float(np.abs(np.asarray(a, dtype=float) - np.asarray(b, dtype=float)).sum())


def detection(alarms: Sequence[int], changes: Sequence[int], within: int = 50) -> DetectionScore:
    """Match alarms to true changes.

    Each change, in order, is matched with the first alarm not yet used in the `within` ticks from the change on.

    Parameters
    ----------
    alarms : Sequence[int]
        Ticks of the alarms.
    changes : Sequence[int]
        Ticks of the true changes.
    within : int
        Ticks after a change in which an alarm counts as its detection; 50 by default.

    Returns
    -------
    DetectionScore
        Counts of found and missed changes and of false alarms, and the mean delay (NaN without changes).

    Examples
    --------
    >>> detection(alarms=[12, 40, 90], changes=[10, 80], within=20)
    DetectionScore(found=2, missed=0, delay=6.0, false_alarms=1)
    """
    free = sorted(int(a) for a in alarms)
    delays = []
    for change in sorted(int(c) for c in changes):
        late = next((a for a in free if change <= a < change + within), None)
        if late is None:
            delays.append(float(within))
        else:
            free.remove(late)
            delays.append(float(late - change))
    missed = sum(d == within for d in delays)
    delay = float(np.mean(delays)) if delays else float("nan")
    return DetectionScore(len(delays) - missed, missed, delay, len(free))

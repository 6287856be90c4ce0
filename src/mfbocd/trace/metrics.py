"""How far one run is from another, and from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Detection(NamedTuple):
    """What became of the true changes and of the alarms."""

    found: int
    missed: int
    delay: float
    """Mean ticks from a change to its alarm; a missed one counts as `within`."""
    false_alarms: int


def mse(a: ArrayLike, b: ArrayLike) -> float:
    """Mean squared difference of two series.

    >>> mse([0.0, 2.0], [0.0, 0.0])
    2.0
    """
    return float(np.mean((np.asarray(a, dtype=float) - np.asarray(b, dtype=float)) ** 2))


def l1(a: ArrayLike, b: ArrayLike) -> float:
    """Sum of absolute differences of two run-length posterior matrices, the paper's L1.

    >>> l1([[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]])
    1.0
    """
    return float(np.abs(np.asarray(a, dtype=float) - np.asarray(b, dtype=float)).sum())


def detection(alarms: Sequence[int], changes: Sequence[int], within: int = 50) -> Detection:
    """Match alarms to changes: each change takes the first free alarm of the `within` ticks from it on.

    >>> detection(alarms=[12, 40, 90], changes=[10, 80], within=20)
    Detection(found=2, missed=0, delay=6.0, false_alarms=1)
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
    return Detection(len(delays) - missed, missed, delay, len(free))

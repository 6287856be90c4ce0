"""Truths of families with outliers: the registry's formulas, reading by reading, from the family's predictive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Readings = Sequence[tuple[Any, ...]]
Predictive = Callable[[Readings, Any, float], float]
"""log p(x | weighted readings) of the family at zeta."""

RATE = 0.07


Entry = Callable[[Any, float, float], tuple[Any, ...]]
"""What is kept of a reading at zeta that belongs to the regime with some probability."""


def weighed(x: Any, zeta: float, trust: float) -> tuple[Any, ...]:
    """A reading at a lower fidelity."""
    return x, zeta * trust


def partial(x: Any, zeta: float, trust: float) -> tuple[Any, ...]:
    """A fraction of a reading of noise variance s2 / zeta: its weight, and the deviations that it counts as."""
    return x, zeta * trust, trust


def counted(
    readings: Readings, predictive: Predictive, rate: float = RATE, entry: Entry = weighed
) -> tuple[list[tuple[Any, ...]], float]:
    """The readings with the weights that they count with, and the log of the product of the predictives."""
    past: list[tuple[Any, ...]] = []
    total = 0.0
    for x, zeta in readings:
        if zeta == 0.0:
            continue
        regime = (1 - rate) * math.exp(predictive(past, x, zeta))
        both = regime + rate * math.exp(predictive([], x, zeta))
        total += math.log(both)
        past.append(entry(x, zeta, regime / both))
    return past, total


def marginal(predictive: Predictive, entry: Entry = weighed) -> Callable[[Readings], float]:
    return lambda readings: counted(readings, predictive, entry=entry)[1]


def mean(
    predictive: Predictive, inner: Callable[[Readings], Any], entry: Entry = weighed
) -> Callable[[Readings], Any]:
    """E[next x]: the family's given the weighted readings, or its prior mean for an outlier."""
    return lambda readings: (1 - RATE) * inner(counted(readings, predictive, entry=entry)[0]) + RATE * inner([])

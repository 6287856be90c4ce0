"""Truths of families with outliers: the registry's formulas, reading by reading, from the family's predictive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Readings = Sequence[tuple[Any, float]]
Predictive = Callable[[Readings, Any, float], float]
"""log p(x | weighted readings) of the family at zeta."""

RATE = 0.07


def counted(readings: Readings, predictive: Predictive, rate: float = RATE) -> tuple[list[tuple[Any, float]], float]:
    """The readings with the weights that they count with, and the log of the product of the predictives."""
    past: list[tuple[Any, float]] = []
    total = 0.0
    for x, zeta in readings:
        if zeta == 0.0:
            continue
        regime = (1 - rate) * math.exp(predictive(past, x, zeta))
        both = regime + rate * math.exp(predictive([], x, zeta))
        total += math.log(both)
        past.append((x, zeta * regime / both))
    return past, total


def marginal(predictive: Predictive) -> Callable[[Readings], float]:
    return lambda readings: counted(readings, predictive)[1]


def mean(predictive: Predictive, inner: Callable[[Readings], Any]) -> Callable[[Readings], Any]:
    """E[next x]: the family's given the weighted readings, or its prior mean for an outlier."""
    return lambda readings: (1 - RATE) * inner(counted(readings, predictive)[0]) + RATE * inner([])

"""Truths of the models that map a reading: the formulas of another row of the registry, for the mapped readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Readings = Sequence[tuple[Any, float]]

HARMONIC = (6.5, 1.1, -0.4)  # period, cosine, sine
PIECES = (5.0, ((1.0, 0.3, 0.2), (3.5, -0.8, 0.0)))
START = 4
SHIFT = 0.6
STEP = 0.5
UNIT, ORIGIN = 2.5, -1.0
COUNTS = (0.2, 4.5)  # unit and origin of the square roots of some counts


class Map(NamedTuple):
    """A map of the reading at a tick, its inverse and its log derivative."""

    inner: Callable[[float, int], float]
    outer: Callable[[float, int], float]
    log_slope: Callable[[float, int], float]

    def after(self, first: Map) -> Map:
        """This map of the image under another one."""
        return Map(
            lambda x, t: self.inner(first.inner(x, t), t),
            lambda y, t: first.outer(self.outer(y, t), t),
            lambda x, t: first.log_slope(x, t) + self.log_slope(first.inner(x, t), t),
        )


def fraction(tick: int) -> float:
    """The fraction of a step, with whole numbers of Python (splitmix64)."""
    whole = 2**64
    z = ((tick + 1) * 0x9E3779B97F4A7C15) % whole
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % whole
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % whole
    return ((z ^ (z >> 31)) >> 11) / 2.0**53


def wave(tick: int) -> float:
    period, a, b = HARMONIC
    angle = 2.0 * math.pi * (tick + START) / period
    return a * math.cos(angle) + b * math.sin(angle)


def sawtooth(tick: int) -> float:
    period, pieces = PIECES
    for back in (0.0, period):  # the last piece continues into the next season
        phase = tick % period + back
        found = [(value, slope, phase - start) for start, value, slope in pieces if start <= phase]
        if found:
            value, slope, age = found[-1]
            return value + slope * age
    raise AssertionError


def flat(x: float, tick: int) -> float:
    return 0.0


LOG = Map(lambda x, t: math.log(x), lambda y, t: math.exp(y), lambda x, t: -math.log(x))
ROOT = Map(
    lambda x, t: 2.0 * math.sqrt(x + SHIFT),
    lambda y, t: 0.25 * max(y, 0.0) ** 2 - SHIFT,
    lambda x, t: -0.5 * math.log(x + SHIFT),
)
LOGIT = Map(
    lambda x, t: math.log(x / (1.0 - x)),
    lambda y, t: 1.0 / (1.0 + math.exp(-y)),
    lambda x, t: -math.log(x * (1.0 - x)),
)
SCALED = Map(lambda x, t: (x - ORIGIN) / UNIT, lambda y, t: ORIGIN + UNIT * y, lambda x, t: -math.log(UNIT))
SMALL = Map(
    lambda x, t: (x - COUNTS[1]) / COUNTS[0],
    lambda y, t: COUNTS[1] + COUNTS[0] * y,
    lambda x, t: -math.log(COUNTS[0]),
)
ROUNDED = Map(lambda x, t: x + STEP * (fraction(t) - 0.5), lambda y, t: y, flat)
WAVE = Map(lambda x, t: x - wave(t), lambda y, t: y + wave(t), flat)
SAWTOOTH = Map(lambda x, t: x - sawtooth(t), lambda y, t: y + sawtooth(t), flat)


class Truth(NamedTuple):
    """The formulas of a model of images, for readings."""

    by: Map
    log_marginal: Callable[[Readings], float]
    core_mean: Callable[[Readings], float]

    def marginal(self, readings: Readings, before: Readings = ()) -> float:
        slopes = [self.by.log_slope(x, t) for t, (x, z) in enumerate(readings, len(before)) if z > 0.0]
        return self.log_marginal(self._inner(readings, before)) + sum(slopes)

    def center(self, readings: Readings, before: Readings = ()) -> float:
        """Mean of the coming image."""
        return self.core_mean(self._inner(readings, before))

    def mean(self, readings: Readings, before: Readings = ()) -> float:
        return self.outer(self.center(readings, before), len(before) + len(readings))

    def outer(self, center: float, tick: int) -> float:
        return self.by.outer(float(center), tick)

    def _inner(self, readings: Readings, before: Readings) -> Readings:
        return [(self.by.inner(x, t), z) for t, (x, z) in enumerate(readings, len(before))]

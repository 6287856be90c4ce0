"""Sums and integrals over what x can be, for families that come without closed forms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Array

LogDensity = Callable[[Array], Array]
"""Values of x, shape (N,) or (K, N), to an unnormalized log density of shape (K, N)."""


class Support(ABC):
    """The set of possible readings."""

    discrete: bool

    @abstractmethod
    def holds(self, x: float) -> bool:
        """Tell whether x is possible."""

    def nearest(self, x: float) -> float:
        """Return the nearest possible value; x itself inside an interval."""
        return x

    @abstractmethod
    def cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return points and the log mass at each, both (K, N), that represent the density of each of K hypotheses."""

    def gain_cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return fewer `cells`, for gains: user functions are slow, and a gain needs six digits."""
        return self.cells(log_density, k)

    def moments(self, log_density: LogDensity, k: int) -> tuple[Array, Array, Array]:
        """Return the log of the total mass, the mean and the variance, each (K,)."""
        x, log_mass = self.cells(log_density, k)
        high = log_mass.max(axis=1, keepdims=True)
        mass = np.exp(log_mass - high)
        total = mass.sum(axis=1)
        centre = np.take_along_axis(x, mass.argmax(axis=1)[:, None], axis=1)  # subtracted to avoid cancellation
        first = ((x - centre) * mass).sum(axis=1) / total
        second = ((x - centre) ** 2 * mass).sum(axis=1) / total
        return high[:, 0] + np.log(total), centre[:, 0] + first, second - first**2

    @abstractmethod
    def log_tails(self, x: float, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return log P(X <= x) and log P(X >= x) for each hypothesis, also far outside of `cells`."""

    def mass_below(self, x: float, log_density: LogDensity, k: int) -> Array:
        """Return P(X <= x) for each hypothesis."""
        points, log_mass = self.cells(log_density, k)
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        if self.discrete:
            return np.asarray((mass * (points <= x)).sum(axis=1) / mass.sum(axis=1))
        # Trapezoid up to each point with Euler and Maclaurin's correction, then a cubic through its slopes.
        running = np.cumsum(mass, axis=1) - 0.5 * mass - np.gradient(mass, axis=1) / 12.0
        total = mass.sum(axis=1, keepdims=True)
        rows = zip(points, running / total, mass / total, strict=True)
        return np.array([_cubic(x, *row) for row in rows])


def _cubic(x: float, points: Array, level: Array, cell: Array) -> float:
    """A distribution function at x from its level and the mass of the cell at increasing points."""
    i = int(np.searchsorted(points, x)) - 1
    if i < 0 or i >= points.size - 1:
        return 0.0 if i < 0 else 1.0
    gap = points[i + 1] - points[i]
    start, end = gap * cell[i : i + 2] / np.gradient(points)[i : i + 2]  # slopes over this gap
    s = (x - points[i]) / gap
    near, far = (1.0 + 2.0 * s) * (1.0 - s) ** 2, s * s * (3.0 - 2.0 * s)
    bend = s * (1.0 - s) ** 2 * start - s * s * (1.0 - s) * end
    return float(min(max(near * level[i] + far * level[i + 1] + bend, 0.0), 1.0))


def _log_sum(logs: NDArray[Any]) -> Array:
    """Return log sum e^logs over the last axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=-1))


def _sides(falls: NDArray[np.bool_], out: Array, beyond: Array) -> tuple[Array, Array]:
    """Return the lower and the upper log tail from the log mass away from the mode: with x, and without it.

    `falls` tells whether that is above x. The other tail is the complement.
    """
    with np.errstate(divide="ignore"):
        other = np.log(-np.expm1(np.minimum(beyond, 0.0)))
    out = np.minimum(out, 0.0)
    return np.where(falls, other, out), np.where(falls, out, other)


class Values(Support):
    """A finite list of values."""

    discrete = True

    def __init__(self, values: Sequence[float]) -> None:
        self.values = np.unique(np.asarray(values, dtype=float))
        if self.values.size < 2 or not np.isfinite(self.values).all():
            raise ValueError(f"support must list at least two finite values, not {values!r}")

    def __str__(self) -> str:
        return ", ".join(f"{v:g}" for v in self.values)

    def holds(self, x: float) -> bool:
        """Tell whether x is listed."""
        return bool((self.values == x).any())

    def nearest(self, x: float) -> float:
        """Return the listed value nearest to x."""
        return float(self.values[np.abs(self.values - x).argmin()])

    def cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return the values themselves."""
        return np.broadcast_to(self.values, (k, self.values.size)), log_density(self.values)

    def log_tails(self, x: float, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Sum over the values on either side."""
        log_mass = log_density(self.values)
        norm = _log_sum(log_mass)
        lower, upper = (_log_sum(log_mass[:, side]) - norm for side in (self.values <= x, self.values >= x))
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)


class Counts(Support):
    """The counts 0, 1, 2, ..."""

    discrete = True

    def __str__(self) -> str:
        return "0, 1, 2, ..."

    def holds(self, x: float) -> bool:
        """Tell whether x is a whole number of at least zero."""
        return x >= 0.0 and x == math.floor(x)

    def nearest(self, x: float) -> float:
        """Return x rounded, at least 0."""
        return max(float(round(x)), 0.0)

    def cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return counts from 0 until the tail is below 1e-16 of the largest mass, at most a million."""
        size = 64
        while True:
            x = np.arange(float(size))
            mass = log_density(x)
            # falling, and small enough that a geometric tail adds less than rounding
            settled = (mass[:, -1] < mass.max(axis=1) - 50.0) & (mass[:, -1] < mass[:, -2])
            if settled.all() or size >= 1 << 20:
                return np.broadcast_to(x, mass.shape), mass
            size *= 4

    def gain_cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return the counts that have a probability above 1e-12 under some hypothesis."""
        x, mass = self.cells(log_density, k)
        kept = (mass > mass.max(axis=1, keepdims=True) - 28.0).any(axis=0)
        return x[:, kept], mass[:, kept]

    def log_tails(self, x: float, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Sum from x away from the mode, at most two million counts; the other tail is the complement."""
        norm = _log_sum(self.cells(log_density, k)[1])
        here, there = log_density(np.array([x, x + 1.0])).T
        falls = there < here  # towards larger counts

        def outward(step: float) -> Array:
            up, down = (_outward(x + way * step, way, log_density, k) for way in (1.0, -1.0))
            return np.where(falls, up, down) - norm

        return _sides(falls, outward(0.0), outward(1.0))


def _outward(start: float, way: float, log_density: LogDensity, k: int) -> Array:
    """Return the log of the sum over the counts from `start` up (way = 1) or down to 0 (way = -1)."""
    total: Array = np.full(k, -np.inf)
    size = 64
    while start >= 0.0 and size <= 1 << 20:
        counts = start + way * np.arange(float(size))
        more = _log_sum(log_density(counts[counts >= 0.0]))
        total = np.logaddexp(total, more)
        if (more < total - 40.0).all():
            break
        start, size = start + way * size, 2 * size
    return total


class Interval(Support):
    """An open interval, finite or not, integrated after a map to the real line."""

    discrete = False

    def __init__(self, low: float, high: float) -> None:
        if not low < high:
            raise ValueError(f"support must have low < high, not ({low!r}, {high!r})")
        self.low, self.high = low, high

    def __str__(self) -> str:
        return f"({self.low:g}, {self.high:g})"

    def holds(self, x: float) -> bool:
        """Tell whether x lies inside."""
        return self.low < x < self.high

    def _at(self, z: Array) -> tuple[Array, Array]:
        """x and log dx/dz at z on the real line."""
        if math.isinf(self.low) and math.isinf(self.high):
            return z, np.zeros_like(z)
        z = np.clip(z, -300.0, 300.0)  # further out squares of e^z overflow, and no density has mass there
        if math.isinf(self.high):
            return self.low + np.exp(z), z
        if math.isinf(self.low):
            return self.high - np.exp(-z), -z
        share = 1.0 / (1.0 + np.exp(-z))
        width = self.high - self.low
        return self.low + width * share, np.log(width) - np.abs(z) - 2.0 * np.log1p(np.exp(-np.abs(z)))

    def _along(self, log_density: LogDensity, z: Array) -> Array:
        """Return the log density of z on the real line."""
        x, slope = self._at(z)
        with np.errstate(all="ignore"):
            value = log_density(x) + slope
        return np.where(np.isnan(value), -np.inf, value)

    def log_tails(self, x: float, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Integrate from x away from the mode; the other tail is the complement.

        The rule is the trapezoid in t with z = z(x) +- width exp(pi / 2 sinh(t)), exact for tails that fall like a
        power or faster; `width` is where the density has fallen by a factor e.
        """
        norm = _log_sum(self.cells(log_density, k)[1])
        z = self._z(x)
        here = self._along(log_density, np.full((k, 1), z))[:, 0]
        step = 1e-6 * max(1.0, abs(z))
        ends = self._along(log_density, np.full((k, 2), [z - step, z + step]))
        falls = ends[:, 1] < ends[:, 0]  # towards larger x
        way = np.where(falls, 1.0, -1.0)
        width = np.full(k, 1e-12 * max(1.0, abs(z)))
        for _ in range(200):
            drop = here - self._along(log_density, (z + way * width)[:, None])[:, 0]
            if (drop > 1.0).all():
                break
            width = np.where(drop > 1.0, width, 1.5 * width)
        t = np.linspace(-4.5, 4.5, 721)
        reach = 0.5 * math.pi * np.sinh(t)
        values = self._along(log_density, z + (way * width)[:, None] * np.exp(np.minimum(reach, 600.0)))
        share = reach + np.log(0.5 * math.pi * np.cosh(t) * (t[1] - t[0]))
        out = _log_sum(values + share + np.log(width)[:, None]) - norm
        return _sides(falls, out, out)

    def _z(self, x: float) -> float:
        """The point on the real line that `_at` maps to x."""
        if math.isinf(self.low) and math.isinf(self.high):
            return x
        if math.isinf(self.high):
            return math.log(x - self.low)
        if math.isinf(self.low):
            return -math.log(self.high - x)
        return math.log(x - self.low) - math.log(self.high - x)

    def cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return a trapezoid rule in t about the peak of each hypothesis, z = peak + width sinh(t), for heavy tails.

        The peak is found by golden section search from a coarse logarithmic grid, so the density must be unimodal.
        """

        def along(z: Array) -> Array:
            return self._along(log_density, z)

        unbounded = math.isinf(self.low) and math.isinf(self.high)
        reach = np.sinh(np.linspace(0.0, 33.0, 200)) if unbounded else np.linspace(0.0, 60.0, 200)
        coarse = np.concatenate([-reach[:0:-1], reach])
        at = np.clip(along(coarse).argmax(axis=1), 1, coarse.size - 2)
        left, right = coarse[at - 1], coarse[at + 1]
        golden = 0.5 * (math.sqrt(5.0) - 1.0)
        for _ in range(90):
            a, b = right - golden * (right - left), left + golden * (right - left)
            value = along(np.stack([a, b], axis=1))
            up = value[:, 0] < value[:, 1]
            left, right = np.where(up, a, left), np.where(up, right, b)
        peak = 0.5 * (left + right)
        top = along(peak[:, None])[:, 0]
        # Half-width where the log density has fallen by 1/2: one standard deviation of a Gaussian.
        width = np.full(k, 1e-12) * np.maximum(1.0, np.abs(peak))
        for _ in range(200):
            drop = top - along(np.stack([peak - width, peak + width], axis=1)).max(axis=1)
            if (drop > 0.5).all():
                break
            width = np.where(drop > 0.5, width, 1.5 * width)
        t = np.linspace(-7.0, 7.0, 561)
        z = peak[:, None] + width[:, None] * np.sinh(t)
        x, _ = self._at(z)
        step = np.log(width)[:, None] + np.log(np.cosh(t)) + math.log(t[1] - t[0])
        return x, along(z) + step

    def gain_cells(self, log_density: LogDensity, k: int) -> tuple[Array, Array]:
        """Return a coarser rule than `cells`, of which peak and width are found in few evaluations."""
        unbounded = math.isinf(self.low) and math.isinf(self.high)
        reach = np.sinh(np.linspace(0.0, 33.0, 200)) if unbounded else np.linspace(0.0, 60.0, 200)
        coarse = np.concatenate([-reach[:0:-1], reach])
        values = self._along(log_density, coarse)
        z = np.broadcast_to(coarse, values.shape)
        share = np.linspace(0.0, 1.0, 33)
        for _ in range(9):
            at = np.clip(values.argmax(axis=1), 1, z.shape[1] - 2)[:, None]
            left, peak, right = (np.take_along_axis(z, at + step, axis=1) for step in (-1, 0, 1))
            if (right - left <= 1e-13 * np.maximum(1.0, np.abs(peak))).all():
                break
            z = left + share * (right - left)
            values = self._along(log_density, z)
        powers = 1e-12 * np.maximum(1.0, np.abs(peak)) * np.exp2(np.arange(70.0))
        values = self._along(log_density, np.concatenate([peak, peak - powers, peak + powers], axis=1))
        drop = values[:, :1] - np.maximum(values[:, 1:71], values[:, 71:])
        width = np.take_along_axis(powers, np.argmax(drop > 0.5, axis=1)[:, None], axis=1)
        t = np.linspace(-7.0, 7.0, 113)
        z = peak + width * np.sinh(t)
        step_width = np.log(width) + np.log(np.cosh(t)) + math.log(t[1] - t[0])
        return self._at(z)[0], self._along(log_density, z) + step_width


def support_of(value: tuple[float, float] | Sequence[float] | str) -> Support:
    """Return the support given by "counts", a tuple (low, high) or a list of values."""
    if isinstance(value, str):
        if value != "counts":
            raise ValueError(f"support must be 'counts', (low, high) or a list of values, not {value!r}")
        return Counts()
    if isinstance(value, tuple) and len(value) == 2:
        return Interval(float(value[0]), float(value[1]))
    return Values(value)

"""Seasons: periodic curves, smooth ones as harmonics and those with jumps as pieces of lines."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..noise import local_noise

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]

_LONGEST = 400.0  # ticks per season up to which pieces are fitted: their search takes quadratic time
_MOST = 12  # pieces; a curve that needs more is no season with jumps
_LATTICE = (
    8  # periods tried on each side of the given one; from the first to the last season they move by a tick each
)
_CYCLES = 1.5  # seasons from which the period is refined

Piece = tuple[float, float, float]


class Season(NamedTuple):
    """A periodic curve that is the same in every regime: harmonics, pieces of lines, or their sum.

    Attributes
    ----------
    period : float
        Ticks per season.
    cosine, sine : tuple of float
        Coefficients of the harmonics 1, 2, ..., in units of the transformed readings.
    pieces : tuple of tuple
        Phase in ticks at which each piece begins, its value there, and its slope per tick. The last one continues to
        the first one of the next season.
    """

    period: float
    cosine: tuple[float, ...] = ()
    sine: tuple[float, ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def fitted(self) -> int:
        """Count the numbers that were fitted to readings, without the period."""
        return 2 * len(self.cosine) + sum(2 + (slope != 0.0) for _, _, slope in self.pieces)

    def at(self, tick: Ticks) -> Array:
        """Return the value of the season at each tick.

        Parameters
        ----------
        tick : ndarray of int
            Ticks of the stream.

        Returns
        -------
        ndarray
            Same shape as `tick`.

        Examples
        --------
        >>> Season(4.0, pieces=((1.0, 0.0, 0.0), (3.0, 5.0, 1.0))).at(np.arange(8))
        array([6., 0., 0., 5., 6., 0., 0., 5.])
        """
        phase = np.mod(tick, self.period)
        angle = (2.0 * math.pi / self.period) * phase
        curve = np.zeros(phase.shape)
        for k, (a, b) in enumerate(zip(self.cosine, self.sine, strict=True), 1):  # a product of matrices would round
            curve += a * np.cos(k * angle) + b * np.sin(k * angle)  # differently for one reading and for many
        if self.pieces:
            start, value, slope = np.array(self.pieces).T
            which = np.searchsorted(start, phase, side="right") - 1  # -1: the last piece, one season before
            age = phase - start[which] + np.where(which < 0, self.period, 0.0)
            curve = curve + value[which] + slope[which] * age
        return np.asarray(curve)


def fit_season(y: Array, tick: Ticks, period: float, harmonics: int) -> Season | None:
    """Fit harmonics to readings less their moving average over one period; None if there are too few."""
    parts = _detrended(y, tick, period)
    if parts is None:
        return None
    tick, rest = parts
    rest = np.clip(rest, *np.quantile(rest, (0.005, 0.995)))
    angle = 2.0 * math.pi * np.outer(np.mod(tick, period) / period, np.arange(1, harmonics + 1))
    found = np.linalg.lstsq(np.hstack([np.cos(angle), np.sin(angle)]), rest, rcond=None)[0].tolist()
    return Season(period, tuple(found[:harmonics]), tuple(found[harmonics:]))


def fit_pieces(y: Array, tick: Ticks, period: float, *, exact: bool = False) -> Season | None:
    """Fit pieces of lines, with jumps between them, to readings less their moving average over one period.

    The readings are averaged by phase, in whole ticks. Number and ends of the pieces minimize the penalized sum of
    squares sum e^2 / (2 s^2) + (log n / 2) (fitted numbers), by dynamic programming.

    Parameters
    ----------
    y : ndarray
        Readings without gaps.
    tick : ndarray of int
        Their ticks.
    period : float
        Ticks per season.
    exact : bool, default False
        Whether it is known. Otherwise it is refined, by up to a tick.

    Returns
    -------
    Season or None
        None if the readings are too few, the season is too long, flat, or has very many pieces.
    """
    if period > _LONGEST or period < 4.0:
        return None
    parts = _detrended(y, tick, period)
    if parts is None:
        return None
    tick, rest = parts
    noise = local_noise(rest)
    if not noise > 0.0:
        return None
    period = period if exact else _nearby_period(rest, tick, period)
    count, mean = _folded(rest, tick, period)
    jumps = np.abs(mean - np.roll(mean, 1))
    first = int(np.argmax(jumps))  # a piece begins there
    ends = _partition(np.roll(mean, -first), np.roll(count, -first) / noise**2, 0.5 * math.log(y.size))
    if len(ends) > _MOST or (len(ends) == 1 and ends[0][2] == 0.0):
        return None
    pieces = [((first + start) % mean.size, value, slope) for start, value, slope in ends]
    return Season(period, pieces=tuple(sorted((float(s), float(v), float(b)) for s, v, b in pieces)))


def _detrended(y: Array, tick: Ticks, period: float) -> tuple[Ticks, Array] | None:
    """Return readings less their moving average over one period, and their ticks; None if there are too few.

    The moving average follows changes of level and slope, and the season itself averages to 0 over a period.
    """
    width = round(period)
    if y.size < 2 * width:
        return None
    before = width // 2
    after = width - 1 - before
    smooth = np.convolve(np.pad(y, (before, after), mode="edge"), np.full(width, 1.0 / width), "valid")
    whole = slice(before, y.size - after)
    return tick[whole], (y - smooth)[whole]


def _folded(y: Array, tick: Ticks, period: float) -> tuple[Array, Array]:
    """Return how many readings have each phase, in whole ticks, and their mean; phases without one are filled in."""
    phase = np.minimum(np.mod(tick, period).astype(np.int64), math.ceil(period) - 1)
    count = np.bincount(phase, minlength=math.ceil(period)).astype(float)
    seen = count > 0.0
    total = np.bincount(phase, weights=y, minlength=count.size)
    mean = np.interp(np.arange(count.size), np.flatnonzero(seen), total[seen] / count[seen])
    return count, mean


def _nearby_period(y: Array, tick: Ticks, period: float) -> float:
    """Return the period within a tick of the given one at which readings of equal phase differ least."""
    cycles = y.size / period
    if cycles < _CYCLES:  # hardly any phase is seen twice
        return period
    offsets = np.linspace(-1.0, 1.0, 2 * _LATTICE + 1) * min(1.0, _LATTICE / cycles)
    tried: list[float] = [float(round(period)), period, *(period + offsets).tolist()]

    def squares(p: float) -> float:
        count, mean = _folded(y, tick, p)
        return -float(np.sum(count * mean * mean))  # the rest of the sum of squares does not depend on the phases

    return min(tried, key=squares)


def _partition(mean: Array, weight: Array, penalty: float) -> list[Piece]:
    """Return the pieces of the best partition: start, value there, slope (0 if a level suffices)."""
    at = np.arange(mean.size, dtype=float)
    moments = np.ones(at.size), at, at * at, mean, at * mean, mean * mean
    sums = [np.append(0.0, np.cumsum(weight * moment)) for moment in moments]
    best = np.zeros(mean.size + 1)
    origin: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]
    for end in range(1, mean.size + 1):
        w, x, xx, y, xy, yy = (s[end] - s[:end] for s in sums)
        w = np.maximum(w, 1e-12)
        middle = x / w
        spread = xx - middle * x
        slope = np.where(spread > 1e-9, (xy - middle * y) / np.where(spread > 1e-9, spread, 1.0), 0.0)
        level = 0.5 * (yy - y * y / w) + 2.0 * penalty
        line = level - 0.5 * slope * slope * spread + penalty
        total = best[:end] + np.minimum(level, line)
        start = int(np.argmin(total))
        best[end] = total[start]
        tilt = float(slope[start]) if line[start] < level[start] else 0.0
        origin.append((start, float(y[start] / w[start] + tilt * (start - middle[start])), tilt))
    pieces: list[Piece] = []
    end = mean.size
    while end > 0:
        start, value, tilt = origin[end]
        pieces.append((float(start), value, tilt))
        end = start
    return pieces[::-1]

"""Fits of seasons: smooth ones as harmonics, those with jumps as pieces of lines."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...models.fixed_season import Piece, Season
from ..noise import local_noise

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]

_LONGEST = 400.0  # ticks per season up to which pieces are fitted: their search takes quadratic time
_MOST = 12  # pieces; a curve that needs more is no season with jumps
_LATTICE = (
    8  # periods tried on each side of the given one; from the first to the last season they move by a tick each
)
_CYCLES = 1.5  # seasons from which the period is refined


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

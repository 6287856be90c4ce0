"""The next reading of a family as a table: values or grid cells, with their log probability for each hypothesis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .base import Array, Model
from .bells import Table

_STEP = 0.25  # standard deviations between the points of a grid
_REACH = 8.0
_TAILS = np.geomspace(10.0, 1000.0, 10)  # standard deviations; few, for families with heavy tails
_ODD = 0.3712345678  # not a value of any discrete family


def table_of(model: Model, stats: Array, zeta: float) -> Table:
    """Return the table of a family of one number.

    Families that have none are tabulated from their moments, their support and their log predictive: the values of a
    discrete family are listed if they are few; otherwise a grid covers every scale that occurs among the hypotheses.

    Examples
    --------
    >>> from mfbocd.models import Bernoulli
    >>> table_of(Bernoulli(1, 1), np.array([[1.0, 3.0], [1.0, 1.0]]), 1.0).density.round(2)
    array([[0.5 , 0.25],
           [0.5 , 0.75]])
    """
    known = model.tabulate(stats, zeta)
    return mixed_table(model, stats, zeta, [(model, stats)]) if known is None else known


def mixed_table(model: Model, stats: Array, zeta: float, parts: Sequence[tuple[Model, Array]]) -> Table:
    """Return the table of a family whose predictives are mixtures, on a grid that is fine enough for every part.

    A grid by the mixture's own moments would be as coarse as its widest part. `parts` are families with the same
    support and their statistics, (columns, K) each.
    """
    known = [moments(part, own, zeta) for part, own in parts]
    x, width = _cells(model, *(np.concatenate(column) for column in zip(*known, strict=True)))
    logs = np.array([model.log_predictive(stats, v, zeta) for v in x.tolist()])
    mass = np.exp(logs) * width[:, None]
    return Table(x, np.ones_like(x), mass / mass.sum(axis=0))


def _cells(model: Model, mean: Array, sd: Array) -> tuple[Array, Array]:
    """Return the values or grid points of the table, and the width of each (1 for a value that is listed)."""
    if continuous(model):
        x = bounded(model, _grid(mean, sd))
        return x, widths(x)
    x, few = values(model, mean, sd)
    return x, np.ones_like(x) if few else widths(x)


def continuous(model: Model) -> bool:
    """Tell whether the readings of a family of one number are continuous."""
    return bool(model.nearest(_ODD) == _ODD)


def values(model: Model, mean: Array, sd: Array) -> tuple[Array, bool]:
    """Return the relevant values of a discrete family, and whether these are all or only some of many."""
    few, points = _reached(mean, sd)
    near = np.unique([model.nearest(v) for v in points.tolist()])
    return near[model.possible(near)], few


def moments(model: Model, stats: Array, zeta: float) -> tuple[Array, Array]:
    """Return the mean and a scale of the next reading: its standard deviation, if that is finite."""
    mean, var = (np.asarray(v) for v in model.predictive(stats, zeta))
    known = np.isfinite(var)
    # where there is no variance, use the distance that contains half of the readings
    widths = [_half(model, stats[:, k : k + 1], float(mean[k]), zeta) for k in np.flatnonzero(~known)]
    sd = np.sqrt(np.where(known, var, 0.0))
    sd[~known] = widths
    return mean, np.maximum(sd, 1e-300)


def _half(model: Model, stats: Array, mean: float, zeta: float) -> float:
    """Return the distance from the mean that contains half of the readings, to a factor of two."""
    low, high = -500, 500
    while high - low > 1:
        power = (low + high) // 2
        reach = math.ldexp(1.0, power)
        inside = model.predictive_cdf(stats, mean + reach, zeta) - model.predictive_cdf(stats, mean - reach, zeta)
        low, high = (low, power) if float(inside[0]) >= 0.5 else (power, high)
    return math.ldexp(1.0, high)


def widths(x: Array) -> Array:
    """Return the weight of each point in the trapezoid rule."""
    if x.size == 1:  # all points of a grid that is narrower than the rounding of its place
        return np.ones(1)
    return 0.5 * (np.append(np.diff(x), 0.0) + np.insert(np.diff(x), 0, 0.0))


def _scales(mean: Array, sd: Array) -> list[tuple[float, float]]:
    """Return one (mean, sd) for each group of hypotheses that can share a grid."""
    octave = np.round(np.log2(sd))
    place = np.round(mean / np.exp2(octave))
    _, first = np.unique(np.stack([octave, place]), axis=1, return_index=True)
    return [(float(mean[k]), float(sd[k])) for k in first]


def _grid(mean: Array, sd: Array) -> Array:
    steps = np.arange(-_REACH, _REACH + _STEP, _STEP)
    nodes = np.concatenate([-_TAILS[::-1], steps, _TAILS])
    return np.unique(np.concatenate([m + s * nodes for m, s in _scales(mean, sd)]))


def bounded(model: Model, x: Array) -> Array:
    """Return the points in the support, with finer ones towards its ends."""
    inside = model.possible(x)
    kept = x[inside]
    edges = np.flatnonzero(np.diff(inside.astype(np.int8)))
    for i in edges.tolist():
        out, within = (x[i + 1], x[i]) if inside[i] else (x[i], x[i + 1])
        for _ in range(60):
            middle = 0.5 * (out + within)
            if model.possible(np.array([middle]))[0]:
                within = middle
            else:
                out = middle
        last = x[i] if inside[i] else x[i + 1]
        kept = np.concatenate([kept, within + (last - within) * np.append(np.exp2(-np.arange(1.0, 30.0)), 0.0)])
    return np.unique(kept)


def _reached(mean: Array, sd: Array) -> tuple[bool, Array]:
    """Tell whether a discrete family has few relevant values, and return points near each of them."""
    low, high = float((mean - 10.0 - _REACH * sd).min()), float((mean + 10.0 + _REACH * sd).max())
    if high - low > 2048.0:
        return False, _grid(mean, sd)
    return True, np.concatenate([np.arange(math.floor(low), high, 0.5), np.linspace(low, high, 512)])

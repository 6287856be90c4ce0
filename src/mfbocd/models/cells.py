"""The next reading of several families on common points: information gains of mixtures of different families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .base import Array, Model
from .sampling import posterior_divergence
from .table import bounded, continuous, moments, values, widths

_NODES = 2.0 * np.sinh(np.linspace(-7.0, 7.0, 113))  # standard deviations: to 1000, for heavy tails
_PER_SD = 4.0
_MOST = 2000  # points; more would be needed only where densities differ in scale by many orders of magnitude
_LIGHT = 1e-9  # families below this probability are not integrated: they add less than 1e-7 nats
_ROOT_2PI = math.sqrt(2.0 * math.pi)


class Cells(NamedTuple):
    """N readings as each of F families with n hypotheses predicts them.

    Attributes
    ----------
    logs : ndarray
        Log density or log probability, shape (N, F, n).
    mass : ndarray
        Probability that each reading represents, shape (N, F, n): sums to 1 over the readings, or to 0 where the
        family is too improbable to matter.
    """

    logs: Array
    mass: Array


def cells_of(families: Sequence[tuple[Model, Array]], probability: Array, zeta: float) -> Cells:
    """Return the readings that matter under any family and hypothesis.

    The values of discrete families are listed. Continuous families share a grid that is fine enough for the narrowest
    of them at every place. It depends only on their moments relative to each other, so a gain is the same in any
    units.

    Parameters
    ----------
    families : sequence of (Model, ndarray)
        Families of one number with their statistics, each (columns, n).
    probability : ndarray
        Probability of each family under each hypothesis, shape (F, n).
    zeta : float
        Fidelity of the reading, above 0.
    """
    used = probability > _LIGHT
    smooth = [continuous(model) for model, _ in families]
    grid = _grid(
        [(m, own[:, on]) for (m, own), on, s in zip(families, used, smooth, strict=True) if s and on.any()], zeta
    )
    listed = [
        values(m, *moments(m, own[:, on], zeta))
        for (m, own), on, s in zip(families, used, smooth, strict=True)
        if not s and on.any()
    ]
    few = all(complete for _, complete in listed)
    whole = np.unique(np.concatenate([np.empty(0), *(x for x, _ in listed)]))
    x = np.concatenate([grid, whole])
    logs = np.full((x.size, *probability.shape), -np.inf)
    share = np.zeros((x.size, len(families)))
    for k, ((model, own), is_smooth) in enumerate(zip(families, smooth, strict=True)):
        ok = model.possible(x)
        if not is_smooth:
            ok[: grid.size] = False  # a reading on the grid is no value of a discrete family, whatever its digits
        logs[ok, k] = model.log_predictives(own, x[ok], zeta)
        mine = ok.copy()
        mine[grid.size :] &= not is_smooth
        share[mine, k] = 1.0 if few and not is_smooth else widths(x[mine])
    mass = np.exp(logs) * share[:, :, None]
    total = mass.sum(axis=0)
    used &= total > 0.0
    return Cells(logs, np.where(used, mass / np.where(used, total, 1.0), 0.0))


def run_length_information(weight: Array, probability: Array, cells: Cells) -> float:
    """Return I(r; x) = E_x KL(P(r | x) || P(r)), where the reading of each hypothesis is a mixture of families."""
    mixed = np.logaddexp.reduce(cells.logs + _log(probability), axis=1)
    mass = np.einsum("xkr,kr,r->x", cells.mass, probability, weight)
    seen = mass > 0.0
    return max(float(mass[seen] @ posterior_divergence(weight, mixed[seen])), 0.0)


def family_information(probability: Array, cells: Cells) -> Array:
    """Return I(k; x | r) = E_x KL(P(k | x, r) || P(k | r)) of the family k for each hypothesis r, shape (n,)."""
    logs = np.where(cells.mass > 0.0, cells.logs, 0.0)
    mixed = np.logaddexp.reduce(cells.logs + _log(probability), axis=1)
    ratio = np.where(cells.mass > 0.0, logs - mixed[:, None], 0.0)
    return np.maximum(np.einsum("xkr,kr,xkr->r", cells.mass, probability, ratio), 0.0)


def _log(probability: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(probability)


def _grid(families: Sequence[tuple[Model, Array]], zeta: float) -> Array:
    """Return points that are dense where any family has a narrow density, and in the supports of the families."""
    if not families:
        return np.empty(0)
    pairs = [_core(model, own, zeta) for model, own in families]
    mean, sd = (np.concatenate(each) for each in zip(*pairs, strict=True))
    # In units of one of them, so that other units give the same points.
    origin, unit = float(mean[-1]), float(sd[-1])
    mean, sd = (mean - origin) / unit, sd / unit
    octave = np.round(np.log2(sd))
    _, first = np.unique(np.stack([octave, np.round(mean / np.exp2(octave))]), axis=1, return_index=True)
    mean, sd = mean[first], sd[first]  # hypotheses that are alike share points
    anchors = np.unique((mean + _NODES[:, None] * sd).ravel())
    # points per unit of length: _PER_SD per standard deviation of the narrowest near by, fewer in the tails
    each = 1.0 / (np.hypot(1.0, 0.5 * (anchors[:, None] - mean) / sd) * sd)
    most = each.max(axis=1)
    density = _PER_SD * most * ((each / most[:, None]) ** 4).sum(axis=1) ** 0.25
    below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(anchors)))
    points = math.ceil(min(below[-1], _MOST))
    x = origin + unit * np.interp(np.linspace(0.0, below[-1], points + 1), below, anchors)
    return np.unique(np.concatenate([bounded(model, x) for model, _ in families]))


def _core(model: Model, stats: Array, zeta: float) -> tuple[Array, Array]:
    """Return the mean and a scale of each hypothesis, and of those without a variance also a thousandfold scale.

    The scale is that of a normal density with the same height at the mean if that is less than the standard
    deviation, which says little about the middle of a density with heavy tails.
    """
    mean, var = (np.asarray(v) for v in model.predictive(stats, zeta))
    heights = np.diagonal(model.log_predictives(stats, mean, zeta))
    with np.errstate(over="ignore"):
        sd = np.maximum(np.minimum(np.sqrt(var), np.exp(-heights) / _ROOT_2PI), 1e-300)
    if not np.isfinite(sd).all():
        mean, sd = moments(model, stats, zeta)
    far = ~np.isfinite(var)
    return np.append(mean[far], mean), np.append(1e3 * sd[far], sd)

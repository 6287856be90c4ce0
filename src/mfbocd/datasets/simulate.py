"""Streams with known changes, readable at several fidelities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..models import Bernoulli, Gaussian
from ..policy.fidelity import Fidelity, checked

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """A simulated stream: what every fidelity would read, and the truth behind it."""

    table: Array
    """(T, J): column j is what fidelity j reads."""
    theta: Array
    """(T,): the parameter at each tick."""
    changes: NDArray[np.int64]
    """Ticks at which a new regime begins, the first tick left out."""


def gaussian(
    model: Gaussian,
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    hazard: float | Hazard = 1 / 100,
    *,
    ticks: int = 500,
    seed: int = 0,
) -> Stream:
    """Regimes with theta ~ N(mean, var); fidelity j reads N(theta, noise / zeta_j); a skip reads NaN.

    >>> stream = gaussian(Gaussian(0, 9, 1), Fidelity("gps", zeta=1, cost=40), hazard=0.05, ticks=100, seed=1)
    >>> stream.table.shape, stream.changes
    ((100, 1), array([ 9, 36, 61, 75, 93]))
    """
    rng = np.random.default_rng(seed)
    changes, regime = _regimes(rng, Hazard(hazard), ticks)
    theta = rng.normal(model.mean, math.sqrt(model.var), size=changes.size + 1)[regime]
    zeta = np.array([f.zeta for f in checked(fidelities)])
    with np.errstate(divide="ignore"):
        sd = np.sqrt(model.noise_var / zeta)
    noise = rng.normal(size=(ticks, zeta.size))
    table = np.where(np.isfinite(sd), theta[:, None] + noise * np.where(np.isfinite(sd), sd, 0.0), np.nan)
    return Stream(table, theta, changes)


def bernoulli(
    model: Bernoulli,
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    hazard: float | Hazard = 1 / 100,
    *,
    ticks: int = 500,
    seed: int = 0,
    low: str = "flip",
) -> Stream:
    """Regimes with theta ~ Beta(alpha, beta). How a fidelity with zeta < 1 errs is `low`:

    ``"flip"``: the label is flipped with probability (1 - sqrt(zeta)) / 2, a classifier of accuracy q with
    (2 q - 1)^2 = zeta; ``"miss"``: x ~ Bernoulli(zeta theta), as in the paper's ablation. A skip reads NaN.

    >>> bernoulli(Bernoulli(1, 1), hazard=0.05, ticks=8, seed=3).table[:, 0]
    array([1., 1., 1., 1., 1., 0., 1., 1.])
    """
    if low not in ("flip", "miss"):
        raise ValueError(f"low must be 'flip' or 'miss', not {low!r}")
    rng = np.random.default_rng(seed)
    changes, regime = _regimes(rng, Hazard(hazard), ticks)
    theta = rng.beta(model.alpha, model.beta, size=changes.size + 1)[regime]
    zeta = np.array([f.zeta for f in checked(fidelities)])
    truth = (rng.random(ticks) < theta)[:, None]
    noise = rng.random((ticks, zeta.size))
    if low == "flip":
        x = truth ^ (noise < 0.5 * (1.0 - np.sqrt(zeta)))
    else:
        x = np.where(zeta == 1.0, truth, noise < zeta * theta[:, None])
    return Stream(np.where(zeta > 0.0, x, np.nan), theta, changes)


def _regimes(rng: np.random.Generator, hazard: Hazard, ticks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ticks of the changes, and the regime's number at each tick."""
    draws = rng.random(ticks)
    changes = []
    age = -1
    for t in range(ticks):
        if age >= 0 and draws[t] < hazard(age):
            changes.append(t)
            age = 0
        else:
            age += 1
    found = np.array(changes, dtype=np.int64)
    return found, np.searchsorted(found, np.arange(ticks), side="right")

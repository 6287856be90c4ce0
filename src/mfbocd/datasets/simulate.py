"""Simulated streams with known changes, readable at several fidelities."""

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
    """A simulated stream: the readings at every fidelity, and the truth behind them.

    Attributes
    ----------
    table : numpy.ndarray
        (T, J): column j holds the readings at fidelity j; NaN where zeta = 0.
    theta : numpy.ndarray
        (T,): the parameter at each tick.
    changes : numpy.ndarray
        Ticks at which a new regime begins, without the first tick.
    """

    table: Array
    theta: Array
    changes: NDArray[np.int64]


def gaussian(
    model: Gaussian,
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    hazard: float | Hazard = 1 / 100,
    *,
    ticks: int = 500,
    seed: int = 0,
) -> Stream:
    """Simulate regimes with theta ~ N(mean, var), read at fidelity j as N(theta, noise_var / zeta_j).

    The readings of a fidelity with an offset or a scale have them; a detector with that fidelity corrects them.

    Parameters
    ----------
    model : Gaussian
        The prior of theta and the noise variance.
    fidelities : Iterable[Fidelity] or Fidelity or None
        The fidelities, one column each; one with zeta = 1 by default.
    hazard : float or Hazard
        P(change) per tick; 1/100 by default.
    ticks : int
        Length of the stream; 500 by default.
    seed : int
        Seed of the simulation; 0 by default.

    Returns
    -------
    Stream
        The stream. A fidelity with zeta = 0 reads NaN.

    Raises
    ------
    ValueError
        If the hazard or the fidelities are invalid.

    Examples
    --------
    >>> stream = gaussian(Gaussian(0, 9, 1), Fidelity("gps", zeta=1, cost=40), hazard=0.05, ticks=100, seed=1)
    >>> stream.table.shape, stream.changes
    ((100, 1), array([ 9, 36, 61, 75, 93]))
    """
    rng = np.random.default_rng(seed)
    changes, regime = _regimes(rng, Hazard(hazard), ticks)
    theta = rng.normal(model.mean, math.sqrt(model.var), size=changes.size + 1)[regime]
    ways = checked(fidelities)
    zeta = np.array([f.zeta for f in ways])
    with np.errstate(divide="ignore"):
        sd = np.sqrt(model.noise_var / zeta)
    noise = rng.normal(size=(ticks, zeta.size))
    table = np.where(np.isfinite(sd), theta[:, None] + noise * np.where(np.isfinite(sd), sd, 0.0), np.nan)
    if any(f.has_correction for f in ways):  # what the sensor shows, which a detector corrects
        table = table * [f.scale for f in ways] + [f.offset for f in ways]
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
    """Simulate regimes with theta ~ Beta(alpha, beta), read as zeros and ones.

    Parameters
    ----------
    model : Bernoulli
        The prior of theta.
    fidelities : Iterable[Fidelity] or Fidelity or None
        The fidelities, one column each; one with zeta = 1 by default.
    hazard : float or Hazard
        P(change) per tick; 1/100 by default.
    ticks : int
        Length of the stream; 500 by default.
    seed : int
        Seed of the simulation; 0 by default.
    low : {"flip", "miss"}
        How a fidelity with zeta < 1 errs. "flip", the default: the label is flipped with probability (1 - sqrt(zeta))
        / 2, as by a classifier of accuracy q with (2 q - 1)^2 = zeta. "miss": x ~ Bernoulli(zeta theta), as in the
        paper's ablation.

    Returns
    -------
    Stream
        The stream. A fidelity with zeta = 0 reads NaN.

    Raises
    ------
    ValueError
        If `low`, the hazard or the fidelities are invalid.

    Examples
    --------
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
    uniform = rng.random((ticks, zeta.size))
    if low == "flip":
        x = truth ^ (uniform < 0.5 * (1.0 - np.sqrt(zeta)))
    else:
        x = np.where(zeta == 1.0, truth, uniform < zeta * theta[:, None])
    return Stream(np.where(zeta > 0.0, x, np.nan), theta, changes)


def _regimes(rng: np.random.Generator, hazard: Hazard, ticks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ticks of the changes and the regime's number at each tick."""
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

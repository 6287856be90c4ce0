"""Settings of the study: how a detector is configured, its quiet streams, and its streams with a change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd.models import Bernoulli, Gaussian, Model
from mfbocd.policy.fidelity import Fidelity

Array = NDArray[np.float64]
SPENDS = (0.02, 0.05, 0.1, 0.2, 0.35)
"""Positions of the average cost between the cheapest (0) and the most expensive fidelity (1)."""
SMALLEST = 0.5
"""Difference of two levels from the prior; the delay until a smaller one is found is that of the wait."""
TWO = (0.05, 0.2)
"""Those at which every setting but the first is run."""


@dataclass(frozen=True)
class Drawn:
    """Streams with the same ticks of change."""

    table: Array
    """Readings (T, n, J): tick, stream, fidelity."""
    changes: tuple[int, ...]
    """First ticks of the new regimes."""


@dataclass(frozen=True)
class Setting:
    """A detector's configuration with the streams it meets."""

    name: str
    about: str
    model: Model
    fidelities: tuple[Fidelity, ...]
    hazard: float
    quiet: Callable[[int, int, int], Array]
    """Readings (T, n, J) without a change, of a seed, a number of streams and a number of ticks."""
    changed: Mapping[str, Callable[[int, int], Drawn]]
    """For each kind of change, streams of a seed and a number of streams."""
    ratio: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict)
    """Log-likelihood ratios (D, T, n, J) of readings, for the kinds of change whose size is fixed: what peers that
    know both levels are given. D is the number of alternatives, such as up and down."""
    every: float = 2000.0
    """Ticks per false alarm."""
    within: int = 200
    lead: int = 1000
    """Ticks before a change, and those of a quiet stream in which false alarms are not counted."""
    wait: int = 1000
    """A change not found after so many ticks counts as found then."""
    spends: Sequence[float] = TWO
    single: bool = False
    """There is one real stream with several changes: its copies differ in the draws of the policy only."""
    alarm: Mapping[str, Any] = field(default_factory=dict)
    """What the user knows of the change, as arguments of `Alarm`."""

    @property
    def cost(self) -> Array:
        """Costs of the fidelities."""
        return np.array([f.cost_of() for f in self.fidelities])

    def share(self, cost: float) -> float:
        """Average cost as position between the cheapest and the most expensive fidelity."""
        low, high = self.cost.min(), self.cost.max()
        return float((cost - low) / (high - low))


# --- Gaussian ----------------------------------------------------------------------------------------------------


def _normal(rng: np.random.Generator, level: Array, zeta: Array) -> Array:
    """Readings of N(level, 1 / zeta), (T, n, J); 0 at zeta = 0, which reads nothing."""
    noise = rng.normal(size=(*level.shape, zeta.size))
    with np.errstate(divide="ignore"):
        sd = 1.0 / np.sqrt(zeta)
    return np.where(zeta > 0.0, level[..., None] + noise * np.where(zeta > 0.0, sd, 0.0), 0.0)


def _quiet_normal(seed: int, n: int, ticks: int, *, zeta: Array) -> Array:
    return _normal(np.random.default_rng([seed, 0]), np.zeros((ticks, n)), zeta)


def _shifted_normal(
    seed: int, n: int, *, zeta: Array, shift: float | None, var: float, lead: int, wait: int
) -> Drawn:
    """A shift up or down from 0, or, without a shift, levels from N(0, var) that are at least SMALLEST apart."""
    rng = np.random.default_rng([seed, 1])
    level = np.zeros((lead + wait, n))
    if shift is None:
        pairs = np.sqrt(var) * rng.normal(size=(2, 10 * n + 100))
        before, after = pairs[:, np.abs(pairs[0] - pairs[1]) >= SMALLEST][:, :n]
        level[:lead] = before
    else:
        after = np.where(rng.random(n) < 0.5, shift, -shift)
    level[lead:] = after
    return Drawn(_normal(rng, level, zeta), (lead,))


def _normal_ratio(x: Array, *, zeta: Array, shift: float, signs: Sequence[float] = (1.0, -1.0)) -> Array:
    """Log-likelihood ratio of N(+-shift, 1 / zeta) to N(0, 1 / zeta)."""
    return np.stack([zeta * (s * shift * x - shift * shift / 2.0) for s in signs])


def gaussian(
    name: str,
    about: str,
    *,
    var: float = 1.0,
    zeta: Sequence[float] = (0.1, 1.0),
    cost: Sequence[float] = (1.0, 10.0),
    declared: Sequence[float] | None = None,
    hazard: float = 1 / 1000,
    shifts: Mapping[str, float | None] | None = None,
    lead: int = 1000,
    spends: Sequence[float] = TWO,
) -> Setting:
    """Gaussian(0, var, 1); readings have the variance 1 / `zeta`, and the detector is configured with `declared`."""
    shifts = {"1 sd": 1.0, "2 sd": 2.0} if shifts is None else shifts
    used = zeta if declared is None else declared
    names = [f"f{j}" if z > 0.0 else "skip" for j, z in enumerate(used)]
    true, wait = np.array(zeta), 1000
    return Setting(
        name,
        about,
        Gaussian(0, var, 1),
        tuple(Fidelity(n, z, c) for n, z, c in zip(names, used, cost, strict=True)),
        hazard,
        partial(_quiet_normal, zeta=true),
        {k: partial(_shifted_normal, zeta=true, shift=s, var=var, lead=lead, wait=wait) for k, s in shifts.items()},
        {k: partial(_normal_ratio, zeta=np.array(used), shift=s) for k, s in shifts.items() if s is not None},
        lead=lead,
        wait=wait,
        spends=spends,
    )


# --- Bernoulli ---------------------------------------------------------------------------------------------------


def _labels(rng: np.random.Generator, theta: Array, zeta: Array) -> Array:
    """Labels of probability theta, each flipped with probability (1 - sqrt(zeta)) / 2: (T, n, J)."""
    truth = rng.random(theta.shape) < theta
    flip = rng.random((*theta.shape, zeta.size)) < 0.5 * (1.0 - np.sqrt(zeta))
    return (truth[..., None] ^ flip).astype(float)


def _quiet_labels(seed: int, n: int, ticks: int, *, zeta: Array, before: float) -> Array:
    return _labels(np.random.default_rng([seed, 0]), np.full((ticks, n), before), zeta)


def _shifted_labels(seed: int, n: int, *, zeta: Array, before: float, after: float, lead: int, wait: int) -> Drawn:
    theta = np.full((lead + wait, n), before)
    theta[lead:] = after
    return Drawn(_labels(np.random.default_rng([seed, 1]), theta, zeta), (lead,))


def _labels_ratio(x: Array, *, zeta: Array, before: float, after: float) -> Array:
    """Log-likelihood ratio of the flipped labels."""
    first, second = (0.5 + np.sqrt(zeta) * (p - 0.5) for p in (before, after))
    return np.asarray(np.where(x > 0.5, np.log(second / first), np.log((1.0 - second) / (1.0 - first))))[None]


def bernoulli(name: str, about: str, *, zeta: Sequence[float], cost: Sequence[float]) -> Setting:
    """Bernoulli(1, 1) and labels that the cheap fidelity flips; theta rises from 0.2."""
    z, before, lead, wait = np.array(zeta), 0.2, 1000, 1000
    ends = {"0.2 to 0.4": 0.4, "0.2 to 0.6": 0.6}
    return Setting(
        name,
        about,
        Bernoulli(1, 1),
        tuple(Fidelity(f"f{j}", a, c) for j, (a, c) in enumerate(zip(zeta, cost, strict=True))),
        1 / 1000,
        partial(_quiet_labels, zeta=z, before=before),
        {k: partial(_shifted_labels, zeta=z, before=before, after=p, lead=lead, wait=wait) for k, p in ends.items()},
        {k: partial(_labels_ratio, zeta=z, before=before, after=p) for k, p in ends.items()},
        lead=lead,
        wait=wait,
    )


# --- what the user knows -----------------------------------------------------------------------------------------


def _raised(seed: int, n: int, *, shift: float, lead: int, wait: int) -> Drawn:
    level = np.zeros((lead + wait, n))
    level[lead:] = shift
    return Drawn(_normal(np.random.default_rng([seed, 1]), level, np.array([0.0, 1.0])), (lead,))


def on_or_off(name: str, about: str, shifts: Sequence[float], alarm: Mapping[str, Any]) -> Setting:
    """Read or skip; a rise of the mean of N(0, 1), one false alarm per 500 ticks.

    The peers know the direction as well.
    """
    zeta, lead, wait = np.array([0.0, 1.0]), 2000, 1000
    return Setting(
        name,
        about,
        Gaussian(0, 1, 1),
        (Fidelity("skip", 0.0, 0.0), Fidelity("read", 1.0, 1.0)),
        1 / 500,
        partial(_quiet_normal, zeta=zeta),
        {f"{m:g} sd": partial(_raised, shift=m, lead=lead, wait=wait) for m in shifts},
        {f"{m:g} sd": partial(_normal_ratio, zeta=zeta, shift=m, signs=(1.0,)) for m in shifts},
        every=500.0,
        lead=lead,
        wait=wait,
        spends=(0.5, 0.25, 0.1),
        alarm=alarm,
    )


PLAIN = "plain"
KNOWN = {"before": 0.0, "direction": "up", "at_least": 0.75}
"""What DE-CuSum knows, as arguments of `Alarm`."""
ON_OR_OFF: dict[str, Callable[[], Setting]] = {
    "duty": lambda: on_or_off("duty", "read or skip, 0.75 sd up, nothing known", [0.75], {}),
    "duty-known": lambda: on_or_off(
        "duty-known", "read or skip, 0.75 sd up, level before, direction and size known", [0.75], KNOWN
    ),
    PLAIN: lambda: on_or_off(PLAIN, "every tick read, the change may go up or down", [0.5, 0.75, 1.0, 2.0], {}),
}
MAIN, WIDE = "gaussian", "wide"
_CHANGES: dict[str, float | None] = {"1 sd": 1.0, "2 sd": 2.0, "prior": None}
SHOWN = {MAIN: "Prior N(0, 1)", WIDE: "Prior N(0, 9)"}
"""Settings that are run at every spend, because the distance to random choice depends on the prior."""
SYNTHETIC: dict[str, Callable[[], Setting]] = {
    MAIN: lambda: gaussian(
        MAIN,
        "Gaussian(0, 1, 1), zeta 0.1 and 1, costs 1 and 10, hazard 1/1000",
        shifts=_CHANGES,
        spends=SPENDS,
    ),
    WIDE: lambda: gaussian(
        WIDE,
        "the same with Gaussian(0, 9, 1)",
        var=9.0,
        shifts=_CHANGES,
        spends=SPENDS,
    ),
    "hazard-200": lambda: gaussian(
        "hazard-200", "`gaussian` with hazard 1/200 and 200 ticks before the change", hazard=1 / 200, lead=200
    ),
    "skip-10": lambda: gaussian(
        "skip-10", "`gaussian` with a skip (zeta 0, cost 0)", zeta=(0.0, 0.1, 1.0), cost=(0.0, 1.0, 10.0)
    ),
    "cost-40": lambda: gaussian("cost-40", "`gaussian` with costs 1 and 40", cost=(1.0, 40.0)),
    "skip-40": lambda: gaussian(
        "skip-40", "`gaussian` with costs 1 and 40 and a skip", zeta=(0.0, 0.1, 1.0), cost=(0.0, 1.0, 40.0)
    ),
    "ladder": lambda: gaussian(
        "ladder",
        "`gaussian` with zeta 0.03, 0.1, 0.3 and 1 at costs 1, 2, 5 and 10",
        zeta=(0.03, 0.1, 0.3, 1),
        cost=(1, 2, 5, 10),
    ),
    "flipped": lambda: bernoulli(
        "flipped", "Bernoulli(1, 1), the cheap fidelity flips 34 % of the labels", zeta=(0.1, 1.0), cost=(1.0, 10.0)
    ),
    "zeta-too-high": lambda: gaussian(
        "zeta-too-high", "`gaussian` with zeta 0.05, declared as 0.1", zeta=(0.05, 1.0), declared=(0.1, 1.0)
    ),
    "hazard-x5": lambda: gaussian(
        "hazard-x5",
        "`gaussian` with a hazard declared five times too high: 1/200, 1000 ticks before the change",
        hazard=1 / 200,
    ),
    "hazard-/5": lambda: gaussian(
        "hazard-/5", "`gaussian` with a hazard declared five times too low: 1/5000", hazard=1 / 5000
    ),
}

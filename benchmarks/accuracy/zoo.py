"""A zoo of simulated series with known changes: quiet backgrounds, and the same backgrounds with changes.

``series("ar.8", seed)`` is quiet, ``series("ar.8/level2", seed)`` has two or three changes. Sizes are stated in
units of the background, `Background.unit`, mostly its standard deviation. Regimes alternate: normal,
changed, normal, ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TICKS = 1200
GAP = 200
"""Least distance between two changes, and between a change and either end of the series."""
DESIGN = range(0, 100)
"""Seeds for designing and tuning a detector."""
JUDGE = range(1000, 1100)
"""Seeds for reporting results. Never look at them while designing."""

CHANGES = {
    "level2": "the level moves by 2 units",
    "level1": "the level moves by 1 unit",
    "slope": "a slope of 0.05 units per tick begins or ends, without a jump",
    "variance": "the standard deviation of the noise is multiplied or divided by 3",
    "period": "the period is multiplied or divided by 1.5",
    "autocorrelation": "the lag-1 autocorrelation moves to or from another value, at equal variance",
}


@dataclass(frozen=True)
class Series:
    """One simulated series."""

    name: str
    x: Array
    changes: tuple[int, ...]
    """First ticks of the new regimes."""
    kind: str
    seed: int


@dataclass(frozen=True)
class Plan:
    """What a background does at each tick, one array entry per tick."""

    shift: Array
    """Added to the level, in units."""
    spread: Array
    """Factor of the standard deviation of the noise."""
    speed: Array
    """Factor of the frequency of a season."""
    changed: NDArray[np.bool_]
    """Whether the autocorrelation is the other one."""

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return self.shift.size


Draw = Callable[[np.random.Generator, Plan], Array]


@dataclass(frozen=True)
class Background:
    """A kind of quiet series."""

    draw: Draw
    changes: tuple[str, ...]
    """The changes it allows, keys of `CHANGES`."""
    unit: str
    """What a size of 1 means."""
    scaled: bool = True
    """Whether each series has a random origin and scale. Counts, 0/1 and rounded values keep theirs."""


def _places(rng: np.random.Generator, ticks: int) -> tuple[int, ...]:
    """Two or three changes, uniform among all placements with gaps of at least GAP."""
    count = int(rng.integers(2, 4))
    free = ticks - (count + 1) * GAP
    if free < 0:
        raise ValueError(f"{ticks} ticks are too few for {count} changes {GAP} ticks apart")
    slack = np.sort(rng.integers(0, free + 1, count))
    return tuple(int(s) + GAP * (k + 1) for k, s in enumerate(slack))


def _plan(change: str | None, places: tuple[int, ...], ticks: int, sign: float) -> Plan:
    regime = np.searchsorted(np.array(places, dtype=int), np.arange(ticks), side="right")
    changed = regime % 2 == 1
    shift = np.zeros(ticks)
    if change in ("level1", "level2"):
        shift = np.where(changed, sign * float(change[-1]), 0.0)
    elif change == "slope":
        shift = sign * 0.05 * np.cumsum(changed)
    return Plan(
        shift=shift,
        spread=np.where(changed & (change == "variance"), 3.0, 1.0),
        speed=np.where(changed & (change == "period"), 1.5**sign, 1.0),
        changed=changed & (change == "autocorrelation"),
    )


def _autoregressive(rng: np.random.Generator, phi: Array) -> Array:
    """AR(1) with variance 1 whatever phi is, also while it changes."""
    step = rng.standard_normal(phi.size) * np.sqrt(1.0 - phi**2)
    x = np.empty(phi.size)
    last = rng.standard_normal()
    for t in range(phi.size):
        last = x[t] = phi[t] * last + step[t]
    return x


def _ar(phi: float, other: float) -> Draw:
    def draw(rng: np.random.Generator, plan: Plan) -> Array:
        noise = _autoregressive(rng, np.where(plan.changed, other, phi))
        return plan.spread * noise + plan.shift

    return draw


def _random_walk(rng: np.random.Generator, plan: Plan) -> Array:
    return np.cumsum(plan.spread * rng.standard_normal(plan.ticks)) + 4.0 * plan.shift


def _student(rng: np.random.Generator, plan: Plan) -> Array:
    x: Array = plan.spread * rng.standard_t(3, plan.ticks) + np.sqrt(3.0) * plan.shift
    return x


def _spikes(rng: np.random.Generator, plan: Plan) -> Array:
    """1 % of the readings are off by 5 to 15 standard deviations, up or down."""
    hit = rng.random(plan.ticks) < 0.01
    size = rng.uniform(5.0, 15.0, plan.ticks) * rng.choice([-1.0, 1.0], plan.ticks)
    x: Array = plan.spread * rng.standard_normal(plan.ticks) + plan.shift + hit * size
    return x


def _growing(rng: np.random.Generator, plan: Plan) -> Array:
    """The standard deviation grows from 1 to 4, at a constant rate of growth; shifts are in the current one."""
    sd = 4.0 ** np.linspace(0.0, 1.0, plan.ticks)
    return sd * (plan.spread * rng.standard_normal(plan.ticks) + plan.shift)


def _drift(rng: np.random.Generator, plan: Plan) -> Array:
    """A line, between 5 and 20 standard deviations per 1,000 ticks, up or down."""
    slope = rng.uniform(0.005, 0.02) * rng.choice([-1.0, 1.0])
    x: Array = plan.spread * rng.standard_normal(plan.ticks) + slope * np.arange(plan.ticks) + plan.shift
    return x


def _poisson(mean: float) -> Draw:
    def draw(rng: np.random.Generator, plan: Plan) -> Array:
        x: Array = rng.poisson(mean + np.sqrt(mean) * np.abs(plan.shift)).astype(float)
        return x

    return draw


def _overdispersed(rng: np.random.Generator, plan: Plan) -> Array:
    """Negative binomial counts, mean 10 and variance 30: Poisson given a Gamma rate."""
    mean = 10.0 + np.sqrt(30.0) * np.abs(plan.shift)
    x: Array = rng.poisson(rng.gamma(5.0, mean / 5.0)).astype(float)
    return x


def _binary(rng: np.random.Generator, plan: Plan) -> Array:
    """P(1) = .2, and .6 or .9 (not 1) after a change."""
    return (rng.random(plan.ticks) < np.minimum(0.2 + 0.4 * np.abs(plan.shift), 0.9)).astype(float)


def _rounded(rng: np.random.Generator, plan: Plan) -> Array:
    return np.round(plan.spread * rng.standard_normal(plan.ticks) + plan.shift) + 0.0  # no -0


def _mostly_flat(rng: np.random.Generator, plan: Plan) -> Array:
    """White noise of standard deviation .3, rounded: nine readings in ten are the same number."""
    return np.round(0.3 * plan.spread * rng.standard_normal(plan.ticks) + plan.shift) + 0.0


def _repeating(rng: np.random.Generator, plan: Plan) -> Array:
    """A sensor that repeats its last value with probability .3."""
    return _repeat(_ar(0.0, 0.8)(rng, plan), rng.random(plan.ticks) < 0.3)


def _stuck(rng: np.random.Generator, plan: Plan) -> Array:
    """A sensor that now and then (1 % of the ticks) repeats its last value for 10 to 30 ticks."""
    again = np.zeros(plan.ticks, dtype=bool)
    for t in np.flatnonzero(rng.random(plan.ticks) < 0.01):
        again[t : t + int(rng.integers(10, 31))] = True
    return _repeat(_ar(0.0, 0.8)(rng, plan), again)


def _repeat(x: Array, again: NDArray[np.bool_]) -> Array:
    last = np.maximum.accumulate(np.where(again, 0, np.arange(x.size)))
    return x[last]


def _season(shape: Callable[[Array], Array]) -> Draw:
    """A shape of variance 1 over phases in cycles, with period 12 to 60, and noise of standard deviation .35."""

    def draw(rng: np.random.Generator, plan: Plan) -> Array:
        period = float(rng.integers(12, 61))
        cycles = rng.random() + np.cumsum(plan.speed) / period
        return shape(cycles) + 0.35 * plan.spread * rng.standard_normal(plan.ticks) + plan.shift

    return draw


def _two_sines(rng: np.random.Generator, plan: Plan) -> Array:
    """Periods 12 to 24 and 30 to 60, amplitudes 1 and 1."""
    x = 0.35 * plan.spread * rng.standard_normal(plan.ticks) + plan.shift
    for low, high in ((12, 24), (30, 60)):
        x += np.sin(2.0 * np.pi * (rng.random() + np.cumsum(plan.speed) / rng.uniform(low, high)))
    return x


def _daily(rng: np.random.Generator, plan: Plan) -> Array:
    """Hourly readings: a daily bump by day, at 30 % of its height on two days of seven."""
    hours = float(rng.integers(0, 168)) + np.cumsum(plan.speed)
    bump = 2.88 * np.maximum(np.sin(2.0 * np.pi * (hours % 24.0) / 24.0), 0.0)
    weekend = (hours // 24.0) % 7.0 >= 5.0
    return np.where(weekend, 0.3, 1.0) * bump + 0.35 * plan.spread * rng.standard_normal(plan.ticks) + plan.shift


_LEVELS = ("level2", "level1", "slope")
_NOISE = (*_LEVELS, "variance")
_AR = (*_NOISE, "autocorrelation")
_SEASON = (*_NOISE, "period")
_SD = "its standard deviation"
_SEASON_SD = "the standard deviation of the season"

BACKGROUNDS: dict[str, Background] = {
    "white": Background(_ar(0.0, 0.8), _AR, _SD),
    "ar.5": Background(_ar(0.5, 0.95), _AR, _SD),
    "ar.8": Background(_ar(0.8, 0.0), _AR, _SD),
    "ar.95": Background(_ar(0.95, 0.5), _AR, _SD),
    "random-walk": Background(_random_walk, ("level2", "level1", "variance"), "4 standard deviations of a step"),
    "student-t3": Background(_student, _NOISE, _SD),
    "spikes": Background(_spikes, _NOISE, "the standard deviation without spikes"),
    "sine": Background(_season(lambda c: np.sqrt(2.0) * np.sin(2.0 * np.pi * c)), _SEASON, _SEASON_SD),
    "two-sines": Background(_two_sines, _SEASON, _SEASON_SD),
    "sawtooth": Background(_season(lambda c: np.sqrt(12.0) * (c % 1.0 - 0.5)), _SEASON, _SEASON_SD),
    "square": Background(_season(lambda c: np.where(c % 1.0 < 0.5, 1.0, -1.0)), _SEASON, _SEASON_SD),
    "daily": Background(_daily, _SEASON, _SEASON_SD),
    "growing-variance": Background(_growing, _NOISE, "the current standard deviation"),
    "poisson3": Background(_poisson(3.0), ("level2", "level1"), _SD + ", upwards", scaled=False),
    "poisson30": Background(_poisson(30.0), _LEVELS, _SD + ", upwards", scaled=False),
    "overdispersed": Background(_overdispersed, _LEVELS, _SD + ", upwards", scaled=False),
    "drift": Background(_drift, _NOISE, "the standard deviation of the noise"),
    "binary": Background(_binary, ("level2", "level1"), "0.4; P(1) at most .9", scaled=False),
    "rounded": Background(
        _rounded, _NOISE, "the standard deviation before rounding, and the step of rounding", scaled=False
    ),
    "mostly-flat": Background(
        _mostly_flat, _NOISE, "the step of rounding, 3.3 standard deviations before rounding", scaled=False
    ),
    "repeating": Background(_repeating, _AR, _SD),
    "stuck": Background(_stuck, _AR, _SD),
}
QUIET = tuple(BACKGROUNDS)
CHANGED = tuple(f"{name}/{change}" for name, b in BACKGROUNDS.items() for change in b.changes)
KINDS = QUIET + CHANGED


@lru_cache(maxsize=4096)
def series(kind: str, seed: int, ticks: int = TICKS) -> Series:
    """Draw one series; the same kind, seed and length give the same series, whose readings cannot be written."""
    name, _, change = kind.partition("/")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    rng = np.random.default_rng([seed, *kind.encode()])
    places = _places(rng, ticks) if change else ()
    plan = _plan(change or None, places, ticks, float(rng.choice([-1.0, 1.0])))
    background = BACKGROUNDS[name]
    x = background.draw(rng, plan)
    if background.scaled:  # so that no detector profits from a default scale of 1 about 0
        x = 10.0 ** rng.uniform(-2.0, 2.0) * (x + 20.0 * rng.standard_normal())
    x.setflags(write=False)
    return Series(f"{kind}#{seed}", x, places, kind, seed)

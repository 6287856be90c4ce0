"""A model with its prior from the first readings of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise import noise_of, present
from .scatter import dispersion, loudness, waiting

Array = NDArray[np.float64]

WIDE = 9.0
"""Prior variance in noise variances, at least: what was seen so far may all be one regime."""
LEAST, LEAST_WAITS = 30, 100
"""Readings below which none are called counts or waiting times: of 30 a variance is known to a factor of 1.4."""
COUNTS = (0.5, 1.5)
"""Variance within a level over the mean that counts may have to be a Poisson's: beyond, it gives false alarms."""
TOP = 0.1
"""Share of counts that may equal the largest: of up to eight labels it is more, and nine vary too much for counts."""
WAITS = (0.05, 0.8)
"""How far waiting times may be from an exponential's: the first number, and the second over the root of how many they
are. Of streams of 200 this finds 95 in 100, and takes one in 100 of uniform numbers for one."""
LOUD = 2.0
"""Times as large the noise's standard deviation must become to be unknown. A noise taken for known then gives 2 false
alarms in 600 readings, 19 where it is four times as large (unknown: 0.3 and 0); less of a change does little harm."""


@dataclass(frozen=True)
class Guess:
    """A model as a config writes it down, and why each of its arguments is what it is."""

    model: dict[str, Any]
    reasons: dict[str, str]


def guess_model(values: ArrayLike) -> Guess:
    """The family that readings scatter like, with a prior in their own unit.

    Zeros and ones are a Bernoulli's; counts that scatter as their mean asks a Poisson's; readings of at least 0 that
    scatter as waiting times an Exponential's; all else a Gaussian's, whose noise is unknown where it is clearly not
    the same throughout. It is judged within a level, by readings next to each other. The unit makes no difference,
    nor does the zero of a Gaussian's readings.

    >>> guess_model([0, 1, 1, 0]).model
    {'kind': 'bernoulli', 'alpha': 1.0, 'beta': 1.0}
    >>> guess_model([20.0, 21.0, 20.5, 19.0, 20.0]).model["mean"]
    20.0
    >>> rng = np.random.default_rng(0)
    >>> found = guess_model(rng.poisson(3, 200))
    >>> found.model["kind"], found.reasons["kind"]
    ('poisson', 'counts, whole numbers whose variance within a level is 0.895 times their mean, a Poisson has 1')
    >>> guess_model(rng.exponential(0.01, 1000)).model["kind"]
    'exponential'
    """
    x = present(values)
    plain = guess_plain(x)
    if plain.model["kind"] == "bernoulli" or x.size < LEAST:
        return plain
    scatter = dispersion(x) if _whole(x) else math.nan
    labels = float(np.mean(x == x.max())) > TOP
    if COUNTS[0] <= scatter <= COUNTS[1] and not labels:
        return _poisson(x, scatter)
    if _waits(x):
        return _exponential(x)
    why = _no_counts(x, scatter)
    louder = loudness(x)
    if louder < LOUD:
        return Guess(plain.model, plain.reasons | {"kind": why})
    return _unknown(plain, f"{why}; and their noise is not steady, its standard deviation {_times(louder)}")


def guess_plain(values: ArrayLike) -> Guess:
    """Zeros and ones are a Bernoulli's; all else a Gaussian's with known noise, whatever its offset and scale.

    >>> guess_plain([3, 5, 4, 4, 2, 6]).model["kind"]
    'gaussian'
    """
    x = present(values)
    if x.size == 0:
        raise ValueError("values must hold at least one reading, not none")
    if ((x == 0.0) | (x == 1.0)).all():
        return Guess(
            {"kind": "bernoulli", "alpha": 1.0, "beta": 1.0},
            {
                "kind": f"all {x.size} readings looked at are 0 or 1",
                "alpha": "with beta = 1: every share of ones is equally likely beforehand",
            },
        )
    noise_var, why = noise_of(x)
    mean, spread = float(np.median(x)), float(np.var(x))
    var = max(spread, WIDE * noise_var)
    return Guess(
        {"kind": "gaussian", "mean": mean, "var": var, "noise_var": noise_var},
        {
            "kind": f"of {x.size} readings looked at some are neither 0 nor 1",
            "mean": f"the median of {x.size} readings",
            "var": f"how far levels lie apart: {_apart(spread, var, 'noise_var')}",
            "noise_var": f"variance within a level: {why}",
        },
    )


def _whole(x: Array) -> bool:
    return bool(((x >= 0.0) & (x <= 1e9) & (x == np.floor(x))).all())


def _no_counts(x: Array, scatter: float) -> str:
    if math.isnan(scatter):
        return "numbers that are neither counts nor waiting times"
    if COUNTS[0] <= scatter <= COUNTS[1]:
        share = float(np.mean(x == x.max()))
        return f"whole numbers, but {share:.0%} of them are the largest, {x.max():g}: labels or grades, not counts"
    return f"whole numbers, but their variance within a level is {scatter:.2g} times their mean, of counts about 1"


def _waits(x: Array) -> bool:
    if x.size < LEAST_WAITS or (x < 0.0).any():
        return False
    return waiting(x) <= WAITS[0] + WAITS[1] / math.sqrt(x.size)


def _poisson(x: Array, scatter: float) -> Guess:
    """A Gamma of the readings' mean, as wide as a Gaussian's prior would be."""
    mean, spread = float(x.mean()), float(np.var(x))
    var = max(spread, WIDE * mean)
    shape = max(mean * mean / var, 0.5)
    wide = f"shape / rate^2 how far levels lie apart: {_apart(spread, var, 'that')}"
    if shape == 0.5:
        wide = "shape is as small as leaves the prior some weight away from 0"
    return Guess(
        {"kind": "poisson", "shape": shape, "rate": shape / mean},
        {
            "kind": f"counts, whole numbers whose variance within a level is {scatter:.3g} times their mean, "
            "a Poisson has 1",
            "shape": f"shape / rate is {mean:.3g}, the mean of {x.size} readings; {wide}",
            "rate": "how many readings the prior is worth",
        },
    )


def _exponential(x: Array) -> Guess:
    """Two readings' worth of prior: levels within a factor of two are likely, far larger ones possible."""
    mean = float(np.median(x)) / math.log(2.0)
    return Guess(
        {"kind": "exponential", "shape": 2.0, "rate": mean},
        {
            "kind": "waiting times, never below 0 and within a level about as variable as their mean, "
            "as an exponential's are",
            "shape": "how many readings the prior is worth: few, as levels may differ",
            "rate": f"expects readings of {mean:.3g} on average: the median of {x.size} readings / log 2",
        },
    )


def _unknown(plain: Guess, why: str) -> Guess:
    """The Gaussian's prior, but the noise is only expected."""
    noise_var, var = plain.model["noise_var"], plain.model["var"]
    return Guess(
        {
            "kind": "gaussian_unknown",
            "mean": plain.model["mean"],
            "count": noise_var / var,
            "shape": 1.5,
            "scale": noise_var / 2,
        },
        {
            "kind": why,
            "mean": plain.reasons["mean"],
            "count": f"noise over {var:.3g}, {plain.reasons['var']}",
            "shape": "three degrees of freedom, as few as leave the noise an expectation",
            "scale": f"half of {noise_var:.3g}, the noise expected; {plain.reasons['noise_var']}",
        },
    )


def _apart(spread: float, var: float, noise_var: str) -> str:
    if var > spread:
        return f"{WIDE:g} x {noise_var}, as the readings looked at vary little ({spread:.3g}): they may be one regime"
    return f"{spread:.3g}, the variance of the readings looked at"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times as large where it is loud as where it is quiet" if ratio < math.inf else "0 at times"

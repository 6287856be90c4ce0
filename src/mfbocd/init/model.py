"""A model with its prior from the first readings of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..calibrate.noise import noise_of, present

WIDE = 9.0
"""Prior variance in noise variances, at least: what was seen so far may all be one regime."""


@dataclass(frozen=True)
class Guess:
    """A model as a config writes it down, and why each of its arguments is what it is."""

    model: dict[str, Any]
    reasons: dict[str, str]


def guess_model(values: ArrayLike) -> Guess:
    """Zeros and ones are a Bernoulli's; all else a Gaussian's, whatever its offset and scale.

    >>> guess_model([0, 1, 1, 0]).model
    {'kind': 'bernoulli', 'alpha': 1.0, 'beta': 1.0}
    >>> guess_model([20.0, 21.0, 20.5, 19.0, 20.0]).model["mean"]
    20.0
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
    noise, why = noise_of(x)
    mean, spread = float(np.median(x)), float(np.var(x))
    var = max(spread, WIDE * noise)
    seen = f"{spread:.3g}, the variance of the readings looked at"
    if var > spread:
        seen = f"{WIDE:g} x noise, as the readings looked at vary little ({spread:.3g}): they may be one regime"
    return Guess(
        {"kind": "gaussian", "mean": mean, "var": var, "noise": noise},
        {
            "kind": f"of {x.size} readings looked at some are neither 0 nor 1",
            "mean": f"the median of {x.size} readings",
            "var": f"how far levels lie apart: {seen}",
            "noise": f"variance within a level: {why}",
        },
    )

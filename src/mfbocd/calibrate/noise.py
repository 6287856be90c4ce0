"""The noise of readings, from readings next to each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.readings import floats

Array = NDArray[np.float64]

_QUARTILE = 0.6744897501960817  # half of a standard normal's draws lie within
_CUT = 3.0  # standard deviations a step between readings may have: those beyond are changes of level
_LEFT = 0.97335  # E[z^2 given |z| < 3] of a standard normal


def noise_of(values: ArrayLike) -> tuple[float, str]:
    """The variance of the noise, from readings next to each other: a change of level moves few of them.

    >>> rng = np.random.default_rng(0)
    >>> noise, why = noise_of(np.repeat([0.0, 50.0], 200) + 2.0 * rng.normal(size=400))
    >>> round(noise, 1)
    3.9
    >>> print(why)
    readings next to each other differ by 1.71 (median), as noise of standard deviation 1.97 makes them
    """
    x = present(values)
    steps = np.abs(np.diff(x))
    middle = float(np.median(steps)) if steps.size else 0.0
    if middle > 0.0:
        noise_var = usual_square(steps) / 2.0
        return noise_var, (
            f"readings next to each other differ by {middle:.3g} (median), "
            f"as noise of standard deviation {math.sqrt(noise_var):.3g} makes them"
        )
    square = float(np.mean(steps**2)) / 2.0 if steps.size else 0.0
    if square > 0.0:
        return square, (
            "most readings equal the one before: half the mean square of the steps between them, "
            f"{math.sqrt(square):.3g} squared"
        )
    scale = abs(float(x[0])) / 100.0 if x.size and x[0] else 1.0
    return scale * scale, f"the readings seen never moved: {scale:.3g} squared is a placeholder, edit it"


def moves(values: ArrayLike) -> bool:
    """Whether the readings that are there ever differ: otherwise `noise_of` can only give a placeholder.

    >>> moves([3.0, float("nan"), 4.0]), moves([3.0, 3.0]), moves([3.0]), moves([])
    (True, False, False, False)
    """
    x = present(values)
    return bool((x != x[:1]).any())


def usual_square(steps: Array) -> float:
    """Mean square of the sizes of steps, but for those too large for the rest: changes of level make them.

    >>> usual_square(np.array([1.0, 1.0, 1.0, 1.0, 50.0]))
    1.0273...
    """
    cut = _CUT * float(np.median(steps)) / _QUARTILE
    usual = steps[steps <= cut]
    return float(usual @ usual) / usual.size / _LEFT


def present(values: ArrayLike) -> Array:
    """The readings that are not missing."""
    x = floats(values).ravel()
    return x[np.isfinite(x)]

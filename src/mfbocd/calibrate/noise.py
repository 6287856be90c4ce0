"""The noise variance of readings, from differences of neighbouring readings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.readings import floats

Array = NDArray[np.float64]

_QUARTILE = 0.6744897501960817  # median of |z| for a standard normal z
_CUT = 3.0  # standard deviations beyond which a step between readings counts as a change of level
_LEFT = 0.97335  # E[z^2 | |z| < 3] for a standard normal z


def noise_of(values: ArrayLike) -> tuple[float, str]:
    """Estimate the noise variance from differences of neighbouring readings, few of which contain a change of level.

    Parameters
    ----------
    values : ArrayLike
        Readings, NaN where missing.

    Returns
    -------
    tuple[float, str]
        The variance, and an explanation of how it was found.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise_var, why = noise_of(np.repeat([0.0, 50.0], 200) + 2.0 * rng.normal(size=400))
    >>> round(noise_var, 1)
    3.9
    >>> print(why)
    neighbouring readings differ by 1.71 (median), as with noise of standard deviation 1.97
    """
    x = finite_values(values)
    steps = np.abs(np.diff(x))
    middle = float(np.median(steps)) if steps.size else 0.0
    if middle > 0.0:
        noise_var = robust_mean_square(steps) / 2.0
        return noise_var, (
            f"neighbouring readings differ by {middle:.3g} (median), "
            f"as with noise of standard deviation {math.sqrt(noise_var):.3g}"
        )
    square = float(np.mean(steps**2)) / 2.0 if steps.size else 0.0
    if square > 0.0:
        return square, (
            "most readings equal the previous one: half the mean square of their steps, "
            f"{math.sqrt(square):.3g} squared"
        )
    scale = abs(float(x[0])) / 100.0 if x.size and x[0] else 1.0
    return scale * scale, f"the readings never vary: {scale:.3g} squared is a placeholder, edit it"


def varies(values: ArrayLike) -> bool:
    """Return whether the readings ever differ; if not, `noise_of` can only return a placeholder.

    Parameters
    ----------
    values : ArrayLike
        Readings, NaN where missing.

    Returns
    -------
    bool
        Whether two readings differ.

    Examples
    --------
    >>> varies([3.0, float("nan"), 4.0]), varies([3.0, 3.0]), varies([3.0]), varies([])
    (True, False, False, False)
    """
    x = finite_values(values)
    return bool((x != x[:1]).any())


def robust_mean_square(steps: Array) -> float:
    """Return the mean square of step sizes without outliers, which are changes of level.

    Parameters
    ----------
    steps : numpy.ndarray
        Absolute differences of neighbouring readings.

    Returns
    -------
    float
        The mean square, corrected for the steps left out.

    Examples
    --------
    >>> robust_mean_square(np.array([1.0, 1.0, 1.0, 1.0, 50.0]))
    1.0273...
    """
    cut = _CUT * float(np.median(steps)) / _QUARTILE
    kept = steps[steps <= cut]
    return float(kept @ kept) / kept.size / _LEFT


def finite_values(values: ArrayLike) -> Array:
    """Return the readings that are not missing.

    Parameters
    ----------
    values : ArrayLike
        Readings, NaN where missing.

    Returns
    -------
    numpy.ndarray
        The finite readings, in order.
    """
    x = floats(values).ravel()
    return x[np.isfinite(x)]

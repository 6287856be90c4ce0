"""The noise of readings, from differences of neighbouring readings or from residuals of local lines."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.readings import floats

Array = NDArray[np.float64]

_QUARTILE = 0.6744897501960817  # median of |z| for a standard normal z
_CUT = 3.0  # standard deviations beyond which a step between readings counts as a change of level
_WINDOW = 11  # readings of a local line
_WIDE = 3.5  # times the lower quartile of the windows' median residuals: beyond, the line breaks
_LINES = 0.919  # mean square of such residuals of local lines, for a standard normal z; simulated
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


def local_noise(values: ArrayLike) -> float:
    """Estimate the standard deviation of the noise from residuals of local lines.

    Unlike differences of neighbouring readings, residuals of lines over 11 readings contain most of the noise also
    if it is autocorrelated. They are insensitive to changes of level, slopes and outliers.

    Parameters
    ----------
    values : ArrayLike
        Readings at equal intervals, NaN where missing.

    Returns
    -------
    float
        The standard deviation; 0 if there are fewer than 4 readings, or if they lie on a line.

    Notes
    -----
    In windows of 11 readings, the slope of a line is the median of the slopes between all pairs, and its level the
    median of the rest (Theil-Sen). Windows whose median residual is more than 3.5 times the lower quartile of those
    of all windows contain a change and are omitted. Readings within 3 standard deviations of their line are fitted
    again by least squares; the estimate is the mean square of their residuals, corrected for degrees of freedom and
    for the readings left out.

    For an AR(1) of coefficient .8 the estimate is .95 standard deviations of the innovations, that is .57 of those of
    the readings; differences of neighbouring readings (`noise_of`) give .75 and .45.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.repeat([0.0, 50.0], 200) + 0.3 * np.arange(400) + 2.0 * rng.normal(size=400)
    >>> round(local_noise(x), 2)
    1.91
    """
    x = floats(values).ravel()
    seen = np.flatnonzero(np.isfinite(x))
    if seen.size < 4:
        return 0.0
    size = min(_WINDOW, seen.size)
    starts = np.append(np.arange(0, seen.size - size, 2 if seen.size < 100 else size // 2), seen.size - size)
    rows = seen[starts[:, None] + np.arange(size)]
    y = x[rows] - x[rows[:, :1]]
    unit = float(np.abs(y).max())
    if unit == 0.0:
        return 0.0
    y /= unit  # squares of any readings are finite
    age = (rows - rows.mean(axis=1, keepdims=True)).astype(float)
    i, j = np.triu_indices(size, 1)
    slope = np.median((y[:, j] - y[:, i]) / (age[:, j] - age[:, i]), axis=1)
    rest = y - slope[:, None] * age
    rest = np.abs(rest - np.median(rest, axis=1, keepdims=True))
    middles = np.median(rest, axis=1)
    whole = middles <= _WIDE * np.quantile(middles, 0.25)
    # the line has used up 2 of the degrees of freedom
    sd = float(np.median(rest[whole])) / _QUARTILE * math.sqrt(size / (size - 2.0))
    kept = (rest <= _CUT * sd if sd > 0.0 else np.ones_like(rest, dtype=bool)) & whole[:, None]
    square, freedom = _line_residuals(y, age, kept.astype(float))
    return unit * math.sqrt(square / freedom / (_LINES if sd > 0.0 else 1.0)) if freedom > 0.0 else 0.0


def _line_residuals(y: Array, age: Array, weight: Array) -> tuple[float, float]:
    """Return the sum of squared residuals of a weighted line per row, and their degrees of freedom."""
    count = weight.sum(axis=1, keepdims=True)
    enough = count[:, 0] > 2.0
    y, age, weight, count = y[enough], age[enough], weight[enough], count[enough]
    y = y - (weight * y).sum(axis=1, keepdims=True) / count
    age = age - (weight * age).sum(axis=1, keepdims=True) / count
    slope = (weight * age * y).sum(axis=1, keepdims=True) / (weight * age * age).sum(axis=1, keepdims=True)
    return float((weight * (y - slope * age) ** 2).sum()), float((count - 2.0).sum())


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

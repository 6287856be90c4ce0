"""Checks of held-out data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.arguments import whole
from ..inputs.readings import cells
from ..inputs.readings import numbers as numbers_of

Array = NDArray[np.float64]


class CalibrationError(ValueError):
    """The held-out data does not determine an estimate; the message says why.

    Examples
    --------
    >>> from mfbocd.calibrate import bernoulli_zeta
    >>> bernoulli_zeta([0, 1, 1], [0, 1, 0])
    Traceback (most recent call last):
    ...
    mfbocd.calibrate.checks.CalibrationError: 3 paired readings are too few for zeta: at least 30 are needed
    """


def numbers(name: str, values: ArrayLike) -> Array:
    """Return readings as finite floats, one per tick.

    Parameters
    ----------
    name : str
        Name of the argument, for the error message.
    values : ArrayLike
        The readings.

    Returns
    -------
    numpy.ndarray
        The readings, (n,).

    Raises
    ------
    ValueError
        If they are not one-dimensional or not finite.

    Examples
    --------
    >>> numbers("high", [1, 2])
    array([1., 2.])
    """
    array = numbers_of(cells(values))
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, one reading per tick, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, not {array[~np.isfinite(array)][0]}: leave out incomplete pairs")
    return array


def binary_values(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return readings that must be 0 or 1 as booleans.

    Parameters
    ----------
    name : str
        Name of the argument, for the error message.
    values : ArrayLike
        The readings.

    Returns
    -------
    numpy.ndarray
        The readings, (n,).

    Raises
    ------
    ValueError
        If one is neither 0 nor 1.

    Examples
    --------
    >>> binary_values("high", [1.0, 0.0])
    array([ True, False])
    """
    array = numbers(name, values)
    odd = array[(array != 0.0) & (array != 1.0)]
    if odd.size:
        raise ValueError(f"{name} must be zeros and ones, not {odd[0]:g}")
    return np.asarray(array == 1.0)


def same_length(**arrays: NDArray[Any]) -> int:
    """Return the number of readings in two arrays, which must have the same shape.

    Parameters
    ----------
    **arrays : numpy.ndarray
        Two arrays by the names of the arguments, for the error message.

    Returns
    -------
    int
        The number of readings.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    (a, first), (b, second) = arrays.items()
    if first.shape != second.shape:
        raise ValueError(f"{a} and {b} must have the same shape, not {first.shape} and {second.shape}")
    return first.size


def require_count(n: int, least: int, what: str, wanted: str = "zeta") -> None:
    """Raise an error if there are too few readings for an estimate.

    Parameters
    ----------
    n : int
        Number of readings.
    least : int
        Number required, at least 3.
    what : str
        What is counted, for the error message.
    wanted : str
        What is estimated, for the error message; zeta by default.

    Raises
    ------
    CalibrationError
        If there are too few.
    ValueError
        If `least` is below 3.
    TypeError
        If `least` is not an integer.
    """
    if n < whole("", "least", least, 3):
        raise CalibrationError(f"{n} {what} are too few for {wanted}: at least {least} are needed")

"""Checks of the numbers and bools that are passed as arguments: one rule and one form of message for all of them.

Each function returns the value as a plain float, int or bool, which can be saved. An error names the argument as
``Owner.field``, or as ``field`` where the owner is empty: TypeError if the value is not of the right kind,
ValueError if it is out of range. Readings have separate rules (`inputs.readings`).
"""

from __future__ import annotations

import math
import os
from typing import Any, Literal

import numpy as np

COUNTABLE = 2**53
"""Integers below are exact as floats, which the kernels' arrays hold."""

Interval = Literal["(0, 1)", "(0, 1]", "[0, 1)", "[0, 1]"]


def name_of(owner: str, field: str) -> str:
    """Return how an error names an argument.

    Parameters
    ----------
    owner : str
        Class or function whose argument it is; may be empty.
    field : str
        Name of the argument.

    Returns
    -------
    str
        ``owner.field``, or ``field`` alone.
    """
    return f"{owner}.{field}" if owner else field


def finite(owner: str, field: str, value: Any) -> float:
    """Return a finite number as a float.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        An int or float of Python or numpy.

    Returns
    -------
    float
        The number.

    Raises
    ------
    TypeError
        If it is not a number; bools and text are not.
    ValueError
        If it is infinite, NaN or too large for a float.

    Examples
    --------
    >>> finite("Gaussian", "mean", 3)
    3.0
    >>> finite("Gaussian", "mean", float("nan"))
    Traceback (most recent call last):
    ValueError: Gaussian.mean must be finite, not nan
    """
    # numpy counts a time difference among the integers
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name_of(owner, field)} must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond 1.8e308
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name_of(owner, field)} must be finite, not {value!r}")
    return number


def positive(owner: str, field: str, value: Any, high: float = math.inf, low: float = 0.0) -> float:
    """Return a number above 0, at least `low` and at most `high`, as a float.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        An int or float of Python or numpy.
    high, low : float
        The largest and the smallest value allowed; any by default.

    Returns
    -------
    float
        The number.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is not finite or out of range.

    Examples
    --------
    >>> positive("Gaussian", "var", 9)
    9.0
    >>> positive("Gaussian", "var", -1)
    Traceback (most recent call last):
    ValueError: Gaussian.var must be positive, not -1
    """
    number = finite(owner, field, value)
    if not 0.0 < number <= high:
        raise ValueError(f"{name_of(owner, field)} must be positive{_at_most(high)}, not {value!r}")
    if number < low:
        raise ValueError(f"{name_of(owner, field)} must be at least {low:g}, not {value!r}")
    return number


def _at_most(high: float) -> str:
    return "" if high == math.inf else f" and at most {high:g}"


def not_negative(owner: str, field: str, value: Any) -> float:
    """Return a finite number of at least 0 as a float.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        An int or float of Python or numpy.

    Returns
    -------
    float
        The number.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is not finite or below 0.

    Examples
    --------
    >>> not_negative("Net", "price", 0)
    0.0
    >>> not_negative("Net", "price", -1)
    Traceback (most recent call last):
    ValueError: Net.price must be at least 0, not -1
    """
    number = finite(owner, field, value)
    if number < 0.0:
        raise ValueError(f"{name_of(owner, field)} must be at least 0, not {value!r}")
    return number


def probability(owner: str, field: str, value: Any, interval: Interval = "(0, 1)") -> float:
    """Return a number of the unit interval as a float.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        An int or float of Python or numpy.
    interval : {"(0, 1)", "(0, 1]", "[0, 1)", "[0, 1]"}
        Which of the ends are allowed; neither by default.

    Returns
    -------
    float
        The number.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is not in the interval.

    Examples
    --------
    >>> probability("Fidelity", "zeta", 1, "[0, 1]")
    1.0
    >>> probability("Threshold", "eps", 1)
    Traceback (most recent call last):
    ValueError: Threshold.eps must lie in (0, 1), not 1
    """
    number = finite(owner, field, value)
    if not 0.0 <= number <= 1.0 or (number == 0.0 and interval[0] == "(") or (number == 1.0 and interval[-1] == ")"):
        raise ValueError(f"{name_of(owner, field)} must lie in {interval}, not {value!r}")
    return number


def whole(owner: str, field: str, value: Any, least: int, most: int = COUNTABLE - 1) -> int:
    """Return a whole number from `least` to `most` as an int.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        An int of Python or numpy; bools and floats such as 3.0 are refused.
    least, most : int
        The smallest and the largest value allowed; `most` is 2**53 - 1 by default.

    Returns
    -------
    int
        The number.

    Raises
    ------
    TypeError
        If it is not an int.
    ValueError
        If it is out of range.

    Examples
    --------
    >>> whole("TopK", "k", 256, 1)
    256
    >>> whole("Learned", "points", 65, 2, 64)
    Traceback (most recent call last):
    ValueError: Learned.points must be at most 64
    >>> whole("", "lag", 2.5, 0)
    Traceback (most recent call last):
    TypeError: lag must be a whole number of at least 0, not 2.5
    """
    # numpy counts a time difference among the integers
    right = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if right and least <= value <= most:
        return int(value)
    if right and value > most:
        # without the value, which may have thousands of digits
        bound = "below 2**53" if most == COUNTABLE - 1 else f"at most {most}"
        raise ValueError(f"{name_of(owner, field)} must be {bound}")
    error = ValueError if right else TypeError
    raise error(f"{name_of(owner, field)} must be a whole number of at least {least}, not {value!r}")


def boolean(owner: str, field: str, value: Any) -> bool:
    """Return True or False, and refuse everything else, such as 1 or None.

    Parameters
    ----------
    owner, field : str
        How an error names the argument.
    value : Any
        A bool of Python.

    Returns
    -------
    bool
        The value.

    Raises
    ------
    TypeError
        If it is not a bool.

    Examples
    --------
    >>> boolean("Detector", "learn", True)
    True
    >>> boolean("", "learn", 1)
    Traceback (most recent call last):
    TypeError: learn must be True or False, not 1
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name_of(owner, field)} must be True or False, not {value!r}")
    return value


def room_for(what: str, numbers: float) -> None:
    """Refuse arrays of more numbers than this machine has memory for, before allocating them.

    Parameters
    ----------
    what : str
        What needs the memory: how the error begins.
    numbers : float
        How many numbers of 8 bytes.

    Raises
    ------
    ValueError
        If the machine has less memory.

    Examples
    --------
    >>> room_for("TopK.k = 1000000000000000", 1e15)
    Traceback (most recent call last):
    ValueError: TopK.k = 1000000000000000 needs 8e+06 GB of memory, more than this machine has
    """
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not available on this system
        most = 1 << 40
    if 8.0 * numbers > most:
        raise ValueError(f"{what} needs {8e-9 * numbers:.4g} GB of memory, more than this machine has")

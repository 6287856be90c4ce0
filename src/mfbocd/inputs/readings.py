"""Which values are accepted as readings: one rule for single readings and for arrays of them.

A number is a bool, int or float of Python or numpy: alone, in an array without dimensions, or as an element of an
array or a sequence. None, NaN, `pandas.NA` and masked elements of a masked array are missing readings. Everything
else is an error: text, bytes, dates and times (also `NaT`), complex numbers, Decimals, Fractions and other objects
(TypeError); infinity and integers too large for a float (ValueError).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_PLAIN = {float, int, bool}
_TEXT = (str, bytes, bytearray, memoryview)


def number(x: Any, name: str = "x") -> float:
    """Return a reading as a float, NaN if it is missing.

    Parameters
    ----------
    x : Any
        The reading.
    name : str
        How an error names it.

    Returns
    -------
    float
        The number, or NaN.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is infinite or too large for a float.

    Examples
    --------
    >>> number(np.float32(0.5)), number(True), number(None)
    (0.5, 1.0, nan)
    >>> number("0.5")
    Traceback (most recent call last):
    TypeError: x must be a number, not '0.5'
    """
    if isinstance(x, np.ndarray) and x.ndim == 0:
        if np.ma.is_masked(x):
            return math.nan
        x = x[()]  # of an object array, the object
    if missing(x):
        return math.nan
    # numpy counts a time difference among the integers
    if not isinstance(x, _NUMBERS) or isinstance(x, np.timedelta64):
        raise TypeError(f"{name} must be a number, not {x!r}")
    try:
        value = float(x)
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, not be larger than 1.8e308") from None
    if math.isinf(value):
        raise ValueError(f"{name} must be finite, not {x!r}")
    return value


def missing(x: Any) -> bool:
    """Return whether a value stands for a missing reading; NaN does as well, which `number` returns.

    Parameters
    ----------
    x : Any
        The value.

    Returns
    -------
    bool
        True for None, `numpy.ma.masked` and `pandas.NA`.
    """
    if x is None or x is np.ma.masked:
        return True
    pandas = sys.modules.get("pandas")  # a caller that has pandas.NA has imported pandas
    return pandas is not None and x is getattr(pandas, "NA", None)


def cells(values: Any) -> NDArray[Any]:
    """Return an array of the given values without converting any: numpy would turn [1, "2"] into text.

    If the elements are sequences themselves, a missing one stands for a sequence of missing numbers.

    Parameters
    ----------
    values : Any
        An array, a sequence, or a single value.

    Returns
    -------
    ndarray
        Of numbers, or of objects if they are not all plain numbers.

    Raises
    ------
    ValueError
        If rows have different lengths.

    Examples
    --------
    >>> cells([1, "2"])
    array([1, '2'], dtype=object)
    >>> cells([[1.0, 2.0], None]).tolist()
    [[1.0, 2.0], [nan, nan]]
    """
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, (range, *_TEXT)) or not isinstance(values, Sequence):
        return np.asarray(values) if hasattr(values, "__array__") or isinstance(values, range) else _object(values)
    if set(map(type, values)) <= _PLAIN:  # numpy itself converts nothing here, and is fastest
        return np.asarray(values)
    parts = [v if isinstance(v, _NUMBERS) else cells(v) for v in values]
    shapes = {part.shape for part in parts if isinstance(part, np.ndarray) and part.ndim}
    if len(shapes) > 1:
        raise ValueError(f"x must have the same shape in every row, not {sorted(shapes)}")
    if not shapes:
        out = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            out[i] = value
        return out
    (shape,) = shapes
    return _stacked([_row(part, shape) for part in parts])


def stacked(columns: Sequence[Any]) -> NDArray[Any]:
    """Return the columns of a frame as one array, without converting any element.

    Parameters
    ----------
    columns : sequence
        The columns.

    Returns
    -------
    ndarray
        With one column per column along the last axis.
    """
    return np.moveaxis(_stacked([cells(column) for column in columns]), 0, -1)


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(part.dtype.kind in "biuf" and not isinstance(part, np.ma.MaskedArray) for part in parts):
        return np.stack(parts)
    out = np.empty((len(parts), *parts[0].shape), dtype=object)
    for i, part in enumerate(parts):
        for where in np.ndindex(part.shape):
            out[(i, *where)] = part[where]  # one by one: astype would turn dates into integers
    return out


def _row(part: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    if isinstance(part, np.ndarray) and part.shape == shape:
        return part
    value = number(part)
    if not math.isnan(value):
        raise ValueError(f"x must have {shape[0]} numbers in every row, not {value!r}")
    return np.full(shape, math.nan)


def _object(value: Any) -> NDArray[Any]:
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def numbers(given: NDArray[Any], where: Callable[[int], str] | None = None) -> Array:
    """Return an array of readings as a new array of floats, NaN where one is missing.

    Infinity is accepted here: the model, which has to check the range of all readings anyway, refuses it.

    Parameters
    ----------
    given : ndarray
        As `cells` returns it.
    where : callable, optional
        Returns how an error names the i-th element along the first axis.

    Returns
    -------
    ndarray of float
        The numbers.

    Raises
    ------
    TypeError, ValueError
        For the first element that is not a number.

    Examples
    --------
    >>> numbers(np.ma.array([1, 2, 3], mask=[False, True, False]))
    array([ 1., nan,  3.])
    """
    gone = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else None
    if given.dtype.kind in "biuf":
        if given.dtype.itemsize > 8:  # a long double may be too large: then it is infinite, and refused as such
            with np.errstate(over="ignore"):
                given = given.astype(np.float64)
        out = np.array(np.asarray(given), dtype=np.float64, order="C")
        if gone is not None:
            out[gone] = math.nan
        return out
    values = np.ma.getdata(given)
    out = np.empty(values.shape)
    for at in np.ndindex(values.shape):
        try:
            out[at] = math.nan if gone is not None and gone[at] else number(values[at])
        except (TypeError, ValueError) as error:
            if where is None or not at:
                raise
            raise type(error)(f"{where(at[0])}: {error}") from None
    return out


def floats(values: Any) -> Array:
    """Return readings of any shape as floats, NaN where one is missing.

    Parameters
    ----------
    values : Any
        An array, a sequence, or a single value.

    Returns
    -------
    ndarray of float
        The readings.

    Raises
    ------
    TypeError, ValueError
        If one is not a number, or is infinite.
    """
    out = numbers(cells(values), where=lambda i: f"row {i}")
    if np.isinf(out).any():
        at = np.argwhere(np.isinf(out))[0].tolist()
        raise ValueError(f"{'row ' + str(at[0]) + ': ' if at else ''}x must be finite, not {out[tuple(at)]!r}")
    return out

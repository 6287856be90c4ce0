"""What counts as a number that was read: one rule for single readings and for arrays of them.

A number is a bool, int or float of Python or numpy: alone, in an array of no dimensions, or as an element of an array
or a sequence. Missing are None, NaN, `pandas.NA` and what is masked in a masked array. Everything else is an error:
text, bytes, dates and times (`NaT` among them), complex numbers, Decimals, Fractions and other objects (TypeError);
infinity and whole numbers too large for a float (ValueError).
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
    """The number that was read, NaN if it is missing; else an error, which calls it `name`.

    >>> number(np.float32(0.5)), number(True), number(None)
    (0.5, 1.0, nan)
    >>> number("0.5")
    Traceback (most recent call last):
    TypeError: x must be a number, not '0.5'
    """
    if isinstance(x, np.ndarray) and x.ndim == 0:
        if np.ma.is_masked(x):
            return math.nan
        x = x[()]  # an object array gives the object
    if missing(x):
        return math.nan
    # numpy counts a time difference among the whole numbers
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
    """Whether this stands for a reading that is not there; NaN does too, which `number` tells."""
    if x is None or x is np.ma.masked:
        return True
    pandas = sys.modules.get("pandas")  # whoever has pandas.NA has imported it
    return pandas is not None and x is getattr(pandas, "NA", None)


def cells(values: Any) -> NDArray[Any]:
    """An array of what was given, no element of which was converted: numpy would make text of [1, "2"].

    Where the elements are sequences themselves, a missing one stands for one with all its numbers missing.

    >>> cells([1, "2"])
    array([1, '2'], dtype=object)
    >>> cells([[1.0, 2.0], None]).tolist()
    [[1.0, 2.0], [nan, nan]]
    """
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, (range, *_TEXT)) or not isinstance(values, Sequence):
        return np.asarray(values) if hasattr(values, "__array__") or isinstance(values, range) else _object(values)
    if set(map(type, values)) <= _PLAIN:  # as quick as numpy itself, and nothing to convert
        return np.asarray(values)
    parts = [v if isinstance(v, _NUMBERS) else cells(v) for v in values]
    shapes = {part.shape for part in parts if isinstance(part, np.ndarray) and part.ndim}
    if len(shapes) > 1:
        raise ValueError(f"x must have as many numbers in every row, not of shapes {sorted(shapes)}")
    if not shapes:
        out = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            out[i] = value
        return out
    (shape,) = shapes
    return _stacked([_row(part, shape) for part in parts])


def stacked(columns: Sequence[Any]) -> NDArray[Any]:
    """Columns of a frame as the columns of one array, no element converted."""
    return np.moveaxis(_stacked([cells(column) for column in columns]), 0, -1)


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(part.dtype.kind in "biuf" and not isinstance(part, np.ma.MaskedArray) for part in parts):
        return np.stack(parts)
    out = np.empty((len(parts), *parts[0].shape), dtype=object)
    for i, part in enumerate(parts):
        for where in np.ndindex(part.shape):
            out[(i, *where)] = part[where]  # one by one: astype would make whole numbers of dates
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
    """The numbers of an array, a new one, NaN where one is missing; an error names the first that is none.

    `where` names the i-th along the first axis. Infinity is let through: which reading may be what is the model's to
    say, and most arrays need only that look.

    >>> numbers(np.ma.array([1, 2, 3], mask=[False, True, False]))
    array([ 1., nan,  3.])
    """
    gone = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else None
    if given.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a long double may be too large: infinite then, and refused as that
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
    """Readings of any shape as floats, NaN where one is missing; an error for what is no number, or infinite."""
    out = numbers(cells(values), where=lambda i: f"row {i}")
    if np.isinf(out).any():
        at = np.argwhere(np.isinf(out))[0].tolist()
        raise ValueError(f"{'row ' + str(at[0]) + ': ' if at else ''}x must be finite, not {out[tuple(at)]!r}")
    return out

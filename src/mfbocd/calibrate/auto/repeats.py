"""Readings that only repeat the one before, as from a sensor that reports its last value again."""

from __future__ import annotations

import math

import numpy as np

from .structure import Array, Flags

_MOST = 50  # equal readings in a row that are taken for one reading that is repeated


def counted(x: Array, once: bool, before: float = math.nan, repeats: int = 0) -> tuple[Flags, int]:
    """Tell which readings count: those that are present and, with `once`, do not only repeat the reading before.

    Parameters
    ----------
    x : ndarray
        Readings, NaN where missing.
    once : bool
        Whether repeated readings are left out; after 50 repetitions they count again.
    before : float, optional
        The reading before the first; NaN, the default, if there is none.
    repeats : int, default 0
        How often that one had been repeated.

    Returns
    -------
    used : ndarray of bool
        Same shape as `x`.
    repeats : int
        How often the last reading has been repeated.

    Examples
    --------
    >>> counted(np.array([3.0, 3.0, 4.0, np.nan, 4.0]), once=True, before=3.0)
    (array([False, False,  True, False,  True]), 0)
    """
    repeated = x == np.append(before, x[:-1])
    place = np.arange(1, x.size + 1)
    runs = place - np.maximum.accumulate(np.where(repeated, -repeats, place))
    used = np.isfinite(x) & ((runs == 0) | (runs > _MOST) | (not once))
    return np.asarray(used), int(runs[-1])

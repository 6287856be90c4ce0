"""Readings that only repeat the one before, as from a sensor that reports its last value again."""

from __future__ import annotations

import math

import numpy as np

from .season import Array
from .structure import Flags

_FEWEST = 8  # different neighbours that are needed to tell whether readings are repeated
_LEAST = 0.2  # share of different neighbours; a series of levels without noise has fewer
_MOST = 50  # equal readings in a row that are taken for one reading that is repeated


def repeats_itself(x: Array) -> bool:
    """Tell whether equal neighbours are one reading that is repeated.

    They are if a reading that differs from the one before hardly ever equals an earlier one: then readings are not
    rounded, and equal neighbours are no coincidence.

    Parameters
    ----------
    x : ndarray
        Readings, without missing ones.

    Returns
    -------
    bool
        False if there are fewer than 8 different neighbours, or fewer than one in five.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> repeats_itself(np.repeat(rng.normal(size=20), 3)), repeats_itself(rng.normal(size=60).round())
    (True, False)
    """
    moved = x[np.append(True, x[1:] != x[:-1])[: x.size]]
    return bool(moved.size >= max(_FEWEST, _LEAST * x.size) and np.unique(moved).size > 0.5 * moved.size)


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

"""Decision thresholds and zeta from held-out readings."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ._stream import Array

Bits = NDArray[np.bool_]
Zeta = Literal["accuracy", "information", "tpr"]


def equal_error_threshold(score: Array, positive: Bits) -> float:
    """Return the threshold at which "score > threshold" has equal false negative and false positive rates.

    A finite sample seldom allows exact equality. Of the midpoints between neighbouring scores, the one with the
    smallest abs(FNR - FPR) is returned, then the smallest FNR + FPR, then the lowest.

    Parameters
    ----------
    score : numpy.ndarray
        Held-out scores.
    positive : numpy.ndarray
        Whether each item is positive.

    Returns
    -------
    float
        The threshold.

    Raises
    ------
    ValueError
        If all items are of one class, or all scores are equal.

    Examples
    --------
    >>> equal_error_threshold(np.array([0.0, 1.0, 3.0, 4.0]), np.array([False, False, True, True]))
    2.0
    """
    if not positive.any() or positive.all():
        raise ValueError("positive must contain both classes, not one: FNR = FPR is undefined")
    values = np.unique(score)
    cut = 0.5 * (values[1:] + values[:-1])
    if cut.size == 0:
        raise ValueError("score must contain different values, not one")
    misses = np.searchsorted(np.sort(score[positive]), cut, side="right") / positive.sum()
    alarms = 1.0 - np.searchsorted(np.sort(score[~positive]), cut, side="right") / (~positive).sum()
    # rounded, so that equal differences do not differ in their last bit
    best = np.lexsort((cut, (misses + alarms).round(12), np.abs(misses - alarms).round(12)))[0]
    return float(cut[best])


def relative_zeta(low: Bits, high: Bits, how: Zeta) -> float:
    """Return zeta of binary readings relative to those of the most expensive fidelity on the same held-out items.

    Let q be the fraction of items on which the two agree. ``"accuracy"`` is q. ``"information"`` is (2 q - 1)^2,
    about the fraction of a clean label's information in a reading that is wrong with probability 1 - q. ``"tpr"`` is
    the paper's true positive rate, P(low = 1 | high = 1). Readings no better than chance (q <= 1/2; for ``"tpr"``, a
    true positive rate no higher than the false positive rate) have zeta 0.

    Parameters
    ----------
    low : numpy.ndarray
        Readings at the low fidelity.
    high : numpy.ndarray
        Readings at the most expensive fidelity.
    how : {"accuracy", "information", "tpr"}
        The formula.

    Returns
    -------
    float
        zeta, in [0, 1].

    Raises
    ------
    ValueError
        If `how` is none of the three.

    Examples
    --------
    >>> low, high = np.array([1, 0, 0, 0], bool), np.array([1, 1, 0, 0], bool)
    >>> [relative_zeta(low, high, how) for how in ("accuracy", "information", "tpr")]
    [0.75, 0.25, 0.5]
    """
    if how not in get_args(Zeta):
        raise ValueError(f"zeta must be one of {', '.join(map(repr, get_args(Zeta)))}, not {how!r}")
    if how == "tpr":
        hit = float(low[high].mean()) if high.any() else 0.0
        false = float(low[~high].mean()) if not high.all() else 0.0
        return hit if hit > false else 0.0
    q = float((low == high).mean())
    if q <= 0.5:
        return 0.0
    return q if how == "accuracy" else (2.0 * q - 1.0) ** 2

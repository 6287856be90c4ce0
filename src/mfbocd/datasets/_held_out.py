"""What held-out readings say: where to cut a score, and what a cheap reading is worth."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ._stream import Array

Bits = NDArray[np.bool_]
Zeta = Literal["accuracy", "information", "tpr"]


def equal_error_threshold(score: Array, positive: Bits) -> float:
    """The threshold at which "score > threshold" misses as often as it raises a false alarm (FNR = FPR).

    A finite sample seldom meets it exactly: of the midpoints between neighbouring scores the one with the least
    abs(FNR - FPR), then the least FNR + FPR, then the lowest, is taken.

    >>> equal_error_threshold(np.array([0.0, 1.0, 3.0, 4.0]), np.array([False, False, True, True]))
    2.0
    """
    if not positive.any() or positive.all():
        raise ValueError("a threshold at FNR = FPR needs held-out scores of both kinds")
    values = np.unique(score)
    cut = 0.5 * (values[1:] + values[:-1])
    if cut.size == 0:
        raise ValueError("a threshold at FNR = FPR needs held-out scores that differ")
    misses = np.searchsorted(np.sort(score[positive]), cut, side="right") / positive.sum()
    alarms = 1.0 - np.searchsorted(np.sort(score[~positive]), cut, side="right") / (~positive).sum()
    # rounded, or two equal differences would be told apart by their last bit
    best = np.lexsort((cut, (misses + alarms).round(12), np.abs(misses - alarms).round(12)))[0]
    return float(cut[best])


def relative_zeta(low: Bits, high: Bits, how: Zeta) -> float:
    """zeta of the readings `low` RELATIVE to those of the dearest fidelity, `high`, on the same held-out items.

    With q the share of items on which the two agree: ``"accuracy"`` is q; ``"information"`` is (2 q - 1)^2, about
    the share of a clean label's information a reading that errs with probability 1 - q carries; ``"tpr"`` is the
    paper's true positive rate, P(low = 1 | high = 1). Readings no better than chance (q <= 1/2; for ``"tpr"``, a
    true positive rate no higher than the false positive rate) get 0.

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

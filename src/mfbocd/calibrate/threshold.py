"""Where to cut a score into zeros and ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .zeta import CalibrationError, bits, numbers


@dataclass(frozen=True)
class ThresholdEstimate:
    """A score of at least `value` reads 1. `fnr` and `fpr` are the rates it has on the held-out scores.

    >>> cut = ThresholdEstimate(value=0.5, fnr=0.1, fpr=0.12, auc=0.95, eer=0.11)
    >>> cut(0.7), cut(0.2)
    (1.0, 0.0)
    """

    value: float
    fnr: float
    """P(score < value | 1)."""
    fpr: float
    """P(score >= value | 0)."""
    auc: float
    """P(score of a 1 > score of a 0) + P(equal) / 2; below 1/2 the score points the wrong way."""
    eer: float
    """Where the straight line between the two rates' steps crosses: what both would be if they could be equal."""

    def __call__(self, score: float) -> float:
        """1 or 0, as a Bernoulli model reads it."""
        return 1.0 if score >= self.value else 0.0


def threshold_fnr_fpr(scores: ArrayLike, labels: ArrayLike) -> ThresholdEstimate:
    """The threshold at which the false negative rate equals the false positive rate, the paper's choice.

    Both rates are steps in the threshold, constant between neighbouring scores, one rising and one falling. Where
    they are equal, the threshold is the middle of that stretch. Where they only cross, at some score, it is that
    score itself (which then reads 1) or the middle of the gap above it (then it reads 0), whichever makes the rates
    less different, and the score itself if neither: a false alarm before a miss.

    >>> threshold_fnr_fpr([0.1, 0.2, 0.6, 0.4, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    ThresholdEstimate(value=0.5, fnr=0.333..., fpr=0.333..., auc=0.888..., eer=0.333...)
    """
    score, label = numbers("scores", scores), bits("labels", labels)
    if score.shape != label.shape:
        raise ValueError(f"scores and labels must be of one length, not {score.size} and {label.size}")
    ones, zeros = int(label.sum()), int((~label).sum())
    if ones == 0 or zeros == 0:
        raise CalibrationError(f"labels must hold both classes, but {ones} are 1 and {zeros} are 0")
    values, index = np.unique(score, return_inverse=True)
    # Counts below a threshold that lies in the gap above the i-th distinct score; row 0 is below all of them.
    missed = np.concatenate([[0], np.cumsum(np.bincount(index[label], minlength=values.size))])
    passed = np.concatenate([[0], np.cumsum(np.bincount(index[~label], minlength=values.size))])
    alarmed = zeros - passed
    # FNR - FPR in whole numbers, so that "equal" does not hang on rounding
    difference = missed * zeros - alarmed * ones
    auc = float((np.diff(missed) * (passed[:-1] + 0.5 * np.diff(passed))).sum() / (ones * zeros))
    at = int(np.searchsorted(difference, 0))
    fnr, fpr = missed / ones, alarmed / zeros
    if difference[at] == 0:
        # Rates change at every distinct score, in one direction: they are equal on one gap at most.
        value = _between(float(values[at - 1]), float(values[at]))
        eer = fnr[at]
    else:
        before, after = -int(difference[at - 1]), int(difference[at])
        eer = (fnr[at - 1] * after + fnr[at] * before) / (before + after)
        if before <= after:
            at -= 1
            value = float(values[at])
        elif at < values.size:
            value = _between(float(values[at - 1]), float(values[at]))
        else:
            value = math.nextafter(float(values[-1]), math.inf)
    return ThresholdEstimate(value, float(fnr[at]), float(fpr[at]), auc, float(eer))


def _between(below: float, above: float) -> float:
    """The middle of a gap: above `below`, at most `above`, even where no float lies between."""
    middle = below + 0.5 * (above - below)
    return middle if middle > below else above

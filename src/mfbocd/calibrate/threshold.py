"""The threshold that turns a score into zeros and ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .checks import CalibrationError, binary_values, numbers


@dataclass(frozen=True)
class ThresholdEstimate:
    """A threshold on a score, with its error rates on the held-out scores.

    Attributes
    ----------
    value : float
        A score of at least this value reads 1.
    fnr : float
        False negative rate, P(score < value | 1).
    fpr : float
        False positive rate, P(score >= value | 0).
    auc : float
        P(score of a 1 > score of a 0) + P(equal) / 2; below 1/2 the score points the wrong way.
    eer : float
        Equal error rate: where the linear interpolations of the two rates cross.

    Examples
    --------
    >>> cut = ThresholdEstimate(value=0.5, fnr=0.1, fpr=0.12, auc=0.95, eer=0.11)
    >>> cut(0.7), cut(0.2)
    (1.0, 0.0)
    """

    value: float
    fnr: float
    fpr: float
    auc: float
    eer: float

    def __call__(self, score: float) -> float:
        """Return the reading of a score, as a Bernoulli model takes it.

        Parameters
        ----------
        score : float
            The score.

        Returns
        -------
        float
            1 or 0.
        """
        return 1.0 if score >= self.value else 0.0


def threshold_fnr_fpr(scores: ArrayLike, labels: ArrayLike) -> ThresholdEstimate:
    """Find the threshold at which the false negative rate equals the false positive rate, the paper's choice.

    Both rates are step functions of the threshold, constant between neighbouring scores, one rising and one falling.
    If they are equal on an interval, the threshold is its middle. If they only cross at some score, the threshold is
    either that score (which then reads 1) or the middle of the gap above it (then it reads 0), whichever makes the
    rates less different; on a tie it is the score itself, which prefers a false alarm to a miss.

    Parameters
    ----------
    scores : ArrayLike
        Held-out scores.
    labels : ArrayLike
        Their labels, 0 or 1, both of which must occur.

    Returns
    -------
    ThresholdEstimate
        The threshold and its error rates.

    Raises
    ------
    CalibrationError
        If all labels are equal.
    ValueError
        If scores and labels differ in length, or hold invalid values.

    Examples
    --------
    >>> threshold_fnr_fpr([0.1, 0.2, 0.6, 0.4, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    ThresholdEstimate(value=0.5, fnr=0.333..., fpr=0.333..., auc=0.888..., eer=0.333...)
    """
    score, label = numbers("scores", scores), binary_values("labels", labels)
    if score.shape != label.shape:
        raise ValueError(f"scores and labels must have the same length, not {score.size} and {label.size}")
    ones, zeros = int(label.sum()), int((~label).sum())
    if ones == 0 or zeros == 0:
        raise CalibrationError(f"labels must contain both classes, not {ones} ones and {zeros} zeros")
    values, index = np.unique(score, return_inverse=True)
    # Counts below a threshold in the gap above the i-th distinct score; row 0 is below all scores.
    missed = np.concatenate([[0], np.cumsum(np.bincount(index[label], minlength=values.size))])
    passed = np.concatenate([[0], np.cumsum(np.bincount(index[~label], minlength=values.size))])
    alarmed = zeros - passed
    # FNR - FPR in whole numbers, so that "equal" does not depend on rounding
    difference = missed * zeros - alarmed * ones
    auc = float((np.diff(missed) * (passed[:-1] + 0.5 * np.diff(passed))).sum() / (ones * zeros))
    at = int(np.searchsorted(difference, 0))
    fnr, fpr = missed / ones, alarmed / zeros
    if difference[at] == 0:
        # The rates change monotonically at every distinct score, so they are equal on one gap at most.
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
    """Return the middle of a gap: above `below` and at most `above`, even if no float lies between."""
    middle = below + 0.5 * (above - below)
    return middle if middle > below else above

"""What the judge's label of an item is worth: the information that it is expected to give."""

from __future__ import annotations

import numpy as np

from ...belief.gains import expected_gains
from ...belief.serialization import Array
from ...detector.detector import Detector
from .errors import LabelModel

_FIRST = 50.0  # items with a known outcome, before which everything is worth a judgement


def gain_of_label(detector: Detector, model: LabelModel, level: int) -> float:
    """Return I(label; run length and failure rate), given the level that the check puts the item into."""
    key = np.array([model.given(level)])
    return float(expected_gains(detector._filter, key, "joint")[0])


def gain_at_share(model: LabelModel, check: Array, fail_rate: float, share: float) -> float:
    """Return the gain of the last level that is judged if a share of all items is, the largest gains first.

    Parameters
    ----------
    model : LabelModel
        The model of levels and labels.
    check : ndarray
        P(level | truth), truth by row.
    fail_rate : float
        The usual failure rate.
    share : float
        The share of all items that is judged.

    Returns
    -------
    float
        A gain after the first items: before, everything is worth a judgement.
    """
    usual = fail_rate * np.log(model.theta) + (1.0 - fail_rate) * np.log1p(-model.theta)
    stats = model.prior() + _FIRST * usual
    stats = (stats - np.logaddexp.reduce(stats))[:, None]
    gains = [float(model.parameter_gain(stats, model.given(level))[0]) for level in range(model.levels)]
    found = 0.0
    for gain, level in sorted(((gain, level) for level, gain in enumerate(gains)), reverse=True):
        found, share = gain, share - ((1.0 - fail_rate) * check[0, level] + fail_rate * check[1, level])
        if share <= 0.0:
            break
    return found

"""The likely run lengths of many streams, for a record of each step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout

Array = NDArray[np.float64]

SCALE = 1e4  # probabilities are rounded to multiples of 1 / SCALE


def likely_run_lengths(states: Array, rows: NDArray[np.int64], least: float, most: int) -> list[list[list[float]]]:
    """Return [run length, probability] of the run lengths with a probability of at least `least`, shortest first.

    Parameters
    ----------
    states : array, shape (n, size)
        States of streams with one configuration.
    rows : array of int, shape (m,)
        The streams asked about.
    least : float
        The lowest probability listed.
    most : int
        Largest number of run lengths per stream: the most probable ones, and of equally probable ones the shorter.

    Returns
    -------
    list of list of [int, float]
        One list per row. Probabilities are rounded to 4 digits.
    """
    if not len(rows):
        return []
    head, cap = states[rows, : layout.HEAD], int(states[rows[0], layout.CAP])
    count, total = head[:, layout.COUNT].astype(np.int64), head[:, layout.TOTAL]
    width = int(count.max())
    first = layout.HEAD + layout.WEIGHT * cap
    weight = states[rows, first : first + width][:, ::-1]  # newest first, so that run lengths rise
    kept = (weight >= least * total[:, None]) & (np.arange(width - 1, -1, -1) < count[:, None])
    for k in np.flatnonzero(kept.sum(axis=1) > most).tolist():
        which = np.flatnonzero(kept[k])
        kept[k] = False
        kept[k, which[np.argsort(-weight[k, which], kind="stable")[:most]]] = True
    row, column = np.nonzero(kept)
    birth = states[rows[row], layout.HEAD + layout.BIRTH * cap + width - 1 - column]
    length = (head[row, layout.TICK] - birth).astype(np.int64).tolist()
    share = (np.rint(weight[row, column] / total[row] * SCALE) / SCALE).tolist()
    pairs = [[a, b] for a, b in zip(length, share, strict=True)]
    ends = np.cumsum(kept.sum(axis=1)).tolist()
    return [pairs[low:high] for low, high in zip([0, *ends], ends, strict=False)]

"""Reduce a series to as many points as a plot can show: the lowest and the highest of each column of pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = 1000


def bin_width(ticks: int) -> int:
    """Return how many ticks share a column of the plot.

    Parameters
    ----------
    ticks : int
        Length of the trace.

    Returns
    -------
    int
        1 if every tick is drawn.
    """
    return 1 if ticks <= 2 * COLUMNS else -(-ticks // COLUMNS)


def extremes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rows to draw, in order; NaN is never drawn.

    Up to 2000 values are all drawn. More are divided into at most 1000 bins of equal width, and each keeps its lowest
    and its highest value, so that no outlier is lost.

    Parameters
    ----------
    values : numpy.ndarray
        The series, (T,).

    Returns
    -------
    numpy.ndarray
        Row numbers.

    Examples
    --------
    >>> extremes(np.array([3.0, np.nan, 5.0]))
    array([0, 2])
    >>> len(extremes(np.sin(np.arange(1_000_000))))
    2000
    """
    finite = np.isfinite(values)
    wide = bin_width(len(values))
    if wide == 1:
        return np.flatnonzero(finite)
    columns = -(-len(values) // wide)
    table = np.full((2, columns * wide), np.inf)
    table[0, : len(values)] = np.where(finite, values, np.inf)
    table[1, : len(values)] = np.where(finite, -values, np.inf)
    rows = table.reshape(2, columns, wide).argmin(axis=2) + np.arange(columns) * wide
    kept = np.unique(rows)
    kept = kept[kept < len(values)]
    return np.asarray(kept[finite[kept]])

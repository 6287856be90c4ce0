"""No more points than a picture can show: the lowest and the highest of each of its columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = 1000


def width(ticks: int) -> int:
    """Ticks that share a column; 1 means that all are shown."""
    return 1 if ticks <= 2 * COLUMNS else -(-ticks // COLUMNS)


def extremes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows to draw of these values, in order; NaN is never drawn.

    Up to 2000 they are all there. Of more, each of at most 1000 equal stretches keeps its lowest and its highest: no
    outlier is lost, and what is drawn was really there.

    >>> extremes(np.array([3.0, np.nan, 5.0]))
    array([0, 2])
    >>> len(extremes(np.sin(np.arange(1_000_000))))
    2000
    """
    finite = np.isfinite(values)
    wide = width(len(values))
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

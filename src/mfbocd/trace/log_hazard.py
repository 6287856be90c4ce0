"""The hazard in log space, tabulated by age."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


class LogHazard:
    """log P(a regime has lasted that long) and log P(it then ends), for each candidate hazard.

    Parameters
    ----------
    hazard : Hazard
        The hazard; a learned one has several candidates.
    """

    def __init__(self, hazard: Hazard) -> None:
        self._hazard = hazard
        table, count = hazard.setup
        self.candidates = max(count, 1)
        self.prior: Array = np.log(table[count:]) if count else np.zeros(1)
        self._lasted: Array = np.zeros((self.candidates, 1))
        self._ends: Array = np.empty((self.candidates, 0))

    def _grow(self, longest: int) -> None:
        known = self._ends.shape[1]
        if longest < known:
            return
        ages = np.arange(known, max(2 * known, longest + 64))
        rate = (
            self._hazard(ages)[None]
            if self.candidates == 1
            else np.repeat(self._hazard.table[:, None], ages.size, axis=1)
        )
        with np.errstate(divide="ignore"):
            self._ends = np.concatenate([self._ends, np.log(rate)], axis=1)
            stays = self._lasted[:, -1:] + np.cumsum(np.log1p(-rate), axis=1)
        self._lasted = np.concatenate([self._lasted, stays], axis=1)

    def _at(self, table: Array, age: Ticks) -> Array:
        longest = int(age[0])
        if age.size == longest + 1:  # all ages, oldest first: a slice is faster than fancy indexing
            return table[:, longest::-1]
        return table[:, age]

    def lasted(self, age: Ticks) -> Array:
        """Return log P(a regime has lasted more than `age` ticks after its first).

        Parameters
        ----------
        age : numpy.ndarray
            Ages, decreasing.

        Returns
        -------
        numpy.ndarray
            Shape (candidates, ages).
        """
        self._grow(int(age[0]))
        return self._at(self._lasted, age)

    def ends(self, age: Ticks) -> Array:
        """Return log P(a regime of that age ends).

        Parameters
        ----------
        age : numpy.ndarray
            Ages, decreasing.

        Returns
        -------
        numpy.ndarray
            Shape (candidates, ages).
        """
        self._grow(int(age[0]))
        return self._at(self._ends, age)

"""What a fleet knows about its streams: the posterior of each, and the questions it answers."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.filter import Array, Filter
from ..belief.gains import CODE, Gain, checked_gain, expected_gains
from ..belief.likely import likely_run_lengths
from ..belief.records import RunLength
from ..detector.lock import OneThread, exclusive
from ..models import Model
from ..policy import Choices, Fidelity, Policy, SharedBudget
from .names import Names
from .rows import Rows
from .workers import Workers, new_queue

Streams = Sequence[str] | Sequence[int] | NDArray[np.int64]
"""Names or indices of some streams, all different."""


class Posteriors(OneThread):
    """The part of `Fleet` that reads the streams and changes nothing."""

    _transient = OneThread._transient | {"_workers"}

    model: Model
    fidelities: tuple[Fidelity, ...]
    threads: int
    _zeta: Array
    _filter: Filter
    _rows: Rows
    _names: Names
    _policy: Policy
    _shared: SharedBudget | None
    """The budget that the streams share, if their policy is a budget."""

    def __len__(self) -> int:
        return self._rows.n

    def _renew(self) -> None:
        super()._renew()
        self._workers = Workers()

    @property
    def policy(self) -> Policy:
        """The policy that all streams share, or of which each stream has a copy."""
        return self._policy if self._shared is None else self._shared.policy

    @property
    def names(self) -> list[str]:
        """Name of each stream, in the order of the streams."""
        return self._names.all()

    @property
    def seeds(self) -> NDArray[np.int64]:
        """Seed of each stream, shape (n,)."""
        return self._rows.seed[: len(self)].copy()

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Number of ticks of each stream so far, shape (n,)."""
        return self._rows.tick[: len(self)].copy()

    @property
    def spent(self) -> float:
        """Total cost of all readings."""
        with np.errstate(over="ignore"):
            return float(self._rows.spent[: len(self)].sum())

    @property
    def spent_by_stream(self) -> Array:
        """Total cost of the readings of each stream, shape (n,)."""
        return self._rows.spent[: len(self)].copy()

    @property
    @exclusive
    def mean(self) -> Array:
        """E[x_{t+1}] of each stream, shape (n,); (n, d) where a reading has d numbers."""
        return self._means(np.arange(len(self)))

    def _means(self, rows: Choices) -> Array:
        if self.model.dimension > 1:
            found = [self._belief(row).predictive(1.0)[0] for row in rows.tolist()]
            return np.array(found).reshape(len(rows), self.model.dimension)
        return np.asarray(self._rows.states[rows, layout.MEAN])

    @property
    def log_evidence(self) -> Array:
        """log p(x_1 .. x_t) of each stream, shape (n,), a density in the units of its readings."""
        states = self._rows.states[: len(self)]
        return np.asarray(states[:, layout.EVIDENCE] + states[:, layout.SLOPES])

    @exclusive
    def run_length(self, stream: str | int) -> RunLength:
        """Return the filtered run-length posterior of one stream.

        Parameters
        ----------
        stream : str or int
            Name or index of the stream.

        Returns
        -------
        RunLength
            The posterior.
        """
        return self._belief(self._names.row(stream)).run_length

    @exclusive
    def likely(self, least: float, most: int, *, streams: Streams | None = None) -> list[list[list[float]]]:
        """Return the likely run lengths of streams with their probabilities, rounded to 4 digits.

        Parameters
        ----------
        least : float
            Smallest probability to include.
        most : int
            Largest number of run lengths per stream; the most probable are kept.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        list of list of [run length, probability]
            One list per stream, shortest run first.
        """
        return likely_run_lengths(self._rows.states, self._names.rows(streams), least, most)

    @exclusive
    def p_changed(self, within: int, *, streams: Streams | None = None) -> Array:
        """Return P(a regime began in the last `within` ticks) of each stream; the start of a stream is not a change.

        Parameters
        ----------
        within : int
            Number of ticks, at least 1.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        ndarray
            Probabilities, shape (m,).
        """
        return np.array([self._belief(row).p_changed(within) for row in self._names.rows(streams).tolist()])

    def _belief(self, row: int) -> Filter:
        """The posterior of one stream, read-only: it shares the fleet's memory and is in the model's units."""
        belief = copy.copy(self._filter)
        belief.adopt(self._rows.states[row])
        return belief

    @exclusive
    def gains(self, gain: Gain = "joint", *, streams: Streams | None = None) -> Array:
        """Return the expected gain of reading each stream at each fidelity, as `Detector.gains`.

        Parameters
        ----------
        gain : {'joint', 'run_length', 'variance', 'change'}, default 'joint'
            Which gain.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        ndarray
            Shape (m, J).

        Raises
        ------
        ValueError
            If `gain` is none of the four.
        """
        return self._gains(self._names.rows(streams), checked_gain("Fleet", gain))

    def _gains(self, rows: Choices, gain: Gain) -> Array:
        out = np.empty((len(rows), len(self._zeta)))
        if self.model.gains is None:
            for k, row in enumerate(rows.tolist()):
                out[k] = expected_gains(self._belief(row), self._zeta, gain)
        elif len(rows):
            job = (self._rows.states, self._filter.setup, rows, self._zeta, CODE[gain], out, new_queue())
            self._workers.share(self.model.gains, job, len(rows), self.threads)
        return out

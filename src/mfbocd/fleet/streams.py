"""The streams of a fleet: what is known of each, and how they come and go."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.filter import Array, Filter, RunLength
from ..belief.likely import likely_run_lengths
from ..detector.detector import Detector
from ..detector.lock import OneThread, alone
from ..detector.step import Missing, seed_of
from ..models import Model
from ..models.base import finite, positive
from ..policy import Choices, Fidelity, Policy, SharedBudget
from ..policy.own import OwnPolicies
from . import serialization
from .names import Names
from .rows import Rows

Streams = Sequence[str] | Sequence[int] | NDArray[np.int64]
"""Names or indices of some streams, all different."""


class StreamSet(OneThread):
    """Streams with one configuration: what `Fleet` can do with them except to advance them."""

    _transient = frozenset({"_lock", "_serializer"})

    model: Model
    fidelities: tuple[Fidelity, ...]
    missing: Missing
    share_policy: bool
    _like: Detector
    """A stream before its first tick, with the arguments of all."""
    _filter: Filter
    _rows: Rows
    _names: Names
    _added: int
    """Streams there ever were: the number in the next default name and seed."""
    _policy: Policy
    _own: OwnPolicies | None
    """The policy of each stream, where they share none."""
    _shared: SharedBudget | None
    """The budget that the streams share, where their policy is one."""
    _follows: bool
    """Whether the budget's number of streams is that of this fleet, not set by the caller."""

    def __len__(self) -> int:
        return self._rows.n

    def _renew(self) -> None:
        super()._renew()
        self._serializer = serialization.RowSerializer()

    @alone
    def __copy__(self) -> Self:
        """Another fleet as this one is, sharing what no tick changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._rows, other._names, other._policy = self._rows.copy(), self._names.copy(), copy.copy(self._policy)
        other._own = None if self._own is None else self._own.copy()
        other._shared = None if self._shared is None else self._shared.copy()
        return other

    # --- what is known of streams ------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that all streams share, or that each stream's policy is a copy of."""
        return self._policy if self._shared is None else self._shared.policy

    @property
    def names(self) -> list[str]:
        """The name of each stream, in the order of the streams."""
        return self._names.all()

    @property
    def seeds(self) -> NDArray[np.int64]:
        """The seed of each stream, (n,)."""
        return self._rows.seed[: len(self)].copy()

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Ticks of each stream so far, (n,)."""
        return self._rows.tick[: len(self)].copy()

    @property
    def spent(self) -> float:
        """What all readings cost together."""
        with np.errstate(over="ignore"):
            return float(self._rows.spent[: len(self)].sum())

    @property
    def spent_by_stream(self) -> Array:
        """What the readings of each stream cost, (n,)."""
        return self._rows.spent[: len(self)].copy()

    @property
    @alone
    def mean(self) -> Array:
        """E[x_{t+1}] of each stream, (n,); (n, d) where a reading has d numbers."""
        return self._means(np.arange(len(self)))

    def _means(self, rows: Choices) -> Array:
        if self.model.dimension > 1:
            found = [self._belief(row).predictive(1.0)[0] for row in rows.tolist()]
            return np.array(found).reshape(len(rows), self.model.dimension)
        return np.asarray(self._rows.states[rows, layout.MEAN])

    @property
    def log_evidence(self) -> Array:
        """log p(x_1 .. x_t) of each stream, (n,), a density in the units of its readings."""
        return self._rows.states[: len(self), layout.EVIDENCE].copy()

    @alone
    def run_length(self, stream: str | int) -> RunLength:
        """Return the filtered posterior of the run length of one stream, given by name or index."""
        return self._belief(self._names.row(stream)).run_length

    @alone
    def likely(self, least: float, most: int, *, streams: Streams | None = None) -> list[list[list[float]]]:
        """Return the likely run lengths of streams with their probabilities, rounded to 4 digits.

        Parameters
        ----------
        least : float
            Leave out run lengths of a lower probability.
        most : int
            At most so many per stream, the most probable.
        streams : sequence of str or int, optional
            Names or indices of the streams asked about; all by default.

        Returns
        -------
        list of list of [run length, probability]
            One list per stream, shortest run first.
        """
        return likely_run_lengths(self._rows.states, self._names.rows(streams), least, most)

    @alone
    def p_changed(self, within: int, *, streams: Streams | None = None) -> Array:
        """Return P(a regime began in the last `within` ticks) of each stream, (m,); a stream's start is no change."""
        return np.array([self._belief(row).changed(within) for row in self._names.rows(streams).tolist()])

    def _belief(self, row: int) -> Filter:
        """The posterior of one stream, to be read: it shares the fleet's memory, and has the model's units."""
        belief = copy.copy(self._filter)
        belief.adopt(self._rows.states[row])
        return belief

    # --- streams come and go -----------------------------------------------------------------------------------

    def _fresh_state(self, units: tuple[float, float]) -> Array:
        """The state of a stream before its first tick."""
        state = self._rows.fresh.copy()
        if units != (0.0, 1.0):
            self.model.rescaled(*units)  # refuses a family that has none
            state[layout.MEAN] = units[0] + units[1] * state[layout.MEAN]
        return state

    def _place(self, name: str | None) -> tuple[int, str]:
        """A row for one more stream, and its name; an error changes nothing."""
        name = self._names.free(self._added) if name is None else self._names.check_new(name)
        if self._follows and self._shared is not None:
            self._shared.streams = len(self) + 1
        elif self._shared is None and self._own is None:
            self._policy.streams = len(self) + 1
        capacity = self._rows.reserve()
        if capacity is not None and self._own is not None:
            self._own.resize(capacity)
        return len(self), name

    @alone
    def add(
        self, name: str | None = None, *, seed: int | None = None, offset: float = 0.0, scale: float = 1.0
    ) -> int:
        """Add a stream before its first tick.

        Parameters
        ----------
        name : str, optional
            A new name; by default the first free number from the count of all streams there ever were.
        seed : int, optional
            By default that of the constructor plus the count of all streams there ever were.
        offset, scale : float, default 0 and 1
            Units of its readings.

        Returns
        -------
        int
            Its index.
        """
        units = units_of(1, offset, scale)[0]
        chosen = seed_of(self._like.seed + self._added if seed is None else seed)
        state = self._fresh_state(units)
        row, name = self._place(name)
        self._rows.set(row, state, chosen, 0.0, units)
        if self._own is not None:
            self._own.reset(row)
        self._rows.n += 1
        self._names.append(name)
        self._added += 1
        return row

    @alone
    def remove(self, streams: Streams | str | int) -> None:
        """Remove streams, given by name or index.

        The last stream takes the index of the one removed, so that indices found before may be of other streams
        afterwards; names are not.
        """
        given: Any = [streams] if isinstance(streams, (str, int, np.integer)) else streams
        rows = sorted(self._names.rows(given).tolist(), reverse=True)
        if self._follows and self._shared is not None:
            self._shared.streams = max(len(self) - len(rows), 1)
        elif self._shared is None and self._own is None:
            self._policy.streams = max(len(self) - len(rows), 1)
        for row in rows:
            if self._own is not None:
                self._own.move(len(self) - 1, row)
            capacity = self._rows.remove(row)
            if capacity is not None and self._own is not None:
                self._own.resize(capacity)
            self._names.remove(row)

    @alone
    def extract(self, stream: str | int) -> Detector:
        """Return a copy of one stream as a detector of its own, in the units of its readings.

        The policy of a detector that shared a `Budget` gets an equal part of it, at the price learnt together.
        """
        row = self._names.row(stream)
        like, own = self._like, self._rows
        policy = self._own.of(row) if self._own is not None else self.policy.for_one_stream()
        detector = Detector(
            self._model_of(row),
            self.fidelities,
            like.hazard,
            policy=policy,
            prune=like.pruning,
            alarm=like.alarm,
            seed=int(own.seed[row]),
            missing=self.missing,
        )
        detector.policy.restore(policy.state())
        detector.adopt(own.states[row].copy(), float(own.spent[row]))
        return detector

    def _model_of(self, row: int) -> Model:
        units = float(self._rows.offset[row]), float(self._rows.scale[row])
        return self.model if units == (0.0, 1.0) else self.model.rescaled(*units)

    @alone
    def insert(
        self,
        detector: Detector | bytes,
        name: str | None = None,
        *,
        replace: bool = False,
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> int:
        """Add a copy of a detector, or of one that was saved, as a stream.

        Parameters
        ----------
        detector : Detector or bytes
            With the model, fidelities, hazard, pruning, alarm and `missing` of this fleet, and with its policy too
            unless streams share one: then what the detector's policy has learnt is left out.
        name : str, optional
            As of `add`.
        replace : bool, default False
            Whether a stream of this name is replaced, which keeps its index; without it that is an error.
        offset, scale : float, default 0 and 1
            Units of its readings: the detector's model is the fleet's model in these units.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        ValueError
            If the detector differs from the streams of this fleet; the message says in what.
        """
        units = units_of(1, offset, scale)[0]
        model = self.model if units == (0.0, 1.0) else self.model.rescaled(*units)
        found = detector if isinstance(detector, Detector) else self._serializer.load(self, detector, units, model)
        serialization.check_same(self, found, model)
        learnt = found.policy.state()
        state = self._rows.fitted(found.filter.state)
        row = self._names.find(name) if replace and name is not None else None
        if row is None:
            if self._own is not None:
                copy.copy(self._own.like).restore(learnt)
            row, name = self._place(name)
            if self._own is not None:
                self._own.reset(row)
            self._rows.n += 1
            self._names.append(name)
            self._added += 1
        if self._own is not None:
            self._own.restore(row, learnt)
        self._rows.set(row, state, found.seed, found.spent, units)
        return row

    # --- saving ----------------------------------------------------------------------------------------------

    @alone
    def to_bytes(self, stream: str | int | None = None) -> bytes:
        """Return one stream, or the whole fleet, as a small versioned binary.

        Parameters
        ----------
        stream : str or int, optional
            Name or index of a stream, for the bytes of ``extract(stream).to_bytes()``. By default the whole fleet,
            for `from_bytes`.
        """
        if stream is None:
            return serialization.to_bytes(self)
        return self._serializer.dump(self, np.array([self._names.row(stream)]))[0]

    @alone
    def to_bytes_each(self, *, streams: Streams | None = None) -> list[bytes]:
        """Return ``to_bytes(stream)`` of each of these streams, all by default."""
        return self._serializer.dump(self, self._names.rows(streams))

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
        model: Model | None = None,
        threads: int | None = None,
    ) -> Self:
        """Return the fleet that `to_bytes` saved whole. Functions are given again, as to `Detector.from_bytes`."""
        return serialization.from_bytes(cls, data, observers or {}, costs or {}, model, threads)


def units_of(n: int, offset: Any, scale: Any) -> list[tuple[float, float]]:
    """One (offset, scale) per stream, or an error that names the field."""
    columns = []
    for field, given, check in (("offset", offset, finite), ("scale", scale, positive)):
        values = [given] * n if np.ndim(given) == 0 else list(given)
        if len(values) != n:
            raise ValueError(f"{field} must be one number, or one per stream: {n}, not {len(values)}")
        columns.append([check("Fleet", field, value) for value in values])
    return list(zip(*columns, strict=True))

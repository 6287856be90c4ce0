"""The streams of a fleet: their state, adding and removing them, saving and loading."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.filter import Array, Filter
from ..belief.likely import likely_run_lengths
from ..belief.records import RunLength
from ..detector.detector import Detector
from ..detector.lock import OneThread, exclusive
from ..detector.step import Missing, seed_of
from ..inputs.arguments import finite, positive
from ..models import Model
from ..policy import Choices, Fidelity, Policy, SharedBudget
from ..policy.own import OwnPolicies
from . import serialization
from .names import Names
from .rows import Rows

Streams = Sequence[str] | Sequence[int] | NDArray[np.int64]
"""Names or indices of some streams, all different."""


class StreamSet(OneThread):
    """Streams with one configuration: everything of `Fleet` except advancing them."""

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

    @exclusive
    def __copy__(self) -> Self:
        """Another fleet as this one is, sharing what no tick changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._rows, other._names, other._policy = self._rows.copy(), self._names.copy(), copy.copy(self._policy)
        other._own = None if self._own is None else self._own.copy()
        other._shared = None if self._shared is None else self._shared.copy()
        return other

    # --- reading the streams -----------------------------------------------------------------------------------

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
        return self._rows.states[: len(self), layout.EVIDENCE].copy()

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

    @exclusive
    def add(
        self, name: str | None = None, *, seed: int | None = None, offset: float = 0.0, scale: float = 1.0
    ) -> int:
        """Add a stream before its first tick.

        Parameters
        ----------
        name : str, optional
            A new name; by default the first free number, starting from the number of streams ever added.
        seed : int, optional
            Seed of the stream; by default that of the constructor plus the number of streams ever added.
        offset : float, default 0.0
            Offset of its readings: the model sees ``(x - offset) / scale``.
        scale : float, default 1.0
            Scale of its readings.

        Returns
        -------
        int
            Index of the stream.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type or is out of range, or a stream has this name already.
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

    @exclusive
    def remove(self, streams: Streams | str | int) -> None:
        """Remove streams.

        The last stream takes the index of a removed one, so indices may refer to other streams afterwards; names do
        not change.

        Parameters
        ----------
        streams : str, int or sequence of those
            Names or indices of the streams.
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

    @exclusive
    def extract(self, stream: str | int) -> Detector:
        """Return a copy of one stream as an independent detector, in the units of its readings.

        If streams share a `Budget`, the detector gets an equal part of it, at the current price.

        Parameters
        ----------
        stream : str or int
            Name or index of the stream.

        Returns
        -------
        Detector
            The copy.
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
        detector._adopt(own.states[row].copy(), float(own.spent[row]))
        return detector

    def _model_of(self, row: int) -> Model:
        units = float(self._rows.offset[row]), float(self._rows.scale[row])
        return self.model if units == (0.0, 1.0) else self.model.rescaled(*units)

    @exclusive
    def insert(
        self,
        detector: Detector | bytes,
        name: str | None = None,
        *,
        replace: bool = False,
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> int:
        """Add a copy of a detector, or of a saved detector, as a stream.

        Parameters
        ----------
        detector : Detector or bytes
            It must have the model, fidelities, hazard, pruning, alarm and `missing` of this fleet, and also its
            policy unless streams share one; in that case what the detector's policy has learned is dropped.
        name : str, optional
            Name of the stream; by default as in `add`.
        replace : bool, default False
            Whether to replace a stream of this name, which keeps its index. Otherwise an existing name is an error.
        offset : float, default 0.0
            Offset of its readings: the detector's model is that of the fleet in these units.
        scale : float, default 1.0
            Scale of its readings.

        Returns
        -------
        int
            Index of the stream.

        Raises
        ------
        ValueError
            If the detector does not match this fleet; the message names the difference.
        """
        units = units_of(1, offset, scale)[0]
        model = self.model if units == (0.0, 1.0) else self.model.rescaled(*units)
        found = detector if isinstance(detector, Detector) else self._serializer.load(self, detector, units, model)
        serialization.check_same(self, found, model)
        if self._own is not None:
            copy.copy(self._own.like).restore(found.policy.state())  # an error changes nothing
        row = self._names.find(name) if replace and name is not None else None
        return self._put(found, name, row, units)

    def _put(
        self,
        found: Detector,
        name: str | None = None,
        row: int | None = None,
        units: tuple[float, float] = (0.0, 1.0),
    ) -> int:
        """Copy a detector that fits into a row, by default a new one; return the row."""
        state = self._rows.fitted(found._filter.state)
        if row is None:
            row, name = self._place(name)
            self._rows.n += 1
            self._names.append(name)
            self._added += 1
        if self._own is not None:
            self._own.restore(row, found.policy.state())
        self._rows.set(row, state, found.seed, found.spent, units)
        return row

    def _take(self, row: int, detector: Detector) -> None:
        """Let the detector that was put into a row continue from there; they share the memory of the state."""
        if self._own is not None:
            detector.policy.restore(self._own.state(row))
        detector._adopt(self._rows.states[row], float(self._rows.spent[row]))

    # --- saving ----------------------------------------------------------------------------------------------

    @exclusive
    def to_bytes(self, stream: str | int | None = None) -> bytes:
        """Save one stream or the whole fleet in a small versioned binary format.

        Parameters
        ----------
        stream : str or int, optional
            Name or index of a stream; the result is that of ``extract(stream).to_bytes()``. By default the whole
            fleet is saved, for `from_bytes`.

        Returns
        -------
        bytes
            The saved state.
        """
        if stream is None:
            return serialization.to_bytes(self)
        return self._serializer.dump(self, np.array([self._names.row(stream)]))[0]

    @exclusive
    def to_bytes_each(self, *, streams: Streams | None = None) -> list[bytes]:
        """Return ``to_bytes(stream)`` of each of many streams.

        Parameters
        ----------
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        list of bytes
            One per stream.
        """
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
        """Load a whole fleet that was saved with `to_bytes`.

        Functions are not saved and must be passed again.

        Parameters
        ----------
        data : bytes
            The saved fleet.
        observers : mapping, optional
            The `observe` function of each fidelity that had one, by its name.
        costs : mapping, optional
            The cost function of each fidelity that had one, by its name.
        model : Model, optional
            The model, if it contains functions.
        threads : int, optional
            Number of threads of the fleet; by default the number of CPUs.

        Returns
        -------
        Fleet
            The loaded fleet.
        """
        return serialization.from_bytes(cls, data, observers or {}, costs or {}, model, threads)


def units_of(n: int, offset: Any, scale: Any) -> list[tuple[float, float]]:
    """Return one (offset, scale) per stream, or raise an error that names the field."""
    columns = []
    for field, given, check in (("offset", offset, finite), ("scale", scale, positive)):
        values = [given] * n if np.ndim(given) == 0 else list(given)
        if len(values) != n:
            raise ValueError(f"{field} must be one number, or one per stream: {n}, not {len(values)}")
        columns.append([check("Fleet", field, value) for value in values])
    return list(zip(*columns, strict=True))

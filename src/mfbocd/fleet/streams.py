"""The streams of a fleet: adding and removing them, saving and loading."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from .._kernels import layout
from ..belief.filter import Array
from ..detector.detector import Detector
from ..detector.lock import exclusive
from ..detector.step import Missing, seed_of
from ..inputs.arguments import finite, positive
from ..models import Model
from ..policy.own import OwnPolicies
from . import serialization
from .posterior import Posteriors, Streams


class StreamSet(Posteriors):
    """Streams with one configuration: everything of `Fleet` except advancing them."""

    _transient = Posteriors._transient | {"_serializer"}

    missing: Missing
    share_policy: bool
    _like: Detector
    """A stream before its first tick, with the arguments of all."""
    _added: int
    """Number of streams ever added: the next default name and seed follow from it."""
    _own: OwnPolicies | None
    """The policy of each stream, if they do not share one."""
    _follows: bool
    """Whether the budget's number of streams follows this fleet; otherwise the caller sets it."""

    def _renew(self) -> None:
        super()._renew()
        self._serializer = serialization.RowSerializer()

    @exclusive
    def __copy__(self) -> Self:
        """Return an independent copy, which shares what never changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._rows, other._names, other._policy = self._rows.copy(), self._names.copy(), copy.copy(self._policy)
        other._own, other._shared = copy.copy(self._own), copy.copy(self._shared)
        return other

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
        """Make the detector that was put into a row continue from it; both then share the state's memory."""
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

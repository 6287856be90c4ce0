"""The streams and groups that a worker has in memory."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from ..io.config import Config
from ..policy import SharedBudget
from .budgets import group_budget
from .errors import DamagedError, NotReadyError, OwnedElsewhere, RequestError, UnavailableError, not_found
from .fleets import FleetPool, StreamFleet, parse_stored
from .records import GroupRow, StreamRow
from .store.base import Store

LEASE_FRACTION = 0.7
"""Fraction of a lease after which a worker no longer relies on it."""


@dataclass
class CachedGroup:
    """A group in memory."""

    row: GroupRow
    budget: SharedBudget
    lease_until: float
    """Time, as of `time.monotonic`, until which the group surely belongs to this worker."""


@dataclass(slots=True)
class CachedStream:
    """A stream in memory."""

    row: StreamRow
    """As it will be stored once the pending transactions are committed.

    It is replaced at every tick and never modified: a pending transaction may still have to write the one before.
    """
    fleet: StreamFleet
    """The fleet that has the stream in the state of the row."""
    on_missing: str
    """What the configuration says about missing readings: ``"skip"`` or ``"raise"``."""
    fidelity: str
    """Name of the fidelity to be read at the next tick."""
    lease_until: float
    """Time, as of `time.monotonic`, until which the stream surely belongs to this worker."""


class StreamCache:
    """Streams and groups of this worker, loaded from the store when they are needed or their lease may have expired.

    Parameters
    ----------
    store : Store
    capacity : int
        Number of streams to keep.
    is_ready : callable, optional
        Whether the kernels for a configuration, given as JSON, are loaded. Streams of other configurations are not
        cached; their use raises `NotReadyError`.
    """

    def __init__(self, store: Store, capacity: int, is_ready: Callable[[str], bool] | None = None) -> None:
        self.store, self.capacity = store, capacity
        self.streams: OrderedDict[str, CachedStream] = OrderedDict()
        """Least recently used first."""
        self.groups: dict[str, CachedGroup] = {}
        self._is_ready = is_ready or (lambda config: True)
        self._owners: dict[str, str] = {}
        """Owners of what the last `load` could not get."""
        self._stream_errors: dict[str, RequestError] = {}
        """Why streams of the last `load` are not cached."""
        self._group_errors: dict[str, RequestError] = {}
        self._fleets = FleetPool()

    def missing(self, streams: Iterable[str]) -> list[str]:
        """Those of these streams that must be loaded before they are used."""
        now = time.monotonic()
        return [s for s in streams if (cached := self.streams.get(s)) is None or not self.is_leased(cached, now)]

    def is_leased(self, cached: CachedStream, now: float) -> bool:
        """Whether a stream surely belongs to this worker at a time, as of `time.monotonic`."""
        if cached.lease_until < now:
            return False
        if cached.row.group is None:
            return True
        group = self.groups.get(cached.row.group)  # once: another thread may ask while the owner evicts it
        return group is not None and group.lease_until >= now

    def load(self, streams: list[str], groups: list[str]) -> None:
        """Lease and load streams, with their groups, and groups. None may have uncommitted changes.

        Whatever cannot be loaded is reported by `get` and `group`.
        """
        now = time.monotonic()
        loaded = self.store.load(streams, groups)
        self._owners, self._stream_errors, self._group_errors = loaded.owners, {}, {}
        until = float("inf") if self.store.lease is None else now + LEASE_FRACTION * self.store.lease
        for group in loaded.groups.values():
            self._add_group(group, until)
        for stream in streams:
            row = loaded.streams.get(stream)
            if row is None:
                self.evict([stream])
            else:
                self._add_stream(row, until)

    def _add_group(self, row: GroupRow, until: float) -> None:
        if row.damage:
            self._group_errors[row.id] = DamagedError("group", row.id, ValueError(row.damage))
            self.evict(groups=[row.id])
            return
        if not self._is_ready(row.config):
            self._group_errors[row.id] = NotReadyError(row.config)
            return
        cached = self.groups.get(row.id)
        if cached is not None and cached.row.version == row.version:
            cached.lease_until = until
            return
        try:
            config = Config.parse(json.loads(row.config))
            budget = group_budget(config, self.store.group_size(row.id), row.state)
        except UnavailableError:
            raise
        except Exception as error:
            self._group_errors[row.id] = DamagedError("group", row.id, error)
            self.evict(groups=[row.id])
        else:
            self.groups[row.id] = CachedGroup(row, budget, until)

    def _add_stream(self, row: StreamRow, until: float) -> None:
        cached = self.streams.get(row.id)
        if row.group is not None and row.group in self._group_errors:
            self._stream_errors[row.id] = self._group_errors[row.group]
            self.evict([row.id])
        elif row.damage:
            self._stream_errors[row.id] = DamagedError("stream", row.id, ValueError(row.damage))
            self.evict([row.id])
        elif not self._is_ready(row.config):
            self._stream_errors[row.id] = NotReadyError(row.config)
        elif cached is not None and cached.row.tick == row.tick and cached.row.created == row.created:
            cached.lease_until = until
        else:
            self.evict([row.id])
            try:
                self.streams[row.id] = self._insert(row, until)
            except Exception as error:
                self._stream_errors[row.id] = DamagedError("stream", row.id, error)

    def _insert(self, row: StreamRow, until: float) -> CachedStream:
        parsed = parse_stored(row.config)
        fidelity = json.loads(row.next)["fidelity"]
        if fidelity not in parsed.fidelities:
            raise ValueError(f"the stored choice {fidelity!r} is none of its fidelities")
        return CachedStream(row, self._fleets.insert(row), parsed.on_missing, fidelity, until)

    def restore(self, streams: list[CachedStream], error: Exception) -> None:
        """Restore streams of one fleet from their rows, after an error while they were advanced.

        An error that the input can cause leaves other streams of the fleet as they were. After any other error the
        whole fleet is rebuilt. If even that fails, all of its streams are dropped.
        """
        fleet = streams[0].fleet
        everything = [stream.row for stream in self.streams.values() if stream.fleet is fleet]
        try:
            if isinstance(error, (TypeError, ValueError, ArithmeticError)):
                fleet.restore([stream.row for stream in streams])
            else:
                fleet.rebuild(everything)
        except BaseException:
            for row in everything:
                del self.streams[row.id]
            self._fleets.discard(fleet)
            raise

    def get(self, stream: str) -> CachedStream:
        """A stream that was loaded; raises the `RequestError` that says why it is not cached."""
        cached = self.streams.get(stream)
        if cached is None:
            raise self._error("stream", stream, self._stream_errors)
        self.streams.move_to_end(stream)
        return cached

    def group(self, group: str) -> CachedGroup:
        """A group, loaded if necessary; raises the `RequestError` that says why it is not cached."""
        cached = self.groups.get(group)
        if cached is None or cached.lease_until < time.monotonic():
            self.load([], [group])
            cached = self.groups.get(group)
        if cached is None:
            raise self._error("group", group, self._group_errors)
        return cached

    def _error(self, kind: str, name: str, errors: dict[str, RequestError]) -> RequestError:
        if name in errors:
            return errors[name]
        return OwnedElsewhere(name, self._owners[name]) if name in self._owners else not_found(kind, name)

    def extend_leases(self, streams: Iterable[str], groups: Iterable[str], since: float) -> None:
        """Note that a commit which started at `since` has extended these leases."""
        if self.store.lease is None:
            return
        until = since + LEASE_FRACTION * self.store.lease
        for stream in streams:
            self.streams[stream].lease_until = until
        for group in groups:
            self.groups[group].lease_until = until

    def evict(self, streams: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Drop streams and groups; they are loaded again when they are needed."""
        for stream in streams:
            if self.streams.pop(stream, None) is not None:
                self._fleets.remove(stream)
        for group in groups:
            self.groups.pop(group, None)

    def evict_excess(self, keep: Container[str]) -> None:
        """Drop the least recently used streams beyond the capacity, except those in `keep`."""
        excess = len(self.streams) - self.capacity
        if excess > 0:
            self.evict([stream for stream in self.streams if stream not in keep][:excess])

"""Streams and groups in a worker's memory."""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

from ..detector.detector import Detector
from ..detector.serialization import Loader
from ..fleet.together import Seat
from ..io.config import Config
from .choice import SharedBudget, decide
from .errors import DamagedError, NotReadyError, OwnedElsewhere, RequestError, UnavailableError, absent
from .records import GroupRow, StreamRow, text
from .store.base import Store

log = logging.getLogger("mfbocd.service")

LEASE_SHARE = 0.7
"""The part of a lease for which a worker relies on it."""


@dataclass
class HeldGroup:
    """A group in memory."""

    row: GroupRow
    budget: SharedBudget
    until: float


@dataclass(slots=True)
class Held:
    """A stream in memory: the row is as stored, or will be when the transactions under way have ended.

    A row is never changed, but replaced: a transaction under way may still have to write the one before.
    """

    row: StreamRow
    seat: Seat
    missing: str
    fidelity: str
    """What is to be read at the coming tick."""
    until: float

    @property
    def detector(self) -> Detector:
        """What the row's state is of."""
        return self.seat.detector


class Memory:
    """What a worker holds, read from the store when it is first needed or no longer surely its own."""

    def __init__(self, store: Store, capacity: int, ready: Callable[[str], bool] | None = None) -> None:
        self.store, self.capacity = store, capacity
        self._ready = ready or (lambda config: True)
        """Whether the kernels of a config are loaded: nothing else is held."""
        self.streams: OrderedDict[str, Held] = OrderedDict()
        self.groups: dict[str, HeldGroup] = {}
        self._elsewhere: dict[str, str] = {}
        self._refused: dict[str, RequestError] = {}
        self._refused_groups: dict[str, RequestError] = {}
        """Why what was loaded last is not held: its kernels are not loaded yet, or it is damaged in the store."""
        self._repaired: list[str] = []
        self._make = Loader(Detector.from_bytes)

    def lacking(self, streams: Iterable[str]) -> list[str]:
        """Of these streams, those that must be loaded."""
        now = time.monotonic()
        return [s for s in streams if (held := self.streams.get(s)) is None or not self._sure(held, now)]

    def _sure(self, held: Held, now: float) -> bool:
        group = held.row.group
        return held.until >= now and (group is None or (group in self.groups and self.groups[group].until >= now))

    def load(self, streams: list[str], groups: list[str]) -> None:
        """Take these, and the streams' groups, for this worker; none of them may have changes yet to be written."""
        now = time.monotonic()
        loaded = self.store.load(streams, groups)
        self._elsewhere, self._refused, self._refused_groups = loaded.elsewhere, {}, {}
        until = float("inf") if self.store.lease is None else now + LEASE_SHARE * self.store.lease
        for name, group in loaded.groups.items():
            known = self.groups.get(name)
            if not self._ready(group.config):
                self._refused_groups[name] = NotReadyError(group.config)
            elif known is None or known.row.version != group.version:
                try:
                    made = Config.parse(json.loads(group.config))
                    budget = SharedBudget(made, self.store.members(name), group.state)
                except UnavailableError:
                    raise
                except Exception as error:
                    self._refused_groups[name] = DamagedError("group", name, error)
                    self.groups.pop(name, None)
                    continue
                self.groups[name] = HeldGroup(group, budget, until)
            else:
                known.until = until
        for stream in streams:
            row = loaded.streams.get(stream)
            held = self.streams.get(stream)
            if row is None:
                self.streams.pop(stream, None)
            elif row.group is not None and row.group in self._refused_groups:
                self._refused[stream] = self._refused_groups[row.group]
                self.streams.pop(stream, None)
            elif not self._ready(row.config):
                self._refused[stream] = NotReadyError(row.config)
            elif held is not None and held.row.tick == row.tick and held.row.created == row.created:
                held.until = until
            else:
                try:
                    self.streams[stream] = self._hold(row, until)
                except Exception as error:
                    self._refused[stream] = DamagedError("stream", stream, error)
                    self.streams.pop(stream, None)

    def get(self, stream: str) -> Held:
        """A stream that was loaded, or why there is none."""
        held = self.streams.get(stream)
        if held is None:
            if stream in self._refused:
                raise self._refused[stream]
            if stream in self._elsewhere:
                raise OwnedElsewhere(stream, self._elsewhere[stream])
            raise absent("stream", stream)
        self.streams.move_to_end(stream)
        return held

    def group(self, group: str) -> HeldGroup:
        """A group, taken for this worker."""
        held = self.groups.get(group)
        if held is None or held.until < time.monotonic():
            self.load([], [group])
            held = self.groups.get(group)
        if held is None:
            if group in self._refused_groups:
                raise self._refused_groups[group]
            if group in self._elsewhere:
                raise OwnedElsewhere(group, self._elsewhere[group])
            raise absent("group", group)
        return held

    def renew(self, streams: Iterable[str], groups: Iterable[str], since: float) -> None:
        """What was written with a lease that began at `since` is this worker's own for so long."""
        if self.store.lease is None:
            return
        until = since + LEASE_SHARE * self.store.lease
        for stream in streams:
            self.streams[stream].until = until
        for group in groups:
            self.groups[group].until = until

    def forget(self, streams: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Read them from the store when they are next needed."""
        for stream in streams:
            self.streams.pop(stream, None)
        for group in groups:
            self.groups.pop(group, None)

    def trim(self, kept: Container[str]) -> None:
        """Forget what was not needed for longest, but for streams whose changes are yet to be written."""
        excess = len(self.streams) - self.capacity
        if excess > 0:
            self.forget([stream for stream in self.streams if stream not in kept][:excess])

    def repaired(self) -> list[str]:
        """Streams in memory, since this was last asked, whose choice was made again and is yet to be written."""
        found, self._repaired = self._repaired, []
        return found

    def _hold(self, row: StreamRow, until: float) -> Held:
        seat = self.seat(row)
        fidelity = json.loads(row.next)["fidelity"]
        if fidelity not in seat.detector._by_name:
            # An earlier version could store the name of another stream's fidelity: nothing could be observed then.
            # A choice follows from the state alone, so that it can be made again.
            group = None if row.group is None else self.groups[row.group].budget
            made = decide(seat.detector, None if group is None else group.price)
            log.warning("stream %s: the stored choice %r is none of its fidelities; now %r", row.id, fidelity, made)
            fidelity, row = made["fidelity"], replace(row, next=text(made))
            self._repaired.append(row.id)
        missing = json.loads(row.config)["missing"]
        return Held(row=row, seat=seat, missing=missing, fidelity=fidelity, until=until)

    def seat(self, row: StreamRow) -> Seat:
        """A row's detector, to be moved with others."""
        return Seat(self._make(row.state))

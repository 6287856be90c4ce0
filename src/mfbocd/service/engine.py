"""Streams in memory and what is done with them: one thread, one transaction for whatever waits together."""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from ..config import Config
from ..detector import Detector
from ..snapshot import Freezer
from .decide import SharedBudget, decide
from .errors import Elsewhere, Refused, Unavailable, absent
from .records import Event, GroupRow, StreamRow, number, step_record, text
from .store import Changes, Store

log = logging.getLogger("mfbocd.service")

HELD = 5000
"""Streams kept in memory."""
LARGEST = 1_048_576
"""Bytes of a stream's state at most."""
SURE = 0.7
"""The part of a lease for which a worker relies on it."""


@dataclass(frozen=True)
class Ask:
    """What shall be read next?"""

    stream: str


@dataclass(frozen=True)
class Observe:
    """What was read."""

    stream: str
    tick: int
    fidelity: str
    x: Any


Command = Ask | Observe
Answer = dict[str, Any] | Refused


@dataclass
class HeldGroup:
    """A group in memory."""

    row: GroupRow
    budget: SharedBudget
    until: float


@dataclass
class Held:
    """A stream in memory: the row is as stored, or will be when the transaction under way has ended."""

    row: StreamRow
    detector: Detector
    missing: str
    next: dict[str, Any]
    last: dict[str, Any] | None
    until: float
    freeze: Freezer


@dataclass
class _Work:
    """What one transaction will write."""

    streams: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    events: dict[tuple[str, int], Event] = field(default_factory=dict)


class Engine:
    """Answers commands. To be used by one thread alone."""

    def __init__(self, store: Store, *, held: int = HELD, largest: int = LARGEST) -> None:
        self.store = store
        self.capacity, self.largest = held, largest
        self.steps = self.repeats = self.refusals = self.commits = 0
        self.failed = ""
        """Why the last transaction was not written, if it was not."""
        self._streams: OrderedDict[str, Held] = OrderedDict()
        self._groups: dict[str, HeldGroup] = {}
        self._work = _Work()
        self._elsewhere: dict[str, str] = {}

    @property
    def held(self) -> int:
        """Streams in memory."""
        return len(self._streams)

    def run(self, jobs: Sequence[Sequence[Command]]) -> list[list[Answer]]:
        """Answer each command of each job; on disk, all in one transaction, before any answer is given.

        If that fails nothing was changed, and every answer says so.
        """
        self._work = _Work()
        try:
            self._ready({command.stream for job in jobs for command in job})
            answers = [[self._answer(command) for command in job] for job in jobs]
            self._commit()
        except Unavailable as error:
            self.failed = error.error
            self._drop()
            return [[error for _ in job] for job in jobs]
        except BaseException:
            self._drop()
            raise
        self._trim()
        return answers

    def probe(self) -> None:
        """See whether the store can be written again."""
        self.store.probe()
        self.failed = ""

    def forget(self, stream: str | None = None, group: str | None = None) -> None:
        """Read it from the store when it is next needed."""
        if stream is not None:
            self._streams.pop(stream, None)
        if group is not None:
            self._groups.pop(group, None)

    def hold_group(self, group: str) -> HeldGroup:
        """A group, taken for this worker."""
        self._ready((), (group,))
        held = self._groups.get(group)
        if held is None:
            if group in self._elsewhere:
                raise Elsewhere(group, self._elsewhere[group])
            raise absent("group", group)
        return held

    # --- what is held ------------------------------------------------------------------------------------------

    def _ready(self, streams: Iterable[str], groups: Iterable[str] = ()) -> None:
        now = time.monotonic()
        wanted = [s for s in streams if (held := self._streams.get(s)) is None or not self._sure(held, now)]
        wanted_groups = [g for g in groups if (kept := self._groups.get(g)) is None or kept.until < now]
        self._elsewhere = {}
        if not wanted and not wanted_groups:
            return
        loaded = self.store.load(wanted, wanted_groups)
        self._elsewhere = loaded.elsewhere
        until = float("inf") if self.store.lease is None else now + SURE * self.store.lease
        for name, group in loaded.groups.items():
            known = self._groups.get(name)
            if known is None or known.row.version != group.version:
                budget = SharedBudget(Config.parse(json.loads(group.config)), self.store.members(name), group.state)
                self._groups[name] = HeldGroup(group, budget, until)
            else:
                known.until = until
        for stream in wanted:
            row = loaded.streams.get(stream)
            held = self._streams.get(stream)
            if row is None:
                self._streams.pop(stream, None)
            elif held is not None and held.row.tick == row.tick and held.row.created == row.created:
                held.until = until
            else:
                self._streams[stream] = _hold(row, until)

    def _sure(self, held: Held, now: float) -> bool:
        group = held.row.group
        return held.until >= now and (group is None or (group in self._groups and self._groups[group].until >= now))

    def _get(self, stream: str) -> Held:
        held = self._streams.get(stream)
        if held is None:
            if stream in self._elsewhere:
                raise Elsewhere(stream, self._elsewhere[stream])
            raise absent("stream", stream)
        self._streams.move_to_end(stream)
        return held

    def _trim(self) -> None:
        while len(self._streams) > self.capacity:
            self._streams.popitem(last=False)

    def _drop(self) -> None:
        """What was changed in memory was not in the store: read it again."""
        for stream in self._work.streams:
            self._streams.pop(stream, None)
        for group in self._work.groups:
            self._groups.pop(group, None)

    def _commit(self) -> None:
        work = self._work
        if not work.streams:
            return
        changes = Changes(
            streams=[(self._streams[s].row, before) for s, before in work.streams.items()],
            groups=[(self._groups[g].row, before) for g, before in work.groups.items()],
            events=list(work.events.values()),
        )
        now = time.monotonic()
        self.store.commit(changes)
        self.commits += 1
        self.failed = ""
        if self.store.lease is not None:
            for stream in work.streams:
                self._streams[stream].until = now + SURE * self.store.lease
            for group in work.groups:
                self._groups[group].until = now + SURE * self.store.lease

    # --- commands ----------------------------------------------------------------------------------------------

    def _answer(self, command: Command) -> Answer:
        try:
            held = self._get(command.stream)
            return {"tick": held.row.tick, **held.next} if isinstance(command, Ask) else self._observe(held, command)
        except Unavailable:
            raise
        except Refused as refused:
            self.refusals += 1
            return refused

    def _observe(self, held: Held, told: Observe) -> dict[str, Any]:
        row, wanted = held.row, held.next["fidelity"]
        expected = {"tick": row.tick, "fidelity": wanted}
        if told.tick < row.tick:
            return self._repeated(held, told, expected)
        if told.tick > row.tick:
            raise Refused(409, f"tick {told.tick} is not yet: {row.tick} is the coming one", expected)
        if told.fidelity != wanted:
            raise Refused(
                409, f"fidelity {told.fidelity!r} was not chosen at tick {row.tick}: {wanted!r} was", expected
            )
        if held.detector.model.dimension > 1 and not isinstance(told.x, (list, tuple, NoneType)):
            raise Refused(422, f"x must be several numbers, not {told.x!r}", {"x": _reading(held.detector)})
        if told.x is None and held.missing == "raise" and _zeta(held.detector, wanted) > 0.0:
            raise Refused(422, "x is null, and the config says missing = 'raise'", {"x": _reading(held.detector)})
        self._advance(held, told)
        assert held.last is not None
        return held.last

    def _repeated(self, held: Held, told: Observe, expected: dict[str, Any]) -> dict[str, Any]:
        if held.last is not None and held.last["tick"] == told.tick:
            step = held.last
        else:
            event = self._work.events.get((told.stream, told.tick)) or self.store.event(told.stream, told.tick)
            if event is None:
                raise Refused(409, f"tick {told.tick} is over and no longer kept", expected)
            step = json.loads(event.step)
        if step["fidelity"] != told.fidelity or not _same(step["x"], told.x):
            seen = {"fidelity": step["fidelity"], "x": step["x"]}
            raise Refused(409, f"tick {told.tick} is over, with another observation", expected | {"observed": seen})
        self.repeats += 1
        return step

    def _advance(self, held: Held, told: Observe) -> None:
        """One tick; bad input leaves everything as it was."""
        row, detector = held.row, held.detector
        group = None if row.group is None else self._groups[row.group]
        at = round(time.time(), 3)
        group_before = None if group is None else group.budget.state()
        try:
            step = detector.update(told.x, told.fidelity)
            record = step_record(step, detector, at)
            stored = text(record)
            if group is not None:
                group.budget.paid(step.cost)
                detector.policy = group.budget.rule()
            following = decide(detector)
            written = text(following)
            state = held.freeze(detector)
            if len(state) > self.largest:
                raise ValueError(
                    f"the state would be over {self.largest} bytes: the config's pruning does not bound it"
                )
        except Exception as error:
            # one reading must not keep back those that share its transaction, whatever it is
            if not isinstance(error, (TypeError, ValueError, ArithmeticError)):
                log.exception("a reading of %s was refused", row.id)
            held.detector = Detector.from_bytes(row.state)
            if group is not None and group_before is not None:
                group.budget = SharedBudget(
                    Config.parse(json.loads(group.row.config)), group.budget.policy.streams, group_before
                )
            raise Refused(422, f"x cannot be taken: {error}", {"x": _reading(detector)}) from None
        self._work.streams.setdefault(row.id, row.tick)
        row.tick, row.spent, row.updated, row.state = detector.ticks, detector.spent, at, state
        row.last, row.next = stored, written
        if step.alarm:
            row.alarms, row.alarmed, row.last_alarm = row.alarms + 1, at, stored
        held.last, held.next = record, following
        if group is not None:
            self._work.groups.setdefault(group.row.id, group.row.version)
            group.row.version += 1
            group.row.state = group.budget.state()
        self._work.events[row.id, step.tick] = Event(row.id, step.tick, at, step.alarm, stored)
        self.steps += 1


def _hold(row: StreamRow, until: float) -> Held:
    detector = Detector.from_bytes(row.state)
    return Held(
        row=row,
        detector=detector,
        missing=json.loads(row.config)["missing"],
        next=json.loads(row.next),
        last=None if row.last is None else json.loads(row.last),
        until=until,
        freeze=Freezer(detector),
    )


def _zeta(detector: Detector, name: str) -> float:
    return next(f.zeta for f in detector.fidelities if f.name == name)


def _reading(detector: Detector) -> str:
    d = detector.model.dimension
    return f"a reading of {detector.model!r}: " + ("a number" if d == 1 else f"{d} numbers")


def _same(stored: Any, told: Any) -> bool:
    """Whether a reading is the one that was stored; 1 and 1.0 are."""
    if isinstance(stored, list) != isinstance(told, list):
        return False
    return bool(number(stored) == told)

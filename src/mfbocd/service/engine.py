"""What is done with streams: commands answered in one thread, their changes collected for the next transaction."""

from __future__ import annotations

import json
import logging
import time
from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, NamedTuple

from ..config import Config
from ..detector import Detector
from ..together import Moved, Mover
from .decide import SharedBudget, decide
from .errors import Refused, Unavailable
from .held import Held, HeldGroup, Memory
from .records import LEAST, SHOWN, Event, number, step_record, text
from .store import Changes, Store

log = logging.getLogger("mfbocd.service")

HELD = 5000
"""Streams kept in memory."""
LARGEST = 1_048_576
"""Bytes of a stream's state at most."""


class Ask(NamedTuple):
    """What shall be read next?"""

    stream: str


class Observe(NamedTuple):
    """What was read."""

    stream: str
    tick: int
    fidelity: str
    x: Any


Command = Ask | Observe
Answer = dict[str, Any] | Refused


@dataclass(slots=True)
class Tick:
    """An observation that is sound, of a stream that has no other under way; the answer has its place already."""

    held: Held
    told: Observe
    value: Any
    answers: list[Answer]
    place: int


@dataclass
class Work:
    """What one transaction will write."""

    streams: dict[str, int] = field(default_factory=dict)
    """The tick each had before."""
    groups: dict[str, int] = field(default_factory=dict)
    """The version each had before."""
    events: dict[tuple[str, int], Event] = field(default_factory=dict)
    since: float = 0.0
    """When it was handed over to be written."""


class Engine:
    """Answers commands. To be used by one thread alone, but for the commit itself.

    `answer` may be called again while another thread commits the `changes` handed over before: what it finds in
    memory is as if they had been written. If they are not, `lost` forgets them and all that came after.
    """

    def __init__(self, store: Store, *, held: int = HELD, largest: int = LARGEST) -> None:
        self.store, self.largest = store, largest
        self.memory = Memory(store, held)
        self.steps = self.repeats = self.refusals = self.commits = 0
        self.failed = ""
        """Why the last transaction was not written, if it was not."""
        self._mover = Mover(LEAST, SHOWN)
        self._work = Work()
        self._written = Work()

    def run(self, jobs: Sequence[Sequence[Command]]) -> list[list[Answer]]:
        """Answer each command of each job; on disk, all in one transaction, before any answer is given.

        If that fails nothing was changed, and every answer says so.
        """
        try:
            self.load(self.lacking(jobs))
            answers = self.answer(jobs)
            changes = self.changes()
            if changes is not None:
                self.store.commit(changes)
                self.kept()
        except BaseException as error:
            self.lost(error)
            if not isinstance(error, Unavailable):
                raise
            return [[error for _ in job] for job in jobs]
        return answers

    @property
    def held(self) -> int:
        """Streams in memory."""
        return len(self.memory.streams)

    def probe(self) -> None:
        """See whether the store can be written again."""
        self.store.probe()
        self.failed = ""

    def forget(self, stream: str | None = None, group: str | None = None) -> None:
        """Read it from the store when it is next needed."""
        self.memory.forget([] if stream is None else [stream], [] if group is None else [group])

    # --- a transaction -----------------------------------------------------------------------------------------

    def lacking(self, jobs: Sequence[Sequence[Command]]) -> list[str]:
        """Streams that must be loaded before these can be answered."""
        return self.memory.lacking({command.stream for job in jobs for command in job})

    def must_settle(self, streams: Iterable[str]) -> bool:
        """Whether the store must first have what is unwritten: else what it gives of these is of an earlier tick."""
        return bool(self._work.groups or self._written.groups) or self.unwritten(streams)

    def load(self, streams: list[str]) -> None:
        """Take streams for this worker."""
        if streams:
            self.memory.load(streams, [])

    def unwritten(self, streams: Iterable[str]) -> bool:
        """Whether an answer of one of these tells of something that is yet to be written."""
        return any(s in self._work.streams or s in self._written.streams for s in streams)

    def changes(self) -> Changes | None:
        """What was changed since it was last asked, to be committed by whoever asks; None if nothing was.

        Either `kept` or `lost` must be called before the next.
        """
        work, self._work = self._work, Work()
        if not work.streams:
            return None
        work.since = time.monotonic()
        self._written = work
        return Changes(
            streams=[(self.memory.streams[s].row, before) for s, before in work.streams.items()],
            groups=[(self.memory.groups[g].row, before) for g, before in work.groups.items()],
            events=list(work.events.values()),
        )

    def kept(self) -> None:
        """The changes were committed."""
        written, self._written = self._written, Work()
        self.commits += 1
        self.failed = ""
        self.memory.renew(written.streams, written.groups, written.since)

    def lost(self, error: BaseException) -> None:
        """The changes were not committed, nor is what came after: what is in memory was not in the store."""
        if isinstance(error, Unavailable):
            self.failed = error.error
        for work in (self._written, self._work):
            self.memory.forget(work.streams, work.groups)
        self._written, self._work = Work(), Work()

    # --- commands ----------------------------------------------------------------------------------------------

    def answer(self, jobs: Sequence[Sequence[Command]]) -> list[list[Answer]]:
        """Answer each command of each job, in order; what they change is in memory, and among the next `changes`.

        Ticks of different streams are computed together.
        """
        found: list[list[Answer]] = []
        wave: dict[str, Tick] = {}
        for job in jobs:
            answers: list[Answer] = []
            found.append(answers)
            for command in job:
                if command.stream in wave:
                    self._advance(list(wave.values()))
                    wave.clear()
                try:
                    held = self.memory.get(command.stream)
                    if isinstance(command, Ask):
                        answers.append({"tick": held.row.tick, **held.next})
                    elif command.tick < held.row.tick:
                        answers.append(self._repeated(held, command))
                    else:
                        wave[command.stream] = Tick(held, command, _sound(held, command), answers, len(answers))
                        answers.append({})
                except Unavailable:
                    raise
                except Refused as refused:
                    self.refusals += 1
                    answers.append(refused)
        if wave:
            self._advance(list(wave.values()))
        self.memory.trim(ChainMap(self._work.streams, self._written.streams))
        return found

    def _repeated(self, held: Held, told: Observe) -> dict[str, Any]:
        expected = {"tick": held.row.tick, "fidelity": held.next["fidelity"]}
        if held.last is not None and held.last["tick"] == told.tick:
            step = held.last
        else:
            unwritten = ChainMap(self._work.events, self._written.events)
            event = unwritten.get((told.stream, told.tick)) or self.store.event(told.stream, told.tick)
            if event is None:
                raise Refused(409, f"tick {told.tick} is over and no longer kept", expected)
            step = json.loads(event.step)
        if step["fidelity"] != told.fidelity or not _same(step["x"], told.x):
            seen = {"fidelity": step["fidelity"], "x": step["x"]}
            raise Refused(409, f"tick {told.tick} is over, with another observation", expected | {"observed": seen})
        self.repeats += 1
        return step

    def _advance(self, wave: list[Tick]) -> None:
        """One tick of each stream of a wave."""
        moved = self._mover.move(
            [tick.held.detector for tick in wave],
            [tick.value for tick in wave],
            [tick.held.detector.by_name[tick.told.fidelity].zeta for tick in wave],
        )
        at = round(time.time(), 3)
        for tick, one in zip(wave, moved, strict=True):
            try:
                tick.answers[tick.place] = self._stepped(tick, one, at)
            except Refused as refused:
                self.refusals += 1
                tick.answers[tick.place] = refused

    def _stepped(self, tick: Tick, moved: Moved | Exception, at: float) -> dict[str, Any]:
        """The step of a stream whose belief has moved; bad input leaves everything as it was."""
        held, row, detector = tick.held, tick.held.row, tick.held.detector
        group = None if row.group is None else self.memory.groups[row.group]
        group_before = None if group is None else group.budget.state()
        try:
            if isinstance(moved, Exception):
                raise moved
            known = detector.by_name[tick.told.fidelity]
            step = detector.passed(moved.report, tick.value, known, known.cost_of(None))
            record = step_record(step, detector.spent, at, moved.likely)
            stored = text(record)
            if group is not None:
                group.budget.paid(step.cost)
                detector.policy = group.budget.rule()
            following = decide(detector, moved.gains)
            written = text(following)
            state = held.freeze(detector, moved.saved)
            if len(state) > self.largest:
                raise ValueError(
                    f"the state would be over {self.largest} bytes: the config's pruning does not bound it"
                )
        except Exception as error:
            # one reading must not keep back those that share its transaction, whatever it is
            if not isinstance(error, (TypeError, ValueError, ArithmeticError)):
                log.exception("a reading of %s was refused", row.id)
            held.detector = self.memory.make(row.state)
            if group is not None and group_before is not None:
                group.budget = SharedBudget(
                    Config.parse(json.loads(group.row.config)), group.budget.policy.streams, group_before
                )
            raise Refused(422, f"x cannot be taken: {error}", {"x": _reading(detector)}) from None
        self._work.streams.setdefault(row.id, row.tick)
        alarms = (row.alarms + 1, at, stored) if step.alarm else (row.alarms, row.alarmed, row.last_alarm)
        held.row = row.after(detector.ticks, detector.spent, alarms, stored, written, at, state)
        held.last, held.next = record, following
        if group is not None:
            self._changed(group)
        self._work.events[row.id, step.tick] = Event(row.id, step.tick, at, step.alarm, stored)
        self.steps += 1
        return record

    def _changed(self, group: HeldGroup) -> None:
        row = group.row
        self._work.groups.setdefault(row.id, row.version)
        group.row = replace(row, version=row.version + 1, state=group.budget.state())


def _sound(held: Held, told: Observe) -> Any:
    """What was read at the coming tick, as the filter takes it, or why it cannot be that."""
    row, wanted, detector = held.row, held.next["fidelity"], held.detector
    expected = {"tick": row.tick, "fidelity": wanted}
    if told.tick > row.tick:
        raise Refused(409, f"tick {told.tick} is not yet: {row.tick} is the coming one", expected)
    if told.fidelity != wanted:
        raise Refused(409, f"fidelity {told.fidelity!r} was not chosen at tick {row.tick}: {wanted!r} was", expected)
    if detector.model.dimension > 1 and not isinstance(told.x, (list, tuple, NoneType)):
        raise Refused(422, f"x must be several numbers, not {told.x!r}", {"x": _reading(detector)})
    if told.x is None and held.missing == "raise" and detector.by_name[wanted].zeta > 0.0:
        raise Refused(422, "x is null, and the config says missing = 'raise'", {"x": _reading(detector)})
    try:
        return detector.taken(told.x)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Refused(422, f"x cannot be taken: {error}", {"x": _reading(detector)}) from None


def _reading(detector: Detector) -> str:
    d = detector.model.dimension
    return f"a reading of {detector.model!r}: " + ("a number" if d == 1 else f"{d} numbers")


def _same(stored: Any, told: Any) -> bool:
    """Whether a reading is the one that was stored; 1 and 1.0 are."""
    if isinstance(stored, list) != isinstance(told, list):
        return False
    return bool(number(stored) == told)

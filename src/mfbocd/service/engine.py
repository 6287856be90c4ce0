"""What is done with streams: commands answered in one thread, their changes collected for the next transaction."""

from __future__ import annotations

import json
import logging
import time
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, NamedTuple

from ..detector.detector import Detector
from ..fleet.together import Moved, Mover
from ..io.config import Config
from ..policy.fidelity import Fidelity
from .cache import Held, Memory
from .choice import SharedBudget, choice
from .errors import DamagedError, NotReadyError, RequestError, UnavailableError
from .records import LEAST, SHOWN, Event, number, step_record, text
from .store.base import Changes, Store

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
Answer = str | RequestError
"""A choice or a step as JSON, or why there is none: what is answered is what is stored, and encoded once."""


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

    `answer` may be called again while another thread commits `changes` handed over before: what it finds in memory
    is as if they had been written. If they are not, `lost` forgets them and all that came after.
    """

    def __init__(
        self,
        store: Store,
        *,
        held: int = HELD,
        largest: int = LARGEST,
        ready: Callable[[str], bool] | None = None,
    ) -> None:
        self.store, self.largest = store, largest
        self.memory = Memory(store, held, ready)
        self.steps = self.repeats = self.refusals = self.commits = 0
        self.failed = ""
        """Why the last transaction was not written, if it was not."""
        self._mover = Mover(LEAST, SHOWN)
        self._work = Work()
        self._handed: deque[Work] = deque()
        self._unwritten: dict[str, Work] = {}
        """The last work to change a stream, unless that is written."""

    def run(self, jobs: Sequence[Sequence[Command]]) -> list[list[dict[str, Any] | RequestError]]:
        """Answer each command of each job, in plain values; on disk, all in one transaction, before any is given.

        If that fails nothing was changed, and every answer says so.
        """
        try:
            self.load(self.lacking(jobs))
            answers = self.answer(jobs)
            if self.changed:
                self.store.commit(self.changes())
                self.kept()
        except BaseException as error:
            self.lost(error)
            if not isinstance(error, UnavailableError):
                raise
            return [[error for _ in job] for job in jobs]
        return [[one if isinstance(one, RequestError) else json.loads(one) for one in job] for job in answers]

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
        return any(work.groups for work in (self._work, *self._handed)) or self.unwritten(streams)

    def load(self, streams: list[str]) -> None:
        """Take streams for this worker."""
        if streams:
            self.memory.load(streams, [])
        for stream in self.memory.repaired():
            self._work.streams.setdefault(stream, self.memory.streams[stream].row.tick)
            self._unwritten[stream] = self._work

    def unwritten(self, streams: Iterable[str]) -> bool:
        """Whether an answer of one of these tells of something that is yet to be written."""
        return any(map(self._unwritten.__contains__, streams))

    @property
    def changed(self) -> bool:
        """Whether there are `changes`."""
        return bool(self._work.streams)

    def changes(self) -> Changes:
        """What was changed since it was last asked, to be committed by whoever asks, in the order it was asked.

        Either `kept` or `lost` must be called for each.
        """
        work, self._work = self._work, Work()
        work.since = time.monotonic()
        self._handed.append(work)
        return Changes(
            streams=[(self.memory.streams[s].row, before) for s, before in work.streams.items()],
            groups=[(self.memory.groups[g].row, before) for g, before in work.groups.items()],
            events=list(work.events.values()),
        )

    def kept(self, many: int = 1) -> None:
        """The first `many` changes that were asked for were committed, in one transaction."""
        works = [self._handed.popleft() for _ in range(many)]
        if any(work.streams for work in works):
            self.commits += 1
            self.failed = ""
        for work in works:
            for stream in work.streams:
                if self._unwritten[stream] is work:
                    del self._unwritten[stream]
            self.memory.renew(work.streams, work.groups, work.since)

    def lost(self, error: BaseException) -> None:
        """The changes were not committed, nor is what came after: what is in memory was not in the store."""
        if isinstance(error, UnavailableError):
            self.failed = error.error
        for work in (*self._handed, self._work):
            self.memory.forget(work.streams, work.groups)
        self._handed.clear()
        self._unwritten.clear()
        self._work = Work()

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
                        answers.append(f'{{"tick":{held.row.tick},{held.row.next[1:]}')
                    elif command.tick < held.row.tick:
                        answers.append(self._repeated(held, command))
                    else:
                        wave[command.stream] = Tick(held, command, _sound(held, command), answers, len(answers))
                        answers.append("")
                except UnavailableError:
                    raise
                except RequestError as refused:
                    self.refusals += not isinstance(refused, NotReadyError)
                    answers.append(refused)
                except Exception as error:  # what is stored of one stream must not keep back the others
                    log.exception("a command for %s failed", command.stream)
                    self.refusals += 1
                    answers.append(DamagedError("stream", command.stream, error))
        if wave:
            self._advance(list(wave.values()))
        self.memory.trim(self._unwritten)
        return found

    def _repeated(self, held: Held, told: Observe) -> str:
        row, expected = held.row, {"tick": held.row.tick, "fidelity": held.fidelity}
        if told.tick == row.tick - 1 and row.last is not None:
            stored = row.last
        else:
            unwritten = ChainMap(self._work.events, *(work.events for work in self._handed))
            event = unwritten.get((told.stream, told.tick)) or self.store.event(told.stream, told.tick)
            if event is None:
                raise RequestError(409, f"tick {told.tick} is over and no longer kept", expected)
            stored = event.step
        step = json.loads(stored)
        if step["fidelity"] != told.fidelity or not _same(step["x"], told.x):
            seen = {"fidelity": step["fidelity"], "x": step["x"]}
            raise RequestError(
                409, f"tick {told.tick} is over, with another observation", expected | {"observed": seen}
            )
        self.repeats += 1
        return stored

    def _advance(self, wave: list[Tick]) -> None:
        """One tick of each stream of a wave. If one cannot be, none was: then they go one by one."""
        held = [tick.held for tick in wave]
        seats = [one.seat for one in held]
        known = [seat.detector._by_name[tick.told.fidelity] for seat, tick in zip(seats, wave, strict=True)]
        charged, prices = self._charge(held, known)
        try:
            moved = self._mover.move(seats, [tick.value for tick in wave], known, prices)
            if max([len(one.saved) for one in moved]) > self.largest:
                raise ValueError(
                    f"the state would be over {self.largest} bytes: the config's pruning does not bound it"
                )
        except Exception as error:
            self._undo(held, charged)
            if len(wave) == 1:
                self._refuse(wave[0], error)
            else:
                for tick in wave:
                    self._advance([tick])
            return
        self._keep(wave, moved)
        for name in charged:
            group = self.memory.groups[name]
            self._work.groups.setdefault(name, group.row.version)
            group.row = replace(group.row, version=group.row.version + 1, state=group.budget.state())

    def _charge(self, held: list[Held], known: list[Fidelity]) -> tuple[dict[str, str], list[float | None]]:
        """Let groups pay for readings, in their order: what their budgets were before, and the price for each."""
        before: dict[str, str] = {}
        prices: list[float | None] = [None] * len(held)
        for i, one in enumerate(held):
            name = one.row.group
            if name is not None:
                budget = self.memory.groups[name].budget
                if name not in before:
                    before[name] = budget.state()
                budget.record_cost(known[i].cost_of())
                prices[i] = budget.price
        return before, prices

    def _undo(self, held: list[Held], charged: dict[str, str]) -> None:
        """Have streams and groups as their rows are."""
        for one in held:
            one.seat = self.memory.seat(one.row)
        for name, state in charged.items():
            group = self.memory.groups[name]
            config = Config.parse(json.loads(group.row.config))
            group.budget = SharedBudget(config, group.budget.policy.streams, state)

    def _refuse(self, tick: Tick, error: Exception) -> None:
        self.refusals += 1
        # one reading must not keep back those that share its transaction, whatever it is
        if not isinstance(error, (TypeError, ValueError, ArithmeticError)):
            log.error("a reading of %s was refused", tick.held.row.id, exc_info=error)
        expected = {"x": _reading(tick.held.detector)}
        tick.answers[tick.place] = RequestError(422, f"x cannot be taken: {error}", expected)

    def _keep(self, wave: list[Tick], moved: list[Moved]) -> None:
        """Ticks that were are in memory, and among the coming changes."""
        at = round(time.time(), 3)
        work, unwritten = self._work, self._unwritten
        streams, events = work.streams, work.events
        for tick, (step, spent, likely, gains, chosen, price, state) in zip(wave, moved, strict=True):
            held, row, n, alarm = tick.held, tick.held.row, step.tick, step.alarm
            tick.answers[tick.place] = stored = text(step_record(step, spent, at, likely))
            held.fidelity = chosen.name
            following = text(choice(held.seat.detector._by_name, gains, chosen.name, price))
            streams.setdefault(row.id, row.tick)
            unwritten[row.id] = work
            events[row.id, n] = Event(row.id, n, at, alarm, stored)
            alarms = (row.alarms + 1, at, stored) if alarm else (row.alarms, row.alarmed, row.last_alarm)
            held.row = row.after(n + 1, spent, alarms, stored, following, at, state)
        self.steps += len(wave)


def _sound(held: Held, told: Observe) -> Any:
    """What was read at the coming tick, as the filter takes it, or why it cannot be that."""
    row, wanted, detector = held.row, held.fidelity, held.detector
    expected = {"tick": row.tick, "fidelity": wanted}
    if told.tick > row.tick:
        raise RequestError(409, f"tick {told.tick} is not yet: {row.tick} is the coming one", expected)
    if told.fidelity != wanted:
        raise RequestError(
            409, f"fidelity {told.fidelity!r} was not chosen at tick {row.tick}: {wanted!r} was", expected
        )
    if detector.model.dimension > 1 and not isinstance(told.x, (list, tuple, NoneType)):
        raise RequestError(422, f"x must be several numbers, not {told.x!r}", {"x": _reading(detector)})
    if told.x is None and held.missing == "raise" and detector._by_name[wanted].zeta > 0.0:
        raise RequestError(422, "x is null, and the config says missing = 'raise'", {"x": _reading(detector)})
    try:
        return detector._accept(told.x)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise RequestError(422, f"x cannot be taken: {error}", {"x": _reading(detector)}) from None


def _reading(detector: Detector) -> str:
    d = detector.model.dimension
    return f"a reading of {detector.model!r}: " + ("a number" if d == 1 else f"{d} numbers")


def _same(stored: Any, told: Any) -> bool:
    """Whether a reading is the one that was stored; 1 and 1.0 are."""
    if isinstance(stored, list) != isinstance(told, list):
        return False
    return bool(number(stored) == told)

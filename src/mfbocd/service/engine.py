"""Executes the commands of clients on cached streams, and collects the changes for the next transaction.

`Engine.execute` computes the results of commands and changes the cache. `Engine.take_changes` returns the changes to
whoever commits them, and then either `Engine.mark_committed` or `Engine.roll_back` is called. Until then the cache is
ahead of the store. A rollback evicts every stream that was changed, so that it is loaded from the store again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..policy import SharedBudget
from .cache import CachedStream, StreamCache
from .errors import DamagedError, NotReadyError, RequestError, UnavailableError
from .fleets import Advanced, Price, StreamFleet
from .readings import checked_reading, expected_reading, same_reading
from .records import Event, GroupRow, StreamRow, json_text, step_record, with_reasons
from .store.base import Changes, Store

log = logging.getLogger("mfbocd.service")

CACHE_SIZE = 5000
"""Streams kept in memory."""
MAX_STATE = 1_048_576
"""Largest size of a stream's state in bytes."""


class ChooseCommand(NamedTuple):
    """Asks which fidelity a stream reads next."""

    stream: str


class ObserveCommand(NamedTuple):
    """Reports the reading of a tick."""

    stream: str
    tick: int
    fidelity: str
    x: Any


Command = ChooseCommand | ObserveCommand
Result = str | RequestError
"""A choice or a step as JSON, or the error. The JSON that is returned is also stored, so it is encoded once."""


@dataclass(slots=True)
class PendingTick:
    """A valid observation that is to be computed together with those of other streams."""

    stream: CachedStream
    command: ObserveCommand
    value: Any
    """The reading as the filter takes it."""
    results: list[Result]
    """The results of its job, with a placeholder"""
    position: int
    """at this index."""


@dataclass
class Transaction:
    """What was changed and is not committed yet."""

    streams: dict[str, tuple[StreamRow, int]] = field(default_factory=dict)
    """The new row of each changed stream, and its tick before the change. The stream may no longer be cached."""
    groups: dict[str, int] = field(default_factory=dict)
    """The version of each changed group before the change."""
    events: dict[tuple[str, int], Event] = field(default_factory=dict)
    """New events by stream and tick."""
    taken_at: float = 0.0
    """When it was handed over, as of `time.monotonic`."""


class Engine:
    """Executes commands. Only one thread may use it; the commit itself may happen in another.

    `execute` may be called while earlier changes are being committed: it works on the cache, which contains them.

    Parameters
    ----------
    store : Store
    cache_size : int
        Number of streams kept in memory.
    max_state : int
        Largest state of a stream in bytes; an observation that would exceed it is refused.
    is_ready : callable, optional
        Whether the kernels for a configuration, given as JSON, are loaded; always by default.
    """

    def __init__(
        self,
        store: Store,
        *,
        cache_size: int = CACHE_SIZE,
        max_state: int = MAX_STATE,
        is_ready: Callable[[str], bool] | None = None,
    ) -> None:
        self.store, self.max_state = store, max_state
        self.cache = StreamCache(store, cache_size, is_ready)
        self.steps = self.repeats = self.refusals = self.commits = 0
        self._write_error = ""
        self._current = Transaction()
        self._in_flight: deque[Transaction] = deque()
        """Transactions that were handed over and are not finished, oldest first."""
        self._uncommitted: dict[str, Transaction] = {}
        """The last unfinished transaction that changed each stream."""

    def run(self, jobs: Sequence[Sequence[Command]]) -> list[list[dict[str, Any] | RequestError]]:
        """Execute jobs and commit their changes in one transaction.

        Returns
        -------
        list of list
            The parsed result of each command of each job. If the commit fails nothing is changed, and every result
            is the error.
        """
        try:
            self.load(self.missing(jobs))
            results = self.execute(jobs)
            if self.has_changes:
                self.store.commit(self.take_changes())
                self.mark_committed()
        except BaseException as error:
            self.roll_back(error)
            if not isinstance(error, UnavailableError):
                raise
            return [[error for _ in job] for job in jobs]
        return [[one if isinstance(one, RequestError) else json.loads(one) for one in job] for job in results]

    @property
    def write_error(self) -> str:
        """Why the last transaction failed; empty if it did not. The first failure in a row is logged, and the end."""
        return self._write_error

    @write_error.setter
    def write_error(self, error: str) -> None:
        if error and not self._write_error:
            log.warning("the store could not be written: %s", error)
        elif self._write_error and not error:
            log.info("the store can be written again")
        self._write_error = error

    def probe(self) -> None:
        """Test whether the store can be written again."""
        self.store.probe()
        self.write_error = ""

    # --- transactions --------------------------------------------------------------------------------------------

    def missing(self, jobs: Sequence[Sequence[Command]]) -> list[str]:
        """Streams that must be loaded before these jobs can be executed."""
        return self.cache.missing({command.stream for job in jobs for command in job})

    def must_flush_before(self, streams: Iterable[str]) -> bool:
        """Whether all changes must be committed before these streams are loaded.

        Otherwise the store would return an earlier state. A stream of a group is loaded with its group, so
        uncommitted changes of any group also require it.
        """
        return any(t.groups for t in (self._current, *self._in_flight)) or self.has_uncommitted(streams)

    def load(self, streams: list[str]) -> None:
        """Lease and load streams."""
        if streams:
            self.cache.load(streams, [])

    def has_uncommitted(self, streams: Iterable[str]) -> bool:
        """Whether one of these streams has changes that are not committed."""
        return any(map(self._uncommitted.__contains__, streams))

    @property
    def has_changes(self) -> bool:
        """Whether `take_changes` would return any."""
        return bool(self._current.streams)

    def take_changes(self) -> Changes:
        """The changes since the last call.

        The caller commits them in the order of the calls, and reports each with `mark_committed` or `roll_back`.
        """
        taken, self._current = self._current, Transaction()
        taken.taken_at = time.monotonic()
        self._in_flight.append(taken)
        return Changes(
            streams=list(taken.streams.values()),
            groups=[(self.cache.groups[g].row, before) for g, before in taken.groups.items()],
            events=list(taken.events.values()),
        )

    def mark_committed(self, count: int = 1) -> None:
        """Note that the oldest `count` changes that were taken are committed, in one transaction of the store."""
        finished = [self._in_flight.popleft() for _ in range(count)]
        if any(one.streams for one in finished):
            self.commits += 1
            self.write_error = ""
        for one in finished:
            for stream in one.streams:
                if self._uncommitted[stream] is one:
                    del self._uncommitted[stream]
            self.cache.extend_leases(one.streams, one.groups, one.taken_at)

    def roll_back(self, error: BaseException) -> None:
        """Discard all changes that are not committed, because a commit failed.

        Later changes were computed from the failed ones, so they are discarded as well.
        """
        if isinstance(error, UnavailableError):
            self.write_error = error.reason
        for one in (*self._in_flight, self._current):
            self.cache.evict(one.streams, one.groups)
        self._in_flight.clear()
        self._uncommitted.clear()
        self._current = Transaction()

    # --- commands ------------------------------------------------------------------------------------------------

    def execute(self, jobs: Sequence[Sequence[Command]]) -> list[list[Result]]:
        """Execute the commands of jobs in order. All their streams must be loaded.

        Observations of different streams are collected and computed together. A stream's second command in the same
        call first computes those collected so far.

        Returns
        -------
        list of list
            The result of each command of each job; the changes are in the cache and in the next `take_changes`.
        """
        found: list[list[Result]] = []
        wave: dict[str, PendingTick] = {}
        for job in jobs:
            results: list[Result] = []
            found.append(results)
            for command in job:
                if command.stream in wave:
                    self._advance(list(wave.values()))
                    wave.clear()
                try:
                    stream = self.cache.get(command.stream)
                    if isinstance(command, ChooseCommand):
                        results.append(stream.row.choice())
                    elif command.tick < stream.row.tick:
                        results.append(self._repeat(stream, command))
                    else:
                        value = checked_reading(stream, command)
                        wave[command.stream] = PendingTick(stream, command, value, results, len(results))
                        results.append("")
                except UnavailableError:
                    raise
                except RequestError as refused:
                    self.refusals += not isinstance(refused, NotReadyError)
                    results.append(refused)
                except Exception as error:  # a damaged row must not affect other streams
                    log.exception("a command failed", extra={"fields": {"stream": command.stream}})
                    self.refusals += 1
                    results.append(DamagedError("stream", command.stream, error))
        if wave:
            self._advance(list(wave.values()))
        self.cache.evict_excess(keep=self._uncommitted)
        return found

    def committed_choice(self, stream: str) -> str | None:
        """The result of a `ChooseCommand` for a cached stream without uncommitted changes; None for any other.

        Any thread may call this while another one uses the engine, and does not wait for it.
        """
        cached = self.cache.streams.get(stream)
        if cached is None or not self.cache.is_leased(cached, time.monotonic()):
            return None
        row = cached.row
        # The row is read first: `_record` marks a stream as uncommitted before it replaces the row, and `roll_back`
        # evicts a stream before it removes the mark.
        if stream in self._uncommitted or self.cache.streams.get(stream) is not cached:
            return None
        return row.choice()

    def _repeat(self, stream: CachedStream, command: ObserveCommand) -> str:
        """The stored step of a tick that has passed, if the observation is the same."""
        row, expected = stream.row, {"tick": stream.row.tick, "fidelity": stream.fidelity}
        if command.tick == row.tick - 1 and row.last is not None:
            stored = row.last
        else:
            uncommitted = ChainMap(self._current.events, *(one.events for one in self._in_flight))
            event = uncommitted.get((command.stream, command.tick))
            event = event or self.store.event(command.stream, command.tick)
            if event is None:
                raise RequestError(409, f"tick {command.tick} has passed and its step is no longer stored", expected)
            stored = event.step
        step = json.loads(stored)
        known = stream.fleet.fidelities.get(command.fidelity)
        if step["fidelity"] != command.fidelity or known is None or not same_reading(step["x"], command.x, known):
            observed = {"fidelity": step["fidelity"], "x": step["x"]}
            raise RequestError(
                409,
                f"tick {command.tick} has passed with another observation",
                expected | {"observed": observed},
            )
        self.repeats += 1
        return stored

    def _advance(self, wave: list[PendingTick]) -> None:
        """Compute one tick of each stream, together for those of one fleet."""
        parts: dict[StreamFleet, list[PendingTick]] = {}
        for tick in wave:
            parts.setdefault(tick.stream.fleet, []).append(tick)
        for fleet, ticks in parts.items():
            self._advance_fleet(fleet, ticks)

    def _advance_fleet(self, fleet: StreamFleet, ticks: list[PendingTick]) -> None:
        """Compute one tick of streams of a fleet.

        If that fails, all are restored and each half is computed alone, until the stream that fails is: its error is
        the result of its own command, and the others go on.
        """
        budgets: dict[str, SharedBudget] = {}
        try:
            prices = self._charge_groups(ticks, budgets)
            advanced = fleet.advance(
                [tick.command.stream for tick in ticks],
                [tick.value for tick in ticks],
                [tick.command.fidelity for tick in ticks],
                prices,
            )
            if max(len(stream.state) for stream in advanced) > self.max_state:
                raise ValueError(
                    f"the state would exceed {self.max_state} bytes: the pruning of the config does not bound it"
                )
            records = self._records(ticks, advanced)
            groups = self._group_rows(budgets)
        except Exception as error:
            for name, budget in budgets.items():
                self.cache.groups[name].budget = budget
            damaged = self.cache.restore([tick.stream for tick in ticks], error)
            self._retry(fleet, ticks, error, damaged)
            return
        self._record(ticks, advanced, records)
        for group in groups:
            self._current.groups.setdefault(group.id, group.version - 1)
            self.cache.groups[group.id].row = group

    def _retry(
        self, fleet: StreamFleet, ticks: list[PendingTick], error: Exception, damaged: dict[str, Exception]
    ) -> None:
        """Compute ticks again after an error, in two halves; refuse one that failed alone or cannot be restored."""
        intact = []
        for tick in ticks:
            name = tick.command.stream
            if name in damaged:
                log.error("a stream cannot be restored", exc_info=damaged[name], extra={"fields": {"stream": name}})
                self.refusals += 1
                tick.results[tick.position] = DamagedError("stream", name, damaged[name])
            else:
                intact.append(tick)
        if len(ticks) == 1:
            for tick in intact:
                self._refuse(tick, error)
            return
        middle = (len(intact) + 1) // 2
        for half in (intact[:middle], intact[middle:]):
            if half:
                self._advance_fleet(fleet, half)

    def _charge_groups(self, ticks: list[PendingTick], before: dict[str, SharedBudget]) -> list[Price | None]:
        """Charge the costs of readings to the groups of their streams, in order.

        Parameters
        ----------
        ticks : list of PendingTick
        before : dict
            Receives a copy of each group's budget before.

        Returns
        -------
        list of Price or None
            The price at which each stream chooses next; None for a stream without a group.
        """
        prices: list[Price | None] = [None] * len(ticks)
        for i, tick in enumerate(ticks):
            name = tick.stream.row.group
            if name is not None:
                budget = self.cache.groups[name].budget
                if name not in before:
                    before[name] = copy(budget)
                budget.record(tick.stream.fleet.costs[tick.command.fidelity])
                prices[i] = Price.of(budget)
        return prices

    def _refuse(self, tick: PendingTick, error: Exception) -> None:
        self.refusals += 1
        # an unexpected error of one reading must not affect the others of its transaction either
        if not isinstance(error, (TypeError, ValueError, ArithmeticError)):
            fields = {"stream": tick.stream.row.id}
            log.error("a reading was refused", exc_info=error, extra={"fields": fields})
        expected = {"x": expected_reading(tick.stream.fleet.model)}
        tick.results[tick.position] = RequestError(422, f"x is not valid: {error}", expected)

    def _records(self, ticks: list[PendingTick], advanced: list[Advanced]) -> list[tuple[StreamRow, Event]]:
        """The new row and the event of each computed tick."""
        at = round(time.time(), 3)
        records = []
        for tick, (step, spent, posterior, choice, state) in zip(ticks, advanced, strict=True):
            row = tick.stream.row
            stored = with_reasons(json_text(step_record(step, spent, at, posterior)), row.next)
            alarms = (row.alarms + 1, at, stored) if step.alarm else (row.alarms, row.alarmed, row.last_alarm)
            after = row.advanced(step.tick + 1, spent, alarms, stored, json_text(choice), at, state)
            records.append((after, Event(row.id, step.tick, at, step.alarm, stored)))
        return records

    def _group_rows(self, groups: Iterable[str]) -> list[GroupRow]:
        """The new row of each charged group."""
        cached = [self.cache.groups[name] for name in groups]
        return [replace(g.row, version=g.row.version + 1, state=json_text(g.budget.state())) for g in cached]

    def _record(
        self, ticks: list[PendingTick], advanced: list[Advanced], records: list[tuple[StreamRow, Event]]
    ) -> None:
        """Put computed ticks into the cache, the current transaction and the results."""
        current, uncommitted = self._current, self._uncommitted
        for tick, stream, (row, event) in zip(ticks, advanced, records, strict=True):
            tick.results[tick.position] = event.step
            _, before = current.streams.get(row.id, (row, event.tick))
            uncommitted[row.id] = current
            current.streams[row.id] = row, before
            current.events[row.id, event.tick] = event
            tick.stream.fidelity = stream.choice["fidelity"]
            tick.stream.row = row
        self.steps += len(ticks)

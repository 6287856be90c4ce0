"""Steps are found by tick, whether written one by one or many at once, indexed or not, or imported."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service.engine import Engine, ObserveCommand
from mfbocd.service.errors import RequestError, UnavailableError
from mfbocd.service.records import Event, StreamRow
from mfbocd.service.store import sqlite_events
from mfbocd.service.store.base import RETENTION_INTERVAL, Changes, Store, is_due
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.store.sqlite_events import INDEX_INTERVAL
from mfbocd.service.transfer import export_streams, import_streams

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .test_store import Make, add, make  # noqa: F401 (fixture)

pytestmark = pytest.mark.slow

COIN = {"model": {"kind": "bernoulli"}}


class Recorded:
    """Streams in a store, and plain lists of the same events, whose steps end with so many spaces."""

    def __init__(self, store: Store, names: Sequence[str], padding: int = 0) -> None:
        self.store, self.padding = store, " " * padding
        self.steps: dict[str, list[Event]] = {name: [] for name in names}
        for name in names:
            store.add_stream(plain(name))
        self.rows = store.load(list(names)).streams

    def advance(self, **counts: int) -> Changes:
        """So many more steps of each stream, mixed, in one transaction."""
        changes = Changes()
        for name, count in counts.items():
            row = self.rows[name]
            changes.streams.append((replace(row, tick=row.tick + count), row.tick))
        for i in range(max(counts.values())):
            for name, count in counts.items():
                if i < count:
                    tick = self.rows[name].tick + i
                    alarm = tick % 7 == 0
                    step = f'{{"tick":{tick},"alarm":{str(alarm).lower()}}}{self.padding}'
                    changes.events.append(Event(name, tick, 1.5, alarm, step))
        self.store.commit(changes)
        self.rows |= {row.id: row for row, _ in changes.streams}
        for event in changes.events:
            self.steps[event.stream].append(event)
        return changes

    def check(self, name: str, afters: Sequence[int], limits: Sequence[int]) -> None:
        """Every step is found by its tick, and every page is that of the list."""
        steps = self.steps[name]
        for tick in range(-1, len(steps) + 2):
            assert unplaced(self.store.event(name, tick)) == (steps[tick] if 0 <= tick < len(steps) else None)
        for after in afters:
            for limit in limits:
                found = [unplaced(event) for event in self.store.events(name, after, limit)]
                assert found == steps[after + 1 :][:limit], (name, after, limit)


def plain(name: str, tick: int = 0) -> StreamRow:
    return StreamRow(name, name, "{}", "{}", None, 1.0, None, tick, 0.0, 0, None, None, None, "{}", 1.0, b"state")


def unplaced(event: Event | None) -> Event | None:
    return None if event is None else event._replace(alarm=bool(event.alarm), seq=0)


def test_every_step_and_every_page_is_found(make: Make) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b", "c"])
    draw = random.Random(1)
    while min(map(len, recorded.steps.values())) <= 200:
        recorded.advance(**{name: draw.choice([1, 1, 1, 2, 5]) for name in "abc" if draw.random() < 0.7} or {"a": 1})
        name = draw.choice("abc")
        here = len(recorded.steps[name])
        recorded.check(name, [-1, here // 2, here - 3, here - 2, here - 1], [1, 2, 1000])
    for name, steps in recorded.steps.items():
        recorded.check(name, range(-1, len(steps) + 2), [1, 63, 1000])
    everything = store.events_after(0, 10_000)
    assert [event.seq for event in everything] == sorted({event.seq for event in everything})
    for name in "abc":
        assert [event for event in everything if event.stream == name] == store.events(name, -1, 1000)
    store.close()


@pytest.mark.parametrize("before", [0, 1, 40])
def test_many_steps_of_one_transaction_are_found(make: Make, before: int) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b"])
    for _ in range(before):
        recorded.advance(a=1, b=1)
    for count in (2, 3 * INDEX_INTERVAL, 1):
        recorded.advance(a=count, b=1)
        recorded.check("a", [-1, before, before + 1, INDEX_INTERVAL], [1, 5, 1000])
        recorded.check("b", [-1], [1000])
    store.close()


def test_a_step_is_written_once_and_with_its_stream(make: Make) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b"])
    recorded.advance(a=3, b=3)
    a = recorded.rows["a"]
    for events in (
        [Event("b", 2, 1.0, False, "{}")],  # b has it, and is not written
        [Event("a", 2, 1.0, False, "{}")],  # a has it
        [Event("a", 3, 1.0, False, "{}"), Event("a", 3, 1.0, False, "{}")],
    ):
        with pytest.raises(RequestError) as refused:
            store.commit(Changes([(replace(a, tick=4), 3)], events=events))
        assert refused.value.status == 409
    recorded.check("a", [-1], [1000])
    store.commit(Changes([(a, 3)]))  # with no step
    recorded.check("a", [-1], [1000])
    recorded.advance(a=1)
    recorded.check("a", [-1], [1000])
    store.close()


def test_a_transaction_that_failed_leaves_no_step(make: Make) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b"])
    for tick in range(2 * INDEX_INTERVAL):  # some of them would have filed
        stale = (replace(recorded.rows["b"], tick=9), 8)
        changes = Changes(
            [(replace(recorded.rows["a"], tick=tick + 1), tick), stale],
            events=[Event("a", tick, 1.0, False, "never"), Event("b", 8, 1.0, False, "never")],
        )
        with pytest.raises(UnavailableError, match="another worker"):
            store.commit(changes)
        recorded.advance(a=1)
    recorded.check("a", [-1, INDEX_INTERVAL], [1000])
    assert store.events("b", -1, 1000) == []
    assert [event.tick for event in store.events_after(0, 1000)] == list(range(2 * INDEX_INTERVAL))
    store.close()


def test_what_is_kept_is_the_end_and_enough_of_it(make: Make) -> None:  # noqa: F811
    keep = 10
    store = make(keep=keep)
    recorded = Recorded(store, names := [f"s{i}" for i in range(8)])
    swept = dict.fromkeys(names, 0)
    turns: dict[str, list[int]] = {name: [] for name in names}
    for tick in range(1, 3 * RETENTION_INTERVAL):
        recorded.advance(**dict.fromkeys(names, 1))
        for name in names:
            first = store.events(name, -1, 1)[0].tick
            if first > swept[name]:
                swept[name] = first
                turns[name].append(tick)
                assert first == tick - keep
    for name in names:
        kept = [unplaced(event) for event in store.events(name, -1, 1000)]
        assert kept == recorded.steps[name][swept[name] :]
        assert store.event(name, swept[name] - 1) is None
        assert all(b - a == RETENTION_INTERVAL for a, b in pairwise(turns[name]))
        assert len(turns[name]) >= 2
    assert len({turn[0] for turn in turns.values()}) == 4  # not all in the same transaction, nor each in its own
    assert len(store.events_after(0, 100_000)) == sum(len(recorded.steps[name]) - swept[name] for name in names)
    store.close()


def test_a_stream_that_is_removed_takes_its_steps_along(make: Make) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b"])
    for _ in range(2 * INDEX_INTERVAL + 5):
        recorded.advance(a=1, b=1)
    recorded.advance(a=1)
    last = store.last_seq()
    assert store.remove_stream("a")
    assert store.events("a", -1, 1000) == []
    assert {event.stream for event in store.events_after(0, 1000)} == {"b"}
    recorded.check("b", [-1], [1000])
    again = Recorded(store, ["a"])
    again.advance(a=2)
    again.check("a", [-1], [1000])
    assert [event.seq > last for event in store.events("a", -1, 1000)] == [True, True]
    store.close()


def test_steps_that_come_with_a_stream_may_have_any_order_but_one_of_each_tick(make: Make) -> None:  # noqa: F811
    store = make()
    steps = [Event("a", tick, 1.5, False, f'{{"tick":{tick}}}') for tick in range(150)]
    mixed = random.Random(2).sample(steps, len(steps))
    with pytest.raises(RequestError) as refused:
        store.add_stream(plain("a", 150), [*mixed, steps[77]])
    assert refused.value.status == 409
    assert store.stream("a") is None
    assert store.events_after(0, 1000) == []
    store.add_stream(plain("a", 150), mixed)
    assert [unplaced(event) for event in store.events("a", -1, 1000)] == steps
    store.close()


def test_a_stream_is_moved_with_all_its_steps_and_goes_on(make: Make, tmp_path: Path) -> None:  # noqa: F811
    store, other = make(), SqliteStore(tmp_path / "other.db")
    engine = Engine(store)
    add(engine, "a", config=COIN)
    coins(engine, 0, 150)
    lines = list(export_streams(store))
    assert import_streams(other, lines) == ["a"]
    coins(engine, 150, 230)
    coins(Engine(other), 150, 230)
    assert untimed(other) == untimed(store)
    with pytest.raises(ValueError, match="tick 150 is not one of the 150 ticks of 'a'"):
        import_streams(
            SqliteStore(tmp_path / "third.db"), [*lines[:-1], lines[-2].replace('"tick":149', '"tick":150')]
        )
    for opened in (store, other):
        opened.close()


def coins(engine: Engine, start: int, end: int) -> None:
    for tick in range(start, end):
        ((step,),) = engine.run([[ObserveCommand("a", tick, "full", tick % 2)]])
        assert isinstance(step, dict), step


def untimed(store: Store) -> list[dict[str, Any]]:
    return [json.loads(event.step) | {"at": 0} for event in store.events("a", -1, 1000)]


def test_observations_during_an_export_are_not_in_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    engine = Engine(store)
    add(engine, "a", config=COIN)
    coins(engine, 0, 20)
    lines = export_streams(store)
    first = next(lines)
    coins(engine, 20, 30)
    moved = SqliteStore(tmp_path / "moved.db")
    assert import_streams(moved, [first, *lines]) == ["a"]
    coins(Engine(moved), 20, 30)
    assert untimed(moved) == untimed(store)
    for opened in (store, moved):
        opened.close()


# --- SQLite ------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "mfbocd.db")


def rows(store: SqliteStore, sql: str) -> list[Any]:
    with store.cursor() as cursor:
        return list(cursor.execute(sql).fetchall())


def test_steps_are_filed_in_bulk_and_streams_take_turns(store: SqliteStore) -> None:
    recorded = Recorded(store, names := [f"s{i}" for i in range(20)])
    count = dict.fromkeys(names, 0)
    when: dict[str, list[int]] = {name: [] for name in names}
    for tick in range(1, 4 * INDEX_INTERVAL):
        recorded.advance(**dict.fromkeys(names, 1))
        now = count | dict(rows(store, "SELECT stream, count(*) FROM event_index GROUP BY stream"))
        for name in names:
            if now[name] != count[name]:
                assert now[name] == tick  # all it had
                when[name].append(tick)
        open_chains = {name for (name,) in rows(store, "SELECT id FROM streams WHERE latest IS NOT NULL")}
        assert open_chains == {name for name in names if now[name] < tick}
        count = now
    for ticks in when.values():
        assert {b - a for a, b in pairwise(ticks)} == {INDEX_INTERVAL}
    assert len({ticks[0] for ticks in when.values()}) > 10
    assert rows(store, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'events'") == []
    store.close()


def test_nothing_stays_of_removed_and_of_old_steps(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db", keep=5)
    recorded = Recorded(store, ["a", "b"])
    for _ in range(RETENTION_INTERVAL + INDEX_INTERVAL + 3):
        recorded.advance(a=1, b=1)
    assert rows(store, "SELECT count(*) FROM events WHERE tick < 60") == [(0,)]
    both = (
        "SELECT stream, tick, seq FROM event_index ORDER BY seq",
        "SELECT stream, tick, seq FROM events ORDER BY seq",
    )
    assert set(rows(store, both[0])) < set(rows(store, both[1]))
    assert rows(store, "SELECT count(*) FROM streams WHERE latest IS NOT NULL") == [(2,)]
    for stream in "ab":
        store.remove_stream(stream)
    assert rows(store, both[0]) == rows(store, both[1]) == []
    store.close()


def test_a_watcher_that_has_seen_nearly_all_reads_only_the_rest(store: SqliteStore) -> None:
    recorded = Recorded(store, ["a", "b"])
    last = -1
    while last < INDEX_INTERVAL or not is_due(
        "a", last + 1, last + 2, INDEX_INTERVAL
    ):  # until its chain is as long as it gets
        recorded.advance(a=1, b=1)
        last += 1
    assert rows(store, "SELECT count(*) FROM event_index WHERE stream = 'a'") == [(last + 2 - INDEX_INTERVAL,)]

    def work(after: int) -> int:
        """Instructions of the database."""
        done = 0

        def count() -> int:
            nonlocal done
            done += 1
            return 0

        assert store._reader is not None
        store._reader.set_progress_handler(count, 1)
        found = store.events("a", after, 1000)
        store._reader.set_progress_handler(None, 1)
        assert len(found) == last - after
        return done

    assert work(last - 1) < work(last - 3) < work(last - 60) / 5
    store.close()


def test_two_connections_may_write_by_turns(tmp_path: Path) -> None:
    one = SqliteStore(tmp_path / "mfbocd.db")
    two = SqliteStore(tmp_path / "mfbocd.db")
    recorded = Recorded(one, ["a", "b"])
    draw = random.Random(3)
    for _ in range(3 * INDEX_INTERVAL):
        recorded.store = draw.choice([one, two])
        recorded.advance(**draw.choice([{"a": 1}, {"a": 1, "b": 2}, {"b": 1}]))
    recorded.store = one
    for name in "ab":
        recorded.check(name, [-1, INDEX_INTERVAL], [7, 1000])
    with pytest.raises(UnavailableError):  # a is no longer at its first tick
        two.commit(Changes([(plain("a", 1), 0)], events=[Event("a", 0, 1.0, False, "{}")]))
    for opened in (one, two):
        opened.close()


def test_a_reader_sees_all_steps_while_they_are_filed(store: SqliteStore) -> None:
    recorded = Recorded(store, ["a"])
    recorded.advance(a=1)
    wrong: list[list[int]] = []
    seen: set[int] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            found = [event.tick for event in store.events("a", -1, 10_000)]
            seen.add(len(found))
            if found != list(range(len(found))) or len(found) < max(seen):
                wrong.append(found)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for _ in range(10 * INDEX_INTERVAL):
            recorded.advance(a=1)
    finally:
        stop.set()
        watching.join(60)
    assert wrong == []
    assert len(seen) > 1
    store.close()


def test_a_chain_that_is_filed_but_not_yet_committed_is_read_as_before(store: SqliteStore) -> None:
    recorded = Recorded(store, ["a"])
    recorded.advance(a=3)
    with store.transaction() as cursor:
        sqlite_events.index(cursor, ["a"])
        assert rows(store, "SELECT count(*) FROM event_index") == [(0,)]
        recorded.check("a", [-1, 1], [1000])
    assert rows(store, "SELECT count(*) FROM event_index") == [(3,)]
    recorded.check("a", [-1, 1], [1000])
    store.close()

"""Both databases: transactions, group commit, retention, leases, failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service import manage
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.errors import MissingDatabaseError, OwnedElsewhere, RequestError, UnavailableError
from mfbocd.service.store.base import RETENTION_INTERVAL, Changes, Store
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.writer import Writer

from .postgres import end_leases, postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, reading, replayed

pytestmark = pytest.mark.slow

Make = Callable[..., Store]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the same database again and again."""
    if request.param == "sqlite":
        known = ("keep", "create")
        return lambda **options: SqliteStore(
            tmp_path / "mfbocd.db", **{name: options[name] for name in known if name in options}
        )
    address = request.getfixturevalue("postgres")()
    from mfbocd.service.store.postgres import PostgresStore

    return lambda **options: PostgresStore(address, **({"worker": "http://one"} | options))


def add(engine: Engine, stream: str, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": stream,
        "config": CONFIG,
        "group": None,
        "observers": {},
        "available": {},
        "max_streams": 99,
    }
    return manage.add_stream(engine, stream=stream, **(given | more))


def tick(engine: Engine, stream: str, number: int = 0) -> dict[str, Any]:
    ((choice,),) = engine.run([[ChooseCommand(stream)]])
    assert isinstance(choice, dict), choice
    observation = ObserveCommand(
        stream, choice["tick"], choice["fidelity"], reading(number, choice["tick"], choice["fidelity"])
    )
    ((step,),) = engine.run([[observation]])
    assert isinstance(step, dict), step
    return step


def test_a_database_is_not_created_unless_it_may_be(make: Make) -> None:
    for _ in range(2):  # the first attempt leaves nothing behind
        with pytest.raises(MissingDatabaseError):
            make(create=False)
    make().close()
    make(create=False).close()


def test_results_are_in_the_store(make: Make) -> None:
    store = make()
    engine = Engine(store)
    add(engine, "a")
    steps = [tick(engine, "a") for _ in range(50)]
    stored = [json.loads(event.step) for event in store.events("a", -1, 1000)]
    assert stored == steps
    row = store.stream("a")
    assert row is not None
    assert (row.tick, row.spent) == (50, steps[-1]["spent"])
    assert row.state == replayed(CONFIG, steps)
    assert [event.tick for event in store.events("a", 46, 2)] == [47, 48]
    assert [event.tick for event in store.events_after(0, 1000)] == list(range(50))
    assert store.last_seq() == store.events_after(0, 1000)[-1].seq
    store.close()
    store = make()
    engine = Engine(store, cache_size=1)
    assert tick(engine, "a")["tick"] == 50
    add(engine, "b")
    assert tick(engine, "b")["tick"] == 0  # a is no longer in memory
    assert len(engine.cache.streams) == 1
    assert tick(engine, "a")["tick"] == 51
    store.close()


def test_a_transaction_is_all_or_nothing(make: Make) -> None:
    store = make()
    engine = Engine(store)
    for stream in ("a", "b"):
        add(engine, stream)
        tick(engine, stream)
    a, b = store.load(["a", "b"]).streams.values()
    event = store.events("b", -1, 1)[0]
    moved = replace(a, tick=2)
    with pytest.raises(RequestError):  # b's event is there already
        store.commit(Changes(streams=[(moved, 1)], events=[event]))
    with pytest.raises(UnavailableError, match="another worker"):  # b is not at tick 5
        store.commit(Changes(streams=[(moved, 1), (replace(b, tick=6), 5)]))
    found = store.stream("a")
    assert found is not None
    assert found.tick == 1
    store.close()


def test_what_waits_together_is_committed_together(make: Make) -> None:
    store = make()
    engine = Engine(store)
    streams = [f"s{i}" for i in range(40)]
    for stream in streams:
        add(engine, stream)
    hold = threading.Event()
    writer = Writer(engine)
    first = writer.run_exclusive(hold.wait)
    waiting = [writer.submit([ObserveCommand(s, 0, choice_of(store, s), 0.5)]) for s in streams]
    hold.set()
    first.result(30)
    assert [json.loads(str(f.result(30)[0]))["tick"] for f in waiting] == [0] * 40
    writer.close()
    assert engine.commits == 1
    with pytest.raises(UnavailableError, match="stopping"):
        writer.submit([ChooseCommand("s0")]).result(30)
    store.close()


def choice_of(store: Store, stream: str) -> str:
    row = store.stream(stream)
    assert row is not None
    return str(json.loads(row.next)["fidelity"])


def test_old_steps_are_forgotten_and_their_ticks_refused(make: Make) -> None:
    store = make(keep=100)
    engine = Engine(store)
    add(engine, "a", config={"model": {"kind": "bernoulli"}})
    for t in range(520):
        ((step,),) = engine.run([[ObserveCommand("a", t, "full", t % 2)]])
        assert isinstance(step, dict)
    stored = [event.tick for event in store.events("a", -1, 1000)]
    assert stored == list(range(stored[0], 520))
    assert 100 <= len(stored) < 100 + RETENTION_INTERVAL
    ((repeat,),) = engine.run([[ObserveCommand("a", 3, "full", 1)]])
    assert isinstance(repeat, RequestError)
    assert (repeat.status, repeat.expected) == (409, {"tick": 520, "fidelity": "full"})
    store.close()


def test_a_group_shares_one_budget(make: Make) -> None:
    store = make()
    engine = Engine(store)
    config = CONFIG | {"policy": {"kind": "budget", "per_tick": 60.0}}
    manage.add_group(engine, group="g", name="g", config=config)
    for i in range(4):
        made = add(engine, f"s{i}", config=None, group="g")
        assert made["group"] == "g"
    spent = 0.0
    for t in range(400):
        asked = engine.run([[ChooseCommand(f"s{i}") for i in range(4)]])[0]
        observations = [
            ObserveCommand(f"s{i}", t, a["fidelity"], reading(i, t, a["fidelity"])) for i, a in enumerate(asked)
        ]  # type: ignore[index]
        spent += sum(step["cost"] for step in engine.run([observations])[0]) / 400  # type: ignore[index]
    assert spent == pytest.approx(60.0, rel=0.05)  # of the four together, a round
    record = manage.group_record(store.groups()[0], 4)
    assert (record["rounds"], record["budget"], record["streams"]) == (400, 60.0, 4)
    chosen = [engine.run([[ChooseCommand(f"s{i}")]])[0][0] for i in range(4)]
    store.close()
    store = make()
    again = Engine(store)
    assert [again.run([[ChooseCommand(f"s{i}")]])[0][0] for i in range(4)] == chosen
    assert manage.group_record(store.groups()[0], 4) == record
    step = tick(again, "s0")
    with pytest.raises(RequestError, match="has 4 streams"):
        manage.remove_group(again, "g")
    for i in range(4):
        manage.remove_stream(again, f"s{i}")
    manage.remove_group(again, "g")
    assert store.groups() == []
    assert step["tick"] == 400
    store.close()


def test_a_groups_choice_stays_when_others_spend(make: Make) -> None:
    store = make()
    engine = Engine(store)
    manage.add_group(engine, group="g", name="g", config=CONFIG)
    for i in range(3):
        add(engine, f"s{i}", config=None, group="g")
    for _ in range(30):
        ((before,),) = engine.run([[ChooseCommand("s0")]])
        price = engine.cache.group("g").budget.policy.price
        for _ in range(2):  # more than a round together
            tick(engine, "s1", 1)
            tick(engine, "s2", 2)
        assert engine.cache.group("g").budget.policy.price != price
        ((after,),) = engine.run([[ChooseCommand("s0")]])
        assert before == after
        tick(engine, "s0")
    store.close()


def test_a_reading_that_cannot_be_taken_leaves_its_group_and_the_others_as_they_were(tmp_path: Path) -> None:
    """Of two groups one meets a reading it must refuse: all else is as in the other, which never met it."""
    config = CONFIG | {
        "policy": {"kind": "budget", "per_tick": 60.0},
        "prune": False,
    }  # a state grows with every tick

    def made(path: Path) -> Engine:
        engine = Engine(SqliteStore(path))
        manage.add_group(engine, group="g", name="g", config=config)
        for i in range(4):
            add(engine, f"s{i}", config=None, group="g")
        for _ in range(5):
            tick(engine, "s2", 2)  # so it is larger than the others
        engine.max_state = len(engine.cache.streams["s2"].row.state)
        return engine

    met, other = made(tmp_path / "met.db"), made(tmp_path / "other.db")
    for engine in (met, other):
        commands = [ChooseCommand(f"s{i}") for i in range(4)]
        asked = engine.run([commands])[0]
        wave = [ObserveCommand(f"s{i}", a["tick"], a["fidelity"], 0.5) for i, a in enumerate(asked)]  # type: ignore[index]
        if engine is other:
            del wave[2]
        answers = engine.run([wave])[0]
        refused = [a for a in answers if isinstance(a, RequestError)]
        assert [(r.status, "bytes" in r.error) for r in refused] == ([(422, True)] if engine is met else [])
        engine.max_state = 1_000_000
        tick(engine, "s2", 2)  # it goes on from where it was
    assert met.refusals == 1
    for name in ("s0", "s1", "s2", "s3"):
        one, two = met.store.stream(name), other.store.stream(name)
        assert one is not None
        assert two is not None
        assert (one.tick, one.state, one.next) == (two.tick, two.state, two.next)
    assert met.store.groups()[0].state == other.store.groups()[0].state
    for engine in (met, other):
        engine.store.close()


def test_changes_that_came_one_after_another_are_one() -> None:
    from mfbocd.service.records import Event, GroupRow, StreamRow
    from mfbocd.service.store.base import Changes

    def row(stream: str, tick: int) -> StreamRow:
        return StreamRow(stream, "", "", "", None, 0.0, None, tick, 0.0, 0, None, None, None, "", 0.0, b"")

    def group(version: int) -> GroupRow:
        return GroupRow("g", "", "", 0.0, version, "")

    events = [Event("a", t, 0.0, False, "") for t in range(3)]
    parts = [
        Changes([(row("a", 1), 0)], [], events[:1]),
        Changes([(row("b", 8), 7), (row("a", 2), 1)], [(group(5), 4)], events[1:2]),
        Changes([], [], []),
        Changes([(row("a", 3), 2)], [(group(6), 5)], events[2:]),
    ]
    assert Changes.merged(parts) == Changes([(row("a", 3), 0), (row("b", 8), 7)], [(group(6), 4)], events)
    assert Changes.merged(parts[:1]) is parts[0]


def test_a_group_refuses_what_it_cannot_hold(make: Make) -> None:
    store = make()
    engine = Engine(store)
    net = CONFIG | {"policy": {"kind": "net", "price": 0.01}}
    with pytest.raises(RequestError, match="must be a budget"):
        manage.add_group(engine, group="g", name="g", config=net)
    capped = CONFIG | {"policy": {"kind": "budget", "per_tick": 60.0, "cap": [5000, 20]}}
    with pytest.raises(RequestError, match=r"Budget\.cap must be left out"):
        manage.add_group(engine, group="g", name="g", config=capped)
    tight = CONFIG | {"policy": {"kind": "budget", "per_tick": 2.5}}
    manage.add_group(engine, group="g", name="g", config=tight)
    add(engine, "s0", config=None, group="g")
    add(engine, "s1", config=tight, group="g")
    with pytest.raises(RequestError, match="cannot take another stream") as refused:
        add(engine, "s2", config=None, group="g")
    assert refused.value.status == 409
    with pytest.raises(RequestError, match="differs from the group's"):
        add(engine, "s2", config=CONFIG, group="g")
    with pytest.raises(RequestError, match="no group 'h'"):
        add(engine, "s2", config=None, group="h")
    store.close()


# --- SQLite ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "mend"),
    [
        ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"),
        ("PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
    ],
    ids=["full", "read-only"],
)
def test_a_store_that_cannot_write_changes_nothing_and_recovers(tmp_path: Path, spoil: str, mend: str) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    engine = Engine(store)
    add(engine, "a")
    add(engine, "b")
    steps = [tick(engine, "a") for _ in range(3)]
    assert store._writer is not None
    store._writer.execute(spoil)
    failures = 0
    for _ in range(200):  # until what space there was is used up
        ((choice,),) = engine.run([[ChooseCommand("a")]])
        assert isinstance(choice, dict)
        observation = ObserveCommand("a", choice["tick"], choice["fidelity"], 0.5)
        answers = engine.run([[observation], [ObserveCommand("b", 9, "imu", 0.5)]])
        if isinstance(answers[0][0], UnavailableError):
            failures += 1
            assert isinstance(answers[1][0], UnavailableError)
            assert engine.write_error
            if failures == 3:
                break
        else:
            steps.append(answers[0][0])
    assert failures == 3
    store._writer.execute(mend)
    engine.probe()
    assert engine.write_error == ""
    steps.append(tick(engine, "a"))
    assert [s["tick"] for s in steps] == list(range(len(steps)))
    row = store.stream("a")
    assert row is not None
    assert row.state == replayed(CONFIG, steps)
    store.close()


# --- PostgreSQL --------------------------------------------------------------------------------------------------


def test_a_stream_belongs_to_one_worker_until_its_lease_ends(postgres: Callable[[], str]) -> None:  # noqa: F811
    from mfbocd.service.store.postgres import PostgresStore

    address = postgres()
    one = PostgresStore(address, worker="http://one", lease=600.0)
    two = PostgresStore(address, worker="http://two", lease=600.0)
    first, second = Engine(one), Engine(two)
    add(first, "a")
    manage.add_group(first, group="g", name="g", config=CONFIG)
    add(first, "member", config=None, group="g")
    steps = [tick(first, "a"), tick(first, "a")]
    tick(first, "member")
    for stream in ("a", "member"):
        ((answer,),) = second.run([[ChooseCommand(stream)]])
        assert isinstance(answer, OwnedElsewhere)
        assert answer.worker == "http://one"
    with pytest.raises(OwnedElsewhere):
        manage.remove_stream(second, "member")
    end_leases(address)  # the first was silent for longer than a lease
    steps.append(tick(second, "a"))
    tick(second, "member")
    # the first must notice that its cache is stale, even if it still relies on its leases
    for cached in first.cache.streams.values():
        cached.lease_until = float("inf")
    first.cache.groups["g"].lease_until = float("inf")
    for stream in ("a", "member"):
        cached = first.cache.streams[stream]
        observation = ObserveCommand(stream, cached.row.tick, cached.fidelity, 0.25)
        ((answer,),) = first.run([[observation]])
        assert isinstance(answer, UnavailableError)
        ((answer,),) = first.run([[ChooseCommand(stream)]])
        assert isinstance(answer, OwnedElsewhere)
        assert answer.worker == "http://two"
    two.release()
    steps.append(tick(first, "a"))
    row = one.stream("a")
    assert row is not None
    assert row.state == replayed(CONFIG, steps)
    one.close()
    two.close()


def test_many_workers_take_each_stream_once(postgres: Callable[[], str]) -> None:  # noqa: F811
    from mfbocd.service.store.postgres import PostgresStore

    address = postgres()
    stores = [PostgresStore(address, worker=f"http://{i}", lease=60.0) for i in range(4)]
    maker = Engine(stores[0])
    names = [f"s{i}" for i in range(30)]
    for name in names:
        add(maker, name)
    taken: list[set[str]] = [set() for _ in stores]
    ready = threading.Barrier(4)

    def grab(i: int) -> None:
        ready.wait()
        for _ in range(5):
            for name in names:
                taken[i] |= set(stores[i].load([name]).streams)

    threads = [threading.Thread(target=grab, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set.union(*taken) == set(names)
    assert sum(map(len, taken)) == len(names)
    for store in stores:
        store.close()

"""Metrics: what is measured, and that counters never decrease."""

from __future__ import annotations

import math
import subprocess
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfbocd.service import manage
from mfbocd.service.auth import add_token
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.limits import Limits
from mfbocd.service.mqtt import bridge
from mfbocd.service.settings import Settings
from mfbocd.service.store import Store, open_store
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.store.totals import Totals, exact_sum

from ..parts import needed
from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, free_port, reading, serving, until
from .test_guard import bearer

pytestmark = pytest.mark.slow

AWKWARD = CONFIG | {  # sums of these costs depend on their order
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 0.1}, {"name": "gps", "zeta": 1, "cost": 0.7}]
}


def scraped(client: httpx.Client) -> dict[str, float]:
    """The value of every series."""
    text = client.get("/metrics").text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def add_stream(engine: Engine, stream: str, group: str | None = None) -> None:
    config = None if group else AWKWARD
    manage.add_stream(
        engine,
        **{"stream": stream, "name": stream, "config": config, "group": group},
        **{"observers": {}, "available": {}, "max_streams": 99},
    )


def advance(engine: Engine, stream: str, ticks: int) -> None:
    for _ in range(ticks):
        ((choice,),) = engine.run([[ChooseCommand(stream)]])
        assert isinstance(choice, dict)
        tick, fidelity = choice["tick"], choice["fidelity"]
        ((step,),) = engine.run([[ObserveCommand(stream, tick, fidelity, reading(0, tick, fidelity))]])
        assert isinstance(step, dict)


class Watch:
    """Compares every total with the one before."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.before: dict[tuple[str, str], float] = {}

    def look(self, reset: str | None = None) -> Totals:
        """The totals; the group `reset` may start again."""
        totals = self.store.totals(most=99)
        named = {"all": totals.usage} | {f"group {name}": usage for name, usage in totals.groups.items()}
        now = {(name, "ticks"): float(usage.ticks) for name, usage in named.items()}
        now |= {(name, "alarms"): float(usage.alarms) for name, usage in named.items()}
        now |= {(name, "spent"): usage.spent for name, usage in named.items()}
        for key, value in self.before.items():
            if key[0] != f"group {reset}":
                assert now.get(key, -1.0) >= value, key
        self.before = now
        return totals


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_counters_never_decrease(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Streams are evicted from memory, deleted and created again, groups are deleted, and the store is reopened."""
    db = str(tmp_path / "a.db") if kind == "sqlite" else request.getfixturevalue("postgres")()
    store = open_store(db, worker="http://one")
    engine, watch = Engine(store, cache_size=2), Watch(store)
    manage.add_group(engine, group="g", name="g", config=AWKWARD)
    streams = {"a": None, "b": None, "c": None, "d": "g", "e": "g"}
    for stream, group in streams.items():
        add_stream(engine, stream, group)
    for ticks in (3, 45, 1):  # the second has a jump
        for stream in streams:
            advance(engine, stream, ticks)
            watch.look()
    assert len(engine.cache.streams) <= 2
    totals = watch.look()
    assert (totals.usage.ticks, totals.groups["g"].ticks, totals.groups[""].ticks) == (245, 98, 147)
    assert totals.usage.alarms == sum(alarms for *_, alarms in totals.streams) > 0
    spent = totals.usage.spent
    assert spent == float(sum(Fraction(one[2]) for one in totals.streams))
    for stream in ("b", "d", "a", "e"):
        manage.remove_stream(engine, stream)
        assert watch.look().usage.spent == spent  # to the last bit
    add_stream(engine, "a")
    advance(engine, "a", 2)
    assert watch.look().usage.ticks == 247
    store.close()
    watch.store = store = open_store(db, worker="http://one")  # a restart
    engine = Engine(store)
    watch.look()
    manage.remove_group(engine, "g")
    assert watch.look(reset="g").usage.ticks == 247
    manage.add_group(engine, group="g", name="g", config=AWKWARD)
    add_stream(engine, "d", "g")
    assert watch.look().groups["g"].ticks == 0
    store.close()


@given(st.lists(st.floats(0.0, 1e15), max_size=20))
def test_sums_of_costs_are_exact(costs: list[float]) -> None:
    parts: list[float] = []
    for cost in costs:
        parts = exact_sum(parts, [cost])
    assert sum(map(Fraction, parts)) == sum(map(Fraction, costs))
    assert math.fsum(parts) == math.fsum(costs)
    assert len(parts) <= 40  # 2100 bits of 53


def test_latencies_by_route_and_status(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db") as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        for stream in ("a", "b", "c"):
            client.post(f"/streams/{stream}/choose")
        client.get("/nowhere/1")
        client.get("/nowhere/2")
        with client.stream("GET", "/events") as events:  # counted although it does not end
            assert next(events.iter_lines()) == "retry: 1000"
            found = scraped(client)
    name = "mfbocd_http_request_duration_seconds"
    count = {k.removeprefix(f"{name}_count"): v for k, v in found.items() if k.startswith(f"{name}_count")}
    assert count == {
        '{method="GET",route="/events",status="200"}': 1,
        '{method="GET",route="none",status="404"}': 2,
        '{method="POST",route="/streams",status="201"}': 1,
        '{method="POST",route="/streams/{stream}/choose",status="200"}': 1,
        '{method="POST",route="/streams/{stream}/choose",status="404"}': 2,
    }
    buckets = [v for k, v in found.items() if k.startswith(f"{name}_bucket") and 'route="none"' in k]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 2


def test_requests_that_are_refused_early_are_counted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    secret = add_token(store, "prometheus", "read")
    with serving(lambda: store, tokens=True) as client:
        assert client.get("/streams").status_code == 401
        client.headers = httpx.Headers(bearer(secret))
        found = scraped(client)
    assert found['mfbocd_http_request_duration_seconds_count{method="GET",route="none",status="401"}'] == 1


def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    promtool = needed("promtool")
    limits = Limits(stream_metrics=5)
    with serving(tmp_path / "a.db", Settings(limits=limits)) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        text = client.get("/metrics").text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_streams_by_state_and_the_bounded_switch(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    store = SqliteStore(db)
    engine = Engine(store)
    for stream in ("new", "quiet", "alarm", "silent", "damaged"):
        add_stream(engine, stream)
    advance(engine, "quiet", 3)
    advance(engine, "alarm", 45)
    advance(engine, "silent", 3)
    with store.transaction() as cursor:
        cursor.execute("UPDATE streams SET updated = updated - 901 WHERE id = 'silent'")
        cursor.execute("UPDATE streams SET spent = 'much' WHERE id = 'damaged'")
    store.close()
    with serving(db) as client:
        found = scraped(client)
        assert not any(name.startswith("mfbocd_stream_") for name in found)
    states = {state: 1.0 for state in ("never read", "quiet", "alarm", "silent", "damaged")}
    assert {n: v for n, v in found.items() if n.startswith("mfbocd_streams_by_state")} == {
        f'mfbocd_streams_by_state{{state="{state}"}}': count for state, count in states.items()
    }
    with serving(db, Settings(limits=Limits(stream_metrics=2))) as client:
        found = scraped(client)
    shown = [name for name in found if name.startswith("mfbocd_stream_")]
    kinds = ("ticks", "spent", "alarms")
    assert shown == [f'mfbocd_stream_{kind}_total{{stream="{s}"}}' for kind in kinds for s in ("new", "quiet")]


class Waiting(SqliteStore):
    """A store whose commits wait, and can be made to fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.go.set()

    def commit(self, changes: Any) -> None:
        assert self.go.wait(60)
        super().commit(changes)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    store = Waiting(tmp_path / "a.db")
    yield store
    store.go.set()


def test_the_lag_of_the_writer(waiting: Waiting) -> None:
    with serving(lambda: waiting) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        fidelity = client.post("/streams/a/choose").json()["fidelity"]
        until(lambda: scraped(client)["mfbocd_writer_lag_seconds"] == 0.0, lambda: "a job is left")
        waiting.go.clear()
        observation = {"tick": 0, "fidelity": fidelity, "x": 0.5}
        thread = threading.Thread(
            target=httpx.post, args=(f"{client.base_url}/streams/a/observe",), kwargs={"json": observation}
        )
        thread.start()
        until(lambda: scraped(client)["mfbocd_writer_lag_seconds"] > 0.2, lambda: "there is no lag")
        waiting.go.set()
        thread.join()
        until(lambda: scraped(client)["mfbocd_writer_lag_seconds"] == 0.0, lambda: "the lag remains")
        assert scraped(client)["mfbocd_commit_duration_seconds_count"] == 1


def test_failures_of_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    with serving(lambda: store) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        fidelity = client.post("/streams/a/choose").json()["fidelity"]
        before = scraped(client)
        assert before['mfbocd_store_failures_total{operation="write"}'] == 0
        assert before["mfbocd_store_up"] == 1
        with store.transaction() as cursor:
            cursor.execute("ALTER TABLE events RENAME TO gone")
        answer = client.post("/streams/a/observe", json={"tick": 0, "fidelity": fidelity, "x": 0.5})
        assert answer.status_code == 503
        after = scraped(client)
        assert after['mfbocd_store_failures_total{operation="write"}'] == 1
        assert after["mfbocd_store_up"] == 0


def test_failures_of_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", component=bridge(f"mqtt://127.0.0.1:{free_port()}")) as client:
        name = 'mfbocd_broker_failures_total{reason="connection"}'
        until(lambda: scraped(client)[name] > 0, lambda: "no failure is counted")
        assert scraped(client)['mfbocd_component_up{component="mqtt"}'] == 0


def test_a_worker_is_ready_once_the_store_has_answered(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db") as client:
        until(lambda: client.get("/readyz").status_code == 200, lambda: client.get("/readyz").text)
        assert client.get("/livez").json() == {"status": "alive"}
        assert scraped(client)["mfbocd_worker_ready"] == 1

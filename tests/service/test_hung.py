"""A store that does not answer keeps nothing else from being answered."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from mfbocd.service import monitor, service
from mfbocd.service.auth import add_token
from mfbocd.service.errors import UnavailableError
from mfbocd.service.records import Token
from mfbocd.service.store.postgres import PostgresStore
from mfbocd.service.store.sqlite import SqliteStore

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, serving, until
from .test_guard import bearer

pytestmark = pytest.mark.slow


HANG = 120.0
"""Seconds for which the store does not answer, if a test does not end it before."""
SOON = 60.0
"""Seconds for a response that does not wait for the store; no expected time, but shorter than `HANG`."""


class Hanging(SqliteStore):
    """A store in a file whose reads and writes can be made to hang."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers, self.writes = threading.Event(), threading.Event()
        self.answers.set()
        self.writes.set()
        self.waiting = self.writing = 0

    def cursor(self) -> Any:
        self.waiting += 1
        self.answers.wait(HANG)
        self.waiting -= 1
        return super().cursor()

    def transaction(self) -> Any:
        self.writing += 1
        self.writes.wait(HANG)
        self.writing -= 1
        return super().transaction()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    store = Hanging(tmp_path / "mfbocd.db")
    yield store
    store.answers.set()
    store.writes.set()


def store_up(client: httpx.Client) -> bool:
    """What the metrics say about the store."""
    return "\nmfbocd_store_up 1\n" in client.get("/metrics").text


def test_a_request_with_a_known_token_is_let_in_while_the_store_hangs(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "READ_TIMEOUT", 0.2)
    monkeypatch.setattr(monitor, "TIMEOUT", HANG)
    secret = add_token(hanging, "somebody", "write")
    with serving(lambda: hanging, tokens=True) as client:
        client.headers = httpx.Headers(bearer(secret))
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        assert client.post("/streams/a/choose").status_code == 200
        hanging.answers.clear()
        until(lambda: hanging.waiting > 0, lambda: "nobody reads the tokens")
        assert client.get("/healthz", timeout=SOON).status_code == 200  # it has not been silent for long
        assert client.post("/streams/a/choose").json()["tick"] == 0  # from memory
        assert client.get("/openapi.json").status_code == 200
        assert client.get("/streams", headers=bearer("mfb_wrong")).status_code == 401
        for path in ("/streams", "/streams/a", "/streams/a/trace", "/groups", "/groups/a", "/events"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), path
        monkeypatch.setattr(service, "TOTALS_TIMEOUT", 0.2)
        measured = client.get("/metrics")  # what the worker knows without the store
        assert measured.status_code == 200
        assert "mfbocd_ticks_total" not in measured.text
        assert store_up(client)  # sums that take long are no failure
        # more of them than there are threads to read
        slow = [threading.Thread(target=httpx.get, args=(f"{client.base_url}/streams",)) for _ in range(20)]
        for one in slow:
            one.start()
        assert client.get("/").status_code == 200
        assert client.get("/livez").status_code == 200  # a restart would not help
        assert client.post("/streams/a/choose").status_code == 200
        monkeypatch.setattr(monitor, "TIMEOUT", 0.0)
        answer = client.get("/healthz", timeout=SOON)
        assert answer.status_code == 503
        assert "it has not answered for" in answer.json()["error"]
        assert not store_up(client)
        hanging.answers.set()
        monkeypatch.setattr(monitor, "TIMEOUT", 10.0)
        until(lambda: client.get("/streams").status_code == 200, lambda: "it does not recover")
        assert client.get("/healthz").status_code == 200
        for one in slow:
            one.join()


@pytest.mark.parametrize("path", ["/streams", "/streams/a/observe"], ids=["exclusive", "commit"])
def test_health_reports_a_write_that_hangs(hanging: Hanging, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(service, "WRITE_TIMEOUT", HANG)
    with serving(lambda: hanging) as client:
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        fidelity = client.post("/streams/a/choose").json()["fidelity"]
        body = {"id": "b", "config": CONFIG} if path == "/streams" else {"tick": 0, "fidelity": fidelity, "x": 0.5}
        until(lambda: client.get("/readyz").status_code == 200, lambda: client.get("/readyz").text)
        hanging.writes.clear()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.post, path, json=body)
            until(lambda: hanging.writing > 0, lambda: "nothing is written")
            assert client.get("/healthz", timeout=SOON).status_code == 200  # it has not taken long
            assert store_up(client)
            monkeypatch.setattr(service, "WRITE_TIMEOUT", 0.0)
            health = client.get("/healthz", timeout=SOON)
            assert health.status_code == 503
            assert "a write has not finished for" in health.json()["error"]
            assert not store_up(client)
            assert client.get("/streams").json()["total"] == 1  # reads do not wait for writes
            assert client.get("/readyz").status_code == 200  # the other workers have the same store
            assert client.get("/livez").status_code == 200
            hanging.writes.set()
            assert answer.result().status_code in (200, 201)
        assert client.get("/healthz", timeout=SOON).status_code == 200
        assert store_up(client)


def test_health_waits_only_briefly_for_a_test_write(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda: hanging) as client:
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        assert hanging._writer is not None
        hanging._writer.execute("PRAGMA query_only = ON")
        assert client.post("/streams", json={"id": "b", "config": CONFIG}).status_code == 503
        hanging._writer.execute("PRAGMA query_only = OFF")
        hanging.writes.clear()
        monkeypatch.setattr(service, "PROBE_TIMEOUT", 0.1)
        health = client.get("/healthz", timeout=SOON)
        assert health.status_code == 503
        assert "readonly" in health.json()["error"]
        until(lambda: hanging.writing == 1, lambda: "no test write was begun")
        monkeypatch.setattr(service, "PROBE_TIMEOUT", HANG)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.get, "/healthz")
            client.get("/livez")
            assert not answer.done()
            hanging.writes.set()
            assert answer.result().status_code == 200  # the test write of before has succeeded


def test_event_streams_outlive_a_store_that_hangs(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "READ_TIMEOUT", 0.2)
    with serving(lambda: hanging) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        with client.stream("GET", "/events") as watched:
            lines = watched.iter_lines()
            assert next(lines) == "retry: 1000"
            hanging.answers.clear()
            until(lambda: hanging.waiting > 1, lambda: "the watcher does not read")
            assert client.get("/streams").status_code == 503  # as long as the watcher waits
            hanging.answers.set()
            observation = {"tick": 0, "fidelity": "gps", "x": 0.5}
            assert client.post("/streams/a/observe", json=observation).status_code == 200
            assert "data" in next(line for line in lines if line.startswith("data"))


def test_without_tokens_nobody_is_let_in(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that has not read its tokens yet knows nobody, and says why."""
    monkeypatch.setattr("mfbocd.service.app.FIRST_CHECK", 0.0)
    secret = add_token(hanging, "somebody", "write")
    hanging.answers.clear()
    with serving(lambda: hanging, tokens=True) as client:
        answer = client.get("/streams", headers=bearer(secret))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.get("/").status_code == 200
        hanging.answers.set()
        until(lambda: client.get("/streams", headers=bearer(secret)).status_code == 200, lambda: "not let in")


def test_a_locked_table_of_tokens(postgres: Callable[[], str]) -> None:  # noqa: F811
    """PostgreSQL answers everything but the question for the tokens."""
    db = postgres()
    store = PostgresStore(db, worker="http://one")
    secret = add_token(store, "somebody", "write")
    with (
        serving(lambda: store, tokens=True) as client,
        psycopg.connect(db) as holder,
    ):
        client.headers = httpx.Headers(bearer(secret))
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        holder.execute("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE")
        with psycopg.connect(db, autocommit=True) as other:

            def waits() -> bool:
                sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tokens'::regclass"
                found = other.execute(sql).fetchone()
                return found is not None and found[0] > 0

            until(waits, lambda: "nobody reads the tokens")
        for tick in range(3):
            choice = client.post("/streams/a/choose").json()
            observation = {"tick": tick, "fidelity": choice["fidelity"], "x": 0.5}
            assert client.post("/streams/a/observe", json=observation).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/streams").json()["total"] == 1
        holder.rollback()


def test_a_statement_is_bounded(postgres: Callable[[], str]) -> None:  # noqa: F811
    db = postgres()
    store = PostgresStore(db, timeout=0.5)
    with psycopg.connect(db) as holder:
        holder.execute("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(UnavailableError, match="statement timeout"):
            store.tokens()
        holder.rollback()
    assert store.tokens() == []
    store.close()
    own = PostgresStore(f"{db}?options=-c%20statement_timeout%3D12345&connect_timeout=7")
    with own.cursor() as cursor:
        assert cursor.execute("SHOW statement_timeout").fetchone() == ("12345ms",)
        assert cursor.connection.info.get_parameters()["connect_timeout"] == "7"
        assert cursor.connection.info.get_parameters()["tcp_user_timeout"] == "30000"
    own.close()


def test_a_stopped_database_is_not_waited_for(
    postgres: Callable[[], str],  # noqa: F811
) -> None:
    """Its processes are stopped while the machine goes on: connections stay, and nothing is ever said on them."""
    db = postgres()
    store = PostgresStore(db, worker="http://one", lease=600.0, timeout=1.0)
    store._watchdog.seconds = 1.5
    secret = add_token(store, "somebody", "write")
    with psycopg.connect(db, autocommit=True) as look, serving(lambda: store, tokens=True) as client:
        client.headers = httpx.Headers(bearer(secret))
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        assert client.post("/streams/a/choose").status_code == 200
        sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        stopped = [pid for (pid,) in look.execute(sql.encode()) if pid != look.info.backend_pid]
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            assert client.get("/healthz").status_code in (200, 503)
            assert client.post("/streams/a/choose").status_code == 200
            observation = {"tick": 0, "fidelity": "gps", "x": 0.5}
            # connections to new processes take the place of those that were given up
            until(
                lambda: client.post("/streams/a/observe", json=observation).status_code == 200,
                lambda: "it waits for what is stopped",
            )
            assert client.get("/streams/a").json()["tick"] == 1
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)


def test_revoked_tokens_are_refused_and_new_ones_known_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "INTERVAL", 0.05)
    store = SqliteStore(tmp_path / "mfbocd.db")
    watched = monitor.StoreMonitor(store)
    assert watched.checked.wait(30)
    store.add_token(Token("a", "hash", "read", 0.0))
    until(lambda: watched.token("hash") is not None, lambda: "a new token is not read")
    store.remove_token("a")
    until(lambda: watched.token("hash") is None, lambda: "a revoked token is still known")
    watched.stop()
    watched.join()
    store.close()

"""Backups that are taken while streams are observed, their restoration, and the space that `keep` bounds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service.store import open_store, sqlite
from mfbocd.service.store.base import RETENTION_INTERVAL, Store
from mfbocd.service.store.sqlite import PAGE_BYTES, SqliteStore
from mfbocd.service.transfer import export_streams

from ..cli import program
from .postgres import execute, postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, reading, serving, until
from .test_steps import Recorded
from .test_store import Make, make  # noqa: F401 (fixture)

pytestmark = pytest.mark.slow

STREAMS = ["a", "b", "first", "second"]
"""Two streams alone, and two of one group."""


class Load(threading.Thread):
    """Observes all streams in turn until it is stopped."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__(daemon=True)
        self.client, self.rounds, self.stopped = client, 0, threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                for number, stream in enumerate(STREAMS):
                    choice = self.client.post(f"/streams/{stream}/choose").json()
                    x = reading(number, choice["tick"], choice["fidelity"])
                    body = {"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x}
                    self.client.post(f"/streams/{stream}/observe", json=body).raise_for_status()
                self.rounds += 1
        except Exception as error:
            self.failure = error

    def wait(self, rounds: int) -> None:
        """Wait for so many more rounds."""
        goal = self.rounds + rounds
        until(lambda: self.rounds >= goal or not self.is_alive(), lambda: f"{self.rounds} of {goal} rounds")
        assert self.failure is None, self.failure


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_backup_under_load_continues_elsewhere_with_the_same_bits(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A backup of one database is restored into one of the other kind, and reads what the first one read since."""
    file = str(tmp_path / "one.db")
    address = request.getfixturevalue("postgres")()
    db, other = (file, address) if kind == "sqlite" else (address, file)
    backup = tmp_path / "all.jsonl"
    with serving(lambda: open_store(db, worker="http://one", exclusive=True)) as client:
        for group in ("g", "empty"):
            assert client.post("/groups", json={"id": group, "config": CONFIG}).status_code == 201
        for stream in STREAMS:
            more = {"config": CONFIG} if len(stream) == 1 else {"group": "g"}
            assert client.post("/streams", json={"id": stream} | more).status_code == 201
        load = Load(client)
        load.start()
        try:
            load.wait(5)
            store = open_store(db)
            with backup.open("w") as lines:
                for line in export_streams(store):
                    lines.write(line + "\n")
                    if json.loads(line)["kind"] != "step":
                        load.wait(3)  # every stream is observed between the parts of the backup
            load.wait(20)
        finally:
            load.stopped.set()
            load.join()
    done = program.mfbocd("state", "import", str(backup), "--db", other, "--create", cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (0, "Imported 4 streams."), done.stderr
    restored = open_store(other)
    start = {stream: ticks(restored, stream) for stream in STREAMS}
    assert all(start[stream] + 20 <= ticks(store, stream) for stream in STREAMS)
    since = [e for e in store.events_after(0, 100_000) if e.tick >= start[e.stream]]
    with serving(lambda: open_store(other, worker="http://two", exclusive=True)) as client:
        for event in since:
            step = json.loads(event.step)
            body = {name: step[name] for name in ("tick", "fidelity", "x")}
            found = client.post(f"/streams/{event.stream}/observe", json=body).json()
            assert untimed(found) == untimed(step)
    for stream in STREAMS:
        one, two = store.stream(stream), restored.stream(stream)
        assert one is not None
        assert two is not None
        assert (one.state, one.next, one.spent) == (two.state, two.next, two.spent)
        steps = [
            [untimed(json.loads(e.step)) for e in opened.events(stream, -1, 10_000)] for opened in (store, restored)
        ]
        assert steps[0] == steps[1]
    groups = [{group.id: group.state for group in opened.groups()} for opened in (store, restored)]
    assert groups[0] == groups[1]
    assert set(groups[0]) == {"g", "empty"}
    store.close()
    restored.close()


def ticks(store: Store, stream: str) -> int:
    row = store.stream(stream)
    assert row is not None
    return row.tick


def untimed(step: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name != "at"}


def test_a_stream_that_is_deleted_during_a_backup_is_in_it(make: Make) -> None:  # noqa: F811
    store = make()
    recorded = Recorded(store, ["a", "b"])
    recorded.advance(a=3, b=3)
    lines = export_streams(store)
    first = next(lines)
    for stream in ("a", "b"):
        store.remove_stream(stream)
    found = [json.loads(line) for line in [first, *lines]]
    assert [line["id"] for line in found if line["kind"] == "stream"] == ["a", "b"]
    assert sum(line["kind"] == "step" for line in found) == 6
    store.close()


def test_the_events_of_a_restored_dump_are_not_those_of_the_future(postgres: Callable[[], str]) -> None:  # noqa: F811
    """A server that has had fewer transactions than that of the dump."""
    db = postgres()
    store = open_store(db, worker="http://one")
    recorded = Recorded(store, ["a"])
    recorded.advance(a=3)
    store.close()
    execute(db, "UPDATE events SET xact = (xact::text::bigint + 1000000)::text::xid8")
    store = open_store(db, worker="http://one")
    assert [event.tick for event in store.events_after(0, 9)] == [0, 1, 2]
    assert store.last_seq() == 3
    store.close()
    opened = "SELECT sum(xact::text::bigint), (SELECT count(*) FROM events WHERE xact = '0') FROM events"
    assert execute(db, opened) == [(0, 3)]


# --- the space of what is kept ------------------------------------------------------------------------------------

KEEP, NAMES, CHUNK = 50, ["a", "b", "c", "d"], 16
LENGTH = 600
"""Characters of a step, about those of a step of the service."""


def sizes(store: Store, intervals: int, size: Callable[[], int]) -> list[int]:
    """The space after every interval in which old steps are deleted, while four streams tick."""
    recorded = Recorded(store, NAMES, LENGTH)
    found = []
    for _ in range(intervals):
        for _ in range(RETENTION_INTERVAL // CHUNK):
            recorded.advance(**dict.fromkeys(NAMES, CHUNK))
            with store.cursor() as cursor:
                rows = cursor.execute("SELECT count(*) FROM events").fetchone()[0]
            assert rows <= len(NAMES) * (KEEP + RETENTION_INTERVAL + CHUNK) or store.keep is None
        found.append(size())
    return found


def test_keep_bounds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the write-ahead log, which can only start again when nobody reads an old state of the file."""
    monkeypatch.setattr(sqlite, "LOG_PAGES", 20)
    path = tmp_path / "mfbocd.db"

    def size() -> int:
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    store = SqliteStore(path, keep=KEEP)
    found: list[int] = []
    for _ in range(2):  # the second time in the space that deleted streams left
        found += sizes(store, 12, size)[4:]
        for name in NAMES:
            store.remove_stream(name)
    usual = max(found)
    with store.snapshot() as reader:
        reader.count_streams()
        during = sizes(store, 4, size)[-1]
    assert during > 2 * usual
    for name in NAMES:
        store.remove_stream(name)
    assert max(sizes(store, 12, size)[4:]) <= usual + PAGE_BYTES
    store.close()


def test_keep_bounds_the_tables(postgres: Callable[[], str]) -> None:  # noqa: F811
    db = postgres()

    def size() -> int:
        for table in ("streams", "events"):
            execute(db, f"VACUUM {table}")  # as autovacuum does
        total = "SELECT sum(pg_total_relation_size(name)) FROM (VALUES ('streams'), ('events')) AS t (name)"
        return int(execute(db, total)[0][0])

    store = open_store(db, keep=KEEP, worker="http://one")
    found = sizes(store, 12, size)
    assert max(found[6:]) <= max(found[:6])
    store.close()

"""A database of an older version becomes a present one, and any other is left alone."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mfbocd import Detector, Step
from mfbocd.io.config import Config
from mfbocd.service import manage
from mfbocd.service.engine import Ask, Engine, Observe
from mfbocd.service.errors import OwnedElsewhere
from mfbocd.service.records import Event
from mfbocd.service.store.base import Store
from mfbocd.service.store.postgres import PostgresStore
from mfbocd.service.store.schema import VERSION
from mfbocd.service.store.sqlite import SqliteStore

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, reading
from .test_store import add, tick

pytestmark = pytest.mark.slow


def version_1() -> tuple[list[tuple[str, tuple[Any, ...]]], list[Step]]:
    """What a service of the first version wrote: statements with what they take, and the steps of its one stream."""
    detector = Config.parse(CONFIG).detector(missing="skip")
    steps = []
    for t in range(20):
        name = detector.choose().name
        steps.append(detector.update(reading(0, t, name), name))
    script = (Path(__file__).parent / "service_schema_1.sql").read_text()
    written: list[tuple[str, tuple[Any, ...]]] = [(part, ()) for part in script.split(";") if part.strip()]
    following = json.dumps({"fidelity": detector.choose().name, "gains": {}, "price": None})
    written.append(
        (
            "INSERT INTO streams (id, name, config, observers, created, tick, spent, alarms, next, updated, state) "
            "VALUES ('old', 'old', ?, '{}', 1, 20, ?, 0, ?, 1, ?)",
            (json.dumps(Config.parse(CONFIG).to_dict()), detector.spent, following, detector.to_bytes()),
        )
    )
    for step in steps:
        record = json.dumps({"tick": step.tick, "fidelity": step.fidelity, "x": step.x})
        insert = "INSERT INTO events (stream, tick, at, alarm, step) VALUES ('old', ?, 1, 0, ?)"
        written.append((insert, (step.tick, record)))
    return written, steps


def goes_on(store: Store, steps: list[Step]) -> None:
    """A stream of the first version is as it was, and what came later works too."""
    engine = Engine(store)
    assert tick(engine, "old")["tick"] == 20
    ((again,),) = engine.run([[Observe("old", 7, str(steps[7].fidelity), steps[7].x)]])
    assert again == {"tick": 7, "fidelity": steps[7].fidelity, "x": steps[7].x}
    manage.add_group(engine, group="g", name="g", config=CONFIG)
    add(engine, "new", config=None, group="g")
    tick(engine, "new")
    assert [(event.stream, event.tick) for event in store.tail(0, 99)] == [
        *(("old", t) for t in range(21)),
        ("new", 0),
    ]


def test_an_older_database_is_brought_up_to_date(tmp_path: Path) -> None:
    written, steps = version_1()
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    for statement, given in written:
        old.execute(statement, given)
    old.commit()
    old.close()
    store = SqliteStore(path)
    goes_on(store, steps)
    store.close()
    found = sqlite3.connect(path)
    assert found.execute("SELECT value FROM meta").fetchone() == (str(VERSION),)
    assert tables(found) == tables(fresh(tmp_path))
    found.close()


def tables(connection: sqlite3.Connection) -> dict[str, list[set[Any]]]:
    """Of each table its columns (their order may differ), its foreign keys and its indices."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name: [
            {column[1:] for column in connection.execute(f"PRAGMA table_info({name})")},
            {key[2:] for key in connection.execute(f"PRAGMA foreign_key_list({name})")},
            {index[1:] for index in connection.execute(f"PRAGMA index_list({name})")},
        ]
        for name in names
    }


def fresh(folder: Path) -> sqlite3.Connection:
    SqliteStore(folder / "fresh.db").close()
    return sqlite3.connect(folder / "fresh.db")


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """What a service of the second version wrote: streams of eight and of four steps, and one that was removed."""
    path = tmp_path / "second.db"
    old = sqlite3.connect(path)
    old.executescript((Path(__file__).parent / "service_schema_2.sql").read_text())
    old.close()
    return path


def test_a_database_with_an_index_of_steps_goes_on_with_the_same_trace(version_2: Path, tmp_path: Path) -> None:
    old = sqlite3.connect(version_2)
    trace = [Event(*row) for row in old.execute("SELECT stream, tick, at, alarm, step, seq FROM events ORDER BY seq")]
    ((state,),) = old.execute("SELECT state FROM streams WHERE id = 'old'")
    old.close()
    assert len(trace) == 12
    store = SqliteStore(version_2)
    assert store.tail(0, 99) == trace
    for name in ("member", "old"):
        steps = [event for event in trace if event.stream == name]
        assert store.events(name, -1, 99) == steps
        assert [store.event(name, tick) for tick in range(len(steps) + 1)] == [*steps, None]
        engine = Engine(store)
        more = [tick(engine, name) for _ in range(len(steps), 150)]
        found = store.events(name, -1, 999)
        assert [json.loads(event.step) for event in found] == [*(json.loads(event.step) for event in steps), *more]
        assert [event.tick for event in found] == list(range(150))
    detector = Detector.from_bytes(state)
    for step in more:
        assert detector.choose().name == step["fidelity"]
        detector.update(step["x"], step["fidelity"])
    row = store.stream("old")
    assert row is not None
    assert row.state == detector.to_bytes()
    assert store.tail(0, 99)[len(trace)].seq == 22  # 21 was a step of the removed stream
    store.close()
    new = sqlite3.connect(version_2)
    assert new.execute("SELECT value FROM meta").fetchone() == (str(VERSION),)
    assert tables(new) == tables(fresh(tmp_path))
    new.close()


def test_numbers_go_on_though_no_step_is_left(version_2: Path) -> None:
    old = sqlite3.connect(version_2)
    old.execute("DELETE FROM events")
    old.commit()
    old.close()
    store = SqliteStore(version_2)
    assert store.tail(0, 99) == []
    tick(Engine(store), "old")
    assert [event.seq for event in store.tail(0, 99)] == [22]
    store.close()


def test_a_database_of_another_kind_or_time_is_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE cats (name TEXT)")
    other.close()
    with pytest.raises(ValueError, match="holds other tables than mfbocd's: cats"):
        SqliteStore(tmp_path / "other.db")
    SqliteStore(tmp_path / "new.db").close()
    new = sqlite3.connect(tmp_path / "new.db")
    new.execute("UPDATE meta SET value = '5'")
    new.commit()
    new.close()
    with pytest.raises(ValueError, match="schema version 5; this mfbocd knows versions 1 to 4"):
        SqliteStore(tmp_path / "new.db")
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be read as one " * 20)
    with pytest.raises(ValueError, match="not a database"):
        SqliteStore(tmp_path / "text.db")


# what each type of the first version was in PostgreSQL
IN_POSTGRES = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "INTEGER": "BIGINT",
    "REAL": "DOUBLE PRECISION",
    "BLOB": "BYTEA",
    "?": "%s",
}


def test_an_older_postgres_is_brought_up_to_date(postgres: Callable[[], str]) -> None:  # noqa: F811
    written, steps = version_1()
    address, new = postgres(), postgres()
    with psycopg.connect(address) as old:
        for statement, given in written:
            for here, there in IN_POSTGRES.items():
                statement = statement.replace(here, there)
            old.execute(statement.encode(), given or None)
    opened: list[PostgresStore] = []
    threads = [
        threading.Thread(target=lambda i=i: opened.append(PostgresStore(address, worker=f"http://{i}", lease=60.0)))
        for i in range(3)  # of workers that begin together, one migrates
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(opened) == 3
    goes_on(opened[0], steps)
    ((answer,),) = Engine(opened[1]).run([[Ask("old")]])
    assert isinstance(answer, OwnedElsewhere)
    for store in opened:
        store.close()
    PostgresStore(new).close()
    assert shape(address) == shape(new)


def test_in_a_postgres_of_the_second_version_states_are_kept_otherwise(postgres: Callable[[], str]) -> None:  # noqa: F811
    address = postgres()
    PostgresStore(address).close()
    before = shape(address)
    assert ("streams", "state", "e") in before[-2]
    assert before[-1] == [("streams", ["autovacuum_vacuum_cost_delay=0"])]
    with psycopg.connect(address) as old:
        old.execute("UPDATE meta SET value = '2'")
        old.execute("ALTER TABLE streams ALTER COLUMN state SET STORAGE EXTENDED")
        old.execute("ALTER TABLE streams RESET (toast.autovacuum_vacuum_cost_delay)")
    assert shape(address) != before
    PostgresStore(address).close()
    assert shape(address) == before


def shape(address: str) -> list[list[Any]]:
    """Columns, keys and indices of a database of ours, its version, and how it is stored."""
    asked = [
        "SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
        "SELECT key, value FROM meta ORDER BY 1",
        "SELECT attrelid::regclass::text, attname::text, attstorage::text FROM pg_attribute "
        "JOIN pg_class c ON c.oid = attrelid "
        "WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 ORDER BY 1, 2",
        "SELECT c.relname::text, t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid "
        "WHERE c.relnamespace = 'public'::regnamespace AND t.reloptions IS NOT NULL",
    ]
    with psycopg.connect(address) as connection:
        return [connection.execute(sql.encode()).fetchall() for sql in asked]

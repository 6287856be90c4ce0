"""Databases of another version or another application are refused and left unchanged."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from mfbocd.service.records import Token
from mfbocd.service.store import open_store, schema
from mfbocd.service.store.postgres import PostgresStore
from mfbocd.service.store.schema import VERSION, upgrade_statements
from mfbocd.service.store.sqlite import SqliteStore

from .postgres import execute, postgres, postgres_server  # noqa: F401 (fixtures)

OTHERS = [VERSION - 1, VERSION + 1, 99]


def refusal(version: int) -> str:
    return (
        f"the database has schema version {version}, and this mfbocd uses version {VERSION}: open it with the mfbocd "
        "that wrote it, or move its streams with that version's `mfbocd state export`"
    )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "mfbocd.db")
    return str(request.getfixturevalue("postgres")())


def stored_version(database: str) -> list[tuple[str]]:
    if database.startswith("postgresql://"):
        return [(str(value),) for (value,) in execute(database, "SELECT value FROM meta")]
    with sqlite3.connect(database) as connection:
        return connection.execute("SELECT value FROM meta").fetchall()


def test_a_new_database_has_the_current_version_and_is_opened_again(database: str) -> None:
    for _ in range(2):
        open_store(database).close()
        assert stored_version(database) == [(str(VERSION),)]


@pytest.mark.parametrize("version", OTHERS)
def test_another_version_is_refused_with_both_versions_and_a_remedy(database: str, version: int) -> None:
    store = open_store(database)
    with store.transaction() as cursor:
        cursor.execute(f"UPDATE meta SET value = '{version}'")
    store.close()
    with pytest.raises(ValueError, match="schema version") as refused:
        open_store(database)
    assert refusal(version) in str(refused.value)
    assert stored_version(database) == [(str(version),)]


def test_migrations_are_applied_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "VERSION", VERSION + 2)
    monkeypatch.setitem(schema.MIGRATIONS, VERSION + 1, {"sqlite": "A; B;", "postgres": "C;"})
    monkeypatch.setitem(schema.MIGRATIONS, VERSION + 2, {"sqlite": "D;", "postgres": "E;"})
    mark = f"UPDATE meta SET value = '{VERSION + 2}' WHERE key = 'version'"
    assert upgrade_statements(VERSION, "sqlite") == ["A", "B", "D", mark]
    assert upgrade_statements(VERSION + 1, "postgres") == ["E", mark]
    with pytest.raises(ValueError, match="schema version 0, and"):
        upgrade_statements(0, "sqlite")


def test_a_database_of_an_older_version_is_migrated_and_keeps_its_data(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(database)
    store.add_token(Token("kept", "hash", "read", 0.0))
    store.close()
    script = "CREATE TABLE added (id TEXT PRIMARY KEY); INSERT INTO added VALUES ('new');"
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    monkeypatch.setitem(schema.MIGRATIONS, VERSION + 1, {"sqlite": script, "postgres": script})
    for _ in range(2):  # the second time there is nothing to migrate
        migrated = open_store(database)
        assert [token.name for token in migrated.tokens()] == ["kept"]
        with migrated.transaction() as cursor:
            assert cursor.execute("SELECT id FROM added").fetchall() == [("new",)]
        migrated.close()
        assert stored_version(database) == [(str(VERSION + 1),)]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE cats (name TEXT)")
    other.close()
    with pytest.raises(ValueError, match="has tables that are not mfbocd's: cats"):
        SqliteStore(tmp_path / "other.db")
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be read as one " * 20)
    with pytest.raises(ValueError, match="not a database"):
        SqliteStore(tmp_path / "text.db")


@pytest.mark.slow
def test_of_workers_that_start_together_one_creates_the_tables(postgres: Callable[[], str]) -> None:  # noqa: F811
    url = postgres()
    opened: list[PostgresStore] = []
    threads = [
        threading.Thread(target=lambda i=i: opened.append(PostgresStore(url, worker=f"http://{i}"))) for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(opened) == 3
    for store in opened:
        store.close()
    assert stored_version(url) == [(str(VERSION),)]


@pytest.mark.slow
def test_postgres_neither_compresses_states_nor_delays_their_vacuum(postgres: Callable[[], str]) -> None:  # noqa: F811
    url = postgres()
    PostgresStore(url).close()
    with psycopg.connect(url) as connection:
        storage = (
            "SELECT attstorage::text FROM pg_attribute WHERE attrelid = 'streams'::regclass AND attname = 'state'"
        )
        assert connection.execute(storage).fetchall() == [("e",)]
        options = "SELECT t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = %s"
        found = connection.execute(f"{options}::regclass".encode(), ("streams",)).fetchall()
        assert found == [(["autovacuum_vacuum_cost_delay=0"],)]

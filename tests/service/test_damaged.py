"""Damaged rows, full disks and invalid names are reported for what they concern, and affect nothing else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import mfbocd as mf
from mfbocd.service.store import open_store, sqlite
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.transfer import export_streams, import_streams

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow

DAMAGES = {
    "state": "state = {blob}",
    "cut": "state = substr(state, 1, 100)",
    "no state": "state = {empty}",
    "next": "next = 'nonsense'",
    "next that names nothing": "next = '{{}}'",
    "last": "last = '{{'",
    "config": "config = '[]'",
}


LISTED = ("next", "last")
"""Damage that is visible in a list of streams, for which states are not read."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_damaged_rows_are_reported_and_the_others_go_on(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    db = str(tmp_path / "mfbocd.db") if kind == "sqlite" else request.getfixturevalue("postgres")()
    names = ["first", *(damage.replace(" ", "-") for damage in DAMAGES), "second"]
    observation = {"tick": 0, "fidelity": "gps", "x": 0.5}
    with serving(lambda: open_store(db, worker="http://one", exclusive=True)) as client:
        for name in names:
            assert client.post("/streams", json={"id": name, "config": CONFIG}).status_code == 201
            assert client.post(f"/streams/{name}/observe", json=observation).status_code == 200
    store = open_store(db)
    blob, empty = ("x'00ff'", "x''") if kind == "sqlite" else ("'\\x00ff'::bytea", "''::bytea")
    with store.transaction() as cursor:
        for damage, what in DAMAGES.items():
            name = damage.replace(" ", "-")
            cursor.execute(f"UPDATE streams SET {what.format(blob=blob, empty=empty)} WHERE id = '{name}'")
    store.close()
    with serving(lambda: open_store(db, worker="http://one", exclusive=True)) as client:
        listed = client.get("/streams")
        assert listed.status_code == 200
        found = {row["id"]: row["damaged"] for row in listed.json()["streams"]}
        assert list(found) == names
        assert {name for name, damaged in found.items() if damaged} == set(LISTED)
        for name in LISTED:
            assert f"{name} cannot be read" in found[name]
        assert "config cannot be read" in client.get("/streams/config").json()["damaged"]
        results = client.post("/choose", json={"streams": names}).json()["results"]
        good = {"first", "last", "second"}  # the choice does not need the last step
        for result in results:
            assert result["status"] == (200 if result["stream"] in good else 500), result
            if result["stream"] not in good:
                assert f"stream {result['stream']!r} is damaged in the store" in result["error"]
        alone = client.post("/streams/state/choose")
        assert alone.status_code == 500
        assert "stream 'state' is damaged in the store" in alone.json()["error"]
        again = [observation | {"stream": name} for name in names]  # a repeat is compared with the last step
        results = client.post("/observe", json={"observations": again}).json()["results"]
        assert {r["stream"] for r in results if r["status"] == 200} == {"first", "second"}
        assert {r["status"] for r in results if r["stream"] not in ("first", "second")} == {500}
        fidelity = client.post("/streams/first/choose").json()["fidelity"]
        onwards = [{"stream": name, "tick": 1, "fidelity": fidelity, "x": 0.5} for name in names]
        results = client.post("/observe", json={"observations": onwards}).json()["results"]
        assert {r["stream"] for r in results if r["status"] == 200} == good
        assert client.get("/healthz").status_code == 200
        for name in names[1:-1]:
            assert client.delete(f"/streams/{name}").status_code == 204
        assert client.get("/streams").json()["total"] == 2


def test_a_damaged_group_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    with serving(path) as client:
        for group in ("good", "bad"):
            client.post("/groups", json={"id": group, "config": CONFIG})
            assert client.post("/streams", json={"id": f"{group}-s", "group": group}).status_code == 201
    with sqlite3.connect(path) as found:
        found.execute("UPDATE stream_groups SET state = 'nonsense' WHERE id = 'bad'")
    found.close()
    with serving(path) as client:
        groups = {group["id"]: group for group in client.get("/groups").json()["groups"]}
        assert groups["good"]["damaged"] is None
        assert "group 'bad' is damaged" in groups["bad"]["damaged"]
        assert client.get("/groups/bad").json() == groups["bad"]
        results = client.post("/choose", json={"streams": ["good-s", "bad-s"]}).json()["results"]
        assert [result["status"] for result in results] == [200, 500]
        assert "group 'bad' is damaged" in results[1]["error"]
        assert client.post("/streams", json={"id": "more", "group": "bad"}).status_code == 500
        assert client.delete("/streams/bad-s").status_code == 204
        assert client.delete("/groups/bad").status_code == 204


def test_a_damaged_step_is_reported_for_its_stream(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    with serving(path) as client:
        for name in ("good", "bad"):
            client.post("/streams", json={"id": name, "config": CONFIG})
            for tick in range(3):
                fidelity = client.post(f"/streams/{name}/choose").json()["fidelity"]
                client.post(f"/streams/{name}/observe", json={"tick": tick, "fidelity": fidelity, "x": 0.5})
    with sqlite3.connect(path) as found:
        found.execute("UPDATE events SET step = '{' WHERE stream = 'bad' AND tick = 0")
    found.close()
    with serving(path) as client:
        observations = [{"stream": name, "tick": 0, "fidelity": "gps", "x": 0.5} for name in ("good", "bad")]
        results = client.post("/observe", json={"observations": observations}).json()["results"]
        assert [result["status"] for result in results] == [200, 500]
        answer = client.get("/streams/bad/trace", params={"format": "csv"})
        assert answer.status_code == 500
        assert "stream 'bad' is damaged" in answer.json()["error"]
        assert client.get("/streams/good/trace", params={"format": "csv"}).status_code == 200


# --- a full disk -------------------------------------------------------------------------------------------------


def test_health_reports_a_full_database(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    with serving(lambda: store) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        assert client.get("/healthz").status_code == 200
        assert store._writer is not None
        (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
        store._writer.execute(f"PRAGMA max_page_count = {pages}")

        def observe() -> int:
            choice = client.post("/streams/a/choose").json()
            observation = {"tick": choice["tick"], "fidelity": choice["fidelity"], "x": 0.5}
            return client.post("/streams/a/observe", json=observation).status_code

        until(lambda: observe() == 503, lambda: "it is never full", seconds=60)
        for _ in range(3):
            answer = client.get("/healthz")
            assert answer.status_code == 503, "what is there can be written, but no more"
            assert "full" in answer.json()["error"]
        assert observe() == 503
        store._writer.execute(f"PRAGMA max_page_count = {pages + 10_000}")
        assert client.get("/healthz").status_code == 200
        assert observe() == 200


def test_health_reports_a_stream_that_could_not_be_created(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    with serving(lambda: store) as client:
        assert store._writer is not None
        (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
        store._writer.execute(f"PRAGMA max_page_count = {pages}")
        for i in range(1000):
            answer = client.post("/streams", json={"id": f"s{i}", "config": CONFIG})
            if answer.status_code != 201:
                break
        assert answer.status_code == 503
        assert client.get("/healthz").status_code == 503


def test_health_reports_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfbocd.service.monitor.INTERVAL", 0.05)
    with serving(tmp_path / "mfbocd.db") as client:
        assert client.get("/healthz").status_code == 200
        monkeypatch.setattr(sqlite, "MIN_FREE_BYTES", 2**62)  # as if there were less left than a little
        until(lambda: client.get("/healthz").status_code == 503, lambda: client.get("/healthz").text)
        assert "the disk is full" in client.get("/healthz").json()["error"]


# --- one service a file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["file", "folder", "relative"])
def test_a_file_is_served_once_whatever_its_name(
    through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    path = real / "mfbocd.db"
    if through == "file":
        other = tmp_path / "other.db"
        other.symlink_to(path)
    elif through == "folder":
        (tmp_path / "link").symlink_to(real)
        other = tmp_path / "link" / "mfbocd.db"
    else:
        monkeypatch.chdir(real)
        other = Path("mfbocd.db")
    first = SqliteStore(path, exclusive=True)
    with pytest.raises(ValueError, match="served by another process already"):
        SqliteStore(other, exclusive=True)
    first.close()
    second = SqliteStore(other, exclusive=True)
    with pytest.raises(ValueError, match="served by another process already"):
        SqliteStore(path, exclusive=True)
    second.close()


def test_a_file_with_two_names_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    SqliteStore(path).close()
    (tmp_path / "other.db").hardlink_to(path)
    for name in ("mfbocd.db", "other.db"):
        with pytest.raises(ValueError, match="hard links"):
            SqliteStore(tmp_path / name, exclusive=True)


# --- names -------------------------------------------------------------------------------------------------------

ODD = ["", "x" * 201, "a\x00b", "a\nb", "a\x1bb", "a\x7fb", "a\x85b", "\ud800"]


@pytest.mark.parametrize("name", ODD)
def test_a_fidelity_has_a_name_that_can_be_shown(name: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=r"Fidelity\.name"):
        mf.Fidelity(name, 1.0, 1.0)
    mf.Fidelity("x" * 200, 1.0, 1.0)
    mf.Fidelity("Höhe (m) – 温度 🦖", 1.0, 1.0)


def test_names_and_ids_over_http(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})

        def sent(path: str, body: Any) -> int:
            kind = {"content-type": "application/json"}
            return client.post(path, content=json.dumps(body), headers=kind).status_code

        for name in ODD:
            config = CONFIG | {"fidelity": [{"name": name, "zeta": 1, "cost": 1}]}
            assert sent("/streams", {"config": config}) == 422, name
            assert sent("/streams", {"id": name, "config": CONFIG}) == 422, name
            assert sent("/streams", {"name": name, "config": CONFIG}) == 422, name
            assert sent("/streams", {"config": CONFIG, "observers": {name: "x"}}) == 422, name
            assert sent("/groups", {"id": name, "config": CONFIG}) == 422, name
            assert sent("/choose", {"streams": [name]}) == 422, name
            assert sent("/streams/a/observe", {"tick": 0, "fidelity": name, "x": 1.0}) == 422, name
        assert sent("/streams", {"id": "x" * 65, "config": CONFIG}) == 422
        assert client.get("/streams").json()["total"] == 1


def test_names_and_ids_that_are_taken_in(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db") as client:
        client.post("/groups", json={"id": "g", "config": CONFIG})
        client.post("/streams", json={"id": "a", "group": "g"})
    store, empty = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "b.db")
    group, stream = (json.loads(line) for line in export_streams(store))
    for odd in (*ODD, "a/b", "x" * 65, 7):
        for kept, spoilt in ((stream, stream | {"id": odd}), (group, group | {"id": odd})):
            with pytest.raises(ValueError, match="id must be"):
                import_streams(
                    empty, [json.dumps(group), json.dumps(spoilt)] if kept is stream else [json.dumps(spoilt)]
                )
    for odd in (*ODD, None):
        with pytest.raises(ValueError, match="name must be"):
            import_streams(empty, [json.dumps(stream | {"group": None, "name": odd})])
    assert empty.streams()[1] == 0
    assert import_streams(empty, [json.dumps(group), json.dumps(stream)]) == ["a"]
    store.close()
    empty.close()

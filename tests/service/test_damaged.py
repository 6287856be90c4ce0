"""Damaged rows, full disks and invalid names are reported for what they concern, and affect nothing else."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mfbocd as mf
from mfbocd.service.store import open_store, sqlite
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.transfer import end_line, export_streams, import_streams
from mfbocd.service.webhook import Webhook

from ..cli.program import mfbocd
from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .receiver import receiving
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


NOT_TEXT = "CAST(x'66ff' AS TEXT)"
"""An f and a byte that is not UTF-8."""
COLUMNS = ("name", "config", "observers", "last_alarm", "last", "next")


def filled(path: Path, names: list[str], ticks: int = 3) -> None:
    """A database with streams, of which those with a capital letter are in a group of that name."""
    with serving(path) as client:
        for group in sorted({name[0] for name in names if name[0].isupper()}):
            client.post("/groups", json={"id": group, "config": CONFIG})
        for name in names:
            more = {"group": name[0]} if name[0].isupper() else {"config": CONFIG}
            assert client.post("/streams", json={"id": name} | more).status_code == 201
            for tick in range(ticks):
                fidelity = client.post(f"/streams/{name}/choose").json()["fidelity"]
                client.post(f"/streams/{name}/observe", json={"tick": tick, "fidelity": fidelity, "x": 0.5})


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as found, found:
        for statement in statements:
            found.execute(statement)


def test_a_text_that_is_none_concerns_its_row_only(tmp_path: Path) -> None:
    """In every column of streams, in a group, a token and an alarm to be delivered; also values of another type."""
    path, out = tmp_path / "mfbocd.db", tmp_path / "out.db"
    bad = [f"bad-{column}" for column in COLUMNS]
    others = {"bad-blob": "name = x'00ff'", "bad-spent": "spent = 'much'", "bad-tick": "tick = 'x'"}
    members = ["Bad", "Good"]
    names = ["first", *bad, *others, *members, "last"]
    filled(path, names)
    execute(
        path,
        *(f"UPDATE streams SET {column} = {NOT_TEXT} WHERE id = 'bad-{column}'" for column in COLUMNS),
        *(f"UPDATE streams SET {what} WHERE id = '{name}'" for name, what in others.items()),
        f"UPDATE stream_groups SET name = {NOT_TEXT} WHERE id = 'B'",
        f"INSERT INTO tokens VALUES ({NOT_TEXT}, 'hash', 'read', 1.0)",
        f"INSERT INTO removed VALUES ('', 3, {NOT_TEXT}, 1)",
        f"INSERT INTO outbox VALUES ('a', 0, 1.0, 'A', NULL, {NOT_TEXT}, 'x', 0, NULL)",
        "INSERT INTO outbox VALUES ('b', 0, 2.0, 'B', NULL, '{}', 0, 0, NULL)",
    )
    with receiving() as receiver, serving(path, webhook=Webhook(receiver.url)) as client:
        listed = client.get("/streams")
        assert listed.status_code == 200
        damaged = {row["id"]: row["damaged"] for row in listed.json()["streams"]}
        assert set(damaged) == set(names)
        assert {name for name, why in damaged.items() if why} == {*bad, *others}
        assert damaged["bad-name"] == "name is not UTF-8 text"
        assert damaged["bad-spent"] == "spent is not a number"
        groups = {group["id"]: group["damaged"] for group in client.get("/groups").json()["groups"]}
        assert groups["G"] is None
        assert "name is not UTF-8 text" in groups["B"]
        results = client.post("/choose", json={"streams": names}).json()["results"]
        assert {one["stream"] for one in results if one["status"] == 200} == {"first", "Good", "last"}
        assert {one["status"] for one in results} == {200, 500}
        assert client.get("/metrics").status_code == 200
        until(lambda: {one["stream"] for one in receiver.alarms()} == {"b"}, lambda: client.get("/healthz").text)
    listed_there = mfbocd("state", "ls", "--db", str(path), cwd=tmp_path)
    assert (listed_there.returncode, len(listed_there.stdout.splitlines())) == (0, len(names))
    exported = mfbocd("state", "export", "--db", str(path), cwd=tmp_path)
    assert exported.returncode == 1
    for name in (*bad, *others, "Bad"):
        assert f"stream '{name}' is damaged and left out" in exported.stderr
    assert "group 'B' is damaged and left out" in exported.stderr
    done = mfbocd("state", "import", "-", "--create", "--db", str(out), cwd=tmp_path, stdin=exported.stdout)
    assert (done.returncode, done.stderr.strip()) == (0, "Imported 3 streams."), done.stderr
    with serving(path) as client:
        for name in names:
            assert client.delete(f"/streams/{name}").status_code == 204
        assert client.delete("/groups/B").status_code == 204
        assert client.get("/streams").json()["total"] == 0
        assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize("what", ["step = '{'", f"step = {NOT_TEXT}", "step = '[]'", "tick = 7", "at = 'x'"])
def test_an_export_names_a_damaged_step_and_goes_on(what: str, tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    filled(path, ["bad", "good"])
    execute(path, f"UPDATE events SET {what} WHERE stream = 'bad' AND tick = 1")
    exported = mfbocd("state", "export", "--db", str(path), cwd=tmp_path)
    assert exported.returncode == 1
    assert re.search(r"stream 'bad': the step of tick \d is damaged and left out", exported.stderr)
    steps = [
        (one["stream"], one["step"]["tick"]) for one in map(json.loads, exported.stdout.splitlines()) if "step" in one
    ]
    assert steps == [("bad", 0), ("bad", 2), ("good", 0), ("good", 1), ("good", 2)]
    args = ("state", "import", "-", "--create", "--db", "out.db")
    assert mfbocd(*args, cwd=tmp_path, stdin=exported.stdout).returncode == 0


def test_an_import_that_was_cut_is_refused(tmp_path: Path) -> None:
    """Wherever a line ends, and where a line is missing."""
    path = tmp_path / "mfbocd.db"
    filled(path, ["Good", "alone"])
    store = SqliteStore(path)
    lines = list(export_streams(store))
    store.close()
    assert len(lines) == 10
    imported = []
    for end in range(len(lines)):
        part = SqliteStore(tmp_path / f"{end}.db")
        with pytest.raises(ValueError, match=f"the end is missing after line {end}: the export was"):
            import_streams(part, lines[:end])
        imported.append([(row.id, len(part.events(row.id, -1, 9))) for row in part.streams()[0]])
        part.close()
    assert imported == [[]] * 6 + [[("Good", 3)]] * 4
    whole = SqliteStore(tmp_path / "whole.db")
    with pytest.raises(ValueError, match="line 9: ValueError: 9 lines were exported, and 8 are here"):
        import_streams(whole, [*lines[:3], *lines[4:]])
    whole.close()
    twice = SqliteStore(tmp_path / "twice.db")
    other = [line.replace('"Good"', '"Other"').replace('"alone"', '"single"') for line in lines]
    assert import_streams(twice, [*lines, "", *other]) == ["Good", "alone", "Other", "single"]
    twice.close()


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
    group, stream, _ = (json.loads(line) for line in export_streams(store))
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
    assert import_streams(empty, [json.dumps(group), json.dumps(stream), end_line(2)]) == ["a"]
    store.close()
    empty.close()

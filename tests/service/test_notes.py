"""Acknowledgements of alarms and comments on them, in both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service.auth import add_token
from mfbocd.service.engine import Engine
from mfbocd.service.errors import RequestError
from mfbocd.service.store import notes, open_store
from mfbocd.service.store.base import Store
from mfbocd.service.store.notes import Note
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.transfer import export_streams, import_streams

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, serving
from .test_guard import bearer
from .test_page import tell
from .test_store import add

pytestmark = pytest.mark.slow

NOTE: dict[str, Any] = {"tick": 40, "acknowledged": True, "author": "Ann", "text": "Pump 7\nwas serviced"}


@pytest.fixture(params=["sqlite", "postgres"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of empty databases."""
    if request.param == "postgres":
        found: Callable[[], str] = request.getfixturevalue("postgres")
        return found
    names = iter(range(9))
    return lambda: str(tmp_path / f"{next(names)}.db")


def note(id: str, at: float, text: str = "", stream: str = "a") -> Note:
    return Note(stream, id, 40, at, not text, "Ann", "ops", text)


def test_notes_are_durable_exported_and_bounded(
    new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_database()
    store = open_store(address)
    add(Engine(store), "a")
    first, second = note("n1", 10.0), note("n2", 11.0, "a comment: é\n\N{SAUROPOD}")
    assert notes.add(store, first) == (first, True)
    assert notes.add(store, first._replace(at=99.0)) == (first, False)  # repeated: the time of the first request
    with pytest.raises(RequestError, match="another note 'n1'"):
        notes.add(store, first._replace(text="something else"))
    with pytest.raises(RequestError, match="no stream 'b'"):
        notes.add(store, first._replace(stream="b"))
    notes.add(store, second)
    store.close()
    store = open_store(address)
    assert notes.notes_of(store, "a") == [first, second]
    assert notes.last_acknowledged(store, ["a", "b"]) == {"a": 40}
    assert notes.last_change(store) == 11.0

    other: Store = open_store(new_database())
    lines = list(export_streams(store))
    assert import_streams(other, lines) == ["a"]
    assert notes.notes_of(other, "a") == [first, second]
    assert list(export_streams(other)) == lines
    other.close()

    monkeypatch.setattr(notes, "MOST", 2)
    notes.add(store, note("n0", 12.0, "newest"))
    assert [one.id for one in notes.notes_of(store, "a")] == ["n2", "n0"]
    assert store.remove_stream("a")
    add(Engine(store), "a")
    assert notes.notes_of(store, "a") == []
    store.close()


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, int]]:
    """A service with tokens and a stream, and the tick of its alarm."""
    path = tmp_path_factory.mktemp("notes") / "mfbocd.db"
    store = SqliteStore(path)
    write = bearer(add_token(store, "night shift", "write"))
    store.close()
    with serving(path, tokens=True) as client:
        client.headers.update(write)
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        tell(client, {"a": 0}, 45)
        yield client, client.get("/streams/a").json()["last_alarm"]["tick"]


def test_an_alarm_is_acknowledged_once(alarmed: tuple[httpx.Client, int]) -> None:
    client, tick = alarmed
    assert client.get("/streams/a").json()["acknowledged"] is False
    assert client.get("/streams").json()["noted"] is None
    body = NOTE | {"tick": tick}
    made = client.put("/streams/a/notes/n1", json=body)
    assert made.status_code == 201
    stored = made.json()
    assert stored == body | {"stream": "a", "id": "n1", "token": "night shift", "at": stored["at"]}
    again = client.put("/streams/a/notes/n1", json=body)
    assert (again.status_code, again.json()) == (200, stored)
    other = client.put("/streams/a/notes/n1", json=body | {"text": "something else"})
    assert (other.status_code, other.json()["expected"]) == (409, {"note": stored})
    assert client.get("/streams/a").json()["acknowledged"] is True
    listed = client.get("/streams").json()
    assert (listed["streams"][0]["acknowledged"], listed["noted"]) == (True, stored["at"])
    comment = client.put("/streams/a/notes/n2", json={"tick": tick, "text": "seen"}).json()
    assert client.get("/streams/a/notes").json()["notes"] == [stored, comment]
    (change,) = client.get("/streams/a/changes").json()["changes"]
    assert change["notes"] == [stored, comment]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/streams/a/notes/x", {"tick": 3, "acknowledged": True}, 404),  # no alarm
        ("/streams/a/notes/x", {"tick": 10**9, "acknowledged": True}, 404),
        ("/streams/nobody/notes/x", NOTE, 404),
        ("/streams/a/notes/x", {"tick": None}, 422),  # a comment without a text
        ("/streams/a/notes/x", {"tick": None, "text": " \n"}, 422),
        ("/streams/a/notes/x", {"tick": None, "text": "\x00"}, 422),
        ("/streams/a/notes/x", {"tick": None, "text": "x" * 2001}, 422),
        ("/streams/a/notes/x", {"tick": None, "text": "x", "author": "a\nb"}, 422),
        ("/streams/a/notes/x", {"tick": None, "acknowledged": 1}, 422),
        ("/streams/a/notes/ x", NOTE, 422),
    ],
)
def test_other_notes_are_refused(
    alarmed: tuple[httpx.Client, int], path: str, body: dict[str, Any], status: int
) -> None:
    client, tick = alarmed
    before = client.get("/streams/a/notes").json()
    sent = body | ({"tick": tick} if body["tick"] is None else {})
    assert client.put(path, json=sent).status_code == status
    assert client.get("/streams/a/notes").json() == before


def test_recent_means(alarmed: tuple[httpx.Client, int]) -> None:
    client, _ = alarmed
    steps = [json.loads(line) for line in client.get("/streams/a/trace").text.splitlines()]
    found = client.get("/recent", params={"stream": ["a", "nobody"], "limit": 20}).json()["streams"]
    assert list(found) == ["a"]
    assert found["a"]["ticks"] == list(range(25, 45))
    assert found["a"]["mean"] == [step["mean"] for step in steps[25:]]
    assert found["a"]["changes"] == [client.get("/streams/a").json()["last_alarm"]["changed_at"]]
    assert client.get("/recent").status_code == 422

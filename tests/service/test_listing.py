"""Lists of streams as the service sorts, searches and counts them, in both databases."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service import manage, schemas
from mfbocd.service.engine import Engine
from mfbocd.service.store import open_store
from mfbocd.service.store.base import Store
from mfbocd.service.store.notes import Note, add
from mfbocd.service.store.sqlite import SqliteStore

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, serving

pytestmark = pytest.mark.slow

Step = dict[str, Any]

FACTS: dict[str, Any] = {"observers": {}, "available": {}, "max_streams": 99}
# id: name, group, tick, tick of the last alarm, its time, mean, spent
STREAMS: dict[str, tuple[str, str | None, int, int | None, float | None, Any, float]] = {
    "new": ("zebra", None, 0, None, None, None, 0.0),
    "alarm": ("apple", None, 60, 50, 105.0, 2.5, 30.0),
    "later": ("xüber", None, 90, 80, 107.0, [-3.0, 9.0], 20.0),
    "seen": ("Banana", None, 70, 65, 106.0, -1e-7, 40.0),
    "old": ("50%", "roof", 101, 50, 104.0, 1e20, 50.0),
    "quiet": ("cherry", "roof", 10, None, None, [None, 1.0], 10.0),
}
ORDERS = {
    "state": ["later", "alarm", "seen", "old", "quiet", "new"],
    "mean": ["old", "alarm", "seen", "later", "quiet", "new"],
    "tick": ["old", "later", "seen", "alarm", "quiet", "new"],
    "spent": ["old", "seen", "alarm", "later", "quiet", "new"],
    "alarm": ["later", "seen", "alarm", "old", "quiet", "new"],
    "name": ["old", "alarm", "seen", "quiet", "later", "new"],
    "created": list(STREAMS),
    "updated": list(STREAMS)[::-1],
}
"""The streams in each order. Where two have the same key, or none, the others decide: none is last either way."""
REVERSED = {
    "state": ["new", "old", "quiet", "seen", "later", "alarm"],
    "mean": ["later", "seen", "alarm", "old", "quiet", "new"],
    "alarm": ["old", "alarm", "seen", "later", "quiet", "new"],
}


def fill(store: Store) -> None:
    """Write the streams of `STREAMS`."""
    engine = Engine(store)
    manage.add_group(engine, group="roof", name="Roof", config=CONFIG)
    for i, (stream, facts) in enumerate(STREAMS.items()):
        name, group, tick, alarm, alarmed, mean, spent = facts
        config = CONFIG if group is None else None
        manage.add_stream(engine, stream=stream, name=name, config=config, group=group, **FACTS)
        row = store.stream(stream)
        assert row is not None
        assert store.remove_stream(stream, group)
        step: Step = {"tick": tick - 1, "fidelity": '"mean":7,"tick":7', "mean": mean}
        changed = dataclasses.replace(
            row,
            tick=tick,
            spent=spent,
            created=10.0 + i,
            updated=200.0 + i,
            alarms=int(alarm is not None),
            alarmed=alarmed,
            last=json.dumps(step, separators=(",", ":")) if tick else None,
            last_alarm=None if alarm is None else json.dumps(step | {"tick": alarm}, separators=(",", ":")),
            state=b"none",
        )
        store.add_stream(changed)
    add(store, Note("seen", "n", 65, 300.0, True, "", None, ""))
    add(store, Note("alarm", "n", 50, 300.0, False, "", None, "only a comment"))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with these streams."""
    if request.param == "sqlite":
        found = str(tmp_path_factory.mktemp("listing") / "mfbocd.db")
    else:
        from .postgres import database

        found = database(request.getfixturevalue("postgres_server"))
    store = open_store(found)
    fill(store)
    store.close()
    return found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with serving(lambda: open_store(address, exclusive=True, worker="http://one")) as found:
        yield found


def listed(client: httpx.Client, **asked: Any) -> list[str]:
    answer = client.get("/streams", params=asked)
    assert answer.status_code == 200, answer.text
    return [stream["id"] for stream in answer.json()["streams"]]


def test_streams_are_listed_in_every_order_and_back(client: httpx.Client) -> None:
    assert {sort: listed(client, sort=sort) for sort in ORDERS} == ORDERS
    assert {sort: listed(client, sort=sort, reverse=True) for sort in REVERSED} == REVERSED
    assert listed(client) == ORDERS["created"]
    for sort, order in ORDERS.items():
        pages = [listed(client, sort=sort, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
        assert pages == [order[:2], order[2:4], order[4:], []]
    assert client.get("/streams", params={"sort": "state)"}).status_code == 422


def test_a_search_finds_parts_of_names_and_ids_in_any_case(client: httpx.Client) -> None:
    for search, wanted in {
        "AP": ["alarm"],
        "XÜ": ["later"],
        "%": ["old"],
        "_": [],
        "e": ["new", "alarm", "later"],
    }.items():
        asked = {"search": search, "limit": 3}
        assert listed(client, **asked) == wanted
    assert client.get("/streams", params={"search": "e", "limit": 1}).json()["total"] == 5
    assert listed(client, group="roof", sort="tick", search="e") == ["quiet"]
    assert client.get("/streams", params={"group": "roof"}).json()["total"] == 2


def test_totals_are_those_of_the_streams(client: httpx.Client) -> None:
    streams = client.get("/streams").json()["streams"]
    own = [stream for stream in streams if stream["budget"] is not None]
    assert {stream["group"] for stream in own} == {None}
    totals = client.get("/totals").json()
    assert schemas.Totals.model_validate(totals)
    assert totals == {
        "streams": 6,
        "in_alarm": 2,
        "never_read": 1,
        "spent": 150.0,
        "budgeted": 90.0,
        "allowed": pytest.approx(sum(stream["budget"] * stream["tick"] for stream in own)),
        "groups": {"roof": {"ticks": 111, "spent": 60.0}},
    }


@pytest.mark.parametrize("damage", ["[", '{"tick":', "9e999", "null", "[1]"])
def test_a_damaged_step_hides_no_other_stream(
    tmp_path: Path,
    postgres: Callable[[], str],  # noqa: F811
    damage: str,
) -> None:
    for address in (str(tmp_path / "mfbocd.db"), postgres()):
        store = open_store(address)
        fill(store)
        with store.transaction() as cursor:
            cursor.execute(store.sql("UPDATE streams SET last = ?, last_alarm = ? WHERE id = 'alarm'"), (damage,) * 2)
        for sort in ORDERS:
            rows, total = store.streams(sort=sort)
            assert (len(rows), total) == (6, 6)
        assert sum(one.in_alarm for one in store.current()) == 1
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(tmp_path / "mfbocd.db")
    fill(found)
    yield found
    found.close()


@pytest.mark.parametrize("sort", ["created", "alarm"])
def test_a_page_reads_only_an_index_and_its_own_rows(store: SqliteStore, sort: str) -> None:
    with store.cursor() as cursor:
        connection = cursor.connection
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    store.streams(sort=sort, limit=5)
    connection.set_trace_callback(None)
    assert len(asked) == 3
    plans = [row[3] for query in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    scans = [plan for plan in plans if not plan.startswith("SEARCH streams USING INDEX")]
    assert len(scans) == 2
    assert all("SCAN streams USING COVERING INDEX" in plan for plan in scans), plans


def test_a_search_ignores_the_case_of_all_letters(store: SqliteStore) -> None:
    manage.add_stream(Engine(store), stream="oil", name="Öl", config=CONFIG, group=None, **FACTS)
    assert [row.id for row in store.streams(search="öl")[0]] == ["oil"]
    assert [row.id for row in store.streams(sort="name")[0]][-2:] == ["new", "oil"]

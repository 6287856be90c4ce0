"""Watching: events that resume, traces in three formats, metrics, the OpenAPI document."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service.limits import Limits
from mfbocd.service.settings import Settings

from ..parts import PATIENCE
from .service import CONFIG, reading, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("service") / "mfbocd.db") as client:
        yield client


def advance(client: httpx.Client, stream: str, ticks: int) -> list[dict[str, Any]]:
    steps = []
    for _ in range(ticks):
        choice = client.post(f"/streams/{stream}/choose").json()
        observation = {"tick": choice["tick"], "fidelity": choice["fidelity"]}
        observation["x"] = reading(0, choice["tick"], choice["fidelity"])
        steps.append(client.post(f"/streams/{stream}/observe", json=observation).json())
    return steps


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Server-sent events, parsed as the standard says."""
    event: dict[str, Any] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if not line:
            if "data" in event:
                yield event | {"data": json.loads(event["data"])}
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name] = value


def watched(client: httpx.Client, path: str, count: int, **headers: str) -> list[dict[str, Any]]:
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.iter_lines())
        return [next(found) for _ in range(count)]


def test_events_of_a_stream_come_live_and_resume(shared: httpx.Client) -> None:
    shared.post("/streams", json={"id": "live", "config": CONFIG})
    past = advance(shared, "live", 5)
    assert [e["data"] for e in watched(shared, "/streams/live/events?after=-1", 5)] == past
    later: list[dict[str, Any]] = []
    opened = threading.Event()

    def listen() -> None:
        with (
            httpx.Client(base_url=shared.base_url, timeout=PATIENCE) as client,
            client.stream("GET", "/streams/live/events") as answer,
        ):
            lines = answer.iter_lines()
            assert next(lines).startswith("retry")
            opened.set()
            found = events(lines)
            later.extend(next(found) for _ in range(60))

    thread = threading.Thread(target=listen)
    thread.start()
    assert opened.wait(30)
    new = advance(shared, "live", 60)
    thread.join(60)
    assert [e["data"] for e in later] == new  # and none of those before
    assert [int(e["id"]) for e in later] == list(range(5, 65))
    assert [e["event"] == "alarm" for e in later] == [step["alarm"] for step in new]
    assert any(step["alarm"] for step in new)
    resumed = watched(shared, "/streams/live/events", 10, **{"Last-Event-ID": "54"})
    assert [e["data"] for e in resumed] == new[50:]


def test_events_of_all_streams(shared: httpx.Client) -> None:
    start = shared.get("/metrics").text
    assert "mfbocd_streams" in start
    for name in ("one", "two"):
        shared.post("/streams", json={"id": name, "config": CONFIG})
    advance(shared, "one", 1)
    last = watched(shared, "/events?after=0", 1)[0]["id"]
    steps = []
    for _ in range(4):
        for name in ("one", "two"):
            steps.append({"stream": name} | advance(shared, name, 1)[0])
    everything = watched(shared, "/events", int(count_events(shared)) - 1, **{"Last-Event-ID": last})
    assert [e["data"] for e in everything[-8:]] == steps
    ids = [int(e["id"]) for e in everything]
    assert ids == sorted(set(ids))


def count_events(client: httpx.Client) -> float:
    return metrics(client)["mfbocd_ticks_total"]


def metrics(client: httpx.Client) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_count(shared: httpx.Client) -> None:
    shared.post("/streams", json={"id": "counted", "config": CONFIG})
    before = metrics(shared)
    steps = advance(shared, "counted", 3)
    repeat = {k: steps[0][k] for k in ("tick", "fidelity", "x")}
    shared.post("/streams/counted/observe", json=repeat)
    shared.post("/streams/counted/observe", json=repeat | {"tick": 99})
    after = metrics(shared)
    grown = {name: after[name] - before.get(name, 0.0) for name in after if name.startswith("mfbocd_")}
    assert grown["mfbocd_ticks_total"] == 3
    assert grown["mfbocd_spent_total"] == pytest.approx(sum(step["cost"] for step in steps))
    assert grown["mfbocd_worker_steps_total"] == 3
    assert grown["mfbocd_worker_repeats_total"] == 1
    assert grown["mfbocd_worker_refusals_total"] == 1
    assert grown["mfbocd_worker_commits_total"] == 3


def test_a_trace_in_three_formats_and_pages(shared: httpx.Client) -> None:
    import pyarrow.parquet as pq

    shared.post("/streams", json={"id": "traced", "config": CONFIG})
    steps = advance(shared, "traced", 50)
    lines = shared.get("/streams/traced/trace").text.splitlines()
    assert [json.loads(line) for line in lines] == steps
    paged: list[dict[str, Any]] = []
    after: str | None = "-1"
    while after is not None:
        answer = shared.get("/streams/traced/trace", params={"after": after, "limit": 7})
        paged += [json.loads(line) for line in answer.text.splitlines()]
        after = answer.headers.get("x-next-after")
    assert paged == steps
    table = pq.read_table(
        io.BytesIO(shared.get("/streams/traced/trace", params={"format": "parquet"}).content)
    ).to_pylist()
    rows = list(csv.DictReader(io.StringIO(shared.get("/streams/traced/trace", params={"format": "csv"}).text)))
    for step, row, text in zip(steps, table, rows, strict=True):
        gains = {f"gain_{name}": gain for name, gain in step["gains"].items()}
        missing = ("posterior", "gains", "limit")  # no step had a limit
        assert row == {k: v for k, v in step.items() if k not in missing} | gains
        assert (float(text["x"]), float(text["gain_gps"])) == (step["x"], step["gains"]["gps"])
        assert text["alarm"] == str(int(step["alarm"]))
        assert text["changed_at"] == ("" if step["changed_at"] is None else str(step["changed_at"]))
    assert shared.get("/streams/nobody/trace").status_code == 404
    assert shared.get("/streams/traced/trace", params={"format": "xml"}).status_code == 422


def test_a_name_that_a_spreadsheet_would_run_is_plain_text(shared: httpx.Client) -> None:
    config = {"model": {"kind": "bernoulli"}, "fidelity": [{"name": "=1+1", "zeta": 1, "cost": 1}]}
    shared.post("/streams", json={"id": "sheet", "config": config})
    shared.post("/streams/sheet/observe", json={"tick": 0, "fidelity": "=1+1", "x": 1})
    assert shared.get("/streams/sheet/trace", params={"format": "csv"}).text.splitlines()[1].startswith("0,'=1+1,")


def test_watchers_are_bounded_and_let_the_service_end(tmp_path: Path) -> None:
    with ExitStack() as stack:
        watcher = stack.enter_context(httpx.Client(timeout=PATIENCE))
        with serving(tmp_path / "mfbocd.db", Settings(limits=Limits(watchers=2))) as client:
            answers = [stack.enter_context(watcher.stream("GET", f"{client.base_url}/events")) for _ in range(2)]
            lines = [answer.iter_lines() for answer in answers]
            assert [next(line) for line in lines] == ["retry: 1000", "retry: 1000"]
            refused = client.get("/events")
            assert (refused.status_code, refused.json()["expected"]) == (429, None)
        # the service has ended, although they were still open
        assert [list(line) for line in lines] == [[""], [""]]


def test_the_openapi_document_is_complete(shared: httpx.Client) -> None:
    observation = shared.get("/openapi.json").json()
    assert set(observation["paths"]) == {
        *("/streams", "/streams/{stream}", "/streams/{stream}/choose", "/streams/{stream}/observe"),
        *("/streams/{stream}/step", "/streams/{stream}/trace", "/streams/{stream}/events"),
        *("/streams/{stream}/changes", "/streams/{stream}/notes", "/streams/{stream}/notes/{note}", "/recent"),
        *(
            "/choose",
            "/observe",
            "/events",
            "/groups",
            "/groups/{group}",
            "/totals",
            "/metrics",
            "/healthz",
            "/readyz",
            "/livez",
        ),
    }
    assert observation["components"]["schemas"]["Observation"]["examples"]
    made = observation["components"]["schemas"]["NewStream"]["examples"][0]
    assert shared.post("/streams", json=made).status_code == 201
    assert shared.get("/docs").status_code == 404  # it would load from another host


def test_groups_over_http(shared: httpx.Client) -> None:
    made = shared.post("/groups", json={"id": "g", "config": CONFIG})
    assert made.status_code == 201, made.text
    assert shared.post("/groups", json={"id": "g", "config": CONFIG}).status_code == 409
    for i in range(3):
        assert shared.post("/streams", json={"id": f"g{i}", "group": "g"}).status_code == 201
    for i in range(3):
        advance(shared, f"g{i}", 2)
    shown = shared.get("/groups/g").json()
    assert (shown["streams"], shown["rounds"]) == (3, 2)
    assert shown["budget"] == pytest.approx(3 * (1 + 0.35 * 39))
    assert [group["id"] for group in shared.get("/groups").json()["groups"]] == ["g"]
    assert shared.get("/streams", params={"group": "g"}).json()["total"] == 3
    assert shared.delete("/groups/g").status_code == 409
    for i in range(3):
        assert shared.delete(f"/streams/g{i}").status_code == 204
    assert shared.delete("/groups/g").status_code == 204
    assert shared.get("/groups/g").status_code == 404

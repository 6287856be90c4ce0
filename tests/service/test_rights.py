"""What each token permits, by route; revoked tokens permit nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from mfbocd.service import app, routes, trace
from mfbocd.service.auth import add_token
from mfbocd.service.store.sqlite import SqliteStore

from .service import CONFIG, serving, until
from .test_guard import bearer

pytestmark = pytest.mark.slow

ANYBODY = {
    *(("GET", "/"), ("HEAD", "/"), ("GET", "/static/{name}"), ("GET", "/static/plotly.min.js")),
    *((method, path) for method in ("GET", "HEAD") for path in ("/healthz", "/readyz", "/livez")),
}
READER = {
    *(("GET", "/streams"), ("GET", "/streams/{stream}"), ("GET", "/streams/{stream}/trace")),
    *(
        ("GET", "/streams/{stream}/changes"),
        ("GET", "/streams/{stream}/notes"),
        ("GET", "/recent"),
        ("GET", "/totals"),
    ),
    *(("GET", "/streams/{stream}/events"), ("GET", "/events"), ("GET", "/groups"), ("GET", "/groups/{group}")),
    *(("POST", "/choose"), ("POST", "/streams/{stream}/choose"), ("GET", "/metrics")),
}
WRITER = {
    *(("POST", "/streams"), ("DELETE", "/streams/{stream}"), ("POST", "/streams/{stream}/observe")),
    *(("POST", "/streams/{stream}/step"), ("POST", "/observe"), ("POST", "/groups"), ("DELETE", "/groups/{group}")),
    ("PUT", "/streams/{stream}/notes/{note}"),
}
ROUTES = {
    (method, route.path)
    for route in (*routes.router.routes, *app.router.routes)
    if isinstance(route, APIRoute)
    for method in route.methods
}
NAMES = ("choose", "healthz", "a")
"""Ids that are also words of routes."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, dict[str, dict[str, str]]]]:
    path = tmp_path_factory.mktemp("service") / "mfbocd.db"
    store = SqliteStore(path)
    who: dict[str, dict[str, str]] = {"nobody": {}, "stranger": bearer("mfb_wrong")}
    who |= {scope: bearer(add_token(store, scope, scope)) for scope in ("read", "write")}
    store.close()
    with serving(path, tokens=True) as client:
        for name in NAMES:
            made = client.post("/streams", json={"id": name, "config": CONFIG}, headers=who["write"])
            assert made.status_code == 201
        yield client, who


def test_every_route_has_a_role() -> None:
    """A new route must be put into one of the tables above."""
    assert ROUTES == ANYBODY | READER | WRITER


def test_a_probe_may_ask_for_the_head_alone(guarded: Any) -> None:
    client, _ = guarded
    for path in ("/healthz", "/readyz", "/livez"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == client.get(path).headers["content-type"]


def asked(client: httpx.Client, method: str, path: str, headers: dict[str, str]) -> int:
    """The status alone: some answers do not end."""
    with client.stream(method, path, headers=headers) as answer:
        return answer.status_code


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES))
def test_who_may_ask_for_what(guarded: Any, method: str, path: str) -> None:
    client, who = guarded
    if (method, path) in ANYBODY:
        allowed = {"nobody", "stranger", "read", "write"}
    else:
        allowed = {"write"} if (method, path) in WRITER else {"read", "write"}
    names = NAMES if "{stream}" in path or "{group}" in path else NAMES[:1]
    for name in names:
        real = (
            path.replace("{stream}", name)
            .replace("{group}", name)
            .replace("{name}", "page.js")
            .replace("{note}", "n")
        )
        # the writer, who may delete, comes last, and tells nothing that can be taken
        for role in ("nobody", "stranger", "read"):
            status = asked(client, method, real, who[role])
            refused = 403 if role == "read" else 401
            assert (status == refused) == (role not in allowed), (role, method, real, status)
    if method != "DELETE":
        assert asked(client, method, real, who["write"]) not in (401, 403)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "POST", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/streams/choose", "/groups/choose", "/x/choose", "/streams/a/choose/", "//choose"])
def test_a_reader_changes_nothing_whatever_the_path_ends_in(guarded: Any, method: str, path: str) -> None:
    client, who = guarded
    assert asked(client, method, path, who["read"]) == 403
    assert client.get("/streams", headers=who["read"]).json()["total"] == len(NAMES)


def test_a_revoked_token_loses_its_event_streams(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    going, staying = add_token(store, "going", "read"), add_token(store, "staying", "write")
    with serving(lambda: store, tokens=True) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG}, headers=bearer(staying))
        with (
            client.stream("GET", "/events", headers=bearer(going)) as all_of,
            client.stream("GET", "/streams/a/events", headers=bearer(going)) as one_of,
            client.stream("GET", "/events", headers=bearer(staying)) as other,
        ):
            lines = [answer.iter_lines() for answer in (all_of, one_of, other)]
            assert [next(line) for line in lines] == ["retry: 1000"] * 3
            other_client = SqliteStore(tmp_path / "mfbocd.db")
            assert other_client.remove_token("going")
            other_client.close()
            # both end, without a step and without a request
            assert [list(line) for line in lines[:2]] == [[""], [""]]
            observation = {"tick": 0, "fidelity": "gps", "x": 0.5}
            client.post("/streams/a/observe", json=observation, headers=bearer(staying))
            assert any(line.startswith("data") for line in lines[2])
        until(
            lambda: client.get("/streams", headers=bearer(going)).status_code == 401, lambda: "a revoked token opens"
        )


def test_the_description_of_the_api_says_what_needs_a_token_and_what_a_trace_is(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db", exclusive=True)
    secret = add_token(store, "reader", "read")
    with serving(lambda: store, tokens=True) as client:
        found = client.get("/openapi.json", headers=bearer(secret)).json()
        assert found["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        assert found["security"] == [{"token": []}]
        for path, operations in found["paths"].items():
            if "get" not in operations or "{" in path:
                continue
            needs_token = operations["get"].get("security", found["security"]) != []
            assert (
                client.get(path, params={"stream": "a"} if path == "/recent" else {}).status_code == 401
            ) == needs_token
        content = found["paths"]["/streams/{stream}/trace"]["get"]["responses"]["200"]["content"]
        assert set(content) == set(trace.MEDIA.values())
        assert set(found["paths"]["/events"]["get"]["responses"]["200"]["content"]) == {"text/event-stream"}
        assert client.head("/").status_code == client.get("/").status_code == 200

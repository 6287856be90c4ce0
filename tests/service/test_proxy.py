"""Several workers on one database: a client asks whichever it likes, and the one that has the stream answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from mfbocd.service.app import create_app
from mfbocd.service.auth import add_token
from mfbocd.service.forward import FORWARDED_BY
from mfbocd.service.server import background
from mfbocd.service.store import open_store
from mfbocd.service.store.postgres import PostgresStore

from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, free_port, replayed
from .test_guard import bearer

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def worker(db: str, secret: str, *, tokens: bool = True, lease: float = 600.0) -> Iterator[httpx.Client]:
    """A worker under its own address, and a client of it that follows no redirects."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    app = create_app(lambda: PostgresStore(db, worker=address, lease=lease), tokens=tokens)
    with (
        background(app, port=port),
        httpx.Client(base_url=address, timeout=30, follow_redirects=False, headers=bearer(secret)) as client,
    ):
        yield client


@dataclass
class Pair:
    one: httpx.Client
    two: httpx.Client
    db: str
    reader: str


@pytest.fixture(scope="module")
def pair(postgres_server: str) -> Iterator[Pair]:  # noqa: F811
    from .postgres import database

    db = database(postgres_server)
    store = open_store(db)
    writer, reader = add_token(store, "writer", "write"), add_token(store, "reader", "read")
    store.close()
    with worker(db, writer) as one, worker(db, writer) as two:
        yield Pair(one, two, db, reader)


def advance(client: httpx.Client, stream: str, fidelity: str | None = None) -> dict[str, Any]:
    choice = client.post(f"/streams/{stream}/choose")
    assert choice.status_code == 200, choice.text
    observation = choice.json()
    body = {"tick": observation["tick"], "fidelity": fidelity or observation["fidelity"], "x": 0.5}
    answer = client.post(f"/streams/{stream}/observe", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def take(client: httpx.Client, *streams: str) -> None:
    """Streams this worker has."""
    for stream in streams:
        assert client.post("/streams", json={"id": stream, "config": CONFIG}).status_code == 201
        advance(client, stream)


def test_either_worker_answers_with_tokens(pair: Pair) -> None:
    take(pair.one, "a")
    take(pair.two, "b")
    steps = {}
    for i in range(6):
        for stream in "ab":
            step = advance((pair.one, pair.two)[i % 2], stream)
            assert step["tick"] == i + 1
            steps[stream] = step
    for client in (pair.one, pair.two):
        for stream in "ab":
            repeat = {key: steps[stream][key] for key in ("tick", "fidelity", "x")}
            assert client.post(f"/streams/{stream}/observe", json=repeat).json() == steps[stream]
            refused = client.post(f"/streams/{stream}/observe", json=repeat | {"tick": 99})
            assert (refused.status_code, refused.json()["expected"]["tick"]) == (409, 7)
            bad = client.post(
                f"/streams/{stream}/observe", content=b"{", headers={"content-type": "application/json"}
            )
            assert bad.status_code == 400
    # each was answered by the worker that has it, and stayed there
    for client in (pair.one, pair.two):
        lines = client.get("/metrics").text.splitlines()
        assert next(line for line in lines if line.startswith("mfbocd_worker_steps_total")).split()[1] == "7"
    store = open_store(pair.db)
    for stream in "ab":
        row = store.stream(stream)
        assert row is not None
        assert row.state == replayed(CONFIG, [json.loads(e.step) for e in store.events(stream, -1, 100)])
    store.close()


def test_a_batch_is_answered_by_all_who_have_a_part(pair: Pair) -> None:
    take(pair.one, "c1", "c2")
    take(pair.two, "d1", "d2")
    names = ["c1", "d1", "nobody", "d2", "c2"]
    for client in (pair.one, pair.two):
        chosen = client.post("/choose", json={"streams": names}).json()["results"]
        assert [r["stream"] for r in chosen] == names
        assert [r["status"] for r in chosen] == [200, 200, 404, 200, 200]
        observations = [{k: r.get(k, 0) for k in ("stream", "tick")} for r in chosen]
        observations = [
            t | {"fidelity": r.get("fidelity", "gps"), "x": 0.25} for t, r in zip(observations, chosen, strict=True)
        ]
        observations.append(observations[1] | {"tick": 50})
        observations.append(observations[1])
        found = client.post("/observe", json={"observations": observations}).json()["results"]
        assert [r["stream"] for r in found] == [*names, "d1", "d1"]
        assert [r["status"] for r in found] == [200, 200, 404, 200, 200, 409, 200]
        assert found[6] == found[1]
        single = client.post("/streams/d1/observe", json={k: observations[1][k] for k in ("tick", "fidelity", "x")})
        assert {"stream": "d1", "status": 200} | single.json() == found[1]


def test_groups_belong_to_one_worker_too(pair: Pair) -> None:
    assert pair.one.post("/groups", json={"id": "g", "config": CONFIG}).status_code == 201
    for client, stream in ((pair.one, "g1"), (pair.two, "g2")):
        made = client.post("/streams", json={"id": stream, "group": "g"})
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"/streams/{stream}"
    for client in (pair.one, pair.two):
        for stream in ("g1", "g2"):
            advance(client, stream)
    assert pair.two.get("/groups/g").json()["rounds"] == 2
    for stream in ("g1", "g2"):
        assert pair.two.delete(f"/streams/{stream}").status_code == 204
    assert pair.two.delete("/groups/g").status_code == 204
    assert pair.one.get("/groups/g").status_code == 404


def test_the_token_is_the_clients_own_at_both(pair: Pair) -> None:
    take(pair.one, "t")
    for client in (pair.one, pair.two):
        reader = bearer(pair.reader)
        assert client.post("/streams/t/choose", headers=reader).status_code == 200
        observation = {"tick": 1, "fidelity": "gps", "x": 0.5}
        assert client.post("/streams/t/observe", json=observation, headers=reader).status_code == 403
        assert client.post("/streams/t/choose", headers=bearer("mfb_wrong")).status_code == 401


def test_events_of_a_stream_that_another_worker_has(pair: Pair) -> None:
    take(pair.one, "e")
    for path in ("/streams/e/events", "/events"):
        with pair.two.stream("GET", path) as watched:
            lines = watched.iter_lines()
            assert next(lines) == "retry: 1000"
            step = advance(pair.one, "e")
            data = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
            found = next(one for one in data if one["tick"] == step["tick"])
            assert {"stream": "e"} | found == {"stream": "e"} | step


def test_a_request_is_sent_on_once(pair: Pair) -> None:
    take(pair.one, "h")
    sent_on = {FORWARDED_BY: "http://elsewhere"}
    refused = pair.two.post("/streams/h/choose", headers=sent_on)
    assert (refused.status_code, refused.json()["expected"]["worker"]) == (421, str(pair.one.base_url).rstrip("/"))
    result = pair.two.post("/choose", json={"streams": ["h"]}, headers=sent_on).json()["results"][0]
    assert result["status"] == 421
    assert pair.one.post("/streams/h/choose", headers=sent_on).status_code == 200


class Owner(BaseHTTPRequestHandler):
    """A worker that no longer has what it is asked for; and says nothing of it on the terminal."""

    heard: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.heard.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        body = b'{"error": "elsewhere", "expected": null}'
        self.send_response(421)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        pass


def test_an_owner_that_is_gone_or_has_it_no_longer(postgres: Callable[[], str]) -> None:  # noqa: F811
    db = postgres()
    heard: list[tuple[str, dict[str, str], bytes]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Heard", (Owner,), {"heard": heard}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    store = open_store(db)
    secret = add_token(store, "writer", "write")
    with worker(db, secret) as client:
        for stream in ("s", "mine"):
            assert client.post("/streams", json={"id": stream, "config": CONFIG}).status_code == 201

        def given(owner: str) -> None:
            with store.transaction() as cursor:
                cursor.execute("UPDATE streams SET owner = %s, until = 1e12 WHERE id = 's'", (owner,))

        for owner in (f"http://127.0.0.1:{server.server_port}", f"http://127.0.0.1:{free_port()}", "http://bad host"):
            given(owner)
            answer = client.post("/streams/s/choose?a=b%2Fc")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
            results = client.post("/choose", json={"streams": ["s", "mine"]}).json()["results"]
            assert [result["status"] for result in results] == [503, 200]
        path, headers, _ = heard[0]
        assert path == "/streams/s/choose?a=b%2Fc"
        assert headers["authorization"] == f"Bearer {secret}"
        assert headers[FORWARDED_BY] == str(client.base_url).rstrip("/")
        assert json.loads(heard[1][2]) == {"streams": ["s"]}
        assert len(heard) == 2
        given("")
        answer = client.post("/streams/s/choose")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        results = client.post("/choose", json={"streams": ["s", "mine"]}).json()["results"]
        assert [result["status"] for result in results] == [503, 200]
        assert results[0] == {"stream": "s", "status": 503, **answer.json()}
    store.close()
    server.shutdown()
    server.server_close()
    thread.join()

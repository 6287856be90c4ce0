"""Limits on connections before authentication: headers, framing, connections, watchers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service import connections
from mfbocd.service.auth import add_token
from mfbocd.service.limits import Limits
from mfbocd.service.settings import Settings
from mfbocd.service.store.sqlite import SqliteStore

from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow

ENOUGH = 64 * 2**20
"""Bytes that are offered: far more than a bounded service takes, with all that waits in the system's buffers."""
SLACK = 16 * 2**20
"""Bytes that the system's buffers may take, of which the service reads nothing."""


def small(**limits: Any) -> Settings:
    return Settings(limits=Limits(**limits))


def connected(client: httpx.Client, source: str = "127.0.0.1") -> socket.socket:
    """A connection from one of this machine's own addresses."""
    made = socket.create_connection(("127.0.0.1", client.base_url.port or 0), 30, source_address=(source, 0))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    return made


def offered(connection: socket.socket, begin: bytes, again: bytes, end: bytes = b"") -> tuple[int, bytes]:
    """Send without end; how many bytes went before it was refused, and what was answered."""
    sent, answer = 0, b""
    try:
        connection.sendall(begin)
        while sent < ENOUGH:
            connection.sendall(again)
            sent += len(again)
        connection.sendall(end)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        while part := connection.recv(65_536):
            answer += part
    connection.close()
    return sent, answer


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tmp_path_factory.mktemp("service") / "mfbocd.db"
    store = SqliteStore(path)
    add_token(store, "somebody", "read")
    store.close()
    with serving(path, tokens=True) as client:
        yield client


GET = b"GET /streams HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST /streams HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (GET, b"X: " + b"y" * 8000 + b"\r\n"),
        (GET + b"X: ", b"y" * 8000),
        (GET, b"a:b\r\n" * 1000),
        (GET, b"y" * 8000),
        (b"GET /", b"y" * 8000),
        (b"", b"y" * 8000),
        (b"", b"\r\n" * 4000),
        (HEALTH + b"1;", b"x" * 8000),
        (HEALTH + b"0\r\nX: ", b"x" * 8000),
        (HEALTH + b"0\r\n", b"x:y\r\n" * 1600),
        (HEALTH, b"2000\r\n" + b"x" * 8192 + b"\r\n"),
        (POST, b"1;" + b"x" * 8000 + b"\r\ny\r\n"),
    ],
)
def test_what_has_no_end_is_refused_before_it_is_known_who_asks(
    shared: httpx.Client, begin: bytes, again: bytes
) -> None:
    assert shared.get("/healthz").status_code == 200
    before = memory()
    for _ in range(2):
        sent, answer = offered(connected(shared), begin, again)
        assert sent < SLACK, answer[:300]
    assert memory() - before < SLACK
    assert shared.get("/healthz").status_code == 200


def test_a_header_is_refused_by_its_size_and_its_count_and_says_so(shared: httpx.Client) -> None:
    def asked(**headers: str) -> httpx.Response:
        return httpx.get(f"{shared.base_url}/healthz", headers=headers)

    assert asked(X="y" * 30_000).status_code == 200
    assert asked(X="y" * 33_000).status_code == 431
    assert asked(**{f"x{i}": "y" for i in range(90)}).status_code == 200
    many = asked(**{f"x{i}": "y" for i in range(110)})
    assert many.status_code == 431
    assert many.json() == {"error": "a request must have at most 100 headers", "expected": None}
    assert many.headers["connection"] == "close"
    assert httpx.get(f"{shared.base_url}/healthz?{'y' * 30_000}").status_code == 200
    long = httpx.get(f"{shared.base_url}/healthz?{'y' * 33_000}")
    assert (long.status_code, long.json()["error"]) == (431, "the header must be at most 32768 bytes")


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path)
    secret = add_token(store, "somebody", "write")
    store.close()
    with serving(path, tokens=True) as client:
        connection = connected(client)
        trailer = f"Authorization: Bearer {secret}\r\nConnection: close\r\n\r\n".encode()
        connection.sendall(POST + b"0\r\n" + trailer)
        assert connection.recv(4000).startswith(b"HTTP/1.1 401 ")
        connection.close()


def test_a_body_in_many_small_chunks_is_read(tmp_path: Path) -> None:
    body = json.dumps({"id": "a", "config": CONFIG}).encode()
    with serving(tmp_path / "mfbocd.db") as client:
        parts = (bytes([byte]) for byte in body)
        answer = client.post("/streams", content=parts, headers={"content-type": "application/json"})
        assert answer.status_code == 201, answer.text
        large = (b"{" * 60_000 for _ in range(100))
        answer = client.post("/streams", content=large, headers={"content-type": "application/json"})
        assert answer.status_code == 413


def test_pipelined_requests_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        connection = connected(client)
        connection.sendall(WHOLE * 20)
        found = b""
        while found.count(b'"ok"') < 20:
            found += connection.recv(65_536)
        connection.close()
        with connected(client) as connection:
            connection.sendall(WHOLE * 1000)
            found = ended(connection)
        assert found.count(b'"ok"') <= connections.MAX_PIPELINED + 1
        assert client.get("/healthz").status_code == 200


def answered(connection: socket.socket, sent: bytes = WHOLE) -> None:
    """Request /healthz and read the whole response."""
    connection.sendall(sent)
    found = b""
    while b'"version"' not in found:
        part = connection.recv(65_536)
        assert part, found
        found += part
    assert found.startswith(b"HTTP/1.1 200 ")


def ended(connection: socket.socket) -> bytes:
    """Everything received until the other side closed the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


def test_connections_are_bounded_by_address_and_in_total(tmp_path: Path) -> None:
    with (
        contextlib.ExitStack() as stack,
        serving(tmp_path / "mfbocd.db", small(connections=12, client_connections=5)) as client,
    ):

        def opened(address: str) -> socket.socket:
            return stack.enter_context(connected(client, address))

        first = [opened("127.0.0.2") for _ in range(5)]
        for one in first:
            answered(one)
        output = ended(opened("127.0.0.2"))
        assert b" 503 " in output
        assert b"5 connections are open from 127.0.0.2" in output
        others = [opened("127.0.0.3") for _ in range(5)]
        for one in others:
            answered(one)
        assert client.get("/healthz").status_code == 200  # from a third address
        answered(opened("127.0.0.4"))
        output = ended(opened("127.0.0.4"))
        assert b"12 connections are open" in output
        assert b"retry-after: 1" in output
        first[0].close()

        def room() -> bool:
            with connected(client, "127.0.0.2") as another, contextlib.suppress(ConnectionError):
                another.sendall(WHOLE)
                return another.recv(65_536).startswith(b"HTTP/1.1 200 ")
            return False

        until(room, lambda: "a place that was left is not given again")


def test_of_half_open_connections_the_oldest_are_closed(tmp_path: Path) -> None:
    with (
        contextlib.ExitStack() as stack,
        serving(tmp_path / "mfbocd.db", small(half_open=4, patience=600.0)) as client,
    ):

        def opened(address: str) -> socket.socket:
            return stack.enter_context(connected(client, address))

        active = opened("127.0.0.2")
        answered(active)
        other = opened("127.0.0.3")
        other.sendall(WHOLE[:20])
        slow = []
        for i in range(7):
            slow.append(opened("127.0.0.2"))
            slow[-1].sendall(WHOLE[: 5 * i])
        for one in slow[:3]:
            assert ended(one) == b""
        for rest, one in ((WHOLE[20:], other), (WHOLE, active), *((WHOLE[5 * i :], slow[i]) for i in range(3, 7))):
            answered(one, rest)


def test_one_client_cannot_have_all_watchers(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path)
    secrets = {name: add_token(store, name, "read") for name in ("one", "two", "three")}
    store.close()
    with (
        contextlib.ExitStack() as stack,
        serving(path, small(watchers=5, client_watchers=2), tokens=True) as client,
    ):

        def watch(name: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {secrets[name]}"}
            return stack.enter_context(client.stream("GET", "/events", headers=headers))

        found = [watch(name) for name in ("one", "one", "one", "two", "two", "three", "three")]
        assert [answer.status_code for answer in found] == [200, 200, 429, 200, 200, 200, 429]
        assert "2 event streams open" in json.loads(found[2].read())["error"]
        assert "5 clients watch" in json.loads(found[6].read())["error"]
        found[0].close()
        until(lambda: watch("one").status_code == 200, lambda: "a place that was left is not given again")


def test_watchers_that_come_at_once_are_all_counted(tmp_path: Path) -> None:
    ask = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack, serving(tmp_path / "mfbocd.db", small(watchers=3)) as client:
        made = [stack.enter_context(connected(client)) for _ in range(30)]
        for one in made:
            one.sendall(ask)
        statuses = [int(one.recv(65_536).split()[1]) for one in made]
        assert sorted(statuses) == [200] * 3 + [429] * 27

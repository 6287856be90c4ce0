"""Logs: one record per line with time, request and stream; the access log."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service import logs
from mfbocd.service.auth import add_token
from mfbocd.service.errors import RequestError, UnavailableError
from mfbocd.service.forward import Forwarder
from mfbocd.service.records import StreamRow, Token
from mfbocd.service.store import sqlite
from mfbocd.service.store.sqlite import SqliteStore

from ..parts import PATIENCE
from .service import CONFIG, free_port, serving, until
from .test_guard import bearer

pytestmark = pytest.mark.slow


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """Receives the logs; the loggers are reset afterwards."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield io.StringIO()
    root.handlers = before
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in (logs.ACCESS, "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def records(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_the_access_log(tmp_path: Path, output: io.StringIO) -> None:
    logs.configure("json", "warning", access=True, output=output)
    store = SqliteStore(tmp_path / "a.db")
    secret = add_token(store, "device", "write")
    with serving(lambda: store, tokens=True) as client:
        client.get("/streams")
        client.headers = httpx.Headers(bearer(secret))
        client.post("/streams", json={"id": "a", "config": CONFIG})
        answer = client.post("/streams/a/choose", headers={"X-Request-ID": "proxy-7"})
        assert answer.headers["x-request-id"] == "proxy-7"
        made_up = client.get("/streams/b?x=1", headers={"X-Request-ID": "two words"}).headers["x-request-id"]
        assert made_up != "two words"
    refused, _, chosen, missing = records(output)
    assert (refused["status"], refused["route"], "client" in refused) == (401, "none", False)
    assert datetime.fromisoformat(chosen.pop("time")).tzinfo is not None
    assert chosen.pop("duration_ms") > 0
    assert chosen.pop("message").startswith("127.0.0.1 POST /streams/a/choose 200 ")
    assert chosen == {
        **{"level": "info", "logger": "mfbocd.access", "request_id": "proxy-7", "stream": "a", "method": "POST"},
        **{"path": "/streams/a/choose", "route": "/streams/{stream}/choose", "status": 200, "address": "127.0.0.1"},
        **{"client": "token device", "bytes": len(answer.content)},
    }
    assert (missing["request_id"], missing["stream"], missing["status"]) == (made_up, "b", 404)
    assert "x=1" not in output.getvalue()
    assert secret not in output.getvalue()


def test_an_internal_error_has_the_id_of_its_request(
    tmp_path: Path, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("json", "warning", access=False, output=output)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    with serving(tmp_path / "a.db") as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        monkeypatch.setattr(StreamRow, "full", fail)
        answer = client.get("/streams/a", headers={"X-Request-ID": "mine"})
        monkeypatch.undo()
        assert answer.status_code == 500
        assert answer.headers["x-request-id"] == "mine"
        (connection,) = client._transport._pool.connections  # type: ignore[attr-defined]
        assert connection.is_idle()  # the connection stays open, as the response says
        assert "connection" not in answer.headers
    (mine,) = records(output)  # and no record of the server about the same
    assert mine["logger"] == "mfbocd.service"
    assert (mine["request_id"], mine["stream"], mine["level"]) == ("mine", "a", "error")
    assert "RuntimeError: a bug" in mine["exception"]


def test_requests_that_are_not_http_do_not_fill_the_log(tmp_path: Path, output: io.StringIO) -> None:
    logs.configure("json", "info", access=False, output=output)
    with serving(tmp_path / "a.db") as client:
        for _ in range(3):
            with socket.create_connection((client.base_url.host, client.base_url.port or 0), PATIENCE) as other:
                other.sendall(b"nonsense\r\n\r\n")
                assert other.recv(12) == b"HTTP/1.1 400"
    assert not [one for one in records(output) if one["level"] != "info"]


def test_a_worker_that_does_not_answer_is_logged_once(output: io.StringIO) -> None:
    logs.configure("json", "info", access=False, output=output)
    port = free_port()

    async def use() -> None:
        forwarder = Forwarder("http://here")
        for _ in range(3):
            with pytest.raises(RequestError):
                await forwarder.send(f"http://127.0.0.1:{port}", "GET", "/", {}, b"")
        server = await asyncio.start_server(respond, "127.0.0.1", port)
        async with server:
            for _ in range(2):
                assert (await forwarder.send(f"http://127.0.0.1:{port}", "GET", "/", {}, b""))[0] == 200
        await forwarder.close()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    asyncio.run(use())
    silent, again = [one["message"] for one in records(output) if one["logger"].startswith("mfbocd")]
    assert "did not answer" in silent
    assert "answers again" in again


def test_a_store_that_cannot_be_written_is_logged_once(
    tmp_path: Path, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("json", "info", access=False, output=output)

    def messages() -> list[str]:
        return [one["message"] for one in records(output) if one["logger"] == "mfbocd.service"]

    store, looks = SqliteStore(tmp_path / "a.db"), 0
    space_problem = store.space_problem

    def counted() -> str:
        nonlocal looks
        looks += 1
        return space_problem()

    monkeypatch.setattr(store, "space_problem", counted)
    with serving(lambda: store) as client:
        assert store._writer is not None
        store._writer.execute("PRAGMA query_only = ON")
        for _ in range(3):
            assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 503
        health = client.get("/healthz").json()["error"]
        assert health == "the store is not available: attempt to write a readonly database"
        store._writer.execute("PRAGMA query_only = OFF")
        until(lambda: client.get("/healthz").status_code == 200, lambda: client.get("/healthz").text)
        refused, recovered = messages()
        assert refused == "the store could not be written: attempt to write a readonly database"
        assert recovered == "the store can be written again"
        monkeypatch.setattr(sqlite, "MIN_FREE_BYTES", 2**63)
        until(lambda: client.get("/healthz").status_code == 503, lambda: client.get("/healthz").text)
        before = looks
        until(lambda: looks > before + 2, lambda: "the disk is not looked at again")
        monkeypatch.undo()
        until(lambda: client.get("/healthz").status_code == 200, lambda: client.get("/healthz").text)
        full, over = messages()[2:]
        assert full.startswith("the disk is full: ")
        assert over == "the disk has space again"


def test_a_store_that_cannot_be_read_is_logged_once(
    tmp_path: Path, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("json", "info", access=False, output=output)

    def messages() -> list[str]:
        return [one["message"] for one in records(output) if one["logger"] == "mfbocd.service"]

    store, reads = SqliteStore(tmp_path / "a.db"), 0

    def fail() -> list[Token]:
        nonlocal reads
        reads += 1
        raise UnavailableError("no answer")

    with serving(lambda: store) as client:
        with monkeypatch.context() as broken:
            broken.setattr(store, "tokens", fail)
            until(lambda: reads > 2, lambda: "the store is not read again")
            assert client.get("/healthz").status_code == 503
        until(lambda: client.get("/healthz").status_code == 200, lambda: client.get("/healthz").text)
        assert messages() == ["the store could not be read: no answer", "the store can be read again"]


def test_text_is_one_line_whatever_a_client_sends(output: io.StringIO) -> None:
    logs.configure("text", "warning", access=True, output=output)
    token = logs.CONTEXT.set(logs.RequestContext("7", "a"))
    logging.getLogger("mfbocd.service").warning("path %s", "/x\nERROR forged\x1b[31m")
    logs.CONTEXT.reset(token)
    logging.getLogger("mfbocd.service").warning("no request")
    first, second = output.getvalue().splitlines()
    assert first.endswith(r"Z WARNING mfbocd.service: path /x\nERROR forged\x1b[31m [request_id=7 stream=a]")
    assert second.endswith("WARNING mfbocd.service: no request")


def test_the_path_of_a_request_adds_no_line_to_the_log(tmp_path: Path, output: io.StringIO) -> None:
    logs.configure("text", "warning", access=True, output=output)
    with serving(tmp_path / "a.db") as client:
        assert client.get("/streams/a%0AERROR%20forged%1B%5B31m").status_code == 422
    (line,) = output.getvalue().splitlines()
    assert line.endswith(r"stream=a\nERROR forged\x1b[31m]")


def test_warnings_are_logged() -> None:
    """In another process, because pytest collects those of this one."""
    program = (
        "import warnings; from mfbocd.service import logs\n"
        "logs.configure('json', 'warning', access=False)\n"
        "warnings.warn('observed far away')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["logger"] == "py.warnings"
    assert "UserWarning: observed far away" in json.loads(line)["message"]


def test_the_program_writes_only_json(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "mfbocd.cli", "serve", "--db", str(tmp_path / "a.db"), "--port", str(port)]
    options = ["--log-format", "json", "--access-log", "--mqtt", f"mqtt://127.0.0.1:{free_port()}"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        started = json.loads(process.stderr.readline())
        while "Serving" not in started["message"]:
            started = json.loads(process.stderr.readline())
        assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    finally:
        process.kill()
    found = [json.loads(line) for line in rest.splitlines()]
    assert any(one.get("path") == "/livez" and one["status"] == 200 for one in found)
    assert all({"time", "level", "logger", "message"} <= set(one) for one in found)
    assert started["message"] == f"Serving http://127.0.0.1:{port}"


def test_both_workers_log_the_same_id(tmp_path: Path) -> None:
    """The id of a request goes to the worker that it is forwarded to."""
    import asyncio

    from mfbocd.service.forward import Forwarder

    from .receiver import receiving

    async def send(owner: str) -> None:
        forwarder = Forwarder("http://one")
        token = logs.CONTEXT.set(logs.RequestContext("7", "a"))
        try:
            await forwarder.send(owner, "POST", "/streams/a/choose", {}, b"")
        finally:
            logs.CONTEXT.reset(token)
            await forwarder.close()

    with receiving() as receiver:
        asyncio.run(send(f"http://127.0.0.1:{receiver.port}"))
        until(lambda: bool(receiver.requests), lambda: "nothing was sent")
    assert receiver.requests[0][1]["x-request-id"] == "7"

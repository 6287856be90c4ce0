"""Access control and limits: tokens, hosts, sizes, rates, and what no response may contain."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service.auth import PUBLIC, add_token, digest
from mfbocd.service.limits import Limits
from mfbocd.service.logs import ACCESS
from mfbocd.service.settings import Settings
from mfbocd.service.store.sqlite import SqliteStore

from ..parts import PATIENCE
from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_tokens_and_their_scopes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger=ACCESS)  # another service of this process may have raised it
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path)
    reader, writer = add_token(store, "reader", "read"), add_token(store, "writer", "write")
    with pytest.raises(ValueError, match="there is a token 'reader' already"):
        add_token(store, "reader", "read")
    assert {token.hash for token in store.tokens()} == {digest(reader), digest(writer)}
    assert reader.encode() not in path.read_bytes()
    with serving(path, tokens=True) as client:
        for headers in ({}, bearer("mfb_wrong"), bearer(digest(writer)), {"Authorization": f"Basic {writer}"}):
            refused = client.get("/streams", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "token" in refused.json()["error"]
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 401
        new = {"id": "a", "config": CONFIG}
        assert client.post("/streams", json=new, headers=bearer(reader)).status_code == 403
        assert client.post("/streams", json=new, headers=bearer(writer)).status_code == 201
        assert client.get("/streams/a", headers=bearer(reader)).status_code == 200
        assert client.post("/streams/a/choose", headers=bearer(reader)).status_code == 200
        assert client.delete("/streams/a", headers=bearer(reader)).status_code == 403
        observation = {"tick": 0, "fidelity": "gps", "x": 0.1}
        assert client.post("/streams/a/observe", json=observation, headers=bearer(reader)).status_code == 403
        assert store.remove_token("writer")
        until(
            lambda: client.get("/streams", headers=bearer(writer)).status_code == 401,
            lambda: "a revoked token still opens",
        )
        assert client.get("/streams", headers=bearer(reader)).status_code == 200
    store.close()
    assert caplog.text  # something was logged, and no secret in it
    assert reader not in caplog.text
    assert writer not in caplog.text


def test_only_this_machines_names_are_answered_to(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        for host, status in (("localhost:1234", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 403)):
            assert client.get("/streams", headers={"Host": host}).status_code == status, host
        form = client.post("/streams", content=json.dumps({"config": CONFIG}), headers={"content-type": "text/plain"})
        assert form.status_code == 422  # what a form of another page can send is no JSON
        assert client.get("/streams").json()["total"] == 0


def test_every_answer_has_the_headers_that_guard_it(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        answers = [client.get("/streams"), client.get("/nothing"), client.get("/healthz", headers={"Host": "evil"})]
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe-eval" not in policy
            assert "script-src 'self';" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        plotly = client.get("/static/plotly.min.js")
        assert plotly.status_code == 200
        assert len(plotly.content) > 1_000_000
        assert plotly.headers["content-type"].startswith("text/javascript")
        for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/nothing.js"):
            assert client.get(path).status_code == 404


def small(**limits: Any) -> Settings:
    return Settings(limits=Limits(**limits))


def test_sizes_and_counts_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db", small(body=2000, streams=2, batch=3, page=5)) as client:
        big = json.dumps({"config": CONFIG, "name": "x" * 3000})
        kind = {"content-type": "application/json"}
        assert client.post("/streams", content=big, headers=kind).status_code == 413
        parts = (big[i : i + 100].encode() for i in range(0, len(big), 100))
        assert client.post("/streams", content=parts, headers=kind).status_code == 413
        for name, status in (("a", 201), ("b", 201), ("c", 429)):
            assert client.post("/streams", json={"id": name, "config": CONFIG}).status_code == status
        assert client.post("/choose", json={"streams": ["a"] * 4}).status_code == 413
        assert client.get("/streams").json()["total"] == 2


def test_a_config_cannot_ask_for_any_amount_of_work(tmp_path: Path) -> None:
    huge: list[dict[str, Any]] = [
        CONFIG | {"hazard": {"kind": "learned", "points": 10**9}},
        CONFIG | {"prune": {"resample": 10**9}},
        CONFIG | {"prune": {"k": 10**9}},
        {"model": {"kind": "multivariate_gaussian", "mean": [0] * 5000, "var": 9, "noise_var": 1}},
        {"model": {"kind": "categorical", "alpha": [1] * 100_000}},
        {"model": {"kind": "binomial", "trials": 10**12}},
    ]
    with serving(tmp_path / "mfbocd.db") as client:
        for config in huge:
            answer = client.post("/streams", json={"config": config})
            assert answer.status_code == 422, (config, answer.text[:200])


def test_a_state_that_grows_is_stopped(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db", small(state=20_000)) as client:
        client.post("/streams", json={"id": "a", "config": {"model": {"kind": "bernoulli"}, "prune": False}})
        statuses = []
        for first in range(0, 3000, 500):
            observations = [
                {"stream": "a", "tick": t, "fidelity": "full", "x": t % 2} for t in range(first, first + 500)
            ]
            found = client.post("/observe", json={"observations": observations}).json()["results"]
            statuses += [f["status"] for f in found]
            if statuses[-1] != 200:
                break
        assert statuses[0] == 200
        ticks = statuses.index(422)
        shown = client.get("/streams/a").json()
        assert shown["tick"] == ticks
        answer = client.post("/streams/a/observe", json={"tick": ticks, "fidelity": "full", "x": 1})
        assert answer.status_code == 422
        assert "20000" in answer.json()["error"]


def test_a_rate_is_limited(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db", small(rate=0.5, burst=5.0)) as client:
        statuses = [client.get("/streams").status_code for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        assert int(client.get("/streams").headers["retry-after"]) >= 1
        assert [client.get(path).status_code for path in PUBLIC] == [200] * 3  # probes are not


def test_slow_and_broken_clients_keep_nobody_back(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db", small(patience=1.0)) as client:
        port = client.base_url.port
        assert port is not None
        lingering = []
        for i in range(60):
            slow = socket.create_connection(("127.0.0.1", port))
            lingering.append(slow)
            head = b"POST /streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            if i % 3 == 0:
                slow.sendall(head[:20])  # never finishes its first line
            elif i % 3 == 1:
                slow.sendall(head + b"Content-Length: 500\r\n\r\n{")
            else:
                slow.sendall(b"\x16\x03\x01\x00\xff nonsense \r\n\r\n")
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        assert client.get("/streams/a").status_code == 200
        lingering[1].settimeout(PATIENCE)
        assert b" 408 " in lingering[1].recv(4000)
        assert b" 400 " in lingering[2].recv(4000)
        for slow in lingering:
            slow.close()
        for body in (
            b"",
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"\xff\xfe",
            b'{"tick": ' + b"9" * 5000 + b"}",
            b"[" * 20_000,
        ):
            answer = client.post("/streams/a/observe", content=body, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 422), body[:40]
            assert set(answer.json()) == {"error", "expected"}
        assert client.get("/streams/a").json()["tick"] == 0


@pytest.mark.parametrize("kind", ["h11", "httptools"])
def test_a_header_that_does_not_end_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from uvicorn.config import HTTP_PROTOCOLS

    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS[kind])  # type: ignore[misc]
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n"
    with serving(tmp_path / "mfbocd.db", small(patience=4.0)) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        port = client.base_url.port or 0
        watcher = asked(port, whole.replace(b"/healthz", b"/streams/a/events"), b"retry")
        pair = asked(port, whole + whole, b'"ok"', 2)
        silent, first = asked(port), asked(port)
        later = asked(port, whole, b'"ok"')
        slow = [
            threading.Thread(target=ended, args=(one, sent))
            for one, sent in ((silent, b""), (first, whole[:-4]), (later, whole[:-4]))
        ]
        for thread in slow:
            thread.start()
        for _ in range(12):  # a client that is never in a hurry, but in time, and others beside it
            assert client.get("/healthz").status_code == 200
            pair.sendall(whole[:20])
            time.sleep(0.4)
            pair.sendall(whole[20:])
            read_until(pair, b'"ok"')
        for thread in slow:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a slow client holds its place"
        client.post("/observe", json={"observations": [{"stream": "a", "tick": 0, "fidelity": "gps", "x": 0.5}]})
        read_until(watcher, b'"tick":0')  # its own answer takes as long as it likes
        for one in (watcher, pair):
            one.close()


def asked(port: int, sent: bytes = b"", wanted: bytes = b"", times: int = 1) -> socket.socket:
    """A connection that has sent something and got what it wanted."""
    made = socket.create_connection(("127.0.0.1", port), PATIENCE)
    made.sendall(sent)
    if wanted:
        read_until(made, wanted, times)
    return made


def read_until(connection: socket.socket, wanted: bytes, times: int = 1) -> bytes:
    """What a connection says, up to something that must come."""
    found = b""
    while found.count(wanted) < times:
        part = connection.recv(4000)
        assert part, found
        found += part
    return found


def ended(connection: socket.socket, slowly: bytes) -> None:
    """Send what is given, a byte now and then, until the other side ends the connection."""
    connection.settimeout(0.1)
    place = 0
    while True:
        try:
            connection.sendall(slowly[place : place + 1])
            place += 1
            if not connection.recv(4000):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    connection.close()


def test_a_store_that_cannot_write_is_reported_and_recovers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    with serving(lambda: store) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        choice = client.post("/streams/a/choose").json()
        observation = {"tick": 0, "fidelity": choice["fidelity"], "x": 0.5}
        assert store._writer is not None
        store._writer.execute("PRAGMA query_only = ON")
        for answer in (
            client.post("/streams/a/observe", json=observation),
            client.post("/observe", json={"observations": [{"stream": "a"} | observation]}),
            client.get("/healthz"),
            client.post("/streams", json={"id": "b", "config": CONFIG}),
        ):
            assert answer.status_code == 503, answer.text
            assert answer.headers["retry-after"] == "1"
            assert "readonly" in answer.json()["error"]
        assert client.get("/streams/a").json()["tick"] == 0
        store._writer.execute("PRAGMA query_only = OFF")
        assert client.get("/healthz").status_code == 200
        assert client.post("/streams/a/observe", json=observation).json()["tick"] == 0
        assert client.get("/streams/a").json()["tick"] == 1


def observed(raw: Any) -> float:
    if raw == "break":
        raise RuntimeError("a secret of the observer")
    return float(raw["value"])


def test_only_the_operators_observers_run(tmp_path: Path) -> None:
    toml = tmp_path / "mf.toml"
    toml.write_text(
        "hazard = 0.01\n[model]\nkind = 'gaussian'\n[serve]\nbatch = 7\n"
        "[serve.observers]\ncamera = 'tests.service.test_guard:observed'\n"
    )
    settings = Settings.load(toml)
    assert settings.limits.batch == 7
    with serving(tmp_path / "mfbocd.db", settings) as client:
        for observer in ("os:system", "tests.service.test_guard:observed", "lens"):
            answer = client.post("/streams", json={"id": "a", "observers": {"full": observer}})
            assert answer.status_code == 422
            assert answer.json()["expected"] == {"observers": ["camera"]}
        made = client.post("/streams", json={"id": "a", "observers": {"full": "camera"}}).json()
        assert made["config"]["hazard"] == 0.01
        first = client.post("/streams/a/step", json={"raw": {"value": 1.5}}).json()
        assert (first["tick"], first["x"]) == (0, 1.5)
        assert client.post("/streams/a/step", json={"raw": {"value": 9}, "tick": 0}).json() == first
        failed = client.post("/streams/a/step", json={"raw": "break"})
        assert failed.status_code == 502
        assert "secret" not in failed.text
        late = client.post("/streams/a/step", json={"raw": {"value": 1}, "tick": 5})
        assert (late.status_code, late.json()["expected"]["tick"]) == (409, 1)
        client.post("/streams", json={"id": "b"})
        answer = client.post("/streams/b/step", json={"raw": 1.0})
        assert answer.status_code == 422
        assert "has no observer" in answer.json()["error"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[serve]\nbtch = 3", "serve.btch is unknown"),
        ("serve = 3", "serve must be a table"),
        ("[[serve]]", "serve must be a table"),
        ("[serve]\nobservers = 3", "serve.observers must be a table"),
        ("[serve]\nbatch = 'many'", "serve.batch must be a whole number of at least 1, not 'many'"),
        ("[serve]\nbatch = -1", "serve.batch must be .* at least 1, not -1"),
        ("[serve]\nbatch = 2.5", "serve.batch must be a whole number of at least 1, not 2.5"),
        ("[serve]\nbatch = true", "serve.batch must be a whole number of at least 1, not True"),
        ("[serve]\nrate = nan", "serve.rate must be finite, not nan"),
        ("[serve]\nrate = -1", "serve.rate must be at least 0, not -1"),
        ("[serve]\nheader = 10", "serve.header must be .* at least 1024, not 10"),
        ("[serve]\npatience = 0", "serve.patience must be at least 0.1, not 0"),
        ("[serve.observers]\na = 'nowhere'", "must be 'package.module:function'"),
        ("[serve.observers]\na = 'mfbocd.nothing:x'", "serve.observers.a"),
        ("[serve", "not TOML"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "mf.toml").write_text(text)
    with pytest.raises(ValueError, match=error):
        Settings.load(tmp_path / "mf.toml")


def test_errors_have_one_shape(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        answers: list[httpx.Response] = [
            client.get("/nothing"),
            client.put("/streams"),
            client.get("/streams/no%20such"),
            client.get("/streams", params={"limit": 0}),
            client.get("/streams", params={"sort": "; DROP TABLE streams"}),
            client.get("/streams/a/events", headers={"Last-Event-ID": "x"}),
        ]
        assert [a.status_code for a in answers] == [404, 405, 422, 422, 422, 404]
        for answer in answers:
            assert set(answer.json()) == {"error", "expected"}

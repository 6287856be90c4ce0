"""The service as a program: serve, state, token; several workers; killed in the middle."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.io.config import Config
from mfbocd.service.store import open_store

from ..cli import program
from ..parts import PATIENCE
from .postgres import execute, postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, free_port, reading, replayed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def mfbocd(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command that looks into the store, in this process."""
    return program.mfbocd(*arguments, cwd=ROOT, stdin=given)


def refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a service that must not begin, as a separate process."""
    return program.process("serve", *arguments, cwd=ROOT)


def begin(db: str, port: int, *more: str) -> subprocess.Popen[str]:
    """A service that has printed its address."""
    command = [sys.executable, "-m", "mfbocd.cli", "serve", "--db", db, "--port", str(port), *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    output = process.stderr.readline()
    assert output.startswith("Serving http"), output + process.stderr.read()
    return process


@contextmanager
def running(db: str, *more: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    port = free_port()
    process = begin(db, port, *more)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            yield client, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def advance(client: httpx.Client, stream: str, ticks: int) -> None:
    for _ in range(ticks):
        choice = client.post(f"/streams/{stream}/choose").json()
        observation = {"tick": choice["tick"], "fidelity": choice["fidelity"]}
        answer = client.post(
            f"/streams/{stream}/observe", json=observation | {"x": reading(0, choice["tick"], choice["fidelity"])}
        )
        assert answer.status_code == 200, answer.text


def test_serve_and_look_into_the_store(tmp_path: Path) -> None:
    db, copy = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    config = tmp_path / "mf.toml"
    config.write_text(Config.parse(CONFIG).to_toml())
    with running(db, "-c", str(config)) as (client, process):
        assert client.post("/streams", json={"id": "walk", "name": "A walk"}).status_code == 201
        client.post("/groups", json={"id": "g", "config": CONFIG})
        client.post("/streams", json={"id": "member", "group": "g"})
        advance(client, "walk", 45)
        advance(client, "member", 3)
        second = refused("--db", db, "--port", "0")
        assert second.returncode == 1
        assert "served by another process already" in second.stderr
        taken = refused("--db", copy, "--port", str(client.base_url.port))
        assert taken.returncode == 1
        assert "Address already in use" in taken.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    listed = mfbocd("state", "ls", "--db", db).stdout.splitlines()
    assert [line.split("\t")[:2] for line in listed] == [["walk", "45"], ["member", "3"]]
    shown = json.loads(mfbocd("state", "show", "walk", "--db", db).stdout)
    assert (shown["tick"], shown["name"]) == (45, "A walk")
    missing = mfbocd("state", "show", "nobody", "--db", db)
    assert (missing.returncode, missing.stderr.strip()) == (1, "Error: there is no stream 'nobody'")
    exported = mfbocd("state", "export", "--db", db).stdout
    kinds = [json.loads(line)["kind"] for line in exported.splitlines()]
    assert (kinds.count("stream"), kinds.count("step"), kinds.count("group")) == (2, 48, 1)
    done = mfbocd("state", "import", "-", "--db", copy, "--create", given=exported)
    assert (done.returncode, done.stderr.strip()) == (0, "Imported 2 streams.")
    assert mfbocd("state", "export", "--db", copy).stdout == exported
    again = mfbocd("state", "import", "-", "--db", copy, "--create", given=exported)
    assert again.returncode == 1
    assert "there is a stream 'walk' already" in again.stderr
    spoilt = mfbocd(
        "state",
        "import",
        "-",
        "--db",
        str(tmp_path / "c.db"),
        "--create",
        given=exported.replace('"tick":45', '"tick":44'),
    )
    assert spoilt.returncode == 1
    assert "after 45 ticks, not 44" in spoilt.stderr
    with running(copy) as (client, _):
        advance(client, "walk", 1)
        advance(client, "member", 1)


def test_tokens_are_required_elsewhere(tmp_path: Path) -> None:
    db = str(tmp_path / "a.db")
    open_to_all = refused("--db", db, "--host", "0.0.0.0", "--port", "0")
    assert open_to_all.returncode == 2
    assert "mfbocd token add" in open_to_all.stderr
    added = mfbocd("token", "add", "me", "--db", db)
    secret = added.stdout.strip()
    assert secret.startswith("mfb_")
    assert secret not in added.stderr
    assert mfbocd("token", "ls", "--db", db).stdout == "me\twrite\n"
    with running(db, "--host", "0.0.0.0") as (client, process):
        assert client.get("/streams").status_code == 401
        assert client.get("/streams", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=PATIENCE)
        assert secret not in output
    assert mfbocd("token", "revoke", "me", "--db", db).returncode == 0
    gone = mfbocd("token", "revoke", "me", "--db", db)
    assert (gone.returncode, gone.stderr.strip()) == (1, "Error: there is no token 'me'")


def test_a_killed_workers_streams_move_on(postgres: Callable[[], str]) -> None:  # noqa: F811
    """As soon as its lease has ended, the first request to another worker succeeds."""
    db, lease = postgres(), 2.0
    now = "extract(epoch FROM clock_timestamp())"
    with (
        running(db, "--lease", str(lease)) as (one, first),
        running(db, "--lease", str(lease)) as (two, _),
    ):
        one.post("/streams", json={"id": "a", "config": CONFIG})
        advance(one, "a", 3)
        away = two.post("/streams/a/choose")
        assert (away.status_code, away.json()["tick"]) == (200, 3)
        batch = two.post("/choose", json={"streams": ["a"]}).json()["results"][0]
        assert (batch["status"], batch["tick"]) == (200, 3)
        first.kill()
        first.wait()
        assert execute(db, f"SELECT until <= {now} + {lease} FROM streams") == [(True,)]
        other = str(two.base_url).rstrip("/")
        while execute(db, f"SELECT owner = '{other}' OR until < {now} FROM streams") == [(False,)]:
            answer = two.post("/streams/a/choose")
            if answer.status_code != 200:  # the lease may have ended meanwhile
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
                time.sleep(0.1)
        advance(two, "a", 3)
        assert two.get("/streams/a").json()["tick"] == 6


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """The kernel refuses to let the service's files grow, as a full disk would."""
    with running(str(tmp_path / "mfbocd.db")) as (client, process):
        client.post("/streams", json={"id": "a", "config": CONFIG})
        advance(client, "a", 5)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
        observation: dict[str, Any] = {}
        for _ in range(500):
            choice = client.post("/streams/a/choose").json()
            observation = {"tick": choice["tick"], "fidelity": choice["fidelity"], "x": 0.5}
            answer = client.post("/streams/a/observe", json=observation)
            if answer.status_code != 200:
                break
        assert answer.status_code == 503, answer.text
        assert client.post("/streams/a/observe", json=observation).status_code == 503
        health = client.get("/healthz")
        assert (health.status_code, health.headers["retry-after"]) == (503, "1"), health.text
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.get("/healthz").status_code == 200
        again = client.post("/streams/a/observe", json=observation)
        assert (again.status_code, again.json()["tick"]) == (200, observation["tick"])
        advance(client, "a", 5)
        steps = [json.loads(line) for line in client.get("/streams/a/trace").text.splitlines()]
        assert [step["tick"] for step in steps] == list(range(observation["tick"] + 6))
    store = open_store(str(tmp_path / "mfbocd.db"))
    row = store.stream("a")
    store.close()
    assert row is not None
    assert row.state == replayed(CONFIG, steps)


CLIENTS, STREAMS, KILLS = 8, 5, 2
TICKS = 40  # 8 x 5 x 40 = 1600 observations, some 500 between two kills


class Client(threading.Thread):
    """Reads its streams to the end, whatever happens to the service; one in four also tells one by one."""

    def __init__(self, number: int, port: int, ticks: int) -> None:
        super().__init__()
        self.number, self.port, self.ticks = number, port, ticks
        self.streams = [f"c{number}s{i}" for i in range(STREAMS)]
        self.acknowledged: dict[str, list[dict[str, Any]]] = {stream: [] for stream in self.streams}
        self.done = 0
        self.failures: list[str] = []

    def run(self) -> None:
        coming = dict.fromkeys(self.streams, 0)
        chosen: dict[str, dict[str, Any]] = {}
        # one client: a new one reads the certificates of all authorities, which takes the service's time to begin
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE) as client:
            while left := [s for s in self.streams if coming[s] < self.ticks]:
                try:
                    for choice in self._ask(client, left):
                        chosen[choice["stream"]] = choice
                    for s in left:
                        # what was not acknowledged may be stored: it is sent again unchanged
                        if chosen[s]["tick"] == coming[s] + 1:
                            self._again(client, s, coming[s])
                            coming[s] += 1
                    observations = [
                        self._told(s, coming[s], chosen[s]["fidelity"]) for s in left if coming[s] < self.ticks
                    ]
                    for step in self._tell(client, observations):
                        self._note(step["stream"], coming, step)
                except (httpx.HTTPError, ConnectionError):
                    time.sleep(0.05)
                except Exception as error:
                    self.failures.append(repr(error))
                    return

    def _ask(self, client: httpx.Client, streams: list[str]) -> list[dict[str, Any]]:
        answer = client.post("/choose", json={"streams": streams})
        answer.raise_for_status()
        return list(answer.json()["results"])

    def _told(self, stream: str, tick: int, fidelity: str) -> dict[str, Any]:
        number = self.number * STREAMS + int(stream.split("s")[1])
        return {"stream": stream, "tick": tick, "fidelity": fidelity, "x": reading(number, tick, fidelity)}

    def _tell(self, client: httpx.Client, observations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        if self.number % 4 or observations[0]["tick"] % 2:
            answer = client.post("/observe", json={"observations": observations})
            answer.raise_for_status()
            yield from answer.json()["results"]
            return
        for one in observations:
            body = {k: v for k, v in one.items() if k != "stream"}
            answer = client.post(f"/streams/{one['stream']}/observe", json=body)
            answer.raise_for_status()
            yield answer.json() | {"stream": one["stream"], "status": 200}

    def _again(self, client: httpx.Client, stream: str, tick: int) -> None:
        for fidelity in ("imu", "gps"):
            body = {k: v for k, v in self._told(stream, tick, fidelity).items() if k != "stream"}
            answer = client.post(f"/streams/{stream}/observe", json=body)
            if answer.status_code == 200:
                self.acknowledged[stream].append(answer.json())
                self.done += 1
                return
            assert answer.status_code == 409, answer.text
        raise AssertionError(f"{stream} at {tick} was observed by nobody")

    def _note(self, stream: str, coming: dict[str, int], step: dict[str, Any]) -> None:
        assert step["status"] == 200, step
        assert step["tick"] == coming[stream], step
        self.acknowledged[stream].append({k: v for k, v in step.items() if k not in ("stream", "status")})
        coming[stream] += 1
        self.done += 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    db = str(tmp_path / "mfbocd.db") if kind == "sqlite" else request.getfixturevalue("postgres")()
    port, ticks = free_port(), TICKS
    more = () if kind == "sqlite" else ("--lease", "1")
    process = begin(db, port, *more)
    try:
        clients = [Client(number, port, ticks) for number in range(CLIENTS)]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            for one in clients:
                for stream in one.streams:
                    assert client.post("/streams", json={"id": stream, "config": CONFIG}).status_code == 201
        for one in clients:
            one.start()
        total = CLIENTS * STREAMS * ticks
        for kill in range(1, KILLS + 1):
            while sum(one.done for one in clients) < total * kill // (KILLS + 1):
                assert any(one.is_alive() for one in clients), [one.failures for one in clients]
                time.sleep(0.01)
            process.kill()
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            process = begin(db, port, *more)
        for one in clients:
            one.join(PATIENCE)
            assert not one.is_alive()
            assert one.failures == []
        process.kill()
        process.communicate()
        store = open_store(db)
        for one in clients:
            for stream, acknowledged in one.acknowledged.items():
                stored = [json.loads(event.step) for event in store.events(stream, -1, 10 * ticks)]
                assert [step["tick"] for step in stored] == list(range(ticks))  # none lost, none twice
                assert stored == acknowledged
                row = store.stream(stream)
                assert row is not None
                assert row.state == replayed(CONFIG, stored)
        store.close()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_help_names_the_commands() -> None:
    output = mfbocd("--help").stdout
    assert {"serve", "state", "token"} <= {line.split()[0] for line in output.splitlines() if line.startswith("  ")}
    assert "MFBOCD_DB" in mfbocd("serve", "--help").stdout
    assert os.environ.get("MFBOCD_DB") is None

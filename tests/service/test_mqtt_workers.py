"""MQTT with several workers, and with a broker that wants TLS and a password."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import aiomqtt
import pytest

from mfbocd.service.forward import FORWARDED_BY
from mfbocd.service.mqtt import _Bridge, bridge
from mfbocd.service.records import StreamRow
from mfbocd.service.service import Service
from mfbocd.service.store.postgres import PostgresStore

from ..parts import PATIENCE, needed
from .broker import Broker, Device, broker, device  # noqa: F401 (a fixture)
from .postgres import execute, postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, reading, serving, until
from .test_cli import mfbocd, running
from .test_store import add

pytestmark = pytest.mark.slow


class Heard(threading.Thread):
    """All that is published, in order."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.ready = port, threading.Event()
        self.messages: list[tuple[str, bytes]] = []

    def run(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):  # the broker ends first
            asyncio.run(self._listen())

    async def _listen(self) -> None:
        async with aiomqtt.Client("127.0.0.1", self.port) as client:
            await client.subscribe("mfbocd/#", qos=1)
            self.ready.set()
            async for message in client.messages:
                self.messages.append((str(message.topic), bytes(message.payload or b"")))  # type: ignore[arg-type]

    def ticks(self, stream: str) -> list[int | None]:
        """Of every `next` of a stream; None where it was taken back."""
        published = [payload for topic, payload in self.messages if topic == f"mfbocd/{stream}/next"]
        return [json.loads(payload)["tick"] if payload else None for payload in published]

    def errors(self) -> list[dict[str, Any]]:
        return [json.loads(payload) for topic, payload in self.messages if topic.endswith("/error")]

    def until(self, condition: Callable[[], bool]) -> None:
        until(condition, lambda: self.messages[-20:])


def test_of_several_workers_one_speaks_for_a_stream(broker: Broker, postgres: Callable[[], str]) -> None:  # noqa: F811
    db, address = postgres(), f"mqtt://127.0.0.1:{broker.port}"
    heard = Heard(broker.port)
    heard.start()
    assert heard.ready.wait(PATIENCE)

    def worker(name: str) -> Any:
        return serving(lambda: PostgresStore(db, worker=name, lease=4.0), component=bridge(address))

    async def tell(stream: str, payload: str) -> None:
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            await client.publish(f"mfbocd/{stream}/obs", payload, qos=1)

    def observe(stream: str, tick: int) -> None:
        published = [json.loads(payload) for topic, payload in heard.messages if topic == f"mfbocd/{stream}/next"][-1]
        observation = {"tick": tick, "fidelity": published["fidelity"], "x": reading(0, tick, published["fidelity"])}
        asyncio.run(tell(stream, json.dumps(observation)))

    with worker("http://one") as one, worker("http://two") as two:
        one.post("/groups", json={"id": "g", "config": CONFIG})
        one.post("/streams", json={"id": "alone", "config": CONFIG})
        two.post("/streams", json={"id": "member", "group": "g"}, follow_redirects=False)
        streams = ["alone", "member"]
        heard.until(lambda: all(heard.ticks(s) == [0] for s in streams))
        # nothing is read for longer than a lease: leases must be renewed, not passed from worker to worker
        leases = "SELECT min(until) FROM streams"
        ((first,),) = execute(db, leases)
        until(lambda: execute(db, leases)[0][0] > first + 4.0, lambda: execute(db, leases))
        assert [heard.ticks(s) for s in streams] == [[0], [0]]
        for tick in range(4):
            for stream in streams:
                observe(stream, tick)
            heard.until(lambda: all(heard.ticks(s)[-1] == tick + 1 for s in streams))  # noqa: B023 (called at once)
        assert [heard.ticks(s) for s in streams] == [[0, 1, 2, 3, 4]] * 2
        assert heard.errors() == []
        asyncio.run(tell("alone", "nonsense"))
        observe("alone", 9)
        heard.until(lambda: len(heard.errors()) >= 2)
        assert two.delete("/streams/alone").status_code == 204
        heard.until(lambda: heard.ticks("alone")[-1] is None)
        assert [error["expected"]["tick"] for error in heard.errors()] == ["a whole number", 4]
        assert heard.ticks("alone")[5:] == [None]
        assert heard.ticks("member") == [0, 1, 2, 3, 4]


class Published:
    """A client of a broker that records what is published, and has received one observation."""

    def __init__(self) -> None:
        self.ticks: list[int | None] = []
        self.messages = self._heard()
        self.away = False

    async def _heard(self) -> AsyncIterator[Any]:
        observation = {"tick": 0, "fidelity": "gps", "x": 0.5}
        yield SimpleNamespace(topic="mfbocd/a/obs", payload=json.dumps(observation).encode())

    async def publish(self, topic: str, payload: str | None, **options: Any) -> None:
        if self.away:
            raise aiomqtt.MqttError("away")
        self.ticks.append(None if payload is None else json.loads(payload)["tick"])


def test_a_worker_that_takes_over_a_stream_publishes_again(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def go(stores: list[PostgresStore]) -> list[Published]:
        services = [Service(store) for store in stores]
        add(services[0].engine, "a")
        bridges, published = [_Bridge(service, None, {}) for service in services], [Published(), Published()]

        async def both_scan(first: int) -> None:
            for i in (first, 1 - first, first):
                await bridges[i]._scan_and_publish(published[i], time.monotonic() + 9.0)

        await bridges[0]._scan_and_publish(published[0], time.monotonic() + 9.0)
        await bridges[1]._listen(
            published[1]
        )  # before it has looked: it finds that the stream is another's, and is silent
        await both_scan(0)
        stores[0].release()
        await both_scan(1)
        stores[1].release()
        await both_scan(0)
        for service in services:
            await asyncio.to_thread(service.close)
        return published

    db = postgres()
    one, two = asyncio.run(go([PostgresStore(db, worker=name, lease=60.0) for name in ("http://one", "http://two")]))
    assert (one.ticks, two.ticks) == ([0, 0], [0])


def swept(db: str, act: Callable[[_Bridge, Published, PostgresStore], Awaitable[None]]) -> list[int | None]:
    """What a worker says of its stream `a`, and takes back, while it is removed by a worker that has no broker."""

    async def go() -> list[int | None]:
        service, other = (Service(PostgresStore(db, worker=f"http://{name}", lease=60.0)) for name in ("one", "two"))
        add(service.engine, "a")
        published, here = Published(), _Bridge(service, None, {})
        await here._scan_and_publish(published, time.monotonic() + 9.0)
        assert published.ticks == [0]
        await act(here, published, other.store)  # type: ignore[arg-type]
        for _ in range(2):
            await here._scan_and_publish(published, time.monotonic() + 9.0)
        for one in (service, other):
            await asyncio.to_thread(one.close)
        return published.ticks

    return asyncio.run(go())


def test_a_stream_that_goes_in_the_midst_of_a_look_is_taken_back(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def act(here: _Bridge, published: Published, store: PostgresStore) -> None:
        listed = here._owned

        async def gone(rows: list[StreamRow]) -> dict[str, bool]:
            store.remove_stream("a")
            return await listed(rows)

        here._owned = gone  # type: ignore[method-assign]
        await here._scan_and_publish(published, time.monotonic() + 9.0)
        here._owned = listed  # type: ignore[method-assign]

    assert swept(postgres(), act) == [0, None]


def test_a_stream_that_is_about_to_go_is_taken_back(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def act(here: _Bridge, published: Published, store: PostgresStore) -> None:
        with store.transaction() as cursor:
            cursor.execute("UPDATE streams SET until = 0")  # to be renewed
        with store.transaction() as cursor:
            cursor.execute("DELETE FROM streams WHERE id = 'a'")
            await here._scan_and_publish(published, time.monotonic() + 9.0)

    assert swept(postgres(), act) == [0, None]


def test_a_stream_that_goes_while_the_broker_is_away_is_taken_back(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def act(here: _Bridge, published: Published, store: PostgresStore) -> None:
        store.remove_stream("a")
        published.away = True
        with pytest.raises(aiomqtt.MqttError):
            await here._scan_and_publish(published, time.monotonic() + 9.0)
        published.away = False

    assert swept(postgres(), act) == [0, None]


def test_a_stream_that_goes_before_its_new_worker_spoke_is_taken_back(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def act(here: _Bridge, published: Published, store: PostgresStore) -> None:
        here._published.clear()  # as a worker that takes a stream over
        await here._scan(published)
        store.remove_stream("a")

    assert swept(postgres(), act) == [0, None]


def test_a_choice_whose_observation_was_lost_is_published_again(postgres: Callable[[], str]) -> None:  # noqa: F811
    async def act(here: _Bridge, published: Published, store: PostgresStore) -> None:
        here.service.engine.cache.evict(["a"])
        with store.transaction() as cursor:  # another worker looks at the row, and leaves it in the end
            cursor.execute("SELECT id FROM streams FOR UPDATE")
            await here._listen(published)

    assert swept(postgres(), act) == [0, 0]


def test_a_killed_workers_stream_goes_on_over_mqtt(broker: Broker, postgres: Callable[[], str]) -> None:  # noqa: F811
    more = ("--lease", "1", "--mqtt", f"mqtt://127.0.0.1:{broker.port}")
    db = postgres()
    with running(db, *more) as first, running(db, *more) as second, device(broker.port, "walk") as act:
        first[0].post("/streams", json={"id": "walk", "config": CONFIG})

        async def go(device: Device) -> None:
            for tick in range(3):
                await device.tell(await device.next(tick))
            choice = await device.next(3)
            asked = first[0].post("/streams/walk/choose", headers={FORWARDED_BY: "a test"})  # it is not sent on again
            owner = first if asked.status_code == 200 else second
            owner[1].kill()
            owner[1].wait()
            await device.tell(choice)  # to nobody: the other worker does not know yet that the stream is free
            await device.tell(await device.next(3))
            for tick in range(4, 6):
                await device.tell(await device.next(tick))
            await device.next(6)
            left = second if owner is first else first
            assert left[0].get("/streams/walk").json()["tick"] == 6

        act(go)


PASSWORD = "s3cr/t w@rd"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Broker, Path]]:
    """A broker with TLS by a certificate of its own, for one user; and the certificate."""
    mosquitto, openssl, passwd = needed("mosquitto"), needed("openssl"), needed("mosquitto_passwd")
    certificate, key, users = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "users"
    for command in (
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}".split(),
        [passwd, "-b", "-c", str(users), "me", PASSWORD],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    more = f"certfile {certificate}\nkeyfile {key}\nallow_anonymous false\npassword_file {users}"
    found = Broker(mosquitto, tmp_path, more)
    found.start()
    yield found, certificate
    found.stop()


def test_a_broker_with_tls_and_a_password(
    guarded: tuple[Broker, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, certificate = guarded  # noqa: F811
    monkeypatch.setenv("MFBOCD_MQTT", f"mqtts://me:{quote(PASSWORD, safe='')}@127.0.0.1:{broker.port}")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    options = {"username": "me", "password": PASSWORD, "tls_params": aiomqtt.TLSParameters(ca_certs=str(certificate))}
    with (
        running(str(tmp_path / "mfbocd.db")) as (client, process),
        device(broker.port, "walk", **options) as act,
    ):
        client.post("/streams", json={"id": "walk", "config": CONFIG})

        async def go(device: Device) -> None:
            for tick in range(3):
                await device.tell(await device.next(tick))
            await device.next(3)

        act(go)
        broker.stop()
        started = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert process.stderr is not None
        published = ""
        while "the broker is not available" not in published:  # it notices, and logs it
            line = process.stderr.readline()
            assert line, published
            published += line
        process.send_signal(signal.SIGTERM)
        published += process.stderr.read()
    assert "the broker is not available" in published
    for shown in (started, published, mfbocd("serve", "--help").stdout):
        assert "s3cr" not in shown


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # paho's socket, if the certificate does not please
@pytest.mark.parametrize(
    ("password", "trusted", "why"),
    [(PASSWORD, False, "certificate verify failed"), ("s3cr-wrong", True, "not authori")],
    ids=["unknown certificate", "wrong password"],
)
def test_a_broker_that_refuses_is_named_without_the_password(
    guarded: tuple[Broker, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    password: str,
    trusted: bool,
    why: str,
) -> None:
    broker, certificate = guarded  # noqa: F811
    caplog.set_level(logging.DEBUG)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    address = f"mqtts://me:{quote(password, safe='')}@127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client:
        until(lambda: why in caplog.text.lower(), lambda: caplog.text)
        assert client.get("/healthz").status_code == 200
    assert "s3cr" not in caplog.text
    gc.collect()

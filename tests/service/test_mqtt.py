"""Streams over a real mosquitto: choices are retained, duplicates are harmless, restarts are survived."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from mfbocd.service import mqtt
from mfbocd.service.errors import UnavailableError
from mfbocd.service.mqtt import _Bridge, bridge
from mfbocd.service.service import Service
from mfbocd.service.store.sqlite import SqliteStore

from ..parts import PATIENCE, needed
from .broker import Broker, Device, broker, device  # noqa: F401 (a fixture)
from .service import CONFIG, reading, serving, until
from .test_store import add

pytestmark = pytest.mark.slow


def test_a_device_on_mqtt_through_duplicates_and_a_restart(broker: Broker, tmp_path: Path) -> None:  # noqa: F811
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})
        client.post("/streams", json={"id": "still", "config": CONFIG})

        def ticks(first: int, count: int, times: int) -> Callable[[Device], Any]:
            async def go(device: Device) -> None:
                for tick in range(first, first + count):
                    await device.tell(await device.next(tick), times)
                await device.next(first + count)

            return go

        act(ticks(0, 20, 1))
        act(ticks(20, 20, 3))  # a new device finds tick 20 retained; each observation is sent three times
        assert client.get("/streams/walk").json()["tick"] == 40
        broker.stop()
        choice = client.post("/streams/walk/choose").json()  # meanwhile HTTP goes on
        x = reading(0, 40, choice["fidelity"])
        observation = {"tick": 40, "fidelity": choice["fidelity"], "x": x}
        assert client.post("/streams/walk/observe", json=observation).status_code == 200
        broker.start()
        with device(broker.port, "still") as at_rest:  # nothing is new of it, but the broker has forgotten
            assert at_rest(lambda device: device.next(0))["tick"] == 0
        act(ticks(41, 10, 2))
        shown = client.get("/streams/walk").json()
        assert shown["tick"] == 51
        steps = [json.loads(line) for line in client.get("/streams/walk/trace").text.splitlines()]
        assert [s["tick"] for s in steps] == list(range(51))
        assert [s["x"] for s in steps] == [reading(0, t, s["fidelity"]) for t, s in enumerate(steps)]


def test_a_stream_that_goes_while_the_broker_is_away_is_taken_back(tmp_path: Path) -> None:
    broker = Broker(needed("mosquitto"), tmp_path, keeps=True)  # noqa: F811
    broker.start()

    async def retained() -> dict[str, int]:
        """The tick of each retained `next`, as a new client receives them."""
        found = {}
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            await client.subscribe("mfbocd/+/next", qos=1)
            await client.subscribe("last", qos=1)
            await client.publish("last", b"", qos=1)  # retained messages are queued before it
            async for message in client.messages:
                if message.topic.matches("last"):
                    break
                found[str(message.topic)] = json.loads(bytes(message.payload or b"null"))  # type: ignore[arg-type]
        return {topic: published["tick"] for topic, published in found.items() if published}

    def becomes(wanted: dict[str, int]) -> None:
        until(lambda: asyncio.run(retained()) == wanted, lambda: asyncio.run(retained()))

    with (
        contextlib.ExitStack() as ended,
        serving(tmp_path / "mfbocd.db", component=bridge(f"mqtt://127.0.0.1:{broker.port}")) as client,
    ):
        ended.callback(broker.stop)
        for stream in ("goes", "stays"):
            client.post("/streams", json={"id": stream, "config": CONFIG})
        becomes({"mfbocd/goes/next": 0, "mfbocd/stays/next": 0})
        broker.stop()
        assert client.delete("/streams/goes").status_code == 204
        broker.start()
        becomes({"mfbocd/stays/next": 0})


def test_refusals_are_published(broker: Broker, tmp_path: Path) -> None:  # noqa: F811
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})

        async def errors(device: Device) -> list[dict[str, Any]]:
            choice = await device.next(0)
            payloads = [b"\xff", b"[]", b'{"tick": 5, "fidelity": "gps", "x": 1}', b'{"tick": 0}', b"[" * 50_000]
            for payload in payloads:
                await device.client.publish("mfbocd/walk/obs", payload, qos=1)
            found: list[dict[str, Any]] = []
            async with asyncio.timeout(PATIENCE):
                async for message in device.client.messages:
                    if message.topic.matches("mfbocd/walk/error"):
                        found.append(json.loads(bytes(message.payload)))  # type: ignore[arg-type]
                        if len(found) == len(payloads):
                            break
            await device.tell(choice)
            await device.next(1)
            return found

        found = act(errors)
        assert "not an observation" in found[0]["error"]
        assert found[2]["expected"]["tick"] == 0
        assert client.get("/streams/walk").json()["tick"] == 1


def test_a_stream_that_comes_again_begins_again(
    broker: Broker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mqtt, "SCAN_INTERVAL", 1.0)
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})

        async def go(device: Device) -> None:
            for tick in range(3):
                await device.tell(await device.next(tick))
            await device.next(3)
            client.delete("/streams/walk")
            client.post("/streams", json={"id": "walk", "config": CONFIG})  # before anybody looked
            await device.tell(await device.next(0))
            await device.next(1)

        act(go)
        steps = [json.loads(line) for line in client.get("/streams/walk/trace").text.splitlines()]
        assert [step["tick"] for step in steps] == [0]


def test_a_store_that_was_unavailable_is_read_again(
    broker: Broker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mqtt, "SCAN_INTERVAL", 0.1)
    store = SqliteStore(tmp_path / "mfbocd.db")
    there, asked = store.streams, 0

    def away(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked < 4:
            raise UnavailableError("it is away")
        return there(*given)

    monkeypatch.setattr(store, "streams", away)
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(lambda: store, component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})
        assert act(lambda device: device.next(0))["tick"] == 0
    assert asked > 4


def test_a_bridge_that_fails_begins_again_and_shows_in_health(
    broker: Broker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error that nobody thought of, in the task that publishes."""
    sound, mended = _Bridge._scan, threading.Event()
    waits: list[float] = []

    async def spoilt(self: _Bridge, client: Any) -> None:
        if not mended.is_set():
            raise KeyError("a mistake")
        await sound(self, client)

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0.01)

    monkeypatch.setattr(_Bridge, "_scan", spoilt)
    monkeypatch.setattr(mqtt, "sleep", noted)
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})
        until(lambda: len(waits) >= 4, lambda: f"it did not begin again: {waits}")
        assert waits[:4] == [0.2, 0.4, 0.8, 1.6]  # although it connects each time
        until(lambda: client.get("/healthz").json()["mqtt"] == "failed: KeyError", lambda: "health says nothing")
        assert any("a mistake" in record.getMessage() + str(record.exc_info) for record in caplog.records)
        mended.set()
        assert act(lambda device: device.next(0))["tick"] == 0
        until(lambda: client.get("/healthz").json()["status"] == "ok", lambda: client.get("/healthz").text)
        broker.stop()
        until(
            lambda: client.get("/healthz").json()["mqtt"] == "the broker is not available",
            lambda: client.get("/healthz").text,
        )
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")  # HTTP goes on


def test_an_observation_that_fails_is_reported_and_the_next_is_processed(
    broker: Broker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error that nobody thought of, at one message."""
    sound, failed = _Bridge._observe, False

    async def spoilt(self: _Bridge, stream: str, payload: bytes) -> int:
        nonlocal failed
        if not failed:
            failed = True
            raise RuntimeError("a mistake, with a secret")
        return await sound(self, stream, payload)

    monkeypatch.setattr(_Bridge, "_observe", spoilt)
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", component=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})

        async def go(device: Device) -> str:
            choice = await device.next(0)
            await device.client.publish("mfbocd/not an id/obs", b"{}", qos=1)
            await device.tell(choice)
            async with asyncio.timeout(30):
                async for message in device.client.messages:
                    if message.topic.matches("mfbocd/walk/error"):
                        published = bytes(message.payload).decode()  # type: ignore[arg-type]
                        await device.tell(choice)
                        await device.next(1)
                        return published
            raise AssertionError("nothing was published")

        published = act(go)
        assert "internal error" in published
        assert "secret" not in published
        assert client.get("/healthz").json()["mqtt"] == "ok"


def test_a_slow_broker_does_not_keep_streams_from_being_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "BATCH", 2)
    topics: list[str] = []

    class Client:
        async def publish(self, topic: str, *given: Any, **options: Any) -> None:
            topics.append(topic)

    async def counts() -> list[int]:
        service = Service(SqliteStore(tmp_path / "mfbocd.db"))
        for i in range(5):
            add(service.engine, f"s{i}")
        looking = _Bridge(service, None, {})
        found = []
        for _ in range(4):
            await looking._scan_and_publish(Client(), until=0.0)
            found.append(len(topics))
        await asyncio.to_thread(service.close)
        return found

    assert asyncio.run(counts()) == [2, 4, 5, 5]
    assert topics == [f"mfbocd/s{i}/next" for i in range(5)]


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1", "mqtt://", "127.0.0.1:1883", "mqtt://:1883", "mqtt://[::1"),
        *("mqtt://me:se/cret@host", "mqtt://me:12/cret@host", "mqtt://me:se?cret@host", "mqtt://me:pw@host:cret"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="--mqtt must be mqtt://") as refused:
        bridge(address)
    assert "cret" not in str(refused.value)

"""Streams over a real mosquitto: what to read next is retained, duplicates are harmless, a restart is survived."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from mfbocd.service.mqtt import bridge

from .service import CONFIG, free_port, reading, serving


class Broker:
    """mosquitto with nothing kept on disk: what it retained is gone when it restarts."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.port = program, free_port()
        self.config = folder / "mosquitto.conf"
        self.config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.program, "-c", str(self.config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.3)
        assert self.process.poll() is None, "mosquitto ended at once"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("CI is set, but there is no mosquitto")
        pytest.skip("there is no mosquitto")
    found = Broker(program, tmp_path)
    found.start()
    yield found
    found.stop()


class Device:
    """What a device does: wait for the next choice, read, tell."""

    def __init__(self, client: aiomqtt.Client, stream: str) -> None:
        self.client, self.stream = client, stream

    async def next(self, tick: int) -> dict[str, Any]:
        async with asyncio.timeout(30):
            async for message in self.client.messages:
                if not message.payload:
                    continue
                told = json.loads(bytes(message.payload))  # type: ignore[arg-type]
                if message.topic.matches(f"mfbocd/{self.stream}/error"):
                    raise AssertionError(told)
                if told["tick"] == tick:
                    return dict(told)
        raise AssertionError("the broker went away")

    async def tell(self, choice: dict[str, Any], times: int = 1) -> None:
        x = reading(0, choice["tick"], choice["fidelity"])
        told = json.dumps({"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x})
        for _ in range(times):
            await self.client.publish(f"mfbocd/{self.stream}/obs", told, qos=1)


@contextmanager
def device(port: int, stream: str) -> Iterator[Callable[..., Any]]:
    async def within(act: Callable[[Device], Any]) -> Any:
        async with aiomqtt.Client("127.0.0.1", port) as client:
            await client.subscribe(f"mfbocd/{stream}/next", qos=1)
            await client.subscribe(f"mfbocd/{stream}/error", qos=1)
            return await act(Device(client, stream))

    yield lambda act: asyncio.run(within(act))


def test_a_device_on_mqtt_through_duplicates_and_a_restart(broker: Broker, tmp_path: Path) -> None:
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", beside=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})
        client.post("/streams", json={"id": "still", "config": CONFIG})

        def ticks(first: int, count: int, times: int) -> Callable[[Device], Any]:
            async def go(device: Device) -> None:
                for tick in range(first, first + count):
                    await device.tell(await device.next(tick), times)
                await device.next(first + count)

            return go

        act(ticks(0, 20, 1))
        act(ticks(20, 20, 3))  # a device that is new to it finds tick 20 retained; each is told three times
        assert client.get("/streams/walk").json()["tick"] == 40
        broker.stop()
        time.sleep(1.0)
        choice = client.post("/streams/walk/choose").json()  # meanwhile HTTP goes on
        x = reading(0, 40, choice["fidelity"])
        told = {"tick": 40, "fidelity": choice["fidelity"], "x": x}
        assert client.post("/streams/walk/observe", json=told).status_code == 200
        broker.start()
        with device(broker.port, "still") as at_rest:  # nothing is new of it, but the broker has forgotten
            assert at_rest(lambda device: device.next(0))["tick"] == 0
        act(ticks(41, 10, 2))
        shown = client.get("/streams/walk").json()
        assert shown["tick"] == 51
        steps = [json.loads(line) for line in client.get("/streams/walk/trace").text.splitlines()]
        assert [s["tick"] for s in steps] == list(range(51))
        assert [s["x"] for s in steps] == [reading(0, t, s["fidelity"]) for t, s in enumerate(steps)]


def test_what_is_refused_is_said(broker: Broker, tmp_path: Path) -> None:
    address = f"mqtt://127.0.0.1:{broker.port}"
    with serving(tmp_path / "mfbocd.db", beside=bridge(address)) as client, device(broker.port, "walk") as act:
        client.post("/streams", json={"id": "walk", "config": CONFIG})

        async def errors(device: Device) -> list[dict[str, Any]]:
            choice = await device.next(0)
            payloads = [b"\xff", b"[]", b'{"tick": 5, "fidelity": "gps", "x": 1}', b'{"tick": 0}', b"[" * 50_000]
            for payload in payloads:
                await device.client.publish("mfbocd/walk/obs", payload, qos=1)
            found: list[dict[str, Any]] = []
            async with asyncio.timeout(30):
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


@pytest.mark.parametrize("address", ["http://127.0.0.1", "mqtt://", "127.0.0.1:1883"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="--mqtt must be mqtt://"):
        bridge(address)

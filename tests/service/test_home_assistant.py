"""Streams as devices of Home Assistant, over a real mosquitto."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest

from mfbocd.service import mqtt
from mfbocd.service.home_assistant import NODE_ID, Discovery, slug
from mfbocd.service.mqtt import bridge
from mfbocd.service.records import StreamRow, json_text

from ..cli.program import COMMAND
from ..parts import needed
from .broker import Broker, Device, broker, device  # noqa: F401 (a fixture)
from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow

TOPICS = {
    "homeassistant/sensor/mfbocd_walk/reading/config",
    "homeassistant/binary_sensor/mfbocd_walk/change/config",
    "homeassistant/sensor/mfbocd_walk/next/config",
}


def retained(port: int) -> dict[str, str]:
    """What a Home Assistant that starts now receives."""

    async def collect() -> dict[str, str]:
        found: dict[str, str] = {}
        async with aiomqtt.Client("127.0.0.1", port) as client:
            await client.subscribe("#", qos=1)
            await client.publish("last", b"", qos=1)  # retained messages are queued before it
            async for message in client.messages:
                if message.topic.matches("last"):
                    return found
                if message.retain:
                    found[str(message.topic)] = bytes(message.payload or b"").decode()
        raise AssertionError("the broker went away")

    return asyncio.run(collect())


def observe(client: httpx.Client, x: float, count: int) -> None:
    for _ in range(count):
        choice = client.post("/streams/walk/choose").json()
        given = {"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x}
        assert client.post("/streams/walk/observe", json=given).status_code == 200


def test_a_stream_appears_changes_and_goes(
    broker: Broker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mqtt, "SCAN_INTERVAL", 0.1)
    config = CONFIG | {"data": {"unit": "m/s"}}
    messages: list[dict[str, Any]] = []

    def has(topic: str, **wanted: Any) -> None:
        def matches() -> bool:
            found = json.loads(retained(broker.port).get(topic, "{}"))
            return all(found.get(name) == value for name, value in wanted.items())

        until(matches, lambda: retained(broker.port))

    with serving(tmp_path / "x.db", component=bridge(f"mqtt://127.0.0.1:{broker.port}", "homeassistant")) as client:
        client.post("/streams", json={"id": "walk", "name": "Garden", "config": config})
        until(lambda: retained(broker.port).keys() >= TOPICS, lambda: retained(broker.port))
        found = retained(broker.port)
        reading, change, following = (json.loads(found[topic]) for topic in sorted(TOPICS, key=_order))
        for entity in (reading, change, following):
            assert entity["availability_topic"] == "mfbocd/status"
            assert entity["device"]["identifiers"] == ["mfbocd_walk"]
            assert entity["device"]["name"] == "Garden"
            assert entity["state_topic"].startswith("mfbocd/walk/")
        assert len({entity["unique_id"] for entity in (reading, change, following)}) == 3
        assert reading["unit_of_measurement"] == "m/s"
        assert following["options"] == ["imu", "gps"]
        assert found["mfbocd/status"] == "online"
        assert json.loads(found["mfbocd/walk/next"])["fidelity"] in following["options"]
        has("mfbocd/walk/change", state="OFF")

        observe(client, 0.0, 30)
        has("mfbocd/walk/state", tick=29, x=0.0)

        async def watch() -> None:
            async with aiomqtt.Client("127.0.0.1", broker.port) as listener, asyncio.timeout(30):
                await listener.subscribe("mfbocd/walk/change", qos=1)
                await asyncio.to_thread(observe, client, 9.0, 30)
                async for message in listener.messages:
                    messages.append(json.loads(bytes(message.payload or b"")))
                    if len(messages) > 1 and messages[-1]["state"] == "OFF":
                        return

        asyncio.run(watch())  # whatever the scans saw, the alarm came and went
        assert [message["state"] for message in messages] == ["OFF", "ON", "OFF"]
        assert messages[1]["changed_at"] == pytest.approx(30, abs=3)

        with device(broker.port, "walk") as act:  # over MQTT the state follows at once

            async def one(device: Device) -> None:
                await device.tell(await device.next(60))
                await device.next(61)

            act(one)
        has("mfbocd/walk/state", tick=60)
        assert client.delete("/streams/walk").status_code == 204
        until(lambda: retained(broker.port).keys() == {"mfbocd/status"}, lambda: retained(broker.port))
    until(lambda: retained(broker.port) == {"mfbocd/status": "offline"}, lambda: retained(broker.port))


def _order(topic: str) -> int:
    return ["reading", "change", "next"].index(topic.split("/")[3])


def test_a_broker_that_forgot_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "SCAN_INTERVAL", 0.1)
    broker = Broker(needed("mosquitto"), tmp_path)  # noqa: F811
    broker.start()
    with serving(tmp_path / "x.db", component=bridge(f"mqtt://127.0.0.1:{broker.port}", "homeassistant")) as client:
        client.post("/streams", json={"id": "walk", "config": CONFIG})
        until(lambda: retained(broker.port).keys() >= TOPICS, lambda: retained(broker.port))
        broker.stop()
        broker.start()
        until(lambda: retained(broker.port).keys() >= TOPICS | {"mfbocd/status"}, lambda: retained(broker.port))
    broker.stop()


def test_a_killed_service_is_unavailable(broker: Broker, tmp_path: Path) -> None:  # noqa: F811
    options = ["--mqtt", f"mqtt://127.0.0.1:{broker.port}", "--home-assistant", "--db", "x.db", "--port", "0", "-q"]
    with subprocess.Popen([*COMMAND, "serve", *options], cwd=tmp_path) as process:
        try:
            until(lambda: retained(broker.port) == {"mfbocd/status": "online"}, lambda: retained(broker.port))
        finally:
            process.kill()
    until(lambda: retained(broker.port) == {"mfbocd/status": "offline"}, lambda: retained(broker.port))


def row(
    tick: int, alarms: int, alarm: bool = False, config: str = json_text(CONFIG), created: float = 1.0
) -> StreamRow:
    last, alarmed = json_text({"tick": tick - 1, "alarm": alarm}), json_text({"tick": 5, "alarm": True})
    given = (last if tick else None, "{}", 0.0, b"")
    return StreamRow("walk", "", config, "{}", None, created, None, tick, 0.0, alarms, None, alarmed, *given)


def state(discovery: Discovery) -> Any:
    return json.loads(discovery.take("walk").get("mfbocd/walk/change") or '{"state": null}')["state"]


def test_an_alarm_between_two_scans_is_not_lost() -> None:
    found = Discovery("homeassistant", "mfbocd")
    assert found.on_row(row(4, 0))
    assert state(found) == "OFF"
    assert not found.on_row(row(4, 0))
    assert found.on_row(row(9, 1))  # the alarm was at tick 5
    found.on_step("walk", json_text({"tick": 9, "alarm": False}))  # before anything was published
    assert state(found) == "ON"
    assert found.on_row(row(10, 1))
    assert state(found) == "OFF"
    found.on_step("walk", json_text({"tick": 3, "alarm": True}))  # a repeated message
    assert not found.on_row(row(10, 1))
    found.refresh()
    assert found.on_row(row(12, 2))  # the broker was not available when the alarm was raised
    assert state(found) == "ON"
    assert found.on_row(row(12, 2))
    assert state(found) == "OFF"
    assert found.on_row(row(0, 0, created=2.0))  # deleted and created again
    messages = found.take("walk")
    assert messages["mfbocd/walk/state"] is None
    assert len(messages) == 5
    assert found.on_row(row(9, 1, created=2.0))
    assert state(found) == "ON"
    assert found.on_row(row(9, 1, created=2.0))  # no step since then
    assert state(found) == "OFF"
    assert not found.on_row(row(9, 1, created=2.0))


def test_a_damaged_row_does_not_end_the_bridge() -> None:
    found = Discovery("homeassistant", "mfbocd")
    assert found.on_row(row(4, 0, config="{"))
    assert len(found.take("walk")) == 5


def test_ids_are_valid_in_topics_and_stay_different() -> None:
    names = ["a.b", "a_b", "a-b", "a..b", "http://host:8000"]
    assert len({slug(name) for name in names}) == len(names)
    assert all(re.fullmatch(NODE_ID, slug(name)) for name in names)
    first, second = (Discovery("ha", "mfbocd", worker) for worker in ("http://a:1", "http://b:1"))
    assert first.availability != second.availability
    with pytest.raises(ValueError, match="discovery prefix"):
        Discovery("home/#", "mfbocd")

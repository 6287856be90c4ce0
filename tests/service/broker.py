"""A real mosquitto of the tests' own, and a device that talks to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from ..parts import PATIENCE, needed
from .service import free_port, reading, until


class Broker:
    """mosquitto; unless it `keeps`, what it retained is gone when it restarts."""

    def __init__(
        self, program: str, folder: Path, more: str = "allow_anonymous true", *, keeps: bool = False
    ) -> None:
        self.program, self.port, self.keeps = program, free_port(), keeps
        self.config = folder / "mosquitto.conf"
        kept = f"persistence true\npersistence_location {folder}/" if keeps else "persistence false"
        # as root it would become another user, who cannot use the folder
        user = "user root\n" if os.geteuid() == 0 else ""
        self.config.write_text(f"listener {self.port} 127.0.0.1\n{kept}\n{user}{more}\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = process = subprocess.Popen(
            [self.program, "-c", str(self.config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def listens() -> bool:
            assert process.poll() is None, "mosquitto ended at once"
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
            return False

        until(listens, lambda: "mosquitto does not listen")

    def stop(self) -> None:
        if self.process is not None:
            if self.keeps:
                self.process.terminate()  # it writes what it keeps
            else:
                self.process.kill()
            self.process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(needed("mosquitto"), tmp_path)
    found.start()
    yield found
    found.stop()


class Device:
    """What a device does: wait for the next choice, read, tell."""

    def __init__(self, client: aiomqtt.Client, stream: str) -> None:
        self.client, self.stream = client, stream

    async def next(self, tick: int) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            async for message in self.client.messages:
                if not message.payload:
                    continue
                observation = json.loads(bytes(message.payload))  # type: ignore[arg-type]
                if message.topic.matches(f"mfbocd/{self.stream}/error"):
                    raise AssertionError(observation)
                if observation["tick"] == tick:
                    return dict(observation)
        raise AssertionError("the broker went away")

    async def tell(self, choice: dict[str, Any], times: int = 1) -> None:
        x = reading(0, choice["tick"], choice["fidelity"])
        observation = json.dumps({"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x})
        for _ in range(times):
            await self.client.publish(f"mfbocd/{self.stream}/obs", observation, qos=1)


@contextmanager
def device(port: int, stream: str, **options: Any) -> Iterator[Callable[..., Any]]:
    async def within(act: Callable[[Device], Any]) -> Any:
        async with aiomqtt.Client("127.0.0.1", port, **options) as client:
            await client.subscribe(f"mfbocd/{stream}/next", qos=1)
            await client.subscribe(f"mfbocd/{stream}/error", qos=1)
            return await act(Device(client, stream))

    yield lambda act: asyncio.run(within(act))

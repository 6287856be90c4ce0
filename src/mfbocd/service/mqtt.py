"""Streams over MQTT: what to read next is published and retained, what was read is listened to."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from .bodies import Observation
from .engine import Ask, Observe
from .errors import Refused
from .records import text
from .service import Service

log = logging.getLogger("mfbocd.service.mqtt")

PREFIX = "mfbocd"
WAIT = (0.2, 5.0)
"""Seconds between attempts to reach the broker: the first, and the longest."""
MOST = 65_536
"""Bytes of a message at most."""
SWEEP = 2.0
"""Seconds between looks at streams that came, went, or were observed by other ways than MQTT."""


def bridge(address: str) -> Callable[[Service], AbstractAsyncContextManager[None]]:
    """Serves streams over the broker at an address such as ``mqtt://host:1883`` for as long as the context lasts.

    ``mfbocd/<stream>/next`` (retained, QoS 1) says ``{"tick", "fidelity", "gains", "price"}``; an observation is
    ``{"tick", "fidelity", "x"}`` on ``mfbocd/<stream>/obs`` (QoS 1); why one was refused is said on
    ``mfbocd/<stream>/error``. A message that comes twice is harmless, as everywhere.
    """
    try:
        import aiomqtt
    except ImportError:
        raise ImportError("MQTT needs aiomqtt: pip install 'mfbocd[mqtt]'") from None
    parts = urlsplit(address)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise ValueError("--mqtt must be mqtt://[user:password@]host[:port], or mqtts:// for TLS")
    options: dict[str, Any] = {
        "hostname": parts.hostname,
        "port": parts.port or (8883 if parts.scheme == "mqtts" else 1883),
        "username": None if parts.username is None else unquote(parts.username),
        "password": None if parts.password is None else unquote(parts.password),
    }
    if parts.scheme == "mqtts":
        options["tls_params"] = aiomqtt.TLSParameters()

    @asynccontextmanager
    async def running(service: Service) -> AsyncIterator[None]:
        task = asyncio.create_task(_Bridge(service, aiomqtt, options).forever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return running


class _Bridge:
    """One connection after another to the broker."""

    def __init__(self, service: Service, aiomqtt: Any, options: dict[str, Any]) -> None:
        self.service, self.aiomqtt, self.options = service, aiomqtt, options
        self._said: dict[str, int] = {}
        """The tick last published of each stream."""

    async def forever(self) -> None:
        wait = WAIT[0]
        while True:
            try:
                async with self.aiomqtt.Client(**self.options) as client:
                    wait = WAIT[0]
                    self._said = {}  # a broker that was restarted may have forgotten what it retained
                    await client.subscribe(f"{PREFIX}/+/obs", qos=1)
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._publish(client))
                        tasks.create_task(self._listen(client))
            except* self.aiomqtt.MqttError as errors:
                log.warning("the broker is away, and asked again in %g s: %s", wait, errors.exceptions[0])
            await asyncio.sleep(wait)
            wait = min(2.0 * wait, WAIT[1])

    async def _listen(self, client: Any) -> None:
        async for message in client.messages:
            stream = str(message.topic).split("/")[1]
            try:
                step = await self._observe(stream, bytes(message.payload or b""))
            except Refused as refused:
                if refused.status == 503:
                    log.warning("an observation of %s was not stored: %s", stream, refused.error)
                await client.publish(f"{PREFIX}/{stream}/error", text(refused.body()), qos=1)
                continue
            await self._say(client, stream, step["tick"] + 1)

    async def _observe(self, stream: str, payload: bytes) -> dict[str, Any]:
        if len(payload) > MOST:
            raise Refused(413, f"a message must be at most {MOST} bytes")
        try:
            told = Observation.model_validate(json.loads(payload))
        except (ValidationError, ValueError, RecursionError) as error:
            expected = {"tick": "a whole number", "fidelity": "a name", "x": "a reading"}
            raise Refused(422, f"not an observation: {str(error)[:300]}", expected) from None
        return await self.service.one(Observe(stream, told.tick, told.fidelity, told.x))

    async def _publish(self, client: Any) -> None:
        """Say what every stream shall read next; then what is new, whoever brought it."""
        while True:
            offset = 0
            there = set()
            while rows := (await asyncio.to_thread(self.service.store.streams, "", "created", 1000, offset))[0]:
                offset += len(rows)
                for row in rows:
                    there.add(row.id)
                    await self._say(client, row.id, row.tick)
            for gone in set(self._said) - there:
                del self._said[gone]
                await client.publish(f"{PREFIX}/{gone}/next", None, qos=1, retain=True)
            await asyncio.sleep(SWEEP)

    async def _say(self, client: Any, stream: str, tick: int) -> None:
        if self._said.get(stream, -1) >= tick:
            return
        with suppress(Refused):
            choice = await self.service.one(Ask(stream))
            self._said[stream] = choice["tick"]
            await client.publish(f"{PREFIX}/{stream}/next", text(choice), qos=1, retain=True)

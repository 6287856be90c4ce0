"""Streams over MQTT: what to read next is published and retained, what was read is listened to."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from .engine import Ask, Observe
from .errors import OwnedElsewhere, RequestError
from .records import StreamRow, text
from .schemas import ID, Observation
from .service import Service

log = logging.getLogger("mfbocd.service.mqtt")

PREFIX = "mfbocd"
WAIT = (0.2, 5.0)
"""Seconds between attempts to reach the broker: the first, and the longest."""
MOST = 65_536
"""Bytes of a message at most."""
SWEEP = 2.0
"""Seconds between looks at streams that came, went, or were observed by other ways than MQTT."""
pause = asyncio.sleep
"""How the time between attempts is spent."""
BATCH = 50
"""Streams that are asked about at once."""


def bridge(address: str) -> Callable[[Service], AbstractAsyncContextManager[None]]:
    """Serves streams over the broker at an address such as ``mqtt://host:1883`` for as long as the context lasts.

    ``mfbocd/<stream>/next`` (retained, QoS 1) says ``{"tick", "fidelity", "gains", "price"}``; an observation is
    ``{"tick", "fidelity", "x"}`` on ``mfbocd/<stream>/obs`` (QoS 1); why one was refused is said on
    ``mfbocd/<stream>/error``. A message that comes twice is harmless, as everywhere. Of several workers only the one
    that has a stream speaks for it; one that takes a stream over says ``next`` again, since what was told to the
    other may be lost.
    """
    try:
        import aiomqtt
    except ImportError:
        raise ImportError("MQTT needs aiomqtt: pip install 'mfbocd[mqtt]'") from None
    options = _options(address)
    if options.pop("tls"):
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


def _options(address: str) -> dict[str, Any]:
    """What an address says of a broker; a mistake is told without repeating what may be a password.

    >>> _options("mqtts://me:p%40ss@host")
    {'hostname': 'host', 'port': 8883, 'username': 'me', 'password': 'p@ss', 'tls': True}
    """
    try:
        parts = urlsplit(address)
        tls, host, port = parts.scheme == "mqtts", parts.hostname, parts.port
    except ValueError:
        host = None
    # a slash, a question mark or a hash in a password ends the host where it should begin
    if not host or parts.scheme not in ("mqtt", "mqtts") or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            "--mqtt must be mqtt://[user:password@]host[:port], or mqtts:// for TLS; "
            "in a password, / ? # @ and % are written as %2F %3F %23 %40 and %25"
        )
    return {
        "hostname": host,
        "port": port or (8883 if tls else 1883),
        "username": None if parts.username is None else unquote(parts.username),
        "password": None if parts.password is None else unquote(parts.password),
        "tls": tls,
    }


class _Bridge:
    """One connection after another to the broker."""

    def __init__(self, service: Service, aiomqtt: Any, options: dict[str, Any]) -> None:
        self.service, self.aiomqtt, self.options = service, aiomqtt, options
        self._said: dict[str, int] = {}
        """The tick last published of each stream this worker has; -1 before, as another may have spoken for it."""
        self._made: dict[str, float] = {}
        """When these streams were made: one that went may have come again under its name."""
        self._due: dict[str, None] = {}
        """Streams of which something is new, the longest known first."""
        self._elsewhere: set[str] = set()
        """Streams another worker had when last looked at."""
        lease = service.store.lease
        # twice within the half of a lease after which it is renewed
        self._pause = SWEEP if lease is None else min(SWEEP, 0.25 * lease)

    async def forever(self) -> None:
        wait = WAIT[0]
        self._note("not connected yet")
        while True:
            began = None
            try:
                async with self.aiomqtt.Client(**self.options) as client:
                    began = time.monotonic()
                    # a broker that was restarted may have forgotten what it retained; of what went, it may not
                    self._said = dict.fromkeys(self._said, -1)
                    await client.subscribe(f"{PREFIX}/+/obs", qos=1)
                    self._note("")
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._publish(client))
                        tasks.create_task(self._listen(client))
            except* self.aiomqtt.MqttError as errors:
                self._note("the broker is away")
                log.warning("the broker is away, and asked again in %g s: %s", wait, errors.exceptions[0])
            except* Exception as errors:  # a mistake of ours must not end what devices wait for
                self._note(f"failed: {type(errors.exceptions[0]).__name__}")
                log.error("the bridge failed, and begins again in %g s", wait, exc_info=errors)
            if began is not None and time.monotonic() - began > WAIT[1]:
                wait = WAIT[0]  # what lasted for a while has not failed at once
            await pause(wait)
            wait = min(2.0 * wait, WAIT[1])

    def _note(self, trouble: str) -> None:
        """What /healthz says of the bridge."""
        self.service.parts["mqtt"] = trouble

    async def _listen(self, client: Any) -> None:
        async for message in client.messages:
            stream = str(message.topic).split("/")[1]
            if stream in self._elsewhere:
                continue
            if re.fullmatch(ID, stream) is None:  # no stream has such a name; it is not repeated in an answer
                log.warning("an observation of what is no stream's id was not taken: %.80r", stream)
                continue
            try:
                tick = await self._observe(stream, bytes(message.payload or b""))
            except OwnedElsewhere:
                if stream in self._said:  # what was told is lost: if it is this worker's after all, it asks again
                    self._said[stream] = -1
                continue
            except RequestError as refused:
                if refused.status == 503:
                    log.warning("an observation of %s was not stored: %s", stream, refused.error)
                await client.publish(f"{PREFIX}/{stream}/error", text(refused.body()), qos=1)
                continue
            except Exception:  # of one message: the others are not concerned
                log.exception("an observation of %s was not taken", stream)
                said = text({"error": "the service failed; its log says why", "expected": None})
                await client.publish(f"{PREFIX}/{stream}/error", said, qos=1)
                continue
            if self._said.get(stream, -1) <= tick:
                await self._say(client, [stream])

    async def _observe(self, stream: str, payload: bytes) -> int:
        """Take what was read; the tick it was of."""
        if len(payload) > MOST:
            raise RequestError(413, f"a message must be at most {MOST} bytes")
        try:
            told = Observation.model_validate(json.loads(payload))
        except (ValidationError, ValueError, RecursionError) as error:
            expected = {"tick": "a whole number", "fidelity": "a name", "x": "a reading"}
            raise RequestError(422, f"not an observation: {str(error)[:300]}", expected) from None
        await self.service.one(Observe(stream, told.tick, told.fidelity, told.x))
        return told.tick

    async def _publish(self, client: Any) -> None:
        """Say what every stream shall read next; then what is new, whoever brought it."""
        while True:
            until = time.monotonic() + self._pause
            try:
                await self._sweep(client, until)
            except RequestError as refused:
                log.warning("what to read next was not published: %s", refused.error)
            await asyncio.sleep(until - time.monotonic())

    async def _sweep(self, client: Any, until: float) -> None:
        """Look at all streams, then speak until it is time to look again: leases do not wait for a slow broker."""
        await self._look(client)
        while self._due:
            some = list(islice(self._due, BATCH))
            for stream in some:
                del self._due[stream]
            await self._say(client, some)
            if time.monotonic() > until:
                break

    async def _look(self, client: Any) -> None:
        """See which streams there are, which of them this worker has, and what is new of these."""
        offset = 0
        there: set[str] = set()
        while rows := (await asyncio.to_thread(self.service.store.streams, "", "created", 1000, offset))[0]:
            offset += len(rows)
            there |= {row.id for row in rows}
            mine = await self._mine(rows)
            for row in rows:
                if row.id not in mine:  # perhaps it is about to go, and must then be taken back: the next look tells
                    continue
                if not mine[row.id] or self._made.get(row.id) != row.created:
                    self._said.pop(row.id, None)
                    self._due.pop(row.id, None)
                if not mine[row.id]:
                    self._elsewhere.add(row.id)
                    continue
                self._elsewhere.discard(row.id)
                self._made[row.id] = row.created
                if self._said.setdefault(row.id, -1) < row.tick:
                    self._due[row.id] = None
        for gone in set(self._said) - there:
            self._due.pop(gone, None)
            await client.publish(f"{PREFIX}/{gone}/next", None, qos=1, retain=True)
            self._said.pop(gone, None)  # not before: if the broker went meanwhile, it is still to be taken back
        self._elsewhere &= there
        self._made = {stream: made for stream, made in self._made.items() if stream in there}

    async def _mine(self, rows: list[StreamRow]) -> dict[str, bool]:
        names = [row.id for row in rows]
        store = self.service.store
        # where there is one worker, the question need not wait for its thread
        return store.claim(names) if store.lease is None else await self.service.alone(lambda: store.claim(names))

    async def _say(self, client: Any, streams: list[str]) -> None:
        choices = await self.service.run([Ask(stream) for stream in streams])
        for stream, choice in zip(streams, choices, strict=True):
            if isinstance(choice, RequestError):  # it went meanwhile, or is looked at again
                continue
            tick = json.loads(choice)["tick"]
            if self._said.get(stream, -1) < tick:  # else the other task said it, meanwhile
                self._said[stream] = tick
                await client.publish(f"{PREFIX}/{stream}/next", choice, qos=1, retain=True)

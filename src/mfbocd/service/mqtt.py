"""Streams over MQTT: choices are published and retained, observations are received."""

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

from .engine import ChooseCommand, ObserveCommand
from .errors import OwnedElsewhere, RequestError
from .home_assistant import OFFLINE, ONLINE, Discovery
from .records import StreamRow, json_text
from .schemas import ID, Observation
from .service import Service

log = logging.getLogger("mfbocd.service.mqtt")

PREFIX = "mfbocd"
RETRY = (0.2, 5.0)
"""Shortest and longest time between attempts to connect to the broker, in seconds."""
MAX_MESSAGE = 65_536
"""Largest size of a message in bytes."""
SCAN_INTERVAL = 2.0
"""Seconds between scans for streams that were created, deleted, or observed by other means than MQTT."""
sleep = asyncio.sleep
"""Waits between attempts; tests replace it."""
GOODBYE = 2.0
"""Seconds for which a service that stops waits for the broker."""
BATCH = 50
"""Streams whose choices are requested at a time."""


def bridge(address: str, discovery: str = "") -> Callable[[Service], AbstractAsyncContextManager[None]]:
    """A component of the service that serves its streams over the broker at an address such as ``mqtt://host:1883``.

    The choice ``{"tick", "fidelity", "gains", "price", "limit"}`` is published on ``mfbocd/<stream>/next``
    (retained, QoS 1). Observations ``{"tick", "fidelity", "x"}`` are received on ``mfbocd/<stream>/obs`` (QoS 1); a
    repeated message is harmless. The reason of a refusal is published on ``mfbocd/<stream>/error``.

    If there are several workers, only the owner of a stream publishes for it. A worker that takes over a stream
    publishes its choice again, because an observation sent to the previous owner may be lost.

    With a discovery prefix, streams are also devices of Home Assistant (`Discovery`).
    """
    try:
        import aiomqtt
    except ImportError:
        raise ImportError("MQTT needs aiomqtt: pip install 'mfbocd[mqtt]'") from None
    options = _options(address)
    if discovery:
        Discovery(discovery, PREFIX)  # raises now if the prefix is not valid
    if options.pop("tls"):
        options["tls_params"] = aiomqtt.TLSParameters()

    @asynccontextmanager
    async def running(service: Service) -> AsyncIterator[None]:
        task = asyncio.create_task(_Bridge(service, aiomqtt, options, discovery).run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return running


def _options(address: str) -> dict[str, Any]:
    """The connection options in an address. Errors do not repeat the address, which may contain a password.

    >>> _options("mqtts://me:p%40ss@host")
    {'hostname': 'host', 'port': 8883, 'username': 'me', 'password': 'p@ss', 'tls': True}
    """
    try:
        parts = urlsplit(address)
        tls, host, port = parts.scheme == "mqtts", parts.hostname, parts.port
    except ValueError:
        host = None
    # an unescaped slash, question mark or hash in a password would end the host
    if not host or parts.scheme not in ("mqtt", "mqtts") or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            "--mqtt must be mqtt://[user:password@]host[:port], or mqtts:// for TLS; "
            "in a password, write / ? # @ and % as %2F %3F %23 %40 and %25"
        )
    return {
        "hostname": host,
        "port": port or (8883 if tls else 1883),
        "username": None if parts.username is None else unquote(parts.username),
        "password": None if parts.password is None else unquote(parts.password),
        "tls": tls,
    }


class _Bridge:
    """Keeps a connection to the broker."""

    def __init__(self, service: Service, aiomqtt: Any, options: dict[str, Any], discovery: str = "") -> None:
        self.service, self.aiomqtt, self.options = service, aiomqtt, options
        self.discovery: Discovery | None = None
        if discovery:
            store = service.store
            self.discovery = Discovery(discovery, PREFIX, "" if store.lease is None else store.worker)
            will = aiomqtt.Will(self.discovery.availability, OFFLINE, qos=1, retain=True)
            self.options = options | {"will": will}
        self._published: dict[str, int] = {}
        """The tick of the last published choice of each stream of this worker; -1 if it must be published (again)."""
        self._created: dict[str, float] = {}
        """Creation times of these streams: a deleted stream may have been created again with the same id."""
        self._pending: dict[str, None] = {}
        """Streams whose choice must be published, oldest first."""
        self._elsewhere: set[str] = set()
        """Streams that another worker owned at the last scan."""
        lease = service.store.lease
        # scans extend leases, which is due after half of a lease
        self._interval = SCAN_INTERVAL if lease is None else min(SCAN_INTERVAL, 0.25 * lease)

    async def run(self) -> None:
        """Connect, and connect again whenever the connection ends."""
        wait = RETRY[0]
        self._set_problem("not connected yet")
        while True:
            connected_at = None
            try:
                async with self.aiomqtt.Client(**self.options) as client:
                    connected_at = time.monotonic()
                    # a restarted broker may have lost retained messages; those of deleted streams it may have kept
                    self._published = dict.fromkeys(self._published, -1)
                    await client.subscribe(f"{PREFIX}/+/obs", qos=1)
                    self._set_problem("")
                    async with self._available(client), asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._publish_loop(client))
                        tasks.create_task(self._listen(client))
            except* self.aiomqtt.MqttError as errors:
                self._set_problem("the broker is not available")
                self.service.metrics.broker_failures.add("connection")
                log.warning("the broker is not available; next attempt in %g s: %s", wait, errors.exceptions[0])
            except* Exception as errors:  # a bug must not end the bridge for good
                self._set_problem(f"failed: {type(errors.exceptions[0]).__name__}")
                self.service.metrics.broker_failures.add("bridge")
                log.error("the bridge failed; it restarts in %g s", wait, exc_info=errors)
            if connected_at is not None and time.monotonic() - connected_at > RETRY[1]:
                wait = RETRY[0]  # it worked for a while
            await sleep(wait)
            wait = min(2.0 * wait, RETRY[1])

    @asynccontextmanager
    async def _available(self, client: Any) -> AsyncIterator[None]:
        """Publish that this worker is available, and when it stops that it is not."""
        if self.discovery is None:
            yield
            return
        self.discovery.refresh()
        await client.publish(self.discovery.availability, ONLINE, qos=1, retain=True)
        try:
            yield
        except asyncio.CancelledError:  # the broker publishes the will only if the connection is lost
            with suppress(self.aiomqtt.MqttError, TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await client.publish(self.discovery.availability, OFFLINE, qos=1, retain=True)
            raise

    def _set_problem(self, problem: str) -> None:
        """Set what /healthz reports about the bridge."""
        self.service.components["mqtt"] = problem

    async def _listen(self, client: Any) -> None:
        async for message in client.messages:
            stream = str(message.topic).split("/")[1]
            if stream in self._elsewhere:
                continue
            if re.fullmatch(ID, stream) is None:  # not an id, which is therefore not used in a topic
                log.warning("an observation for an invalid stream id was ignored: %.80r", stream)
                continue
            try:
                tick = await self._observe(stream, bytes(message.payload or b""))
            except OwnedElsewhere:
                # the observation is lost: publish the choice again if this worker gets the stream
                if stream in self._published:
                    self._published[stream] = -1
                continue
            except RequestError as refused:
                self.service.metrics.messages.add("failed" if refused.status >= 500 else "refused")
                if refused.status == 503:
                    log.warning(
                        "an observation was not stored: %s", refused.error, extra={"fields": {"stream": stream}}
                    )
                await client.publish(f"{PREFIX}/{stream}/error", json_text(refused.body()), qos=1)
                continue
            except Exception:  # must not affect other messages
                self.service.metrics.messages.add("failed")
                log.exception("an observation failed", extra={"fields": {"stream": stream}})
                error = json_text({"error": "internal error; see the log of the service", "expected": None})
                await client.publish(f"{PREFIX}/{stream}/error", error, qos=1)
                continue
            self.service.metrics.messages.add("stored")
            if self._published.get(stream, -1) <= tick:
                await self._publish_choices(client, [stream])

    async def _observe(self, stream: str, payload: bytes) -> int:
        """Execute an observation; returns its tick."""
        if len(payload) > MAX_MESSAGE:
            raise RequestError(413, f"a message must be at most {MAX_MESSAGE} bytes")
        try:
            body = Observation.model_validate(json.loads(payload))
        except (ValidationError, ValueError, RecursionError) as error:
            expected = {"tick": "a whole number", "fidelity": "a name", "x": "a reading"}
            raise RequestError(422, f"not an observation: {str(error)[:300]}", expected) from None
        step = await self.service.run_one(ObserveCommand(stream, body.tick, body.fidelity, body.x))
        if self.discovery is not None:
            self.discovery.on_step(stream, step)
        return body.tick

    async def _publish_loop(self, client: Any) -> None:
        """Publish the choices of all streams, and new ones whenever they change, however they were observed."""
        while True:
            until = time.monotonic() + self._interval
            try:
                await self._scan_and_publish(client, until)
            except RequestError as refused:
                log.warning("choices were not published: %s", refused.error)
            await asyncio.sleep(until - time.monotonic())

    async def _scan_and_publish(self, client: Any, until: float) -> None:
        """Scan all streams, then publish until the next scan is due: it extends leases, so it cannot wait."""
        await self._scan(client)
        while self._pending:
            some = list(islice(self._pending, BATCH))
            for stream in some:
                del self._pending[stream]
            await self._publish_choices(client, some)
            if time.monotonic() > until:
                break

    async def _scan(self, client: Any) -> None:
        """Find out which streams exist, which of them this worker owns, and which choices are new."""
        offset = 0
        existing: set[str] = set()
        while rows := (await asyncio.to_thread(self.service.store.streams, "", "created", 1000, offset))[0]:
            offset += len(rows)
            existing |= {row.id for row in rows}
            owned = await self._owned(rows)
            for row in rows:
                if row.id not in owned:  # it may be changing its owner, which the next scan will show
                    continue
                if not owned[row.id] or self._created.get(row.id) != row.created:
                    self._published.pop(row.id, None)
                    self._pending.pop(row.id, None)
                    if self.discovery is not None:
                        self.discovery.forget(row.id)
                if not owned[row.id]:
                    self._elsewhere.add(row.id)
                    continue
                self._elsewhere.discard(row.id)
                self._created[row.id] = row.created
                news = self.discovery is not None and self.discovery.on_row(row)
                if self._published.setdefault(row.id, -1) < row.tick or news:
                    self._pending[row.id] = None
        for deleted in set(self._published) - existing:
            self._pending.pop(deleted, None)
            topics = [] if self.discovery is None else self.discovery.removal(deleted)
            for topic in (*topics, f"{PREFIX}/{deleted}/next"):
                await client.publish(topic, None, qos=1, retain=True)
            if self.discovery is not None:
                self.discovery.forget(deleted)
            # only now: if publishing fails, the retained message must still be removed
            self._published.pop(deleted, None)
        self._elsewhere &= existing
        self._created = {stream: created for stream, created in self._created.items() if stream in existing}

    async def _owned(self, rows: list[StreamRow]) -> dict[str, bool]:
        """Whether this worker owns each stream, see `Store.claim`."""
        names = [row.id for row in rows]
        store = self.service.store
        # with a single worker the answer is known without the store
        return (
            store.claim(names)
            if store.lease is None
            else await self.service.run_exclusive(lambda: store.claim(names))
        )

    async def _publish_choices(self, client: Any, streams: list[str]) -> None:
        """Publish the choices of streams that are newer than the published ones."""
        choices = await self.service.run([ChooseCommand(stream) for stream in streams])
        for stream, choice in zip(streams, choices, strict=True):
            if isinstance(choice, RequestError):  # it was deleted meanwhile, or the next scan finds it again
                continue
            tick = json.loads(choice)["tick"]
            if self._published.get(stream, -1) < tick:  # otherwise the other task has published it meanwhile
                self._published[stream] = tick
                await client.publish(f"{PREFIX}/{stream}/next", choice, qos=1, retain=True)
            for topic, payload in ({} if self.discovery is None else self.discovery.take(stream)).items():
                await client.publish(topic, payload, qos=1, retain=True)

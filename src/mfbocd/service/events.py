"""Steps as server-sent events, which resume where a client stopped reading."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from .auth import Client
from .errors import RequestError, UnavailableError
from .records import Event, json_text
from .service import Service

PAGE = 500
"""Steps read from the store at a time."""
MIN_INTERVAL = 0.1
"""Seconds between two reads once a watcher has caught up: there may be thousands of steps per second."""
KEEP_ALIVE = 15.0
"""Seconds without a step after which a comment is sent, so that a broken connection is noticed."""


def start_position(last_event_id: str | None, default: int) -> int:
    """The position after which to start: the id of the last event that a client has seen, or the default.

    >>> start_position("17", 3), start_position(None, 3)
    (17, 3)
    """
    if last_event_id is None or last_event_id == "":
        return default
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 16:
        raise RequestError(
            422, f"Last-Event-ID must be a number, not {last_event_id[:40]!r}", {"Last-Event-ID": "a number"}
        )
    return int(last_event_id)


def format_event(event: Event, *, all_streams: bool) -> bytes:
    """A server-sent event. Its id is the tick among the events of one stream, else the sequence number."""
    step = event.step if not all_streams else f'{{"stream":{json_text(event.stream)},{event.step[1:]}'
    kind = "alarm" if event.alarm else "step"
    return f"id: {event.seq if all_streams else event.tick}\nevent: {kind}\ndata: {step}\n\n".encode()


async def watch(service: Service, stream: str | None, after: int, client: Client) -> AsyncIterator[bytes]:
    """Past steps after a position, then new ones, until the service stops or the client is no longer allowed.

    Parameters
    ----------
    service : Service
    stream : str or None
        Id of a stream; None for all streams.
    after : int
        A tick if there is a stream, else a sequence number.
    client : Client
        Who watches, as long as it is allowed.
    """
    found: list[Event] = []
    last_sent = time.monotonic()
    yield b"retry: 1000\n\n"
    while not service.closing and client.is_allowed():
        try:
            if len(found) < PAGE:
                found = await service.read(_read_page, service, stream, after)
            else:  # far behind: others must not wait for it
                found = await service.read_bulk(f"{client.name} watching", _read_page, service, stream, after)
        except UnavailableError:  # it may recover; a client would only reconnect
            found = []
        for event in found:
            after = event.tick if stream is not None else event.seq
        if found:
            last_sent = time.monotonic()
            yield b"".join(format_event(event, all_streams=stream is None) for event in found)
            if len(found) < PAGE:
                await asyncio.sleep(MIN_INTERVAL)
            continue
        if time.monotonic() - last_sent > KEEP_ALIVE:
            last_sent = time.monotonic()
            yield b": still here\n\n"
        await service.wait_for_commit()


class EventStreamResponse(StreamingResponse):
    """The output of `watch`. It is counted for its client, and refused (429) if there are too many."""

    def __init__(self, service: Service, stream: str | None, after: int, client: Client) -> None:
        super().__init__(
            watch(service, stream, after, client),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
        self._service, self._client = service, client

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond. The client is counted here, so that it is counted exactly once however the response ends."""
        limits, watching, name = self._service.settings.limits, self._service.watching, self._client.name
        if watching.total() >= limits.watchers:
            raise RequestError(429, f"{limits.watchers} clients watch already, which is the limit of this service")
        if limits.client_watchers and watching[name] >= limits.client_watchers:
            raise RequestError(429, f"this client has {watching[name]} event streams open, which is the limit")
        watching[name] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            watching[name] -= 1
            if not watching[name]:
                del watching[name]


def _read_page(service: Service, stream: str | None, after: int) -> list[Event]:
    store = service.store
    return store.events_after(after, PAGE) if stream is None else store.events(stream, after, PAGE)

"""Steps as they happen: server-sent events that resume where a client left off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import StreamingResponse

from .auth import Client
from .errors import RequestError, UnavailableError
from .records import Event, text
from .service import Service

PAGE = 500
"""Steps read from the store at once."""
GAP = 0.1
"""Seconds a watcher that has seen everything waits before it looks again: steps may come by the thousand."""
QUIET = 15.0
"""Seconds after which a line is sent that says nothing, so that a broken connection is noticed."""


def place_of(last: str | None, start: int) -> int:
    """Where to go on: after the id a client saw last, if it is one.

    >>> place_of("17", 3), place_of(None, 3)
    (17, 3)
    """
    if last is None or last == "":
        return start
    if not last.isascii() or not last.isdigit() or len(last) > 16:
        raise RequestError(422, f"Last-Event-ID must be a number, not {last[:40]!r}", {"Last-Event-ID": "a number"})
    return int(last)


def written(event: Event, *, of_all: bool) -> bytes:
    """One event: its id is the tick in one stream's events, and the place among all in everybody's."""
    step = event.step if not of_all else f'{{"stream":{text(event.stream)},{event.step[1:]}'
    kind = "alarm" if event.alarm else "step"
    return f"id: {event.seq if of_all else event.tick}\nevent: {kind}\ndata: {step}\n\n".encode()


async def watch(
    service: Service, stream: str | None, after: int, valid: Callable[[], bool] = lambda: True
) -> AsyncIterator[bytes]:
    """Every step after a place, then those to come, until the client goes or may not, or the service ends."""
    spoke = time.monotonic()
    yield b"retry: 1000\n\n"
    while not service.closing and valid():
        try:
            found = await service.read(_page, service, stream, after)
        except UnavailableError:  # it may come back; a client would only ask again
            found = []
        for event in found:
            after = event.tick if stream is not None else event.seq
        if found:
            spoke = time.monotonic()
            yield b"".join(written(event, of_all=stream is None) for event in found)
            if len(found) < PAGE:
                await asyncio.sleep(GAP)
            continue
        if time.monotonic() - spoke > QUIET:
            spoke = time.monotonic()
            yield b": still here\n\n"
        await service.news()


class Watched(StreamingResponse):
    """`watch` as an answer; counted for its client while it lasts, and refused (429) if there are too many."""

    def __init__(self, service: Service, stream: str | None, after: int, client: Client) -> None:
        super().__init__(
            watch(service, stream, after, client.valid),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
        self._service, self._client = service, client

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer; from the check to the end of the answer, so that it is counted in any case, and but once."""
        limits, watching, name = self._service.settings.limits, self._service.watching, self._client.name
        if watching.total() >= limits.watchers:
            raise RequestError(429, f"{limits.watchers} clients watch already, the most this service serves")
        if limits.client_watchers and watching[name] >= limits.client_watchers:
            raise RequestError(
                429, f"this client has {watching[name]} of its event streams open, the most it may have"
            )
        watching[name] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            watching[name] -= 1
            if not watching[name]:
                del watching[name]


def _page(service: Service, stream: str | None, after: int) -> list[Event]:
    store = service.store
    return store.tail(after, PAGE) if stream is None else store.events(stream, after, PAGE)

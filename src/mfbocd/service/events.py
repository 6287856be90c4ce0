"""Steps as they happen: server-sent events that resume where a client left off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from .errors import Refused
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
        raise Refused(422, f"Last-Event-ID must be a number, not {last[:40]!r}", {"Last-Event-ID": "a number"})
    return int(last)


def written(event: Event, *, of_all: bool) -> bytes:
    """One event: its id is the tick in one stream's events, and the place among all in everybody's."""
    step = event.step if not of_all else f'{{"stream":{text(event.stream)},{event.step[1:]}'
    kind = "alarm" if event.alarm else "step"
    return f"id: {event.seq if of_all else event.tick}\nevent: {kind}\ndata: {step}\n\n".encode()


async def watch(service: Service, stream: str | None, after: int) -> AsyncIterator[bytes]:
    """Every step after a place, then those to come, until the client goes or the service ends."""
    spoke = time.monotonic()
    yield b"retry: 1000\n\n"
    while not service.closing:
        found = await asyncio.to_thread(_page, service, stream, after)
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


async def counted(service: Service, stream: str | None, after: int) -> AsyncIterator[bytes]:
    """`watch`, counted while it lasts."""
    service.watching += 1
    try:
        async for part in watch(service, stream, after):
            yield part
    finally:
        service.watching -= 1


def _page(service: Service, stream: str | None, after: int) -> list[Event]:
    store = service.store
    return store.tail(after, PAGE) if stream is None else store.events(stream, after, PAGE)

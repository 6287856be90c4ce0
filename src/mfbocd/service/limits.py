"""What a client may ask for: sizes, counts, rates and time."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from .records import text


@dataclass(frozen=True)
class Limits:
    """Bounds of one service."""

    body: int = 1_048_576
    """Bytes of a request."""
    batch: int = 1000
    """Commands in one request."""
    streams: int = 10_000
    state: int = 1_048_576
    """Bytes of one stream's state, at its largest: a config without pruning grows until then."""
    work: float = 2e9
    """Operations of one tick of one stream, at the most: about as many nanoseconds."""
    rate: float = 0.0
    """Requests a second from one client, on average; 0 is no bound."""
    burst: float = 100.0
    """How many a client may be ahead of its rate."""
    patience: float = 15.0
    """Seconds a request's header may take to arrive, and its body then."""
    page: int = 10_000
    """Steps in one page of a trace."""
    watchers: int = 200
    """Open /events at a time,"""
    client_watchers: int = 50
    """and of one client, by token or address; 0 is no bound of its own."""
    header: int = 32_768
    """Bytes of a request's first line and header,"""
    headers: int = 100
    """and how many headers there may be."""
    connections: int = 2000
    """Open connections at a time; 0 is no bound,"""
    client_connections: int = 200
    """from one address; 0 is no bound of its own,"""
    half_open: int = 100
    """and from one address without a complete request; of more, the oldest is closed. 0 is no bound of its own."""


def client_of(address: str) -> str:
    """What is counted as one client: an address, or for IPv6 the network of which a host may choose its addresses.

    >>> client_of("10.0.0.7"), client_of("2001:db8:1:2:3:4:5:6"), client_of("::ffff:10.0.0.7")
    ('10.0.0.7', '2001:db8:1:2::/64', '10.0.0.7')
    """
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))


class Rate:
    """Who asks too often: a bucket a client, refilled at `rate` a second, of the last clients that asked.

    >>> rate = Rate(10.0, burst=2.0)
    >>> [rate.take("a", now) for now in (0.0, 0.0, 0.0, 0.1)]  # what is left to wait, in seconds
    [0.0, 0.0, 0.1, 0.0]
    """

    def __init__(self, rate: float, burst: float, clients: int = 10_000) -> None:
        self.rate, self.burst, self.clients = rate, burst, clients
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float | None = None) -> float:
        """0 if the client may go on, else the seconds until it may."""
        if self.rate <= 0.0:
            return 0.0
        now = time.monotonic() if now is None else now
        left, seen = self._left.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - seen) * self.rate)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self.rate
        self._left[client] = (left - (wait == 0.0), now)
        if len(self._left) > self.clients:
            self._left.popitem(last=False)
        return wait


class BodyLimit:
    """Refuses a request whose body is too large (413) or too slow (408) before anything else reads it."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > self.limits.body:
            await refuse(send, 413, f"the body must be at most {self.limits.body} bytes")
            return
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.patience):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.limits.body:
                        await refuse(send, 413, f"the body must be at most {self.limits.body} bytes")
                        return
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            await refuse(send, 408, f"the body must arrive within {self.limits.patience:g} seconds")
            return
        whole = {"type": "http.request", "body": b"".join(parts), "more_body": False}
        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return whole

        await self.app(scope, again, send)


async def refuse(send: Any, status: int, error: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """A refusal from outside the application; the connection is not used again."""
    body = text({"error": error, "expected": None}).encode()
    head = [(b"content-type", b"application/json"), (b"connection", b"close"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})

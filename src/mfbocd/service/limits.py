"""Limits on what clients may request: sizes, counts, rates and times."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..inputs.arguments import finite, whole
from .records import json_text


@dataclass(frozen=True)
class Limits:
    """Limits of one service; 0 means no limit where noted."""

    body: int = 1_048_576
    """Bytes of a request."""
    batch: int = 1000
    """Streams in one batched request."""
    streams: int = 10_000
    """Streams in the store."""
    state: int = 1_048_576
    """Largest state of a stream in bytes; a state that is not pruned grows up to this."""
    tick: float = 2.0
    """Seconds of computing time of one tick of one stream and of the choice after it, when its state is largest."""
    memory: int = 268_435_456
    """Bytes that a stream may take while it is created, and while a tick is computed (on Linux)."""
    rate: float = 0.0
    """Requests per second from one client, on average; 0 is no limit."""
    burst: float = 100.0
    """Requests that a client may send ahead of its rate."""
    patience: float = 15.0
    """Seconds in which the header of a request must arrive, and then its body."""
    page: int = 10_000
    """Steps in one page of a trace."""
    watchers: int = 200
    """Open /events connections."""
    client_watchers: int = 50
    """Open /events connections of one client, by token or address; 0 is no limit."""
    header: int = 32_768
    """Bytes of the first line and the header of a request."""
    headers: int = 100
    """Header fields of a request."""
    connections: int = 2000
    """Open connections; 0 is no limit."""
    client_connections: int = 200
    """Open connections from one address; 0 is no limit."""
    half_open: int = 100
    """Connections from one address without a complete request, of which the oldest is closed; 0 is no limit."""
    stream_metrics: int = 0
    """Streams with metrics of their own, the oldest first; 0 is none. Each adds three series."""
    silent: float = 900.0
    """Seconds without an observation after which the metrics count a stream as silent."""


LEAST: Mapping[str, float] = {
    **dict.fromkeys(("body", "state", "header"), 1024),
    **dict.fromkeys(("batch", "streams", "work", "burst", "page"), 1),
    "headers": 20,
    "patience": 0.1,
}
"""The least value of each limit with which the service can still answer an ordinary request; 0 of the others."""


def limit_of(name: str, given: Any) -> float:
    """A field of `Limits` as an operator gave it; raises an error if it is not valid."""
    least = LEAST.get(name, 0)
    if isinstance(getattr(Limits, name), int):
        return whole("serve", name, given, int(least))
    number = finite("serve", name, given)
    if number < least:
        raise ValueError(f"serve.{name} must be at least {least:g}, not {given!r}")
    return number


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 address.

    A host can choose its IPv6 addresses within that network.

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


class RateLimiter:
    """A token bucket per client, refilled at `rate` per second, for the clients that were active last.

    >>> limiter = RateLimiter(10.0, burst=2.0)
    >>> [limiter.acquire("a", now) for now in (0.0, 0.0, 0.0, 0.1)]  # seconds to wait
    [0.0, 0.0, 0.1, 0.0]
    """

    def __init__(self, rate: float, burst: float, clients: int = 10_000) -> None:
        self.rate, self.burst, self.clients = rate, burst, clients
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def acquire(self, client: str, now: float | None = None) -> float:
        """Count a request; 0 if it is allowed, else the seconds until the next one is."""
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


BODY = "mfbocd.body"
"""Key of the body in the ASGI scope of a request, after `BodyLimit`."""


class BodyLimit:
    """Middleware that refuses a request whose body is too large (413) or too slow (408)."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > self.limits.body:
            await send_error(send, 413, f"the body must be at most {self.limits.body} bytes")
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
                        await send_error(send, 413, f"the body must be at most {self.limits.body} bytes")
                        return
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            await send_error(send, 408, f"the body must arrive within {self.limits.patience:g} seconds")
            return
        whole = {"type": "http.request", "body": b"".join(parts), "more_body": False}
        scope[BODY] = whole["body"]
        delivered = False

        async def receive_body() -> Any:
            nonlocal delivered
            if delivered:
                return await receive()
            delivered = True
            return whole

        await self.app(scope, receive_body, send)


async def send_error(
    send: Any, status: int, error: str, headers: list[tuple[bytes, bytes]] | None = None, *, close: bool = True
) -> None:
    """Send an error from a middleware, and close the connection if its request may not have been read."""
    body = json_text({"error": error, "expected": None}).encode()
    length = b"%d" % len(body)
    head = [(b"content-type", b"application/json"), (b"content-length", length), *(headers or [])]
    head += [(b"connection", b"close")] if close else []
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})

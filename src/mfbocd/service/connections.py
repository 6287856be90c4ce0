"""What a connection may cost before anybody knows who is at its other end: bytes, time, and how many there are."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from http import HTTPStatus
from typing import Any

from .limits import Limits, client_of
from .records import text

PIPELINE = 32
"""Requests of one connection that may wait for an answer to an earlier one."""
CHUNK = 8
"""Bytes of framing allowed for a byte of a body: a chunk of one byte has five."""


class Connections:
    """The open connections of one server, by the address of the client."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self._of: Counter[str] = Counter()
        self._half_open: dict[str, OrderedDict[Any, None]] = {}
        """Connections without a complete request header, the oldest first."""

    def enter(self, connection: Any, address: str) -> str:
        """Count a connection; why it is one too many, if it is."""
        self.count += 1
        self._of[address] += 1
        most, each = self.limits.connections, self.limits.client_connections
        if most and self.count > most:
            return f"{most} connections are open, the most this service has"
        if each and self._of[address] > each:
            return f"{each} connections are open from {address}, the most one address may have"
        return ""

    def leave(self, connection: Any, address: str) -> None:
        """Forget a connection."""
        self.complete(connection, address)
        self.count -= 1
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]

    def incomplete(self, connection: Any, address: str) -> None:
        """A header is awaited. Of too many from one address the oldest is closed.

        Refusing the newest instead would let a client that sends nothing lock out those who share its address.
        """
        waiting = self._half_open.setdefault(address, OrderedDict())
        waiting[connection] = None
        if self.limits.half_open and len(waiting) > self.limits.half_open:
            oldest, _ = waiting.popitem(last=False)
            oldest.transport.close()

    def complete(self, connection: Any, address: str) -> None:
        """A header is there, or is no longer awaited."""
        waiting = self._half_open.get(address)
        if waiting is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._half_open[address]


class _TooMuch(Exception):  # noqa: N818 (a client's doing)
    """Ends the parsing of a request."""


def guarded(protocol: type[asyncio.Protocol], limits: Limits) -> type[asyncio.Protocol]:
    """One of uvicorn's HTTP protocols, with bounds on what comes before the application sees a request.

    uvicorn itself waits for ever for a first request and for the rest of one, has no bound on a header (with
    httptools), on the framing of a body, on trailers and on pipelined requests, and keeps any number of connections.
    """
    connections = Connections(limits)
    counts = hasattr(protocol, "on_body")  # httptools; h11 bounds what it has not understood, given `limits.header`
    largest_body = 2 * limits.body + 1_048_576  # `BodyLimit` refuses sooner, where it is the application that reads

    class Guarded(protocol):  # type: ignore[misc, valid-type]
        _late: asyncio.TimerHandle | None = None
        _address = "?"
        _framing = 0
        """Bytes of the message under way that are not its body."""
        _body = 0
        _in_header = True
        _refusal = (400, "not an HTTP request")
        _open: tuple[Any, ...] = ()
        """Requests whose answer is not complete."""

        # --- the connection ------------------------------------------------------------------------------------

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._address = client_of(self.client[0]) if self.client else "?"
            if crowded := connections.enter(self, self._address):
                self._refuse(503, crowded)
                return
            self._await_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._header_is_there()
            connections.leave(self, self._address)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return  # what was under way when it was refused
            before = self.cycle
            self._framing += len(data)
            super().data_received(data)
            if self.cycle is not before:  # a header is complete: uvicorn makes a cycle of it
                self._header_is_there()
            elif self._late is None and (before is None or before.response_complete):
                self._await_header()
            if counts and not self.transport.is_closing():
                self._bound()

        def _await_header(self) -> None:
            self._late = self.loop.call_later(limits.patience, self.transport.close)
            connections.incomplete(self, self._address)

        def _header_is_there(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None
            connections.complete(self, self._address)

        def _bound(self) -> None:
            if self._in_header and self._framing > limits.header:
                self._refuse(431, f"the header must be at most {limits.header} bytes")
            elif self._framing > limits.header + CHUNK * self._body or self._body > largest_body:
                self._refuse(413, "the body has too much framing, or trailers, or is too large")

        # --- the calls of httptools' parser --------------------------------------------------------------------

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_header, self._body = True, 0

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self._in_header:
                return  # a trailer: uvicorn would add it to the header, which has been looked at
            super().on_header(name, value)
            if len(self.headers) > limits.headers:
                self._stop(431, f"a request must have at most {limits.headers} headers")

        def on_headers_complete(self) -> None:
            self._in_header = False
            if self._size() > limits.header:
                self._stop(431, f"the header must be at most {limits.header} bytes")
            super().on_headers_complete()
            self._open = (*(cycle for cycle in self._open if not cycle.response_complete), self.cycle)
            if len(self.pipeline) > PIPELINE:
                self._stop(400, f"at most {PIPELINE} requests may wait for an answer on one connection")

        def on_body(self, body: bytes) -> None:
            self._framing -= len(body)
            self._body += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_header, self._framing = True, 0

        def _size(self) -> int:
            return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

        def _stop(self, status: int, why: str) -> None:
            self._refusal = status, why
            raise _TooMuch(why)  # the parser gives up, and uvicorn answers 400

        # --- refusals ------------------------------------------------------------------------------------------

        def send_400_response(self, msg: str) -> None:
            self._refuse(*self._refusal)

        def _refuse(self, status: int, why: str) -> None:
            """Answer, unless there is an answer under way, and use the connection no more."""
            if self.cycle is None or self.cycle.response_complete:
                body = text({"error": why, "expected": None}).encode()
                retry = "retry-after: 1\r\n" if status == 503 else ""
                head = (
                    f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
                )
                self.transport.write(head.encode() + body)
            for cycle in self._open:  # else the application would go on to write to it, and fail
                cycle.disconnected = True
                cycle.message_event.set()
            self.transport.close()

    return Guarded

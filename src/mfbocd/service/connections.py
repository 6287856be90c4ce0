"""Limits on connections before a request is authenticated: bytes, time, and their number."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from http import HTTPStatus
from typing import Any

from .limits import Limits, client_of
from .records import json_text

_log = logging.getLogger("mfbocd.connections")
_log.setLevel(logging.ERROR)  # uvicorn warns of every request that is not HTTP: anybody could fill the log

MAX_PIPELINED = 32
"""Requests of one connection that may wait for the response to an earlier one."""
MAX_FRAMING = 8
"""Bytes of framing per byte of a body; a chunk of one byte has five."""


class Connections:
    """Counts the open connections of a server by the address of the client."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self._of: Counter[str] = Counter()
        self._half_open: dict[str, OrderedDict[Any, None]] = {}
        """Connections without a complete request header, oldest first."""

    def enter(self, connection: Any, address: str) -> str:
        """Count a connection; the reason if there are too many, else empty."""
        self.count += 1
        self._of[address] += 1
        most, each = self.limits.connections, self.limits.client_connections
        if most and self.count > most:
            return f"{most} connections are open, which is the limit of this service"
        if each and self._of[address] > each:
            return f"{each} connections are open from {address}, which is the limit of one address"
        return ""

    def leave(self, connection: Any, address: str) -> None:
        """Stop counting a connection."""
        self.complete(connection, address)
        self.count -= 1
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]

    def incomplete(self, connection: Any, address: str) -> None:
        """Note that a connection waits for a header. If an address has too many of these, the oldest is closed.

        Refusing the newest instead would let a client that sends nothing lock out others that share its address.
        """
        waiting = self._half_open.setdefault(address, OrderedDict())
        waiting[connection] = None
        if self.limits.half_open and len(waiting) > self.limits.half_open:
            oldest, _ = waiting.popitem(last=False)
            oldest.transport.close()

    def complete(self, connection: Any, address: str) -> None:
        """Note that a connection has a complete header or is closed."""
        waiting = self._half_open.get(address)
        if waiting is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._half_open[address]


class _LimitExceeded(Exception):  # noqa: N818 (not an error of the service)
    """Stops the parser of a request."""


def limit_protocol(protocol: type[asyncio.Protocol], limits: Limits) -> type[asyncio.Protocol]:
    """A subclass of one of uvicorn's HTTP protocols that applies limits before the application sees a request.

    uvicorn itself waits forever for a first request and for the rest of one. It does not limit the number of
    connections, headers (with httptools), the framing of bodies, trailers, or pipelined requests.
    """
    connections = Connections(limits)
    has_parser_calls = hasattr(protocol, "on_body")  # httptools; h11 limits incomplete data itself
    largest_body = 2 * limits.body + 1_048_576  # BodyLimit refuses earlier what the application reads

    class LimitedProtocol(protocol):  # type: ignore[misc, valid-type]
        _header_timer: asyncio.TimerHandle | None = None
        _address = "?"
        _framing = 0
        """Bytes of the current message that are not its body."""
        _body = 0
        _in_header = True
        _refusal = (400, "not an HTTP request")
        _open: tuple[Any, ...] = ()
        """Requests whose response is not complete."""

        # --- the connection ------------------------------------------------------------------------------------

        def connection_made(self, transport: Any) -> None:
            self.logger = _log
            super().connection_made(transport)
            self._address = client_of(self.client[0]) if self.client else "?"
            if reason := connections.enter(self, self._address):
                self._refuse(503, reason)
                return
            self._expect_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._header_complete()
            connections.leave(self, self._address)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return  # data that arrived after a refusal
            before = self.cycle
            self._framing += len(data)
            super().data_received(data)
            if self.cycle is not before:  # uvicorn creates a cycle when a header is complete
                self._header_complete()
            elif self._header_timer is None and (before is None or before.response_complete):
                self._expect_header()
            if has_parser_calls and not self.transport.is_closing():
                self._check_size()

        def _expect_header(self) -> None:
            self._header_timer = self.loop.call_later(limits.patience, self.transport.close)
            connections.incomplete(self, self._address)

        def _header_complete(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None
            connections.complete(self, self._address)

        def _check_size(self) -> None:
            if self._in_header and self._framing > limits.header:
                self._refuse(431, f"the header must be at most {limits.header} bytes")
            elif self._framing > limits.header + MAX_FRAMING * self._body or self._body > largest_body:
                self._refuse(413, "the body is too large, or has too much framing or too many trailers")

        # --- called by the parser of httptools --------------------------------------------------------------------

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_header, self._body = True, 0

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self._in_header:
                return  # a trailer: uvicorn would add it to the header, which was checked already
            super().on_header(name, value)
            if len(self.headers) > limits.headers:
                self._stop(431, f"a request must have at most {limits.headers} headers")

        def on_headers_complete(self) -> None:
            self._in_header = False
            if self._header_size() > limits.header:
                self._stop(431, f"the header must be at most {limits.header} bytes")
            super().on_headers_complete()
            self._open = (*(cycle for cycle in self._open if not cycle.response_complete), self.cycle)
            if len(self.pipeline) > MAX_PIPELINED:
                self._stop(400, f"at most {MAX_PIPELINED} requests may wait for a response on one connection")

        def on_body(self, body: bytes) -> None:
            self._framing -= len(body)
            self._body += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_header, self._framing = True, 0

        def _header_size(self) -> int:
            return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

        def _stop(self, status: int, reason: str) -> None:
            self._refusal = status, reason
            raise _LimitExceeded(reason)  # the parser stops, and uvicorn calls send_400_response

        # --- refusals ------------------------------------------------------------------------------------------

        def send_400_response(self, msg: str) -> None:
            self._refuse(*self._refusal)

        def _refuse(self, status: int, reason: str) -> None:
            """Respond, unless another response is being sent, and close the connection."""
            if self.cycle is None or self.cycle.response_complete:
                body = json_text({"error": reason, "expected": None}).encode()
                retry = "retry-after: 1\r\n" if status == 503 else ""
                head = (
                    f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
                )
                self.transport.write(head.encode() + body)
            for cycle in self._open:  # otherwise the application would write to it, and fail
                cycle.disconnected = True
                cycle.message_event.set()
            self.transport.close()

    return LimitedProtocol

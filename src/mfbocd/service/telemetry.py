"""Middleware that gives every request an id, measures it, and logs and traces it if that is enabled."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from typing import Any

from .auth import CLIENT
from .limits import send_error
from .logs import ACCESS, CONTEXT, RequestContext, request_id
from .tracing import Tracing

log = logging.getLogger(ACCESS)
errors = logging.getLogger("mfbocd.service")

REQUEST = "mfbocd.request"
"""Key of the `RequestContext` in the ASGI scope of a request."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with metrics of their own; a client could invent any number."""


class Telemetry:
    """The outermost middleware: it also sees requests that others refuse.

    Parameters
    ----------
    app : ASGI application
    tracing : Tracing, optional
        No traces by default.
    """

    def __init__(self, app: Any, tracing: Tracing | None = None) -> None:
        self.app, self.tracing = app, tracing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        request = _Request(scope, send, request_id(given))
        context = scope[REQUEST] = RequestContext(request.id, request.stream)
        token = CONTEXT.set(context)
        span = nullcontext() if self.tracing is None else self.tracing.request(scope)
        try:
            with span:
                await self.app(scope, receive, request.send)
                if self.tracing is not None:
                    self.tracing.finish(request.route, request.status, request.id, request.stream)
        except Exception as error:
            if request.status:  # a part of the response is sent: the server logs this and closes the connection
                raise
            errors.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            await send_error(request.send, 500, "internal error; see the log of the service", close=False)
        finally:
            request.finish()
            CONTEXT.reset(token)


class _Request:
    """One request and its response."""

    def __init__(self, scope: Any, send: Any, id: str) -> None:
        self.scope, self.id = scope, id
        self.status = self.size = 0
        self._send = send
        self._started = time.perf_counter()
        self._counted = False
        path: str = scope["path"]
        self.stream = path.split("/", 3)[2] if path.startswith("/streams/") else ""

    @property
    def route(self) -> str:
        """The path of the route with its parameters as names; ``none`` if the request did not reach one."""
        return getattr(self.scope.get("route"), "path", "none")

    async def send(self, message: Any) -> None:
        """Add the id to the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"] = [*message.get("headers", []), (b"x-request-id", self.id.encode())]
            if any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers):
                self._count()  # it ends when the client leaves, which says nothing about the service
        else:
            self.size += len(message.get("body", b""))
        await self._send(message)

    def _count(self) -> None:
        if not self._counted:
            self._counted = True
            method = self.scope["method"] if self.scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - self._started
            # without a status the client has left before the response
            status = str(self.status or 499)
            self.scope["app"].state.service.metrics.requests.observe(seconds, method, self.route, status)

    def finish(self) -> None:
        """Count and log the request."""
        self._count()
        if not log.isEnabledFor(logging.INFO):
            return
        client = self.scope.get(CLIENT)
        address = (self.scope.get("client") or ("?",))[0]
        path = self.scope.get("raw_path", self.scope["path"].encode()).decode("latin-1")
        ms = round(1000.0 * (time.perf_counter() - self._started), 3)
        fields = {
            "method": self.scope["method"],
            "path": path,
            "route": self.route,
            "status": self.status or 499,
            "duration_ms": ms,
            "bytes": self.size,
            "address": address,
            "client": client.name if client is not None else None,
        }
        log.info(
            "%s %s %s %d %d bytes %.1f ms",
            *(address, self.scope["method"], path, self.status or 499, self.size, ms),
            extra={"fields": fields},
        )

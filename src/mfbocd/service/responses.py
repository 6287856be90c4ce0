"""Answers as JSON bytes, and refusals and mistakes as answers."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from .errors import OwnedElsewhere, RequestError
from .forward import moving
from .records import encoded
from .schemas import Failure
from .service import Service

log = logging.getLogger("mfbocd.service")

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": said}
    for status, said in (
        (400, "The body is no JSON."),
        (401, "A token is required."),
        (403, "The token may not do this."),
        (404, "There is no such thing."),
        (408, "The body took too long."),
        (409, "Another tick, fidelity or observation was expected; the answer says which."),
        (413, "Too large."),
        (421, "Another worker has the stream, and cannot be asked from here."),
        (422, "What was sent cannot be taken; the answer says why."),
        (429, "Too many requests, streams or watchers."),
        (431, "The header is too large, or has too many fields."),
        (503, "The store, or the worker that has the stream, is not available: try again."),
    )
}


def service_of(request: Request) -> Service:
    """The service a request is for."""
    found: Service = request.app.state.service
    return found


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain values as JSON."""
    return written(encoded(value), status, headers)


def written(body: bytes | str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """What is JSON already."""
    return Response(body, status, headers=headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    if isinstance(error, OwnedElsewhere):
        forwarder = service_of(request).forwarder
        if forwarder.can(error.worker, request.headers):
            query = f"?{request.url.query}" if request.url.query else ""
            path = request.scope["raw_path"].decode("latin-1") + query
            try:
                status, headers, body = await forwarder.send(
                    error.worker, request.method, path, request.headers, await request.body()
                )
            except RequestError as refused:
                error = refused
            else:
                return Response(body, status, headers)
        elif error.worker in ("", forwarder.worker):  # it is being taken by a worker at this moment
            error = moving()
    return answer(error.body(), error.status, {"Retry-After": "1"} if error.status == 503 else None)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    expected = {".".join(str(part) for part in e["loc"][1:]) or "body": e["msg"] for e in error.errors()[:20]}
    status = 400 if first["type"] == "json_invalid" else 422
    return answer({"error": f"{where}: {first['msg']}", "expected": expected}, status)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return answer({"error": str(error.detail), "expected": None}, error.status_code, headers)


def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer({"error": "the service failed; its log says why", "expected": None}, 500)


def answer_errors(app: FastAPI) -> None:
    """Every error is JSON of one shape."""
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)

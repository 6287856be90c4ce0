"""Answers as JSON bytes, and refusals and mistakes as answers."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from .bodies import Failure
from .errors import Elsewhere, Refused
from .records import encoded
from .service import Service

log = logging.getLogger("mfbocd.service")

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": said}
    for status, said in (
        (307, "Another worker has the stream: ask there."),
        (400, "The body is no JSON."),
        (401, "A token is required."),
        (403, "The token may not do this."),
        (404, "There is no such thing."),
        (408, "The body took too long."),
        (409, "Another tick, fidelity or observation was expected; the answer says which."),
        (413, "Too large."),
        (421, "Another worker has the stream."),
        (422, "What was sent cannot be taken; the answer says why."),
        (429, "Too many requests, streams or watchers."),
        (431, "The header is too large, or has too many fields."),
        (503, "The store is not available; nothing was changed."),
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


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers: dict[str, str] = {}
    status = error.status
    if status == 503:
        headers["Retry-After"] = "1"
    if isinstance(error, Elsewhere) and error.worker.startswith(("http://", "https://")):
        status = 307
        query = f"?{request.url.query}" if request.url.query else ""
        headers["Location"] = error.worker.rstrip("/") + request.url.path + query
    return answer(error.body(), status, headers)


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
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)

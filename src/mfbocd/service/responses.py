"""JSON responses, and the conversion of exceptions into them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from .errors import OwnedElsewhere, RequestError
from .records import json_bytes
from .schemas import Failure
from .service import Service

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": description}
    for status, description in (
        (400, "The body is not JSON."),
        (401, "A token is required."),
        (403, "The token does not permit this."),
        (404, "It does not exist."),
        (408, "The body took too long."),
        (409, "Another tick, fidelity or observation was expected; the response says which."),
        (413, "Too large."),
        (421, "Another worker owns the stream and cannot be reached from here."),
        (422, "The request is not valid; the response says why."),
        (429, "Too many requests, streams or watchers."),
        (431, "The header is too large, or has too many fields."),
        (503, "The store, or the worker that owns the stream, is not available: try again."),
    )
}


def service_of(request: Request) -> Service:
    """The service that handles a request."""
    found: Service = request.app.state.service
    return found


def respond(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response with this value."""
    return respond_json(json_bytes(value), status, headers)


def respond_json(body: bytes | str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response whose body is encoded already."""
    return Response(body, status, headers=headers, media_type="application/json")


async def error_response(request: Request, error: Exception) -> Response:
    """Forward a request for a stream of another worker; otherwise report the error."""
    assert isinstance(error, RequestError)
    if isinstance(error, OwnedElsewhere):
        forwarder = service_of(request).forwarder
        if forwarder.can_forward(error.worker, request.headers):
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
        else:
            error = forwarder.refusal(error)
    return respond(error.body(), error.status, {"Retry-After": "1"} if error.status == 503 else None)


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    expected = {".".join(str(part) for part in e["loc"][1:]) or "body": e["msg"] for e in error.errors()[:20]}
    status = 400 if first["type"] == "json_invalid" else 422
    return respond({"error": f"{where}: {first['msg']}", "expected": expected}, status)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return respond({"error": str(error.detail), "expected": None}, error.status_code, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error a JSON response of the same form."""
    app.add_exception_handler(RequestError, error_response)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)

"""Log records with time, request and stream, as text or as lines of JSON."""

from __future__ import annotations

import logging
import random
import re
import sys
import time
from contextvars import ContextVar
from typing import IO, Any, NamedTuple

from .records import json_text

FORMATS = ("text", "json")
ACCESS = "mfbocd.access"
"""Logger of requests."""
_random = random.Random()  # ids are not secret, and asking the system would release the GIL in every request
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.:/+=-]{1,128}")


class RequestContext(NamedTuple):
    """The request that the current task handles."""

    request_id: str = ""
    stream: str = ""


_NO_REQUEST = RequestContext()
CONTEXT: ContextVar[RequestContext] = ContextVar("mfbocd_request", default=_NO_REQUEST)
"""Set while a request is handled; log records contain it."""


def request_id(given: bytes | None) -> str:
    """The id of a request: the one that a proxy or client sent, if it is harmless, else a new one.

    >>> request_id(b"7f-3"), len(request_id(b"two\\nlines")), len(request_id(None))
    ('7f-3', 16, 16)
    """
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_random.getrandbits(64):016x}"


class _Formatter(logging.Formatter):
    """What both formats share."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """The time in UTC, with milliseconds."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Request, stream, and the fields that the caller has added as ``extra={"fields": ...}``."""
        context = CONTEXT.get()
        found: dict[str, Any] = {"request_id": context.request_id, "stream": context.stream}
        found |= getattr(record, "fields", {})
        return {name: value for name, value in found.items() if value not in ("", None)}


class JsonFormatter(_Formatter):
    """One line of JSON per record.

    Examples
    --------
    >>> record = logging.LogRecord("a", logging.WARNING, "", 0, "%d left", (3,), None)
    >>> record.created, record.msecs, record.fields = 0.0, 0.0, {"stream": "walk"}
    >>> print(JsonFormatter().format(record))
    {"time":"1970-01-01T00:00:00.000Z","level":"warning","logger":"a","message":"3 left","stream":"walk"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        found = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json_text(found)


class TextFormatter(_Formatter):
    """One line per record, and a traceback if there is one. Control characters of clients are escaped."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, with the request and the stream."""
        record.message = _printable(record.message)
        known = [
            f"{name}={_printable(str(value))}"
            for name, value in self.fields(record).items()
            if name in ("request_id", "stream")
        ]
        return super().formatMessage(record) + (f" [{' '.join(known)}]" if known else "")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def configure(format: str, level: str, *, access: bool, output: IO[str] | None = None) -> None:
    """Set up the logs of the process.

    Parameters
    ----------
    format : str
        ``"text"`` or ``"json"``.
    level : str
        The least severe level to log.
    access : bool
        Whether every request is logged.
    output : file, optional
        Standard error by default.
    """
    handler = logging.StreamHandler(output or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)  # such as those of an operator's observers
    logging.getLogger(ACCESS).setLevel(logging.INFO if access else logging.CRITICAL)
    for noisy in ("httpx", "httpcore"):  # they log every request at INFO, with addresses that may be secret
        logging.getLogger(noisy).setLevel(logging.WARNING)

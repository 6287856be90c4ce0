"""Errors that become responses with a status other than success."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : int
        HTTP status.
    error : str
        The reason.
    expected : dict, optional
        What the client should have sent instead.

    Examples
    --------
    >>> RequestError(409, "tick 3 has passed", {"tick": 4}).body()
    {'error': 'tick 3 has passed', 'expected': {'tick': 4}}
    """

    def __init__(self, status: int, error: str, expected: dict[str, Any] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.expected = expected

    def body(self) -> dict[str, Any]:
        """The body of the response."""
        return {"error": self.error, "expected": self.expected}


class MissingDatabaseError(ValueError):
    """There is no database, and none was to be created."""


class UnavailableError(RequestError):
    """The store cannot be read or written at present; nothing was changed.

    Parameters
    ----------
    reason : str
        Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(503, f"the store is not available: {reason}")
        self.reason = reason


class DamagedError(RequestError):
    """The stored row of one stream or group cannot be read; other rows are not affected.

    Parameters
    ----------
    kind : str
        ``"stream"`` or ``"group"``.
    name : str
        Its id.
    error : Exception
        What failed.
    """

    def __init__(self, kind: str, name: str, error: Exception) -> None:
        super().__init__(500, f"{kind} {name!r} is damaged in the store: {type(error).__name__}: {error}"[:500])


class OwnedElsewhere(RequestError):  # noqa: N818
    """Another worker owns the stream at present; the request can be forwarded to it."""

    def __init__(self, stream: str, worker: str) -> None:
        super().__init__(421, f"stream {stream!r} is served by another worker at present", {"worker": worker})
        self.worker = worker


class NotReadyError(RequestError):
    """The kernels for a configuration are not loaded yet; retry when they are."""

    def __init__(self, config: str) -> None:
        super().__init__(503, "kernels are being compiled")
        self.config = config


def not_found(kind: str, name: str) -> RequestError:
    """There is no such stream, group or file."""
    return RequestError(404, f"there is no {kind} {name!r}")

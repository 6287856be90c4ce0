"""What the service answers when it does not do what was asked."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """An answer that is no success: an HTTP status, what was wrong, and what was expected instead.

    >>> RequestError(409, "tick 3 is over", {"tick": 4}).body()
    {'error': 'tick 3 is over', 'expected': {'tick': 4}}
    """

    def __init__(self, status: int, error: str, expected: dict[str, Any] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.expected = expected

    def body(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        return {"error": self.error, "expected": self.expected}


class UnavailableError(RequestError):
    """The store could not be read or written just now; nothing was changed."""

    def __init__(self, error: str) -> None:
        super().__init__(503, f"the store is not available: {error}")


class DamagedError(RequestError):
    """What is stored of a stream or a group cannot be read; others are not concerned."""

    def __init__(self, what: str, name: str, error: Exception) -> None:
        super().__init__(500, f"{what} {name!r} is damaged in the store: {type(error).__name__}: {error}"[:500])


class OwnedElsewhere(RequestError):  # noqa: N818
    """The stream belongs to another worker at present."""

    def __init__(self, stream: str, worker: str) -> None:
        super().__init__(421, f"stream {stream!r} is served by another worker at present", {"worker": worker})
        self.worker = worker


class NotReadyError(RequestError):
    """The kernels a stream or a group needs are not loaded yet: to be asked for again when they are."""

    def __init__(self, config: str) -> None:
        super().__init__(503, "kernels are being compiled")
        self.config = config


def absent(what: str, name: str) -> RequestError:
    """There is no such stream, group or token."""
    return RequestError(404, f"there is no {what} {name!r}")

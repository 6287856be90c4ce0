"""One thread at a time: a second one gets an error, and never waits.

Kernels run without the GIL on memory whose size they do not check, so two threads in one detector or fleet could
write past its end or lose ticks. A lock that is only tried costs some 0.1 us. The thread that has it may take it
again: observers and costs may ask the detector that called them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def in_use(thing: Any) -> RuntimeError:
    """The error for the second thread."""
    kind = type(thing).__name__.lower()
    return RuntimeError(
        f"this {kind} is in use by another thread: give each thread a {kind} of its own, or guard it with a lock"
    )


def alone(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method of what has a `_lock` an error while another thread is in one."""

    @wraps(method)
    def guarded(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._lock  # type: ignore[attr-defined]
        if not lock.acquire(False):
            raise in_use(self)
        try:
            return method(self, *args, **kwargs)
        finally:
            lock.release()

    return cast(Callable[Concatenate[S, P], T], guarded)


@contextmanager
def using(thing: Any) -> Iterator[None]:
    """As `alone`, for several calls."""
    if not thing._lock.acquire(False):
        raise in_use(thing)
    try:
        yield
    finally:
        thing._lock.release()

"""One thread at a time: a second one gets an error, and never waits.

Kernels run without the GIL on memory whose size they do not check, so two threads in one detector or fleet could
write past its end or lose ticks. A lock that is only tried costs some 0.1 us. The thread that has it may take it
again: observers and costs may ask the detector that called them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, cast

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


class OneThread:
    """Mix-in for what only one thread at a time may use: it has a `_lock`, which copies and pickles leave out."""

    _transient: ClassVar[frozenset[str]] = frozenset({"_lock"})
    """Attributes that a copy makes anew (`_renew`)."""

    def _renew(self) -> None:
        """Make what belongs to one process and one object alone."""
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._transient}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()

    @alone
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other

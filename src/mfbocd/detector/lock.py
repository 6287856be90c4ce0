"""One thread at a time: a second one gets an error instead of waiting.

Kernels run without the GIL on memory whose size they do not check, so two threads in one detector or fleet could
write past its end or lose ticks. Trying a lock costs some 0.1 us. The thread that holds it may acquire it again:
observers and costs may call the detector that called them.
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
    """Return the error that the second thread gets."""
    kind = type(thing).__name__.lower()
    return RuntimeError(
        f"this {kind} is in use by another thread: give each thread its own {kind}, or guard it with a lock"
    )


def exclusive(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method raise an error while another thread is in a method of the same object, which has a `_lock`."""

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
    """Do the same as `exclusive` for a block of calls."""
    if not thing._lock.acquire(False):
        raise in_use(thing)
    try:
        yield
    finally:
        thing._lock.release()


@contextmanager
def unchanged_on_error(thing: Any) -> Iterator[None]:
    """Hold the lock during a block of calls; if it raises, restore what was there before."""
    with using(thing):
        before = copy.copy(thing)
        try:
            yield
        except BaseException:
            thing.__dict__.update(before.__getstate__())
            raise


class OneThread:
    """Mix-in for objects that only one thread at a time may use; copies and pickles do not share the `_lock`."""

    _transient: ClassVar[frozenset[str]] = frozenset({"_lock"})
    """Attributes that are not copied but created by `_renew`."""

    def _renew(self) -> None:
        """Create what belongs to this object and process alone."""
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._transient}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()

    @exclusive
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other

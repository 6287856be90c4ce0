"""The thread that owns the engine: what arrives while a commit runs is committed together in the next."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from .engine import Answer, Command, Engine
from .errors import Unavailable

T = TypeVar("T")

MOST = 5000
"""Commands one transaction takes up at most."""


class Writer:
    """Runs jobs in the order they came; many at once where they can share a transaction.

    `committed` is called after every transaction that wrote something, from the writer's thread.
    """

    def __init__(self, engine: Engine, committed: Callable[[], None] | None = None) -> None:
        self.engine = engine
        self._committed = committed
        self._jobs: deque[tuple[Any, Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="mfbocd-writer", daemon=True)
        self._thread.start()

    def submit(self, commands: Sequence[Command]) -> Future[list[Answer]]:
        """Answers to commands, once they are on disk."""
        return self._put(commands)

    def alone(self, call: Callable[[], T]) -> Future[T]:
        """What a call in the writer's thread returns, with no other job under way."""
        return self._put(call)

    def waiting(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def close(self) -> None:
        """Finish what was submitted, then end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _put(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(Unavailable("the service is stopping"))
                return future
            self._jobs.append((job, future))
            self._wake.notify()
        return future

    def _take(self) -> list[tuple[Any, Future[Any]]]:
        with self._wake:
            while not self._jobs and not self._stopping:
                self._wake.wait()
            taken: list[tuple[Any, Future[Any]]] = []
            commands = 0
            while self._jobs and commands < MOST and not (taken and callable(self._jobs[0][0])):
                taken.append(self._jobs.popleft())
                if callable(taken[-1][0]):
                    break
                commands += len(taken[-1][0])
            return taken

    def _loop(self) -> None:
        while taken := self._take():
            taken = [(job, future) for job, future in taken if future.set_running_or_notify_cancel()]
            if not taken:
                continue
            before = self.engine.commits
            try:
                if callable(taken[0][0]):
                    results: list[Any] = [taken[0][0]()]
                else:
                    results = list(self.engine.run([job for job, _ in taken]))
            except BaseException as error:
                for _, future in taken:
                    future.set_exception(error)
                continue
            for (_, future), result in zip(taken, results, strict=True):
                future.set_result(result)
            if self._committed is not None and self.engine.commits != before:
                self._committed()

"""The thread that owns the engine, and the one that commits: while a transaction is written, the next is computed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from .engine import Answer, Command, Engine
from .errors import Unavailable

log = logging.getLogger("mfbocd.service")

T = TypeVar("T")
Job = tuple[Any, Future[Any]]
Answered = list[tuple[Future[Any], list[Answer]]]
"""Who waits for which answers."""

MOST = 5000
"""Commands one transaction takes up at most."""


class Writer:
    """Runs jobs in the order they came; many at once where they can share a transaction.

    Answers are given when what they tell of is on disk. `committed` is called after every transaction, from another
    thread than the caller's.
    """

    def __init__(self, engine: Engine, committed: Callable[[], None] | None = None) -> None:
        self.engine = engine
        self._committed = committed
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._open: Answered = []
        self._commands = 0
        self._under_way: Future[None] | None = None
        self._waiting: Answered = []
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="mfbocd-commit")
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
        self._disk.shutdown()

    def _put(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(Unavailable("the service is stopping"))
                return future
            self._jobs.append((job, future))
            self._wake.notify()
        return future

    # --- the writer's thread -----------------------------------------------------------------------------------

    def _loop(self) -> None:
        while (taken := self._take()) is not None:
            taken = [(job, future) for job, future in taken if future.set_running_or_notify_cancel()]
            try:
                self._settle()
                if taken and callable(taken[0][0]):
                    self._drain()
                    self._call(*taken[0])
                elif taken:
                    self._answer(taken)
                if self._under_way is None:
                    self._hand_over()
            except BaseException as error:  # a mistake of ours must not end the thread that everybody waits for
                log.exception("the writer failed")
                self._lose(error, [])
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)

    def _take(self) -> list[Job] | None:
        """Jobs to be done now, none if a commit has ended; None at the end of all."""
        with self._wake:
            while True:
                if self._jobs and (self._commands < MOST or callable(self._jobs[0][0])):
                    return self._several()
                if self._under_way is not None and self._under_way.done():
                    return []
                if self._stopping and not self._jobs and self._under_way is None:
                    return None
                self._wake.wait()

    def _several(self) -> list[Job]:
        taken: list[Job] = []
        commands = self._commands
        while self._jobs and commands < MOST and not (taken and callable(self._jobs[0][0])):
            taken.append(self._jobs.popleft())
            if callable(taken[-1][0]):
                break
            commands += len(taken[-1][0])
        return taken or [self._jobs.popleft()]

    def _call(self, call: Callable[[], Any], future: Future[Any]) -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    def _answer(self, taken: list[Job]) -> None:
        """Answer jobs; only those that tell of nothing unwritten are told at once."""
        jobs = [job for job, _ in taken]
        try:
            lacking = self.engine.lacking(jobs)
            if lacking and self.engine.must_settle(lacking):
                self._drain()
            self.engine.load(lacking)
            found = self.engine.answer(jobs)
        except BaseException as error:
            self._wait()
            self._lose(error, [(future, job) for job, future in taken])
            return
        for (job, future), answers in zip(taken, found, strict=True):
            if self.engine.unwritten(command.stream for command in job):
                self._open.append((future, answers))
                self._commands += len(job)
            else:
                future.set_result(answers)

    def _hand_over(self) -> None:
        """Have what was changed committed in the other thread."""
        changes = self.engine.changes()
        told, self._open, self._commands = self._open, [], 0
        if changes is None:
            _tell(told)
            return
        self._waiting = told
        self._under_way = self._disk.submit(self.engine.store.commit, changes)
        self._under_way.add_done_callback(partial(self._ended, told))

    def _ended(self, told: Answered, commit: Future[None]) -> None:
        """In the thread that commits: answers go out at once, whatever the writer is doing."""
        if commit.exception() is None:
            _tell(told)
            if self._committed is not None:
                self._committed()
        with self._wake:
            self._wake.notify()

    def _settle(self) -> None:
        """If a commit has ended, take note of it."""
        if self._under_way is None or not self._under_way.done():
            return
        error = self._under_way.exception()
        self._under_way = None
        if error is None:
            self.engine.kept()
        else:
            self._lose(error, self._waiting)

    def _wait(self) -> None:
        """Until no commit is under way."""
        if self._under_way is not None:
            self._under_way.exception()
            self._settle()

    def _drain(self) -> None:
        """Until all that was changed is on disk, or lost."""
        self._wait()
        self._hand_over()
        self._wait()

    def _lose(self, error: BaseException, told: Sequence[tuple[Future[Any], Sequence[Any]]]) -> None:
        """Nothing of these was written, nor of what was computed after them; each has so many answers."""
        self.engine.lost(error)
        lost, self._open, self._commands = [*told, *self._open], [], 0
        for future, many in lost:
            if isinstance(error, Unavailable):
                future.set_result([error for _ in many])
            else:
                future.set_exception(error)


def _tell(told: Answered) -> None:
    for future, answers in told:
        future.set_result(answers)

"""The thread that owns the engine, and the one that commits: while a transaction is written, the next is computed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from .engine import Answer, Command, Engine
from .errors import UnavailableError
from .store.base import Changes

log = logging.getLogger("mfbocd.service")

T = TypeVar("T")
Job = tuple[Any, Future[Any]]
Answered = list[tuple[Future[Any], list[Answer]]]
"""Who waits for which answers."""

PIECE = 250
"""Commands computed at once, or one job of more: then what they changed is ready to be written."""
MOST = 5000
"""Commands that may be ready."""


class Ended(NamedTuple):
    """A transaction that was written, or was not."""

    parts: int
    told: Answered
    error: BaseException | None


class Writer:
    """Runs jobs in the order they came; many at once where they can share a transaction.

    Answers are given when what they tell of is on disk. `committed` is called after every transaction, from another
    thread than the caller's.

    The thread that commits takes all that is ready, and goes on as long as there is something: it need not wait for
    the other, which may be in the midst of computing.
    """

    def __init__(self, engine: Engine, committed: Callable[[], None] | None = None) -> None:
        self.engine = engine
        self._committed = committed
        self._jobs: deque[Job] = deque()
        self._open: Answered = []
        self._stopping = self._over = False
        lock = threading.Lock()  # of all that follows
        self._wake, self._more = threading.Condition(lock), threading.Condition(lock)
        self._ready: list[tuple[Changes, Answered]] = []
        self._commands = 0
        self._committing = self._failed = False
        self._ended: list[Ended] = []
        self._disk = threading.Thread(target=self._commit, name="mfbocd-commit", daemon=True)
        self._thread = threading.Thread(target=self._loop, name="mfbocd-writer", daemon=True)
        self._disk.start()
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
        self._disk.join()

    def _put(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(UnavailableError("the service is stopping"))
                return future
            self._jobs.append((job, future))
            self._wake.notify()
        return future

    # --- the thread that commits -------------------------------------------------------------------------------

    def _commit(self) -> None:
        while parts := self._parts():
            told = [one for _, answered in parts for one in answered]
            changes = Changes.joined([part for part, _ in parts])
            error: BaseException | None = None
            try:
                if changes.streams:
                    self.engine.store.commit(changes)
            except BaseException as failure:
                error = failure
            else:
                self._told(told)
            with self._wake:
                self._committing, self._failed = False, error is not None
                self._ended.append(Ended(len(parts), told, error))
                self._wake.notify()

    def _told(self, told: Answered) -> None:
        """Give answers at once, whatever the writer is doing."""
        for future, answers in told:
            future.set_result(answers)
        if self._committed is not None:
            try:
                self._committed()
            except Exception:  # it is on disk all the same
                log.exception("what was committed was not told of")

    def _parts(self) -> list[tuple[Changes, Answered]]:
        """All that is ready, once something is and what failed before is noted; none at the end of all."""
        with self._more:
            while (not self._ready or self._failed) and not self._over:
                self._more.wait()
            parts, self._ready, self._commands = self._ready, [], 0
            self._committing = bool(parts)
            self._wake.notify()
        return parts

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
                self._hand_over()
            except BaseException as error:  # a mistake of ours must not end the thread that everybody waits for
                log.exception("the writer failed")
                self._lose(error, [])
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
        with self._more:
            self._over = True
            self._more.notify()

    def _take(self) -> list[Job] | None:
        """Jobs to be done now, none if a transaction has ended; None at the end of all."""
        with self._wake:
            while True:
                if self._jobs and (self._commands < MOST or callable(self._jobs[0][0])):
                    return self._several()
                if self._ended:
                    return []
                if self._stopping and not self._jobs and not self._ready and not self._committing:
                    return None
                self._wake.wait()

    def _several(self) -> list[Job]:
        taken: list[Job] = []
        commands = 0
        while self._jobs and commands < PIECE and not (taken and callable(self._jobs[0][0])):
            taken.append(self._jobs.popleft())
            if callable(taken[-1][0]):
                break
            commands += len(taken[-1][0])
        return taken

    def _call(self, call: Callable[[], Any], future: Future[Any]) -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            if isinstance(error, UnavailableError):
                self.engine.failed = error.error
            future.set_exception(error)

    def _answer(self, taken: list[Job]) -> None:
        """Answer jobs; only those that tell of nothing unwritten are told at once."""
        jobs = [job for job, _ in taken]
        try:
            lacking = self.engine.lacking(jobs)
            if lacking and self.engine.must_settle(lacking):
                self._drain()
                lacking = self.engine.lacking(jobs)  # more of them, if it was lost
            self.engine.load(lacking)
            found = self.engine.answer(jobs)
        except BaseException as error:
            self._lose(error, [(future, job) for job, future in taken])
            return
        for (job, future), answers in zip(taken, found, strict=True):
            if self.engine.unwritten(command.stream for command in job):
                self._open.append((future, answers))
            else:
                future.set_result(answers)

    def _hand_over(self) -> None:
        """Let the other thread have what was changed, and whom to tell; or only these, of what it has already."""
        if not self.engine.changed and not self._open:
            return
        changes = self.engine.changes()
        with self._more:
            self._ready.append((changes, self._open))
            self._commands += sum(len(answers) for _, answers in self._open)
            self._more.notify()
        self._open = []

    def _settle(self) -> None:
        """Take note of transactions that have ended."""
        with self._wake:
            ended, self._ended = self._ended, []
        for one in ended:
            if one.error is None:
                self.engine.kept(one.parts)
            else:
                self._lose(one.error, one.told)

    def _drain(self) -> None:
        """Until all that was changed is on disk, or lost."""
        self._hand_over()
        with self._wake:
            while self._committing or (self._ready and not self._failed):
                self._wake.wait()
        self._settle()

    def _lose(self, error: BaseException, told: Sequence[tuple[Future[Any], Sequence[Any]]]) -> None:
        """Nothing of these was written, nor of what was computed after them; each has so many answers."""
        with self._wake:
            ready, self._ready, self._commands = self._ready, [], 0
            while self._committing:  # what it has may still be kept
                self._wake.wait()
        self._settle()
        self.engine.lost(error)
        with self._more:
            self._failed = False
            self._more.notify()
        lost = [*told, *(one for _, answered in ready for one in answered), *self._open]
        self._open = []
        for future, many in lost:
            if isinstance(error, UnavailableError):
                future.set_result([error for _ in many])
            else:
                future.set_exception(error)

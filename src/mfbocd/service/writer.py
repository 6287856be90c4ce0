"""Two threads that execute and commit commands, so that one batch is computed while the one before is written.

Clients submit *jobs*: lists of commands, or functions that need the engine for themselves (`Writer.run_exclusive`).
Every job has a future. No future resolves before all that its result reports is durable on disk.

**The compute thread** (`_compute_loop`) owns the engine. It takes jobs from the queue `_jobs`, executes them in the
cache, and appends the engine's changes, together with the futures that wait for them, to the queue `_ready`. A job
that neither changed nor read anything uncommitted resolves at once.

**The commit thread** (`_commit_loop`) owns the writing side of the store. It takes everything in `_ready`, writes it
in one transaction, resolves the futures, and appends an `Outcome` to `_outcomes`. It never waits for the compute
thread: under load, whatever was computed during one commit is written by the next (group commit).

**Few commands are collected** while a transaction is in progress: they could not be committed earlier, and computing
eight together takes twice the time of computing one. A large batch is computed at once, and so are all commands if
the transaction takes long (`_collecting`).

The compute thread processes outcomes between jobs. On success it tells the engine that the changes are committed.

**On failure** nothing of the transaction was written. What was computed afterwards is based on it, so it is invalid
as well, whether it is in `_ready` or not handed over yet. The commit thread stops taking changes (`_failed`). The
compute thread empties `_ready`, has the engine evict every changed stream (`Engine.roll_back`), resolves the futures
of all of these jobs with the error, and lets the commit thread continue. Clients repeat their requests. Streams are
loaded from the store again when they are needed.

Streams that have uncommitted changes cannot be loaded, and exclusive functions use the store directly. For both, the
compute thread first waits until everything is committed or has failed (`_flush`).

One lock protects all shared fields. It has two conditions: `_wake` is what the compute thread waits for, and `_more`
is what the commit thread waits for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

from .engine import Command, Engine, Result
from .errors import UnavailableError
from .instruments import Histogram
from .store.base import Changes

log = logging.getLogger("mfbocd.service")

T = TypeVar("T")
Job = tuple[Any, Future[Any]]
Waiting = list[tuple[Future[Any], list[Result]]]
"""Futures with the results they will have after the commit."""

CHUNK = 250
"""Commands after which the compute thread hands its changes over; a single job may have more."""
COLLECT = 16
"""Number of commands up to which the compute thread lets them wait for a transaction in progress."""
COLLECT_SECONDS = 0.01
"""Seconds after the start of a transaction after which they no longer wait for it."""
MAX_READY = 5000
"""Commands in `_ready` at which the compute thread stops taking jobs."""


class Outcome(NamedTuple):
    """A finished transaction."""

    parts: int
    """Number of entries of `_ready` that it contained."""
    waiting: Waiting
    """The futures of these entries; unresolved if it failed."""
    error: BaseException | None
    """Why it failed; None if it was committed."""


class Writer:
    """Executes jobs in the order of their submission and resolves them once they are committed.

    Parameters
    ----------
    engine : Engine
        Used by the compute thread only from now on.
    on_commit : callable, optional
        Called after every transaction, in the commit thread.
    span : callable, optional
        Makes a context manager that is active during a transaction, for traces.
    """

    def __init__(
        self,
        engine: Engine,
        on_commit: Callable[[], None] | None = None,
        span: Callable[..., AbstractContextManager[None]] = lambda *_, **__: nullcontext(),
    ) -> None:
        self.engine = engine
        self._on_commit, self._span = on_commit, span
        self.commit_seconds = Histogram("mfbocd_commit_duration_seconds", "Duration of transactions with ticks.")
        self._submitted: dict[Future[Any], float] = {}
        """When each unfinished job was submitted, as of `time.monotonic`, oldest first."""
        self._busy_since: dict[str, float] = {}
        """When the call of the store in progress began, as of `time.monotonic`, by name of the thread."""
        self._handing_over: Waiting = []
        """Results that the compute thread has not handed over yet."""
        lock = threading.Lock()  # protects the fields below
        self._wake, self._more = threading.Condition(lock), threading.Condition(lock)
        self._jobs: deque[Job] = deque()
        self._ready: list[tuple[Changes, Waiting]] = []
        self._ready_commands = 0
        self._outcomes: list[Outcome] = []
        self._committing = False
        self._collect_until = 0.0
        """When commands no longer wait for the transaction in progress, as of `time.monotonic`."""
        self._failed = False
        """The last transaction failed and the compute thread has not rolled back yet."""
        self._stopping = False
        """No more jobs are accepted."""
        self._finished = False
        """The compute thread has ended."""
        self._commit_thread = threading.Thread(target=self._commit_loop, name="mfbocd-commit", daemon=True)
        self._compute_thread = threading.Thread(target=self._compute_loop, name="mfbocd-compute", daemon=True)
        self._commit_thread.start()
        self._compute_thread.start()

    def submit(self, commands: Sequence[Command]) -> Future[list[Result]]:
        """Execute commands; the future has their results once all changes they report are committed."""
        return self._put(commands)

    def run_exclusive(self, function: Callable[[], T]) -> Future[T]:
        """Call a function in the compute thread, when no changes are uncommitted."""
        return self._put(function)

    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._jobs)

    def lag(self) -> float:
        """Seconds since the oldest job that is not finished was submitted; 0 if there is none."""
        while True:
            try:
                oldest = next(iter(self._submitted.values()), None)
            except RuntimeError:  # another thread has changed it at this moment
                continue
            return 0.0 if oldest is None else time.monotonic() - oldest

    def busy_for(self) -> float:
        """Seconds since the call of the store in progress (commit, load, exclusive function) began; 0 without one."""
        oldest = min(list(self._busy_since.values()), default=None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    def is_alive(self) -> bool:
        """Whether both threads run; without them no request is ever answered."""
        return self._compute_thread.is_alive() and self._commit_thread.is_alive()

    def close(self) -> None:
        """Finish all submitted jobs and end both threads."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._compute_thread.join()
        self._commit_thread.join()

    def _put(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(UnavailableError("the service is stopping"))
                return future
            self._submitted[future] = time.monotonic()
            self._jobs.append((job, future))
            if len(self._jobs) == 1 or not self._collecting():
                self._wake.notify()
        future.add_done_callback(self._submitted.pop)
        return future

    @contextmanager
    def _calling_store(self) -> Iterator[None]:
        """Count the block in `busy_for`; each of the two threads calls the store once at a time."""
        thread = threading.current_thread().name
        self._busy_since[thread] = time.monotonic()
        try:
            yield
        finally:
            del self._busy_since[thread]

    # --- commit thread -------------------------------------------------------------------------------------------

    def _commit_loop(self) -> None:
        while parts := self._take_ready():
            waiting = [one for _, futures in parts for one in futures]
            changes = Changes.merged([part for part, _ in parts])
            error: BaseException | None = None
            try:
                if changes.streams:
                    started = time.perf_counter()
                    span = self._span("commit", streams=len(changes.streams), events=len(changes.events))
                    with span, self._calling_store():
                        self.engine.store.commit(changes)
                    self.commit_seconds.observe(time.perf_counter() - started)
            except BaseException as failure:
                error = failure
            else:
                self._resolve(waiting)
            with self._wake:
                self._committing, self._failed = False, error is not None
                self._outcomes.append(Outcome(len(parts), waiting, error))
                self._wake.notify()

    def _take_ready(self) -> list[tuple[Changes, Waiting]]:
        """Wait for changes and take all of them; empty when the compute thread has ended.

        After a failure nothing is taken until the compute thread has rolled back.
        """
        with self._more:
            while (not self._ready or self._failed) and not self._finished:
                self._more.wait()
            parts, self._ready, self._ready_commands = self._ready, [], 0
            self._committing = bool(parts)
            self._collect_until = time.monotonic() + COLLECT_SECONDS
            self._wake.notify()
        return parts

    def _resolve(self, waiting: Waiting) -> None:
        for future, results in waiting:
            future.set_result(results)
        if self._on_commit is not None:
            try:
                self._on_commit()
            except Exception:  # the transaction is committed all the same
                log.exception("the callback after a commit failed")

    # --- compute thread ------------------------------------------------------------------------------------------

    def _compute_loop(self) -> None:
        while (jobs := self._take_jobs()) is not None:
            jobs = [(job, future) for job, future in jobs if future.set_running_or_notify_cancel()]
            try:
                self._process_outcomes()
                if jobs and callable(jobs[0][0]):
                    self._flush()
                    self._call(*jobs[0])
                elif jobs:
                    self._execute(jobs)
                self._hand_over()
            except BaseException as error:  # a bug must not end the thread that every client waits for
                log.exception("the compute thread failed")
                self._fail(error, [])
                for _, future in jobs:
                    if not future.done():
                        future.set_exception(error)
        with self._more:
            self._finished = True
            self._more.notify()

    def _take_jobs(self) -> list[Job] | None:
        """Wait for jobs and take some; empty if there are only outcomes to process, None to end the thread."""
        with self._wake:
            while True:
                wait = self._collecting()
                if self._jobs and ((self._ready_commands < MAX_READY and not wait) or callable(self._jobs[0][0])):
                    return self._next_jobs()
                if self._outcomes:
                    return []
                if self._stopping and not self._jobs and not self._ready and not self._committing:
                    return None
                self._wake.wait(wait or None)

    def _collecting(self) -> float:
        """Seconds for which the commands in the queue wait for the transaction in progress; 0 if they do not."""
        # an exclusive function does not wait for others
        if not self._committing or len(self._jobs) >= COLLECT or any(callable(job) for job, _ in self._jobs):
            return 0.0
        if not 0 < sum(len(job) for job, _ in self._jobs) < COLLECT:
            return 0.0
        return max(0.0, self._collect_until - time.monotonic())

    def _next_jobs(self) -> list[Job]:
        """One exclusive function, or the next jobs of about `CHUNK` commands together."""
        jobs: list[Job] = []
        commands = 0
        while self._jobs and commands < CHUNK and not (jobs and callable(self._jobs[0][0])):
            jobs.append(self._jobs.popleft())
            if callable(jobs[-1][0]):
                break
            commands += len(jobs[-1][0])
        return jobs

    def _call(self, function: Callable[[], Any], future: Future[Any]) -> None:
        try:
            with self._calling_store():
                found = function()
            future.set_result(found)
        except BaseException as error:
            if isinstance(error, UnavailableError):
                self.engine.write_error = error.reason
            future.set_exception(error)

    def _execute(self, jobs: list[Job]) -> None:
        """Execute jobs. Those whose streams have no uncommitted changes afterwards resolve at once."""
        commands = [job for job, _ in jobs]
        try:
            missing = self.engine.missing(commands)
            if missing and self.engine.must_flush_before(missing):
                self._flush()
                missing = self.engine.missing(commands)  # a failed commit evicts streams
            with self._calling_store():
                self.engine.load(missing)
            found = self.engine.execute(commands)
        except BaseException as error:
            self._fail(error, [(future, job) for job, future in jobs])
            return
        for (job, future), results in zip(jobs, found, strict=True):
            if self.engine.has_uncommitted(command.stream for command in job):
                self._handing_over.append((future, results))
            else:
                future.set_result(results)

    def _hand_over(self) -> None:
        """Put the engine's changes and the waiting futures into `_ready`.

        There may be futures without changes: they have read changes of earlier entries, and resolve after these.
        """
        if not self.engine.has_changes and not self._handing_over:
            return
        changes = self.engine.take_changes()
        with self._more:
            self._ready.append((changes, self._handing_over))
            self._ready_commands += sum(len(results) for _, results in self._handing_over)
            self._more.notify()
        self._handing_over = []

    def _process_outcomes(self) -> None:
        """Tell the engine which changes were committed; roll back if a transaction failed."""
        with self._wake:
            outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            if outcome.error is None:
                self.engine.mark_committed(outcome.parts)
            else:
                self._fail(outcome.error, outcome.waiting)

    def _flush(self) -> None:
        """Wait until every change is committed or has failed."""
        self._hand_over()
        with self._wake:
            while self._committing or (self._ready and not self._failed):
                self._wake.wait()
        self._process_outcomes()

    def _fail(self, error: BaseException, waiting: Sequence[tuple[Future[Any], Sequence[Any]]]) -> None:
        """Roll back all uncommitted changes, and give the error to everybody who waits for them.

        Parameters
        ----------
        error : BaseException
            An `UnavailableError` becomes the result of each command; any other error is raised by the futures.
        waiting : sequence of (Future, sequence)
            Futures of the failed transaction or execution, each with one item per command.
        """
        with self._wake:
            ready, self._ready, self._ready_commands = self._ready, [], 0
            while self._committing:  # an earlier transaction may still succeed
                self._wake.wait()
        self._process_outcomes()
        self.engine.roll_back(error)
        with self._more:
            self._failed = False
            self._more.notify()
        failed = [*waiting, *(one for _, futures in ready for one in futures), *self._handing_over]
        self._handing_over = []
        for future, commands in failed:
            if isinstance(error, UnavailableError):
                future.set_result([error for _ in commands])
            else:
                future.set_exception(error)

"""Threads that share one call of a kernel with the caller."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.work_queue import BLOCK, stop


class Workers:
    """Threads that take streams from the same work queue (`_kernels.work_queue`) as the caller does.

    A queue and bare threads rather than an executor: it needs no futures, and handing over takes 2 us, not 10.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def share(self, kernel: Callable[..., None], arguments: tuple[Any, ...], streams: int, threads: int) -> None:
        """Run the kernel on this thread and up to `threads - 1` others; return when every stream is done.

        The last of the arguments is the work queue. An error in any thread is raised here; then the state of the
        streams is undefined.
        """
        job = Job(kernel, arguments, streams, [])
        for _ in range(self._start_threads(min(threads, -(-streams // BLOCK)) - 1)):
            self._jobs.put(job)
        job.work()
        if job.errors:
            raise job.errors[0]

    def _start_threads(self, wanted: int) -> int:
        """Return how many other threads there are, at most `wanted`: dead ones are replaced, as after a fork."""
        if wanted <= 0:
            return 0
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if not self._threads:
            self._jobs = SimpleQueue()  # after a fork the old queue may hold the parent's jobs
        while len(self._threads) < wanted:
            thread = Thread(target=_work, args=(self._jobs,), name="mfbocd-fleet", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends: the caller can do all of it
                break
            self._threads.append(thread)
        return min(wanted, len(self._threads))

    def __del__(self) -> None:
        for _ in getattr(self, "_threads", ()):
            self._jobs.put(None)


class Job(NamedTuple):
    """A kernel, its arguments, the number of streams it is for, and the errors of its threads."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    streams: int
    errors: list[BaseException]

    def work(self) -> None:
        """Run the kernel. A thread that fails releases those that wait, in a kernel, for the streams it had taken."""
        try:
            self.kernel(*self.arguments)
        except BaseException as error:
            self.errors.append(error)
            stop(self.arguments[-1], self.streams)


def new_queue() -> NDArray[np.int64]:
    """Return a work queue of which nothing has been taken."""
    return np.zeros(2, dtype=np.int64)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.work()
        del job  # it would keep a fleet's states alive until the next job

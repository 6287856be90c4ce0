"""Threads beside the caller's that work off the streams of one kernel call."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ._kernels.share import BLOCK


class Crew:
    """Threads that run the same kernel on the same board (`_kernels.share`) as the caller does.

    A queue and bare threads rather than an executor: it needs no futures, and handing over takes 2 us, not 10.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads = 0

    def share(self, kernel: Callable[..., None], job: tuple[Any, ...], streams: int, threads: int) -> None:
        """Run kernel(*job) on this thread and up to `threads - 1` others; returns when every stream is done."""
        threads = min(threads, -(-streams // BLOCK))
        while self._threads < threads - 1:
            Thread(target=_work, args=(self._jobs,), name="mfbocd-fleet", daemon=True).start()
            self._threads += 1
        for _ in range(threads - 1):
            self._jobs.put((kernel, job))
        kernel(*job)

    def __del__(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)


def _work(jobs: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None]) -> None:
    while (job := jobs.get()) is not None:
        job[0](*job[1])

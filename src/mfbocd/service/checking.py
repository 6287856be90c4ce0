"""Tries the configurations that clients send, in other processes, before anything in this one depends on them."""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import RequestError
from .limits import Limits
from .sandbox import refusal

log = logging.getLogger("mfbocd.service")

PROCESSES = 2
"""Configurations that are tried, and perhaps compiled for, at a time."""
BUILD_TIME = 10.0
"""Seconds of computing time for building a detector, for its first ticks, and for loading its kernels."""
IDLE = 300.0
"""Seconds without a configuration after which a process ends; it takes a second to start another."""
MAX_RESULTS = 10_000
"""Results that are remembered."""

Answer = RequestError | None
"""Why a configuration is refused; None if it is accepted."""


@dataclass(eq=False)
class _Job:
    """A configuration that is to be tried."""

    key: str
    line: bytes
    """The request to the process."""
    client: str
    lasting: bool
    """Whether the result is remembered: not that kernels were compiled, which may be removed from the disk."""
    waiting: list[Future[None]] = field(default_factory=list)
    process: _Process | None = None
    """Where it is tried; None until then."""
    dropped: bool = False


class Checker:
    """Tries configurations in processes that run `mfbocd.service.sandbox`, at most `PROCESSES` at a time.

    Every configuration is tried by a fork of such a process, under the `Limits` of the service. Results are
    remembered. Of one client, one configuration is tried at a time. When nobody waits for one any more, it is
    dropped, also while kernels are compiled for it.

    Threads start a process when there is something to do, start it again if it has ended, and end it when there has
    been nothing to do for some minutes, or when this process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._jobs: dict[str, _Job] = {}
        """Those that are not finished, by key, in the order of their arrival."""
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False
        self._results: OrderedDict[str, Answer] = OrderedDict()

    def check(self, config: Mapping[str, Any], limits: Limits, client: str) -> Future[None]:
        """Check that a configuration is valid, can be computed, and needs no more than the limits allow.

        Parameters
        ----------
        config : mapping
        limits : Limits
        client : str
            Who asks.

        Returns
        -------
        Future
            Raises `RequestError` if the configuration is refused. Cancel it when the client is gone.
        """
        most = {"state": limits.state, "memory": limits.memory, "tick": limits.tick, "build": BUILD_TIME}
        return self._submit({"config": config, "limits": most}, client, lasting=True)

    def compile(self, config: Mapping[str, Any]) -> Future[None]:
        """Compile the kernels for a configuration of the store into numba's cache on disk.

        Returns
        -------
        Future
            Raises `RequestError` if they cannot be compiled.
        """
        return self._submit({"config": config}, "", lasting=False)

    def _submit(self, request: dict[str, Any], client: str, *, lasting: bool) -> Future[None]:
        found: Future[None] = Future()
        try:
            line = json.dumps(request, sort_keys=True).encode() + b"\n"
        except (ValueError, TypeError, RecursionError):
            found.set_exception(RequestError(422, "config is nested too deep, or has a number that is too long"))
            return found
        key = hashlib.sha256(line).hexdigest()
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                _resolve(found, self._results[key])
                return found
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _Job(key, line, client, lasting)
                queued = sum(one.process is None for one in self._jobs.values())
                if len(self._threads) < PROCESSES and self._idle < queued:
                    thread = threading.Thread(target=self._work, name="mfbocd-check", daemon=True)
                    self._threads.add(thread)
                    thread.start()
                self._lock.notify_all()
            job.waiting.append(found)
        found.add_done_callback(lambda done: self._drop(job, done))
        return found

    def _drop(self, job: _Job, done: Future[None]) -> None:
        """Drop a job if this was the last future that waits for it."""
        if not done.cancelled():
            return
        with self._lock:
            if self._jobs.get(job.key) is not job or not all(one.cancelled() for one in job.waiting):
                return
            del self._jobs[job.key]
            job.dropped = True
            if job.process is not None:
                job.process.kill()

    def close(self) -> None:
        """Drop everything and end the processes; the checker is not used any more."""
        with self._lock:
            self._closing = True
            jobs = list(self._jobs.values())
            threads = list(self._threads)
            self._lock.notify_all()
        for job in jobs:
            for one in job.waiting:
                one.cancel()
        for thread in threads:
            thread.join()

    # --- threads ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        process = _Process()
        try:
            while (job := self._next(process)) is not None:
                answer, lasting = _tried(process, job)
                with self._lock:
                    job.process = None
                    if self._jobs.get(job.key) is job:
                        del self._jobs[job.key]
                    if lasting and job.lasting and not job.dropped:
                        self._results[job.key] = answer
                        while len(self._results) > MAX_RESULTS:
                            self._results.popitem(last=False)
                    self._lock.notify_all()  # another job of this client can begin
                for one in job.waiting:
                    _resolve(one, answer)
        finally:
            process.end()
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _next(self, process: _Process) -> _Job | None:
        """The next job, or None after a long time without one. A client waits until its last job is finished."""
        with self._lock:
            while not self._closing:
                busy = {job.client for job in self._jobs.values() if job.process is not None}
                for job in self._jobs.values():
                    if job.process is None and job.client not in busy:
                        job.process = process
                        return job
                self._idle += 1
                notified = self._lock.wait(IDLE)
                self._idle -= 1
                if not notified:
                    break
            self._threads.discard(threading.current_thread())  # from now on, a job needs another thread
            return None


def _resolve(found: Future[None], answer: Answer) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        if answer is None:
            found.set_result(None)
        else:
            found.set_exception(RequestError(answer.status, answer.error, answer.expected))


def _tried(process: _Process, job: _Job) -> tuple[Answer, bool]:
    """The answer for a configuration, and whether it would be the same another time."""
    for _ in range(2):  # the process may have ended since the last job
        reply = None if job.dropped else process.ask(job.line)
        if reply is not None:
            break
    if reply is None:
        return RequestError(503, "the process that checks configurations has ended"), False
    answer = reply["answer"]
    if answer is not None:
        return (RequestError(422, **answer) if answer else None), True
    number = reply["signal"]
    if number == signal.SIGPROF:
        return refusal("building it and its first ticks take too long"), True
    log.warning("a process that tried a configuration was ended by signal %d", number)
    return refusal("it was ended while it was tried, because it needs too much memory or computing time"), False


class _Process:
    """A process that runs `mfbocd.service.sandbox`; it is started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, line: bytes) -> Any:
        """Send a request and return the reply; None if the process has ended."""
        try:
            if self._process is None:
                self._process = _started()
                atexit.register(self.end)
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            log.debug("the process that checks configurations has ended: %s", error)
            self.end()
            return None

    def kill(self) -> None:
        """End the process and what it has forked; `ask` in another thread returns None then."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End the process, if there is one, and wait until it has ended."""
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            atexit.unregister(self.end)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]


def _started() -> subprocess.Popen[bytes]:
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    # a process with one thread can be forked
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-m", "mfbocd.service.sandbox"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | single | {"PYTHONPATH": path},
        start_new_session=True,  # it ends with the service, not with Ctrl-C
    )


CHECKER = Checker()
"""That of this process: all services in it share the processes and what they have found."""

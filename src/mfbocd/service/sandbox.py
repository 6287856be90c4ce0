"""A program that tries configurations: each in a forked process, under limits of memory and computing time.

`Checker` runs it. It reads requests as lines of JSON on standard input and answers each with a line. It has one
thread, so that it can be forked, and has imported all that a configuration needs, so that a fork begins at once.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from numba.core import event

from ..io.config import Config
from ..io.warm import Uncompiled, crowded, example, rehearse, typical, watched
from .errors import RequestError
from .fleets import StreamFleet
from .manage import parse_config
from .records import json_text, step_record

COMPILE_TIME = 600
"""Seconds of computing time of a whole process, in which kernels may have to be compiled."""
COMPILE_MEMORY = 4 << 30
"""Bytes that a process may allocate while it compiles."""
WAIT = 1800.0
"""Seconds after which a process is ended, however little it computes."""
LONGEST = 1000
"""Characters of an error; it may contain the value that it is about."""
REPEATS = 2
"""Times that the full tick is measured. The first one may allocate what later ones use again."""


# --- the forked process ------------------------------------------------------------------------------------------


class Limiter(event.Listener):
    """Limits memory and computing time of this process, except while kernels are compiled.

    A process that needs more time is ended by SIGPROF; allocating more memory fails. Where the size of a process
    is not known (Linux has it in /proc), memory is not limited.
    """

    def __init__(self) -> None:
        self._size: int | None = None
        self._left = 0.0
        self._compiling = 0

    def begin(self, seconds: float, memory: float) -> None:
        """Allow this much computing time, and this much more memory than the process has now."""
        self._size = _size()
        if self._size is not None:
            self._size += int(memory)
        self._left = seconds
        self._resume()

    def end(self) -> None:
        """Limit nothing any more."""
        self._pause()

    def on_start(self, event: event.Event) -> None:
        """Stop the clock when a compilation begins; it may compile other kernels."""
        self._compiling += 1
        if self._compiling == 1:
            self._pause()

    def on_end(self, event: event.Event) -> None:
        """Start the clock again when the compilation ends."""
        self._compiling -= 1
        if self._compiling == 0:
            self._resume()

    def _pause(self) -> None:
        self._left, _ = signal.setitimer(signal.ITIMER_PROF, 0.0)
        if self._size is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

    def _resume(self) -> None:
        if self._left > 0.0:
            signal.setitimer(signal.ITIMER_PROF, self._left)
        if self._size is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            soft = self._size if hard == resource.RLIM_INFINITY else min(self._size, hard)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _size() -> int | None:
    """The size of this process's address space in bytes; None if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize()


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a process answers: nothing if the configuration is accepted, else the error.

    Parameters
    ----------
    request : mapping
        ``config``, and with it the ``limits``, the arguments of `check`; without these, kernels are only compiled.
    """
    limiter = Limiter()
    event.register("numba:compile", limiter)  # type: ignore[no-untyped-call]
    _bound_whole_process()
    try:
        if "limits" in request:
            check(request["config"], limiter, **request["limits"])
        else:
            rehearse(Config.parse(request["config"]))
    except MemoryError:
        return refusal("it needs too much memory").body()
    except RequestError as refused:
        return refused.body()
    except Exception as error:
        expected = {"config": "numbers of an ordinary magnitude"}
        return RequestError(422, f"config cannot be computed: {error}", expected).body()
    finally:
        limiter.end()
    return {}


def refusal(reason: str) -> RequestError:
    """The error of a configuration that is too expensive."""
    expected = dict.fromkeys(("model", "prune", "fidelity"), "smaller")
    return RequestError(422, f"config is too expensive: {reason}", expected)


def check(config: Mapping[str, Any], limiter: Limiter, state: int, memory: int, tick: float, build: float) -> None:
    """Raise an error if a configuration is invalid, cannot be computed, or exceeds these limits."""
    limiter.begin(build, memory)
    parsed = parse_config(config)
    json_text(StreamFleet(parsed, grouped=False).new_stream()[1])
    last = rehearse(parsed)
    json_text([step_record(last.step, last.spent, 0.0, last.likely), last.gains])
    limiter.begin(build + 2 * REPEATS * tick, memory)
    took = min(_seconds(parsed, state) for _ in range(REPEATS))
    if took > tick:
        raise refusal(f"a tick can take {took:.3g} seconds of computing time; the limit of this service is {tick:g}")


def _seconds(config: Config, state: int) -> float:
    """The computing time of the slowest tick, with the choice after it; raises an error if its state is too large."""
    detector = crowded(config, state)
    size = len(detector.to_bytes())
    if detector.pruning.most and size > state:  # a state that nothing bounds is refused when it is too large
        raise refusal(
            f"a stream can have a state of {size} bytes ({detector.pruning.most} hypotheses of "
            f"{detector.model.columns} statistics); the limit of this service is {state}"
        )
    seconds = []
    for x in (None, typical(detector)):
        fidelity = None if x is None else detector.choose()
        began = time.thread_time()  # the clock of a process is coarse while its timer runs
        detector.update(x, fidelity)
        detector.choose()
        seconds.append(time.thread_time() - began)
    return max(seconds)


def _bound_whole_process() -> None:
    """Limits that hold while kernels are compiled as well."""
    with suppress(OSError):  # if the machine has too little memory, this process is ended first
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = COMPILE_TIME if most == resource.RLIM_INFINITY else min(COMPILE_TIME, most)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
    size = _size()
    if size is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        whole = size + COMPILE_MEMORY if most == resource.RLIM_INFINITY else min(size + COMPILE_MEMORY, most)
        resource.setrlimit(resource.RLIMIT_AS, (whole, whole))


# --- the process that is forked ----------------------------------------------------------------------------------


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until there are no more; a request that is withdrawn by then is not finished."""
    for line in requests:
        reply = _forked(line, requests, replies)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def _forked(line: bytes, requests: BinaryIO, replies: BinaryIO) -> dict[str, Any]:
    """The answer of a forked process, and the number of the signal that ended it, 0 if none did."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(requests.fileno())
        os.close(replies.fileno())
        _answer_and_exit(line, writer)
    os.close(writer)
    found = b""
    deadline = time.monotonic() + WAIT
    while True:
        # Nothing is sent during a request: that its pipe can be read means that the service has ended.
        pipes = [reader, requests.fileno()]
        ready, _, _ = select.select(pipes, [], [], max(0.0, deadline - time.monotonic()))
        if reader not in ready:
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(reader, 1 << 16)
        if not part:
            break
        found += part
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    with suppress(ValueError):
        return {"signal": number, "answer": json.loads(found)}
    return {"signal": number, "answer": None}


def _answer_and_exit(line: bytes, writer: int) -> NoReturn:
    try:
        reply = answer(json.loads(line))
        if reply:
            reply["error"] = reply["error"][:LONGEST]
        os.write(writer, json.dumps(reply).encode())
    finally:
        os._exit(0)


def main() -> None:
    """Take over standard input and output, which nothing else may use then, and answer requests."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    with suppress(Uncompiled, ValueError), watched(refuse=True):
        rehearse(example("gaussian"))  # loads the kernels that all families share, if they are compiled
    serve(requests, replies)


if __name__ == "__main__":
    main()

"""A child process that is asked for a reading and answers with one, a JSON line each way."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

LONGEST = 1 << 20
"""Bytes of an answer; one that is longer has lost its line end."""
_GRACE = 2.0  # seconds a child is given to leave before it is ended


class ChildError(RuntimeError):
    """A child that died, hangs or talks nonsense."""


class Stopped(BaseException):
    """A signal asks for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Child:
    """Runs `command`; `ask` waits `timeout` seconds for the answer.

    Used as a context: SIGINT and SIGTERM then raise `Stopped`, but only while an answer is waited for, so that a tick
    is done or not done; on leaving, the child is told by the end of its input, and ended if it stays.
    """

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.command, self.timeout = list(command), timeout
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=2)
        self._waiting = False
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        try:
            # A group of its own: Ctrl-C is ours to act on, and whatever the child started ends with it.
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise ChildError(f"cannot run {self.command[0]!r}: {error.strerror}") from None
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._caught)
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has gone already
            self._process.stdin.close()
        for how, seconds in ((None, _GRACE), (signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
            if how is None and error is not None:
                continue
            if how is not None:
                self._end(how)
            try:
                self._process.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                continue
        assert self._process.stdout is not None
        self._process.stdout.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, how: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # none of the group is left
            os.killpg(self._process.pid, how)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if self._waiting:
            self._waiting = False
            raise Stopped(number)

    def check(self) -> None:
        """Raise `Stopped` if a signal came while nothing was waited for."""
        if self._signal is not None:
            raise Stopped(self._signal)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with os.fdopen(os.dup(self._process.stdout.fileno()), "rb") as answers:
            while line := answers.readline(LONGEST):
                self._answers.put(line)
        self._answers.put(b"")

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one question; None if the child has come to its end."""
        if not self._answers.empty():
            early = self._answers.get()
            if early:
                raise ChildError(f"the child spoke before it was asked: {_shown(early)}")
            self._ended(b"")
            return None
        assert self._process.stdin is not None
        with suppress(OSError):  # it no longer listens: what it said last, and how it went, is read below
            self._process.stdin.write(json.dumps(question, ensure_ascii=False).encode() + b"\n")
        try:
            self._waiting = True
            self.check()
            line = self._answers.get(timeout=self.timeout)
        except queue.Empty:
            raise ChildError(
                f"the child did not answer within {self.timeout:g} s at tick {question['tick']}; "
                "does it flush its output after every line?"
            ) from None
        finally:
            self._waiting = False
        if len(line) >= LONGEST:
            raise ChildError(f"the child talks nonsense: a line that does not end, {_shown(line)}")
        if not line.endswith(b"\n"):
            self._ended(line)
            return None
        return _answer(line)

    def _ended(self, last: bytes) -> None:
        """The child closed its output: an end if it did so well, else an error."""
        try:
            code = self._process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise ChildError("the child closed its output and did not end") from None
        if code < 0:
            raise ChildError(f"the child was killed by {signal.Signals(-code).name}")
        if code > 0:
            raise ChildError(f"the child ended with exit code {code}")
        if last:
            raise ChildError(f"the child broke off in the middle of a line: {_shown(last)}")


def _answer(line: bytes) -> dict[str, Any] | None:
    """What a line says: ``{"x": 1.5}``, with "time" if the child knows it; None for ``{"end": true}``."""
    expected = 'expected {"x": number}, {"x": null} or {"end": true}'
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ChildError(f"the child talks nonsense: {_shown(line)}; {expected}") from None
    if isinstance(found, dict) and found.get("end") is True:
        return None
    if not isinstance(found, dict) or "x" not in found:
        raise ChildError(f"the child talks nonsense: {_shown(line)}; {expected}")
    x = found["x"] if isinstance(found["x"], list) else [found["x"]]
    if not {type(value) for value in x} <= {int, float, type(None)}:  # true is no reading
        raise ChildError(f"the child talks nonsense: x = {found['x']!r:.60} is not a number; {expected}")
    if not isinstance(found.get("time"), (str, int, float, type(None))):
        raise ChildError(f"the child talks nonsense: {_shown(line)}; time must be a text or a number")
    return found


def _shown(line: bytes, most: int = 80) -> str:
    text = line[: 4 * most].decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= most else f"{text[:most]}...")

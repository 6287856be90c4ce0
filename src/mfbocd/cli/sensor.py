"""How `mfbocd drive` reads: a sensor process that answers requests, or one command per fidelity that prints a number.

The process gets one JSON request per tick on its stdin and writes one JSON response to its stdout.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

MAX_LINE = 1 << 20
"""Maximum length of a response line, in bytes."""
_GRACE = 2.0  # seconds the process has to exit before it is terminated, then killed


class SensorError(RuntimeError):
    """The sensor process failed, timed out or sent an invalid response."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM was received."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Makes SIGINT and SIGTERM raise `Interrupted`, but only inside `waiting`, so that no tick is applied halfway."""

    def __init__(self) -> None:
        self._waiting = False
        self._signal: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if self._waiting:
            self._waiting = False
            raise Interrupted(number)

    def check(self) -> None:
        """Raise `Interrupted` if a signal arrived."""
        if self._signal is not None:
            raise Interrupted(self._signal)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal interrupt what is done inside."""
        try:
            self._waiting = True
            self.check()
            yield
        finally:
            self._waiting = False


class Sensor(Protocol):
    """What `mfbocd drive` asks for readings."""

    def request(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response to one request, which has a tick, a fidelity and its cost; None after the last."""
        ...


class SensorProcess:
    """A subprocess that returns a reading for each request; a context manager.

    On exit the stdin of the process is closed; if it does not exit, its process group is terminated.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    timeout : float
        Seconds to wait for one response.
    signals : Signals
        What may interrupt the waiting.
    """

    def __init__(self, command: Sequence[str], timeout: float, signals: Signals) -> None:
        self.command, self.timeout, self.signals = list(command), timeout, signals
        self._responses: queue.Queue[bytes] = queue.Queue(maxsize=2)

    def __enter__(self) -> Self:
        try:
            # Its own session: Ctrl-C reaches only this process, and the whole group can be terminated on exit.
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise SensorError(f"cannot run {self.command[0]!r}: {error.strerror}") from None
        threading.Thread(target=self._read_lines, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the process has exited already
            self._process.stdin.close()
        end_group(self._process, at_once=error is not None)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        with os.fdopen(os.dup(self._process.stdout.fileno()), "rb") as stdout:
            while line := stdout.readline(MAX_LINE):
                self._responses.put(line)
        self._responses.put(b"")

    def request(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Send one request and return the response; None if the sensor has no more readings."""
        if not self._responses.empty():
            early = self._responses.get()
            if early:
                raise SensorError(f"the sensor sent a line before it was asked: {excerpt(early)}")
            self._check_exit(b"")
            return None
        assert self._process.stdin is not None
        with suppress(OSError):  # its stdin is closed: the last output and the exit code are handled below
            self._process.stdin.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
        try:
            with self.signals.waiting():
                line = self._responses.get(timeout=self.timeout)
        except queue.Empty:
            raise SensorError(
                f"the sensor did not respond within {self.timeout:g} s at tick {request['tick']}; "
                "does it flush its output after every line?"
            ) from None
        if len(line) >= MAX_LINE:
            raise SensorError(f"invalid response: the line is longer than {MAX_LINE} bytes, {excerpt(line)}")
        if not line.endswith(b"\n"):
            self._check_exit(line)
            return None
        return parse_response(line)

    def _check_exit(self, rest: bytes) -> None:
        """The process closed its output; raise unless it exited with code 0 after a complete line."""
        try:
            code = self._process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise SensorError("the sensor closed its output but did not exit") from None
        if code != 0:
            raise SensorError(f"the sensor {ended(code)}")
        if rest:
            raise SensorError(f"the sensor exited in the middle of a line: {excerpt(rest)}")


def end_group(process: subprocess.Popen[bytes], *, at_once: bool) -> None:
    """Wait until a process exits, for a while unless `at_once`; then terminate its group, and then kill it."""
    for ending, seconds in ((None, _GRACE), (signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        if ending is None and at_once:
            continue
        if ending is not None:
            with suppress(ProcessLookupError, PermissionError):  # no process of the group is left
                os.killpg(process.pid, ending)
        try:
            process.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            continue


def ended(code: int) -> str:
    """Return how a process ended that did not end well."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def parse_response(line: bytes) -> dict[str, Any] | None:
    """Parse ``{"x": 1.5}``, optionally with "time"; None for ``{"end": true}``."""
    expected = 'expected {"x": number}, {"x": null} or {"end": true}'
    try:
        response = json.loads(line)
    except (ValueError, RecursionError):
        raise SensorError(f"invalid response: {excerpt(line)}; {expected}") from None
    if isinstance(response, dict) and response.get("end") is True:
        return None
    if not isinstance(response, dict) or "x" not in response:
        raise SensorError(f"invalid response: {excerpt(line)}; {expected}")
    x = response["x"] if isinstance(response["x"], list) else [response["x"]]
    if not {type(value) for value in x} <= {int, float, type(None)}:  # a bool is not a reading
        raise SensorError(f"invalid response: x = {response['x']!r:.60} is not a number; {expected}")
    if not isinstance(response.get("time"), (str, int, float, type(None))):
        raise SensorError(f"invalid response: {excerpt(line)}; time must be a string or a number")
    return response


def excerpt(line: bytes) -> str:
    """Return the first 80 characters of an output, for a message."""
    text = line[:320].decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= 80 else f"{text[:80]}...")

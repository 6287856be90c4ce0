"""Commands that print a reading, one per fidelity: the key `observe` of a configuration, for `mfbocd drive`."""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .sensor import MAX_LINE, Sensor, SensorError, Signals, end_group, ended, excerpt, parse_response


class Observers:
    """Reads every fidelity with its own command, and those without one with a sensor process.

    Parameters
    ----------
    commands : mapping of str to str
        Shell commands by fidelity. Each is run once per reading and prints it.
    timeout : float
        Seconds that a command may take.
    signals : Signals
        What may interrupt the waiting.
    process : Sensor or None
        The process that answers requests for the other fidelities; None if these are only skips, which read nothing.
    """

    def __init__(self, commands: Mapping[str, str], timeout: float, signals: Signals, process: Sensor | None) -> None:
        self.commands, self.timeout, self.signals, self.process = commands, timeout, signals, process

    def request(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response to one request; None if there are no more readings."""
        fidelity = request["fidelity"]
        if fidelity in self.commands:
            return self._run(self.commands[fidelity], request)
        return {"x": None} if self.process is None else self.process.request(request)

    def _run(self, command: str, request: dict[str, Any]) -> dict[str, Any] | None:
        where = f"the command of {request['fidelity']!r}, {command!r:.60},"
        variables = {f"MFBOCD_{name.upper()}": str(value) for name, value in request.items()}
        # Its own session: Ctrl-C reaches only this process, and what the command has started can be ended with it.
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=os.environ | variables,
        )
        deadline = time.monotonic() + self.timeout
        try:
            with self.signals.waiting():
                output = _output(process, deadline)
                code = process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            raise SensorError(f"{where} took longer than {self.timeout:g} s at tick {request['tick']}") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()
            if process.poll() is None:
                end_group(process, at_once=True)
        if len(output) > MAX_LINE:
            raise SensorError(f"{where} printed more than {MAX_LINE} bytes: {excerpt(output)}")
        if code != 0:
            raise SensorError(f"{where} {ended(code)} at tick {request['tick']}")
        try:
            return parse_output(output)
        except SensorError as error:
            raise SensorError(f"{where} at tick {request['tick']}: {error}") from None


def _output(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return what a process prints, up to a little more than `MAX_LINE` bytes."""
    assert process.stdout is not None
    output = b""
    while len(output) <= MAX_LINE:
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            raise subprocess.TimeoutExpired(process.args, 0.0)
        part = process.stdout.read(1 << 16)
        if not part:
            return output
        output += part
    end_group(process, at_once=True)
    return output


def parse_output(output: bytes) -> dict[str, Any] | None:
    """Parse what a command printed: a number, several with spaces between them, or a response as of a sensor process.

    Nothing and ``nan`` mean that there is no reading.

    >>> parse_output(b"21.5\\n"), parse_output(b"1 2.5"), parse_output(b"")
    ({'x': 21.5}, {'x': [1.0, 2.5]}, {'x': None})
    """
    if output.lstrip().startswith(b"{"):
        return parse_response(output)
    words = output.split()
    values: list[float | None] = []
    for word in words:
        value = math.inf
        with suppress(ValueError):
            value = float(word) if b"_" not in word else math.inf
        if math.isinf(value):
            raise SensorError(f"it printed {excerpt(output)}, which is not a number")
        values.append(None if math.isnan(value) else value)
    return {"x": values if len(values) > 1 else values[0] if values else None}

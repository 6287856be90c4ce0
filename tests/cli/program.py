"""Run `mfbocd` as a user would: in this process, which is fast, or as a separate process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import click

from mfbocd.cli import main

from ..parts import PATIENCE

COMMAND = [sys.executable, "-m", "mfbocd.cli"]
WALK = """
hazard = 0.01
seed = 3
[model]
kind = "gaussian"
mean = 0.0
var = 25.0
noise_var = 1.0
[[fidelity]]
name = "imu"
zeta = 0.1
cost = 1.0
[[fidelity]]
name = "gps"
zeta = 1.0
cost = 40.0
[policy]
kind = "budget"
share = 0.35
"""
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""An environment in which Python buffers its output, so that a missing flush shows."""


def mfbocd(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in this process, its stdin a pipe."""
    return call(main, "mfbocd", *arguments, cwd=cwd, stdin=stdin)


def call(
    program: click.Command, name: str, *arguments: str, cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program in this process, its stdin a pipe."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    read, write = os.pipe()

    def feed() -> None:
        with suppress(BrokenPipeError), os.fdopen(write, "w", encoding="utf-8") as pipe:
            pipe.write(stdin)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with chdir(cwd), redirect_stdout(out), redirect_stderr(err), os.fdopen(read, encoding="utf-8") as sys.stdin:
            program(list(arguments), prog_name=name)
    except SystemExit as done:
        code = done.code
    finally:
        sys.stdin = before
        feeder.join()
    assert isinstance(code, int)
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())


def process(*arguments: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a separate process."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

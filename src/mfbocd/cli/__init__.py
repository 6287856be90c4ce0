"""The command line: data on stdout, status messages on stderr.

One file per command. Each command imports what it needs when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import click

from .. import __version__
from .calibrate import calibrate
from .demo import demo
from .detect import detect
from .drive import drive
from .export import export
from .init import init
from .serve import serve
from .store import state
from .token import token
from .warm import warm


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mfbocd")
def main() -> None:
    """Detect changepoints in streams that can be observed at several fidelities.

    Results are written to standard output, status messages to standard error. The exit code is 0 on success, 1 if the
    run failed, and 2 if the arguments or the configuration are invalid.
    """


for command in (calibrate, demo, detect, drive, export, init, serve, state, token, warm):
    main.add_command(command)

"""The command line: data on stdout, talk on stderr. One file a command, each importing what it needs when it runs."""

from __future__ import annotations

import click

from .. import __version__
from .calibrate import calibrate
from .demo import demo
from .detect import detect
from .drive import drive
from .init import init
from .serve import serve
from .store import state
from .token import token
from .warm import warm


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mfbocd")
def main() -> None:
    """Detect changes in streams that can be observed in several ways, paying only for what is worth it."""


for command in (calibrate, demo, detect, drive, init, serve, state, token, warm):
    main.add_command(command)

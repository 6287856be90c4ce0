"""How a command ends: errors in one plain line, exit codes 1 and 2, and a quiet end when the reader has gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)
DATA = click.Path(exists=True, dir_okay=False, allow_dash=True)
FILE = click.Path(dir_okay=False, path_type=Path)


@contextmanager
def plainly() -> Iterator[None]:
    """Say what went wrong without a traceback: 2 for what the user asked, 1 for what happened while it ran."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
    except (ValueError, TypeError, ImportError, OSError, ArithmeticError) as error:
        from ..io.config import ConfigError

        if isinstance(error, ConfigError):
            raise click.UsageError(str(error)) from None
        if isinstance(error, OSError) and error.filename is not None:
            raise click.ClickException(f"{error.filename}: {error.strerror}") from None
        raise click.ClickException(str(error)) from None


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file that is not there yet, or any with --force."""
    if path.exists() and not force:
        raise click.UsageError(f"{path} is there already; --force writes over it")
    path.write_text(text, encoding="utf-8")


def say(text: str, *, quiet: bool = False) -> None:
    """Talk, which goes to stderr."""
    if not quiet:
        click.echo(text, err=True)

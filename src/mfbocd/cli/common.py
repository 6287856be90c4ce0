"""Shared by all commands: argument types, options, status messages and error handling."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import click

CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)
DATA = click.Path(exists=True, dir_okay=False, allow_dash=True)
FILE = click.Path(dir_okay=False, path_type=Path)


def probability(text: str) -> float:
    """Return a probability that is written as a number or a fraction."""
    from ..inputs.arguments import probability as checked

    try:
        value = float(Fraction(text))
    except (ValueError, ArithmeticError):
        raise click.BadParameter(f"{text!r} is neither a number nor a fraction such as 1/500") from None
    try:
        return checked("", "hazard", value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


format_option = click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet", "arrow"]),
    help="Format of the table. Default: from the file name or the first bytes.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no status messages, only errors.")


@contextmanager
def handle_errors() -> Iterator[None]:
    """Report expected errors in one line: exit code 2 for a bad configuration, 1 for a failed run."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. The interpreter flushes stdout once more at exit, which must not fail.
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
    """Write a text file; an existing file is overwritten only with `force`."""
    if path.exists() and not force:
        raise click.UsageError(f"{path} already exists; use --force to overwrite it")
    path.write_text(text, encoding="utf-8")


def status(text: str, *, quiet: bool = False) -> None:
    """Print a status message on stderr."""
    if not quiet:
        click.echo(text, err=True)

"""Shared by all commands: argument types, options, status messages and error handling."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..io.tables import Table

Command = TypeVar("Command", bound=Callable[..., Any])

CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)
DATA = click.Path(exists=True, dir_okay=False, allow_dash=True)
FILE = click.Path(dir_okay=False, path_type=Path)
COMPILING = "Compiling kernels, once per installation (10 to 30 s) ..."


def probability(text: str) -> float:
    """Return a probability that is written as a number or a fraction."""
    from ..inputs.arguments import probability as checked

    try:
        value = float(Fraction("".join(text.split())))
    except (ValueError, ArithmeticError):
        raise click.BadParameter(f"{text!r} is neither a number nor a fraction such as 1/500") from None
    try:
        return checked("", "hazard", value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def input_options(command: Command, more_formats: tuple[str, ...] = ()) -> Command:
    """Add the options that decide how a table is read; `open_input` takes them."""
    options = (
        click.option(
            "--input-format",
            type=click.Choice(["csv", "jsonl", "parquet", "arrow", *more_formats]),
            help="Format of the table. Default: from the file name or the first bytes.",
        ),
        click.option(
            "--na",
            multiple=True,
            metavar="TEXT,...",
            help="Cells that mean a missing reading, such as ERROR,-,-999, in addition to empty cells, NA, NaN, null "
            "and none.",
        ),
        click.option(
            "--on-bad",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="At a cell that is not a number or a row that cannot be read: stop with an error, or skip it. A "
            "skipped cell is a missing reading.",
        ),
        click.option(
            "--decimal",
            type=click.Choice([".", ","]),
            help="Decimal separator of text. Default: a comma if semicolons separate the columns, else a point.",
        ),
        click.option(
            "--encoding", help="Encoding of text, such as latin-1. Default: UTF-8, or UTF-16 with a byte order mark."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_input(
    data: str,
    *,
    input_format: Any,
    na: tuple[str, ...],
    on_bad: Any,
    decimal: str | None,
    encoding: str | None,
) -> Table:
    """Open a table with the options of `input_options`."""
    from ..io.tables import open_table

    marks = [text for given in na for text in given.split(",") if text.strip()]
    return open_table(data, input_format, na=marks, on_bad=on_bad, decimal=decimal, encoding=encoding)


def skipped_note(table: Table) -> str:
    """Return what was skipped in a table, as a sentence; empty if nothing was."""
    bad = table.rules.skipped
    if bad is None or not bad.count:
        return ""
    return f"Skipped {bad.count} bad {'cell or row' if bad.count == 1 else 'cells or rows'}; the first: {bad.first}."


force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")
json_option = click.option("--json", is_flag=True, help="Print all steps as JSON Lines, also on a terminal.")
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
        raise click.ClickException(f"{error}{_hint(str(error))}") from None


def _hint(error: str) -> str:
    """Return the options that help with an error of a table."""
    if error.endswith(" is not UTF-8 text"):
        return ". Name its encoding: --encoding latin-1"
    if error.endswith((" is not a number", " is not a finite number")) or " of its " in error:
        return ". --na names cells that mean a missing reading; --on-bad skip skips what is not a number"
    if error.endswith("set decimal"):
        return ": --decimal , or --decimal ."
    return ""


def check_new(paths: Iterable[Path | None], *, force: bool) -> None:
    """Raise before a long run if one of its output files exists and may not be overwritten, or is given twice."""
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path.is_file() and not force:  # a device such as /dev/null may be written
            raise click.UsageError(f"{path} already exists; use --force to overwrite it")
        if path.absolute() in seen:
            raise click.UsageError(f"{path} is given for two outputs")
        seen.add(path.absolute())


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a text file; an existing file is overwritten only with `force`."""
    check_new([path], force=force)
    path.write_text(text, encoding="utf-8")


@contextmanager
def compiling(*, quiet: bool = False) -> Iterator[None]:
    """Print a message before the first kernel is compiled."""
    from ..io.warm import watched

    with watched(before=lambda: status(COMPILING, quiet=quiet)):
        yield


def status(text: str, *, quiet: bool = False) -> None:
    """Print a status message on stderr."""
    if not quiet:
        click.echo(text, err=True)

"""Where a long command does its work: `--backend` and `--scheduler`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def spread_options(command: Command) -> Command:
    """Add both options to a command."""
    command = click.option(
        "--scheduler", metavar="ADDRESS", help="With --backend dask: the scheduler, such as tcp://host:8786."
    )(command)
    return click.option(
        "--backend",
        type=click.Choice(["processes", "dask"]),
        default="processes",
        show_default=True,
        help="Processes of this machine, or the workers of a Dask cluster (extra `dask`).",
    )(command)


@contextmanager
def spread(backend: str, scheduler: str | None) -> Iterator[None]:
    """`study.parts.spread`, whose complaints end the command in one plain line."""
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together")
    from .study.parts import ClusterError
    from .study.parts import spread as spread_parts

    try:
        with spread_parts(backend, scheduler):
            yield
    except ClusterError as error:
        raise click.ClickException(str(error)) from None

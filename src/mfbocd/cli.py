"""The command line: data on stdout, talk on stderr."""

from __future__ import annotations

from pathlib import Path

import click

from . import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mfbocd")
def main() -> None:
    """Detect changes in streams that can be observed in several ways, paying only for what is worth it."""


@main.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder the report is written to.",
)
@click.option("--ticks", type=click.IntRange(50), default=1000, show_default=True, help="Length of the stream.")
@click.option(
    "--low",
    type=click.FloatRange(0, 1),
    default=0.7,
    show_default=True,
    help="Share of ticks read with the cheap sensor.",
)
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Of the stream and the choices.")
def demo(out: Path, ticks: int, low: float, seed: int) -> None:
    """Run a detector over a simulated stream with a cheap and a dear sensor.

    Prints what it found and what it cost, and writes a report.
    """
    from .demo import run_demo

    click.echo(run_demo(out, ticks=ticks, low=low, seed=seed))


if __name__ == "__main__":
    main()

"""`mfbocd demo`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder the report is written to.",
)
@click.option("--ticks", type=click.IntRange(50), default=1000, show_default=True, help="Length of the stream.")
@click.option("--budget", type=click.FloatRange(1), default=8.0, show_default=True, help="Average cost a tick.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Of the stream and the choices.")
def demo(out: Path, ticks: int, budget: float, seed: int) -> None:
    """Run a detector over a simulated stream with a cheap and a dear sensor.

    Prints what it found and what it cost, and writes a report.
    """
    from ..demo import run_demo

    click.echo(run_demo(out, ticks=ticks, budget=budget, seed=seed))

"""`mfbocd demo`."""

from __future__ import annotations

from pathlib import Path

import click

from .plain import plainly


@click.command()
@click.option("--simulated", is_flag=True, help="A simulated stream instead of the real one.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder the report and the trace are written to.",
)
@click.option(
    "--budget",
    type=click.FloatRange(1),
    help="Average cost a tick; 2.05 of 1 to 4, simulated 8 of 1 to 40, unless told.",
)
@click.option("--ticks", type=click.IntRange(50), help="Length of the simulated stream; 1000 unless told.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Of the simulated stream.")
def demo(simulated: bool, out: Path, budget: float | None, ticks: int | None, seed: int) -> None:
    """Find the changes of pace in a real run, paying for good readings only where they tell.

    Prints what it found beside what people marked, and what it cost; writes a report and a table of every tick.
    """
    if ticks is not None and not simulated:
        raise click.UsageError("--ticks needs --simulated: the real run has the length it has")
    with plainly():
        from ..report.demo import real_run, run_demo, simulated_walk

        scene = simulated_walk(seed, ticks or 1000, budget) if simulated else real_run(budget)
        click.echo(run_demo(scene, out, seed=seed))

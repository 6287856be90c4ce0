"""``mfbocd demo``."""

from __future__ import annotations

from pathlib import Path

import click

from .common import check_new, compiling, force_option, handle_errors


@click.command()
@click.option("--simulated", is_flag=True, help="Use a simulated stream; needs no extras.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Output folder for the report and the tables.",
)
@click.option(
    "--budget",
    type=click.FloatRange(1),
    help="Average cost per tick. Default: 2.05 (fidelities cost 1 and 4), with --simulated 8 (1 and 40).",
)
@click.option("--ticks", type=click.IntRange(50), help="Length of the simulated stream. Default: 1000.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Seed of the simulated stream.")
@force_option
def demo(simulated: bool, out: Path, budget: float | None, ticks: int | None, seed: int, force: bool) -> None:
    """Detect changes of pace in a GPS track of a real run, with a cheap and an expensive fidelity.

    Prints the detected changes next to the annotated ones, the cost, and the error of a random baseline with the same
    spend. Writes a report (report.html), the steps (trace.csv) and the stream (stream.csv) to the output folder.

    \b
    Examples:
      mfbocd demo
      mfbocd demo --simulated --out out/walk
    """
    if ticks is not None and not simulated:
        raise click.UsageError("--ticks needs --simulated: the real stream has a fixed length")
    with handle_errors():
        from ..report.demo import FILES, real_run, run_demo, simulated_walk

        check_new([out / name for name in FILES], force=force)
        with compiling():
            scene = simulated_walk(seed, ticks or 1000, budget) if simulated else real_run(budget)
            click.echo(run_demo(scene, out, seed=seed))

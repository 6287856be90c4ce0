"""`mfbocd study`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .command_spread import spread, spread_options


@click.group()
def study() -> None:
    """Experiments on what choosing saves."""


@study.command("frontier")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/frontier"),
    show_default=True,
    help="Folder for the table, the picture and the parts a later run resumes from.",
)
@click.option("--family", "families", multiple=True, help="Only this family of streams (may be repeated).")
@click.option("--streams", type=click.IntRange(1), default=200, show_default=True, help="Streams a family.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="First seed of the streams.")
@click.option("--jobs", type=int, default=-1, show_default=True, help="Processes; -1 uses every core.")
@click.option("--quick", is_flag=True, help="20 streams, two levels, the default and the paper's rule only.")
@spread_options
def study_frontier(
    out: Path,
    families: tuple[str, ...],
    streams: int,
    seed: int,
    jobs: int,
    quick: bool,
    backend: str,
    scheduler: str | None,
) -> None:
    """Error against spend for every gain and rule, at 20 % to 95 % low fidelity.

    Compares each with a coin that spends the same on the same streams, on synthetic and real data. Needs the extras
    `study` and `real`.
    """
    try:
        from .study.families import FAMILIES
        from .study.frontier import frontier
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    unknown = [f for f in families if f not in FAMILIES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(FAMILIES)}", param_hint="--family")
    chosen = families or tuple(FAMILIES)
    few: dict[str, Any] = {}
    if quick:
        few = {"rules": ("rate", "budget"), "gains": ("run_length", "joint"), "levels": (0.35, 0.65)}
    try:
        with spread(backend, scheduler):
            frontier(
                out, families=chosen, streams=min(streams, 20) if quick else streams, seed=seed, jobs=jobs, **few
            )
    except ImportError as error:
        raise click.ClickException(f"{error}; pip install 'mfbocd[study,real]'") from None
    click.echo((out / "frontier.md").read_text())
    click.echo(f"Wrote {out / 'frontier.csv'}, {out / 'frontier.md'} and {out / 'frontier.png'}", err=True)

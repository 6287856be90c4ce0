"""`mfbocd calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .plain import CONFIG, DATA, FILE, plainly, say, write_new

if TYPE_CHECKING:
    from ..calibrate.recalibrate import Recalibrated

ROWS = 100_000
"""Rows that are used, at most."""


@click.command()
@click.argument("data", type=DATA)
@click.option("-c", "--config", "path", type=CONFIG, required=True, help="The config to begin from.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 1, min_open=True),
    help="Find the price for this share of the way from the cheapest fidelity's cost (0) to the dearest's (1).",
)
@click.option("--format", type=click.Choice(["csv", "jsonl", "parquet", "arrow"]), help="If the name does not tell.")
@click.option("--out", type=FILE, help="Write the new config here, not to stdout.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def calibrate(data: str, path: Path, budget: float | None, format: Any, out: Path | None, force: bool) -> None:
    """Estimate zeta, noise, prior and price from held-out data, and show what changed.

    DATA has a column for each fidelity, read at the same ticks. Rows with a reading missing are left out of a pair.
    The new config goes to stdout, the table of changes to stderr.

    \b
    Example:
      mfbocd calibrate held-out.csv -c mf.toml --budget 0.3 --out new.toml
    """
    with plainly():
        import numpy as np

        from ..calibrate.recalibrate import recalibrate
        from ..io.config import Config
        from ..io.tables import open_table

        config = Config.load(path)
        ways = [f for f in config.fidelities if f.zeta > 0.0]
        if not ways:
            raise click.UsageError(f"{path} names no fidelity to calibrate: add [[fidelity]] with its column")
        if budget is not None and len(config.fidelities) == 1:
            raise click.UsageError(f"--budget needs fidelities to choose from: {path} has one")
        columns = {f.name: f.column for f in ways}
        found: dict[str, list[float]] = {name: [] for name in columns}
        rows = 0
        with open_table(data, format) as table:
            for chunk in table.chunks(list(dict.fromkeys(columns.values()))):
                for name, column in columns.items():
                    values = (chunk.number(i, column) for i in range(len(chunk)))
                    found[name] += [np.nan if x is None else x for x in values]
                rows += len(chunk)
                if rows >= ROWS:
                    say(f"Only the first {rows} rows are used.")
                    break
        new = recalibrate(config, {name: np.array(values) for name, values in found.items()}, budget)
        say(_table(new))
        top = f"Calibrated on {rows} rows of {table.name}, from {path.name}."
        text = new.config.to_toml(new.notes | {"": top})
        if out is None:
            click.echo(text, nl=False)
        else:
            write_new(out, text, force=force)
            say(f"Wrote {out}.")


def _table(new: Recalibrated) -> str:
    """Before and after."""
    rows = [("", "before", "after"), *((c.label, c.before, c.after) for c in new.changes)]
    wide = [max(len(row[j]) for row in rows) for j in range(3)]
    lines = []
    for row, why in zip(rows, ["", *(c.why for c in new.changes)], strict=True):
        lines.append("  ".join(f"{cell:<{w}}" for cell, w in zip(row, wide, strict=True)) + f"  {why}")
    lines += [f"Kept {reason}." for reason in new.kept]
    return "\n".join(line.rstrip() for line in lines)

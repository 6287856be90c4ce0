"""``mfbocd calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    CONFIG,
    DATA,
    FILE,
    check_new,
    compiling,
    force_option,
    handle_errors,
    input_options,
    open_input,
    skipped_note,
    status,
    write_new,
)

if TYPE_CHECKING:
    from ..calibrate.recalibrate import Recalibrated

MAX_ROWS = 100_000
"""Rows read from the table."""


@click.command()
@click.argument("data", type=DATA)
@click.option("-c", "--config", "path", type=CONFIG, required=True, help="Configuration to start from.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 1, min_open=True),
    help="Also set the average spend, as a fraction of the way from the cheapest fidelity (0) to the most expensive "
    "one (1). A budget gets this amount, another policy the price or weight that spends it on the held-out rows.",
)
@input_options
@click.option("--out", type=FILE, help="Write the new configuration to this file instead of stdout.")
@force_option
def calibrate(data: str, path: Path, budget: float | None, out: Path | None, force: bool, **reading: Any) -> None:
    """Estimate zeta, offset, scale, noise variance, prior and price from held-out data.

    DATA has one column per fidelity, read at the same ticks. A pair of fidelities is compared on the rows that have
    both readings: a sensor that reads too high, or in another unit than the best one, gets an offset and a scale. At
    most the first 100,000 rows are used. The new configuration is written to stdout, a table of the changes to
    stderr. Comments and layout of the configuration stay; each new value has its reason above it.

    \b
    Example:
      mfbocd calibrate held-out.csv -c mf.toml --budget 0.3 --out new.toml
    """
    with handle_errors():
        import numpy as np

        from ..calibrate.recalibrate import recalibrate
        from ..io.config import Config
        from ..io.config.edit import EditError

        check_new([out], force=force)
        config = Config.load(path)
        fidelities = [f for f in config.fidelities if f.zeta > 0.0]
        if not fidelities:
            raise click.UsageError(f"{path} has no fidelity to calibrate; add [[fidelity]] tables")
        if budget is not None and len(config.fidelities) == 1:
            raise click.UsageError(f"--budget needs at least two fidelities; {path} has one")
        columns = {f.name: f.column for f in fidelities}
        readings: dict[str, list[float]] = {name: [] for name in columns}
        rows = 0
        with open_input(data, **reading) as table:
            for chunk in table.chunks(list(dict.fromkeys(columns.values()))):
                for name, column in columns.items():
                    values = (chunk.number(i, column) for i in range(len(chunk)))
                    readings[name] += [np.nan if x is None else x for x in values]
                rows += len(chunk)
                if rows >= MAX_ROWS:
                    status(f"Using the first {rows} rows only.")
                    break
        if note := skipped_note(table):
            status(note)
        with compiling():
            new = recalibrate(config, {name: np.array(values) for name, values in readings.items()}, budget)
        status(_table(new))
        header = f"Calibrated on {rows} rows of {table.name}, from {path.name}."
        try:
            text = new.edited(path.read_text(encoding="utf-8-sig"), header)
        except EditError as error:
            status(f"The comments of {path} are left out: {error}.")
            text = new.config.to_toml(new.notes | {"": header})
        if out is None:
            click.echo(text, nl=False)
        else:
            write_new(out, text, force=force)
            status(f"Wrote {out}.")


def _table(new: Recalibrated) -> str:
    """Format the changes: key, before, after, reason."""
    rows = [("", "before", "after"), *((c.label, c.before, c.after) for c in new.changes)]
    widths = [max(len(row[j]) for row in rows) for j in range(3)]
    lines = []
    for row, why in zip(rows, ["", *(c.why for c in new.changes)], strict=True):
        lines.append("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) + f"  {why}")
    lines += [f"Kept {reason}." for reason in new.kept]
    return "\n".join(line.rstrip() for line in lines)

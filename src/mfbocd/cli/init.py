"""``mfbocd init``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from .common import (
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
    from ..calibrate.draft import TableColumns

MAX_ROWS = 20_000
"""Rows read from the table."""


@click.command()
@click.option("--from", "data", type=DATA, help="Table to estimate the configuration from.")
@click.option("--column", help="Column of readings, if there is one fidelity. Default: the only column of numbers.")
@click.option(
    "--fidelity",
    "fidelities",
    multiple=True,
    metavar="COLUMN",
    help="Column that is a fidelity: a reading of the same quantity in the same row. Repeat it for each one.",
)
@click.option("--best", help="Column of the best fidelity. Default: the least noisy one.")
@click.option("--time", help="Column of timestamps. Default: detected by name.")
@input_options
@click.option("--out", type=FILE, help="Write the configuration to this file instead of stdout.")
@force_option
def init(
    data: str | None,
    column: str | None,
    fidelities: tuple[str, ...],
    best: str | None,
    time: str | None,
    out: Path | None,
    force: bool,
    **reading: Any,
) -> None:
    """Write a commented configuration file: an example, or one estimated from a table.

    A comment gives the reason for each estimate. The model of a single column is the structure that `mfbocd detect`
    finds without a configuration. Several columns are fidelities of one stream only if --fidelity or --best says so.
    Costs cannot be estimated: edit the placeholders. At most the first 20,000 rows are read.

    \b
    Examples:
      mfbocd init --from temperatures.csv --out mf.toml
      mfbocd init --from walk.csv --fidelity imu --fidelity gps --out mf.toml
      mfbocd detect walk.csv -c mf.toml
    """
    with handle_errors():
        from ..calibrate.draft import guess_config, template

        check_new([out], force=force)
        if column is not None and (fidelities or best):
            raise click.UsageError("--column is for one fidelity; --fidelity and --best are for several")
        if data is None:
            if best or time or column or fidelities:
                raise click.UsageError("--column, --fidelity, --best and --time need a table: pass it with --from")
            config, notes = template()
        else:
            with compiling():
                config, notes = guess_config(_columns(data, column, fidelities, best, time, reading), best)
        for i, f in enumerate(config.fidelities):
            if (note := notes.get(f"fidelity[{i}].offset")) is not None:
                status(f"{f.name}: {note[0].lower()}{note[1:]}")
        text = config.to_toml(notes)
        if out is None:
            click.echo(text, nl=False)
            return
        write_new(out, text, force=force)
        what = "Edit the costs, then run" if len(config.fidelities) > 1 else "Run"
        status(f"Wrote {out}. {what}: mfbocd detect {data or 'DATA'} -c {out}")


def _columns(
    data: str,
    column: str | None,
    fidelities: tuple[str, ...],
    best: str | None,
    time: str | None,
    reading: dict[str, Any],
) -> TableColumns:
    """Return the columns that are fidelities, from the first rows of a table."""
    from ..calibrate.draft import classify_columns

    with open_input(data, **reading) as table:
        for option, name in (
            ("--column", column),
            *(("--fidelity", name) for name in fidelities),
            ("--best", best),
            ("--time", time),
        ):
            if name is not None and name not in table.columns:
                expected = ", ".join(table.columns)
                raise click.BadParameter(f"no column {name!r}; expected one of {expected}", param_hint=option)
        chunks, rows = [], 0
        for chunk in table.chunks():
            chunks.append(chunk)
            rows += len(chunk)
            if rows >= MAX_ROWS:
                break
        if not chunks:
            raise ValueError(f"{table.name} has no rows")
    if note := skipped_note(table):
        status(note)
    found = classify_columns(chunks, table.columns, time=time)
    wanted = dict.fromkeys([column] if column else [*fidelities, *([best] if fidelities and best else [])])
    for name in wanted:
        if name not in found.readings:
            why = found.reasons.get(name, "it holds the timestamps")
            raise ValueError(f"column {name!r} has no numbers: {why}")
    if wanted:
        return replace(found, readings={name: found.readings[name] for name in wanted})
    if len(found.readings) > 1 and best is None:
        options = " ".join(f"--fidelity {quote(name)}" for name in found.readings)
        raise click.UsageError(
            f"{table.name} has several columns of numbers: {', '.join(found.readings)}. Select one with --column. If "
            f"they are readings of the same quantity, which cost differently: {options}"
        )
    return found

"""``mfbocd init``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import DATA, FILE, force_option, format_option, handle_errors, status, write_new

MAX_ROWS = 20_000
"""Rows read from the table."""


@click.command()
@click.option("--from", "data", type=DATA, help="Table to estimate the configuration from, one column per fidelity.")
@click.option("--best", help="Column of the best fidelity. Default: the least noisy one.")
@click.option("--time", help="Column of timestamps. Default: detected by name.")
@format_option
@click.option("--out", type=FILE, help="Write the configuration to this file instead of stdout.")
@force_option
def init(data: str | None, best: str | None, time: str | None, format: Any, out: Path | None, force: bool) -> None:
    """Write a commented configuration file: an example, or one estimated from a table.

    A comment gives the reason for each estimate. The model of a single column is what `mfbocd detect` without a
    configuration takes the series to be, as far as a configuration can express it. Costs cannot be estimated: edit
    the placeholders. At most the first 20,000 rows are read.

    \b
    Examples:
      mfbocd init --from walk.csv --out mf.toml
      mfbocd detect walk.csv -c mf.toml
    """
    with handle_errors():
        from ..calibrate.draft import classify_columns, guess_config, template
        from ..io.tables import open_table

        if data is None:
            if best or time:
                raise click.UsageError("--best and --time need a table: pass it with --from")
            config, notes = template()
        else:
            with open_table(data, format) as table:
                chunks, rows = [], 0
                for chunk in table.chunks():
                    chunks.append(chunk)
                    rows += len(chunk)
                    if rows >= MAX_ROWS:
                        break
                if not chunks:
                    raise ValueError(f"{table.name} has no rows")
                for option, name in (("--best", best), ("--time", time)):
                    if name is not None and name not in table.columns:
                        raise click.BadParameter(
                            f"no column {name!r}; expected one of {', '.join(table.columns)}",
                            param_hint=option,
                        )
                config, notes = guess_config(classify_columns(chunks, table.columns, time=time), best)
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

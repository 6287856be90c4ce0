"""`mfbocd init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .plain import DATA, FILE, plainly, say, write_new

ROWS = 20_000
"""Rows of a table that are looked at."""


@click.command()
@click.option("--from", "data", type=DATA, help="Guess it from this table: a column for each fidelity.")
@click.option("--best", help="The column of the best fidelity; without it the least noisy.")
@click.option("--time", help="The column of timestamps, if it is not found.")
@click.option("--format", type=click.Choice(["csv", "jsonl", "parquet", "arrow"]), help="If the name does not tell.")
@click.option("--out", type=FILE, help="Write the config here, not to stdout.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(data: str | None, best: str | None, time: str | None, format: Any, out: Path | None, force: bool) -> None:
    """Write a config with comments: an example, or one guessed from your data.

    Every guess has its reason beside it. Costs cannot be guessed: they are placeholders to be edited.

    \b
    Examples:
      mfbocd init --from walk.csv --out mf.toml
      mfbocd detect walk.csv -c mf.toml
    """
    with plainly():
        from ..calibrate.draft import classify_columns, guess_config, template
        from ..io.tables import open_table

        if data is None:
            if best or time:
                raise click.UsageError("--best and --time name columns of a table: give it with --from")
            config, notes = template()
        else:
            with open_table(data, format) as table:
                head, seen = [], 0
                for chunk in table.chunks():
                    head.append(chunk)
                    seen += len(chunk)
                    if seen >= ROWS:
                        break
                if not head:
                    raise ValueError(f"{table.name} has no rows")
                for option, name in (("--best", best), ("--time", time)):
                    if name is not None and name not in table.columns:
                        raise click.BadParameter(f"{name!r} is none of {', '.join(table.columns)}", param_hint=option)
                config, notes = guess_config(classify_columns(head, table.columns, time=time), best)
        text = config.to_toml(notes)
        if out is None:
            click.echo(text, nl=False)
            return
        write_new(out, text, force=force)
        say(f"Wrote {out}. Read it, edit the costs, then: mfbocd detect {data or 'DATA'} -c {out}")

"""``mfbocd detect``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    CONFIG,
    DATA,
    FILE,
    compiling,
    force_option,
    handle_errors,
    input_options,
    json_option,
    open_input,
    probability,
    quiet_option,
    status,
)

if TYPE_CHECKING:
    from ..report.assets import Script


@click.command()
@click.argument("data", type=DATA)
@click.option("-c", "--config", "path", type=CONFIG, help="Configuration file. Not needed for columns of numbers.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="Column of readings; repeat it to analyse several, each as its own stream. Default: every column of "
    "numbers. NAME=COLUMN is the column of a fidelity, if the configuration has several.",
)
@click.option("--time", help="Column of timestamps. Default: from the configuration, else detected by name.")
@click.option("--sort", is_flag=True, help="Sort the rows by their timestamps first, in memory.")
@click.option(
    "--model",
    help="Without a configuration: a model family, such as student_t, instead of automatic choice.",
)
@click.option(
    "--hazard",
    type=probability,
    help="P(change) per tick, such as 1/500. Default: from the configuration, else 1/500.",
)
@click.option(
    "--period",
    help="Ticks per season, if it is known, or hourly, daily, weekly or yearly with timestamps. Default: found in "
    "the readings.",
)
@input_options
@json_option
@click.option(
    "--format",
    type=click.Choice(["jsonl", "csv"]),
    help="Print all steps in this format, also on a terminal. Default: from the name of --out, else jsonl.",
)
@click.option("--alarms", is_flag=True, help="Print only the steps that raise an alarm.")
@click.option(
    "--surprise",
    is_flag=True,
    help="Add log_density, log_lower and log_upper of every reading: the logs of its predictive density, P(X <= x) "
    "and P(X >= x), before the update. Slower.",
)
@click.option("--out", type=FILE, help="Write the steps to this file instead of stdout.")
@click.option("--plot", type=FILE, help="Write a plot: .png, .svg or .pdf. Needs the extra `plot`.")
@click.option("--report", type=FILE, help="Write a self-contained HTML report. Needs the extra `report`.")
@click.option(
    "--shared-script",
    is_flag=True,
    help="With --report: keep the script of the figures (5 MB) in a file next to the report, once for all reports of "
    "the folder, instead of a compressed copy (2 MB) in each.",
)
@click.option("--unit", help="Unit of the readings, for the summary, plots and reports.")
@force_option
@quiet_option
def detect(
    data: str,
    path: Path | None,
    columns: tuple[str, ...],
    time: str | None,
    sort: bool,
    model: str | None,
    hazard: float | None,
    period: str | None,
    json: bool,
    format: Any,
    alarms: bool,
    surprise: bool,
    out: Path | None,
    plot: Path | None,
    report: Path | None,
    shared_script: bool,
    unit: str | None,
    force: bool,
    quiet: bool,
    **reading: Any,
) -> None:
    """Detect changes in a table or a pipe.

    DATA is a CSV, JSON, Parquet or Arrow file, or - for stdin; text may be compressed with gzip, xz, bzip2 or zip. A
    column of numbers needs no configuration: the detector learns from the readings so far whether they are numbers,
    counts or 0/1, their scale, season, autocorrelation and outliers. It never uses later readings, and says at the
    end what it found. Several columns are analysed as separate streams. If they are fidelities of one stream, pass
    a configuration; at every tick only the column of the chosen fidelity is used.

    On a terminal a summary is printed, and the changes in a pipe as soon as they are found. Otherwise, or with --json
    or --format, one JSON object or CSV row per tick is printed, and the summary on stderr.

    After Ctrl-C the summary is still printed and the exit code is 130.

    \b
    Examples:
      mfbocd detect temperatures.csv --plot changes.png
      mfbocd detect pumps.csv --column flow --column pressure --report pumps.html
      mfbocd detect walk.csv -c mf.toml --alarms --json
      ./sensor | mfbocd detect - -c mf.toml > steps.jsonl
    """
    with handle_errors():
        from .output import on_terminal
        from .prepare import Request, prepare
        from .results import Outputs, check_outputs, run

        if json and format == "csv":
            raise click.UsageError("--json and --format csv exclude each other")
        if json:
            format = "jsonl"
        elif format is None:
            by_name = "csv" if out is not None and out.suffix.lower() == ".csv" else "jsonl"
            format = "text" if out is None and on_terminal() else by_name
        script: Script = "shared" if shared_script else "inline"
        outputs = Outputs(format, alarms, out, plot, report, script, force, quiet)
        check_outputs(outputs, data)
        request = Request(data, path, columns, time, model, hazard, period, sort, surprise, quiet)
        if data == "-" and format == "text":
            status(
                "Reading standard input. Changes are printed when they are found; --json prints all steps.",
                quiet=quiet,
            )
        with compiling(quiet=quiet), ExitStack() as stack:
            table = stack.enter_context(open_input(data, **reading))
            tasks, chunks = prepare(table, request)
            if unit is not None:
                for task in tasks:
                    task.data = replace(task.data, unit=unit)
            file = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
            run(table, chunks, tasks, outputs, file)

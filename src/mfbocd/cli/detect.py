"""``mfbocd detect``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .common import CONFIG, DATA, FILE, format_option, handle_errors, probability, quiet_option, status

if TYPE_CHECKING:
    from ..io.config import Config
    from ..io.tables import Chunk, Table
    from .output import Time
    from .tasks import Task

LOOK = 200
"""Readings from which the prior of a family selected with --model is estimated."""
TIMES = 10
"""Timestamps that the interval between readings is estimated from, at least."""
UNDECIDED = 20
"""Rows of a pipe that may arrive before it is clear which column holds the readings."""
COMPILING = "Compiling kernels, once per installation (10 to 30 s) ..."


@click.command()
@click.argument("data", type=DATA)
@click.option(
    "-c", "--config", "path", type=CONFIG, help="Configuration file. Not needed for a single column of numbers."
)
@click.option("--column", help="Column of readings, if there is one fidelity.")
@click.option("--time", help="Column of timestamps. Default: from the configuration, else detected by name.")
@click.option(
    "--model", help="Without a configuration: a model family, such as gaussian, instead of automatic choice."
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
@format_option
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
@quiet_option
def detect(
    data: str,
    path: Path | None,
    column: str | None,
    time: str | None,
    model: str | None,
    hazard: float | None,
    period: str | None,
    format: Any,
    alarms: bool,
    surprise: bool,
    out: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Detect changes in a table or a pipe.

    DATA is a CSV, JSON Lines, Parquet or Arrow file, or - for stdin. A single column of numbers needs no
    configuration: the detector learns from the readings so far whether they are numbers, counts or 0/1, their scale,
    season, autocorrelation and outliers. It never uses later readings, and says at the end what it found. With one
    column per fidelity, pass a configuration; at every tick only the column of the chosen fidelity is used. Prints
    one JSON object per tick, and a summary on stderr.

    After Ctrl-C the summary is still printed and the exit code is 130.

    \b
    Examples:
      mfbocd detect temperatures.csv --plot changes.png > steps.jsonl
      mfbocd detect walk.csv -c mf.toml --alarms
      ./sensor | mfbocd detect - -c mf.toml
    """
    with handle_errors():
        from ..io.tables import open_table

        _check_outputs(plot, report)
        for option, written in (("--out", out), ("--plot", plot), ("--report", report)):
            if written is not None and data != "-" and written.exists() and written.samefile(data):
                raise click.BadParameter(f"{str(written)!r} is the input file", param_hint=option)
        with ExitStack() as stack:
            table = stack.enter_context(open_table(data, format))
            task, chunks = _prepare(table, data, path, column, time, model, hazard, period, surprise, quiet)
            file = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
            _run(table, chunks, task, file, alarms, plot, report, quiet)


def _prepare(
    table: Table,
    data: str,
    path: Path | None,
    column: str | None,
    time: str | None,
    model: str | None,
    hazard: float | None,
    period: str | None,
    surprise: bool,
    quiet: bool,
) -> tuple[Task, Iterable[Chunk]]:
    """Return what to run, and all rows."""
    from ..io.config import Config
    from .tasks import Automatic, Configured

    if period is not None and (path is not None or model is not None):
        raise click.UsageError("--period is for the automatic detector: use a seasonal model with -c or --model")
    if path is None:
        kind = None if model is None else _kind(model)
        name, stamps, chunks = _find_column(table, data, column, time)
        if kind is None:
            ticks, chunks = _period(period, stamps, chunks)
            return Automatic(name, stamps, hazard, ticks, surprise), chunks
        config, chunks = _estimate(table, name, stamps, chunks, kind, hazard, quiet)
        return Configured(config, surprise), chunks
    if model is not None:
        raise click.UsageError("--model selects a family without a configuration; with -c it is in the file")
    given = Config.load(path).to_dict()
    if hazard is not None:
        given["hazard"] = hazard
    config = Config.parse(_assign_columns(given, table, column, time))
    wanted = [f.column for f in config.fidelities if f.zeta > 0.0]
    chunks = table.chunks([*dict.fromkeys([*wanted, *([config.data.time] if config.data.time else [])])])
    if (dimension := config.detector(missing="skip").model.dimension) > 1:
        raise click.UsageError(
            f"a reading of this {config.model['kind']} model has {dimension} numbers, and detect reads one column "
            "per fidelity; `mfbocd drive` accepts lists of numbers"
        )
    return Configured(config, surprise), chunks


def _period(given: str | None, stamps: str | None, chunks: Iterable[Chunk]) -> tuple[float | None, Iterable[Chunk]]:
    """Return the ticks per season, from the first timestamps if it is given by name, and all rows."""
    from ..calibrate.draft.series import times_of
    from ..calibrate.intervals import SECONDS, period_in

    if given is None:
        return None, chunks
    if given not in SECONDS:
        try:
            return float(given), chunks
        except ValueError:
            raise click.BadParameter(
                f"{given!r} is neither a number nor one of {', '.join(SECONDS)}", param_hint="--period"
            ) from None
    rows = iter(chunks)
    head: list[Chunk] = []
    while sum(map(len, head)) < TIMES and (chunk := next(rows, None)) is not None:
        head.append(chunk)
    labels = [chunk.label(i, stamps) for chunk in head for i in range(len(chunk))] if stamps else None
    return period_in(given, times_of(labels)), chain(head, rows)


def _kind(name: str) -> str:
    """Return the kind of a family, given in snake case or as the name of the class."""
    from ..io.config import model_kinds
    from ..io.config.kinds import snake

    kinds = model_kinds()
    if (kind := snake(name.strip())) not in kinds:
        raise click.BadParameter(f"{name!r} is none of {', '.join(sorted(kinds))}", param_hint="--model")
    return kind


def _find_column(
    table: Table, data: str, column: str | None, time: str | None
) -> tuple[str, str | None, Iterable[Chunk]]:
    """Return the column of readings, that of the timestamps, and all rows.

    The first rows decide: one chunk of a file, and of a pipe as few as possible.
    """
    from ..calibrate.draft import classify_columns
    from ..calibrate.draft.series import find_column, wanted_columns

    columns = wanted_columns(table, column, time)
    rows = table.chunks(columns)
    head: list[Chunk] = []
    while (chunk := next(rows, None)) is not None:
        head.append(chunk)
        found = classify_columns(head, columns, time=time)
        if not table.live or len(found.readings) == 1 or len(head) == UNDECIDED:
            break
    if not head:
        raise ValueError(f"{table.name} has no rows")
    if time is not None and time not in columns:
        raise click.BadParameter(f"no column {time!r}; expected one of {', '.join(columns)}", param_hint="--time")
    if column is None and len(found.readings) > 1:
        raise click.UsageError(
            f"{table.name} has several columns of numbers: {', '.join(found.readings)}. Select one with --column, "
            f"or run `mfbocd init --from {data} --out mf.toml` to use them as fidelities of one stream."
        )
    name, stamps = find_column(table, head, column, time)
    return name, stamps, chain(head, rows)


def _estimate(
    table: Table, name: str, stamps: str | None, chunks: Iterable[Chunk], kind: str, hazard: float | None, quiet: bool
) -> tuple[Config, Iterable[Chunk]]:
    """Configure a detector of one family, with a prior estimated from the first readings."""
    from ..calibrate.draft import classify_columns, guess_family
    from ..io.config import Config

    if table.live:
        status(f"Waiting for {LOOK} readings to estimate the prior; without --model, no reading waits.", quiet=quiet)
    rows = iter(chunks)
    head: list[Chunk] = []
    count = 0
    while count < LOOK and (chunk := next(rows, None)) is not None:
        head.append(chunk)
        count += len(chunk)
    guess = guess_family(kind, classify_columns(head, [name]).readings[name][:LOOK])
    given: dict[str, Any] = {"model": guess.spec, "fidelity": [{"name": name, "zeta": 1.0, "cost": 1.0}]}
    if stamps is not None:
        given["data"] = {"time": stamps}
    if hazard is not None:
        given["hazard"] = hazard
    status(f"Model {kind} for column {name!r}, its prior from the first {min(count, LOOK)} readings:", quiet=quiet)
    for key, reason in guess.reasons.items():
        value = guess.spec[key]
        status(f"  {key} = {format(value, '.4g') if isinstance(value, float) else value}: {reason}", quiet=quiet)
    return Config.parse(given), chain(head, rows)


def _assign_columns(given: dict[str, Any], table: Table, column: str | None, time: str | None) -> dict[str, Any]:
    """Map the configured fidelities to the columns of this table."""
    rows = given.get("fidelity") or [{"name": "full", "zeta": 1.0, "cost": 1.0}]
    stamps = time or given.get("data", {}).get("time")
    if column is not None and len(rows) > 1:
        raise click.UsageError("--column needs a single fidelity; with several, set `column` of each one")
    others = [name for name in table.columns if name != stamps]
    if len(rows) == 1:
        name = column or rows[0].get("column", rows[0]["name"])
        if column is None and name not in table.columns and len(others) == 1:
            name = others[0]
        rows = [rows[0] | {"column": name}]
    if stamps is not None:
        given = given | {"data": given.get("data", {}) | {"time": stamps}}
    return given | {"fidelity": rows}


def _run(
    table: Table,
    chunks: Iterable[Chunk],
    task: Task,
    file: IO[str],
    alarms: bool,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    from ..io.warm import watched
    from ..trace.recorder import Recorder
    from .output import StepWriter
    from .progress import progress

    detector, data = task.detector, task.data
    writer = StepWriter(
        file,
        detector,
        timed=bool(data.time),
        advice=task.advice,
        cost_unit=data.cost_unit,
        reach=task.reach,
        alarms=alarms,
        live=table.live,
    )
    recorder: Recorder | None = None
    times: list[Time] = []
    interrupted = False
    shown = not quiet and not (file is sys.stdout and sys.stdout.isatty())
    try:
        with watched(before=lambda: status(COMPILING, quiet=quiet)), progress(table, shown=shown) as redraw:
            for chunk in chunks:
                if recorder is None and (plot or report):
                    recorder = Recorder(detector, ticks=_expected(table, len(chunk)))
                times.extend(task.advance(chunk, writer, recorder))
                redraw()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        file.flush()
    if detector.ticks == 0 and not interrupted:
        raise ValueError(f"{table.name} has no rows")
    status(writer.summary(), quiet=quiet)
    if not quiet:
        for remark in task.remarks():
            status(remark)
    if recorder is not None and recorder.steps:
        _plot(task, recorder, times, table.name, plot, report, quiet)
    if interrupted:
        raise click.exceptions.Exit(130)


def _expected(table: Table, rows: int) -> int:
    """Return a number of ticks that a plot surely has, from the size of the first rows; 0 if it is unknown.

    Half of the estimate: the recorder then leaves out no tick that it would keep at the end.
    """
    from .tasks import MAX_PLOTTED

    if table.live or not table.total or not table.done:
        return 0
    return min(int(0.5 * rows * table.total / table.done), MAX_PLOTTED)


def _check_outputs(plot: Path | None, report: Path | None) -> None:
    """Raise now for outputs that would fail only at the end of a long run."""
    from importlib.util import find_spec

    for path, extra, module in ((plot, "plot", "matplotlib"), (report, "report", "plotly")):
        if path is None:
            continue
        if find_spec(module) is None:
            raise ImportError(f"--{extra} needs {module}: pip install 'mfbocd[{extra}]'")
        if not path.absolute().parent.is_dir():
            raise click.BadParameter(f"the folder of {str(path)!r} does not exist", param_hint=f"--{extra}")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise click.BadParameter(f"{str(plot)!r} must end in .png, .svg or .pdf", param_hint="--plot")


def _plot(
    task: Task, recorder: Any, times: list[Time], name: str, plot: Path | None, report: Path | None, quiet: bool
) -> None:
    from ..calibrate.draft.series import times_of

    trace, ticks = recorder.trace(), task.detector.ticks
    if len(trace) < ticks:
        status(f"The plot shows the first {len(trace)} of {ticks} ticks.", quiet=quiet)
    shared: dict[str, Any] = {
        "time": times_of(times),
        "unit": task.data.unit,
        "cost_unit": task.data.cost_unit,
        "budget": task.budget,
    }
    if plot is not None:
        label = task.data.time if shared["time"] is not None else "tick"
        trace.plot(xlabel=label, **shared).savefig(plot, dpi=150)
        status(f"Wrote {plot}.", quiet=quiet)
    if report is not None:
        from ..report import write

        write(report, trace, title=f"Changes in {name}", config_text=task.describe(), **shared)
        status(f"Wrote {report}.", quiet=quiet)

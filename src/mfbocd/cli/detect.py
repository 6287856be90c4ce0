"""``mfbocd detect``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .common import CONFIG, DATA, FILE, format_option, handle_errors, quiet_option, status

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from ..io.tables import Chunk, Table
    from .output import StepWriter, Time

LOOK, LOOK_LIVE = 2000, 200
"""Readings a model is estimated from: of a file, of a pipe."""
MAX_PLOTTED = 200_000
"""Ticks in a plot or report, which need the steps in memory."""


@click.command()
@click.argument("data", type=DATA)
@click.option(
    "-c", "--config", "path", type=CONFIG, help="Configuration file. Not needed for a single column of numbers."
)
@click.option("--column", help="Column of readings, if there is one fidelity.")
@click.option("--time", help="Column of timestamps. Default: from the configuration, else detected by name.")
@click.option("--hazard", type=float, help="P(change) per tick. Default: from the configuration, else 1/250.")
@click.option(
    "--look",
    type=click.IntRange(10),
    help="Without a configuration: number of readings the model is estimated from, before the first step is printed. "
    "Default: 2000 of a file, 200 of a pipe.",
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
    hazard: float | None,
    look: int | None,
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
    configuration: the model is estimated from the first readings. With one column per fidelity, pass a configuration;
    at every tick only the column of the chosen fidelity is used. Prints one JSON object per tick, and a summary on
    stderr.

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
            config, chunks = _prepare(table, data, path, column, time, hazard, look, quiet)
            file = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
            _run(table, chunks, config, file, alarms, surprise, plot, report, quiet)


def _prepare(
    table: Table,
    data: str,
    path: Path | None,
    column: str | None,
    time: str | None,
    hazard: float | None,
    look: int | None,
    quiet: bool,
) -> tuple[Config, Iterable[Chunk]]:
    """Return the configuration, loaded or estimated from the first readings, and all rows."""
    from ..io.config import Config

    if path is None:
        config, chunks = _estimate(table, data, column, time, look, quiet)
    else:
        config = Config.load(path)
    given = config.to_dict()
    if hazard is not None:
        given["hazard"] = hazard
    if path is not None:
        given = _assign_columns(given, table, column, time)
    config = Config.parse(given)
    if path is not None:
        wanted = [f.column for f in config.fidelities if f.zeta > 0.0]
        chunks = table.chunks([*dict.fromkeys([*wanted, *([config.data.time] if config.data.time else [])])])
    return config, chunks


def _estimate(
    table: Table, data: str, column: str | None, time: str | None, look: int | None, quiet: bool
) -> tuple[Config, Iterable[Chunk]]:
    """Configure ordinary BOCD of one column, with a model estimated from the first readings."""
    from ..calibrate.draft import TIMES, classify_columns, guess_model
    from ..io.config import Config

    columns = table.columns
    if column is not None:
        stamps = [time] if time else [name for name in table.columns if name.strip().lower() in TIMES][:1]
        columns = tuple(dict.fromkeys([column, *stamps]))
    rows = table.chunks(columns)
    look = look or (LOOK_LIVE if table.live else LOOK)
    if table.live:
        status(f"Waiting for {look} readings to estimate a model; pass -c to start at once.", quiet=quiet)
    head: list[Chunk] = []
    count = 0
    while count < look and (chunk := next(rows, None)) is not None:
        head.append(chunk)
        count += len(chunk)
    if not head:
        raise ValueError(f"{table.name} has no rows")
    if time is not None and time not in columns:
        raise click.BadParameter(f"no column {time!r}; expected one of {', '.join(columns)}", param_hint="--time")
    found = classify_columns(head, columns, time=time)
    if column is None and len(found.readings) > 1:
        raise click.UsageError(
            f"{table.name} has several columns of numbers: {', '.join(found.readings)}. Select one with --column, "
            f"or run `mfbocd init --from {data} --out mf.toml` to use them as fidelities of one stream."
        )
    if not found.readings:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in found.reasons.items())
        raise ValueError(f"{table.name} has no column of numbers ({why})")
    name = column or next(iter(found.readings))
    if name not in found.readings:
        raise ValueError(f"column {name!r} has no numbers: {found.reasons.get(name, 'it holds the timestamps')}")
    guess = guess_model(found.readings[name][:look])
    given: dict[str, Any] = {"model": guess.model, "fidelity": [{"name": name, "zeta": 1.0, "cost": 1.0}]}
    if found.time is not None:
        given["data"] = {"time": found.time}
    status(f"No configuration: ordinary changepoint detection of column {name!r}.", quiet=quiet)
    for key, reason in guess.reasons.items():
        value = guess.model[key]
        status(f"  {key} = {value if isinstance(value, str) else format(value, '.4g')}: {reason}", quiet=quiet)
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
    config: Config,
    file: IO[str],
    alarms: bool,
    surprise: bool,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    from ..trace.recorder import Recorder
    from .output import StepWriter
    from .progress import progress

    detector = config.detector(missing="skip")  # checked here, where the line is known
    if detector.model.dimension > 1:
        raise click.UsageError(
            f"a reading of this {config.model['kind']} model has {detector.model.dimension} numbers, and detect "
            "reads one column per fidelity; `mfbocd drive` accepts lists of numbers"
        )
    detector.surprise = surprise
    writer = StepWriter(file, config, detector, timed=bool(config.data.time), alarms=alarms, live=table.live)
    recorder = Recorder(detector) if plot or report else None
    times: list[Time] = []
    interrupted = False
    shown = not quiet and not (file is sys.stdout and sys.stdout.isatty())
    try:
        with progress(table, shown=shown) as redraw:
            for chunk in chunks:
                for time in _advance(chunk, config, detector, writer, recorder):
                    times.append(time)
                redraw()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        file.flush()
    if detector.ticks == 0 and not interrupted:
        raise ValueError(f"{table.name} has no rows")
    status(writer.summary(), quiet=quiet)
    if recorder is not None and recorder.steps:
        _plot(config, recorder, times, detector.ticks, table.name, plot, report, quiet)
    if interrupted:
        raise click.exceptions.Exit(130)


def _advance(chunk: Chunk, config: Config, detector: Detector, writer: StepWriter, recorder: Any) -> Iterator[Time]:
    """Process the rows of a chunk; yield the timestamps of those recorded for a plot."""
    from ..io.tables import TableError

    columns = {f.name: f.column if f.zeta > 0.0 else None for f in config.fidelities}
    stamps = config.data.time
    for i in range(len(chunk)):
        fidelity = detector.choose().name
        column = columns[fidelity]
        x = None if column is None else chunk.number(i, column)
        if x is None and column is not None and config.missing == "raise":
            raise TableError(
                f"{chunk.where(i, column)}: the reading is missing, and the configuration has missing = 'raise'"
            )
        recorded = recorder is not None and detector.ticks < MAX_PLOTTED
        if recorded:
            recorder.before_tick()
        try:
            step = detector.update(x, fidelity)
        except (TypeError, ValueError) as error:
            raise TableError(f"{chunk.where(i, str(column))}: {error}") from None
        time = chunk.label(i, stamps) if stamps else None
        writer.write(step, time)
        if recorded:
            recorder.after_tick(step)
            yield time


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
    config: Config,
    recorder: Any,
    times: list[Time],
    ticks: int,
    name: str,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    trace = recorder.trace()
    if len(trace) < ticks:
        status(f"The plot shows the first {len(trace)} of {ticks} ticks.", quiet=quiet)
    shared: dict[str, Any] = {
        "time": _timestamps(times),
        "unit": config.data.unit,
        "cost_unit": config.data.cost_unit,
        "budget": _budget(config),
    }
    if plot is not None:
        label = config.data.time if shared["time"] is not None else "tick"
        trace.plot(xlabel=label, **shared).savefig(plot, dpi=150)
        status(f"Wrote {plot}.", quiet=quiet)
    if report is not None:
        from ..report import write

        write(report, trace, title=f"Changes in {name}", config_text=config.to_toml(), **shared)
        status(f"Wrote {report}.", quiet=quiet)


def _timestamps(times: list[Time]) -> list[Any] | None:
    """Convert timestamps to numbers or datetimes for an axis; None if they are neither, or some are missing."""
    from datetime import datetime

    from ..io.tables import number

    def convert(parse: Any) -> list[Any] | None:
        try:
            values = [parse(t) for t in times]
        except (TypeError, ValueError):
            return None
        return None if any(t is None for t in values) else values

    return convert(number) or convert(datetime.fromisoformat)


def _budget(config: Config) -> float | None:
    """Return the average cost per tick that the config asks for; None if its policy is not a budget."""
    from ..policy import Budget

    if (config.policy or {}).get("kind") != "budget":
        return None
    policy = config.detector(shared=True).policy
    return policy.target if isinstance(policy, Budget) else None

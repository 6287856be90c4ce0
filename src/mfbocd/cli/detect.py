"""`mfbocd detect`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .plain import CONFIG, DATA, FILE, plainly, say

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from ..io.tables import Chunk, Table
    from .steps import Steps, Time

LOOK, LOOK_LIVE = 2000, 200
"""Readings a model is guessed from."""
PICTURED = 200_000
"""Ticks a picture or a report can hold: they need the steps in memory."""


@click.command()
@click.argument("data", type=DATA)
@click.option("-c", "--config", "path", type=CONFIG, help="Config; not needed for one column of numbers.")
@click.option("--column", help="The column of readings, where there is one fidelity.")
@click.option("--time", help="The column of timestamps; guessed without a config.")
@click.option("--hazard", type=float, help="P(a change) a tick, instead of the config's or 1/250.")
@click.option(
    "--look",
    type=click.IntRange(10),
    help="Without a config: readings to look at before the first answer; 200 of a pipe, 2000 of a file unless told.",
)
@click.option("--format", type=click.Choice(["csv", "jsonl", "parquet", "arrow"]), help="If the name does not tell.")
@click.option("--alarms", is_flag=True, help="Print the alarms only.")
@click.option("--out", type=FILE, help="Write the steps here, not to stdout.")
@click.option("--plot", type=FILE, help="Draw a picture: .png, .svg or .pdf (extra `plot`).")
@click.option("--report", type=FILE, help="Write a page that needs nothing else: .html (extra `report`).")
@click.option("-q", "--quiet", is_flag=True, help="No talk on stderr, only errors.")
def detect(
    data: str,
    path: Path | None,
    column: str | None,
    time: str | None,
    hazard: float | None,
    look: int | None,
    format: Any,
    alarms: bool,
    out: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Find the changes in a finished table, or in one that is being written to a pipe.

    DATA is CSV, JSON Lines, Parquet or Arrow, or - for stdin. With one column of numbers no config is needed; with a
    column for each fidelity, give one. At every tick only the chosen column is read. Prints one JSON object a tick;
    a summary goes to stderr.

    \b
    Examples:
      mfbocd detect temperatures.csv --plot changes.png > steps.jsonl
      mfbocd detect walk.csv -c mf.toml --alarms
      ./sensor | mfbocd detect - -c mf.toml
    """
    with plainly():
        from ..io.tables import open_table

        _check_pictures(plot, report)
        for option, written in (("--out", out), ("--plot", plot), ("--report", report)):
            if written is not None and data != "-" and written.exists() and written.samefile(data):
                raise click.BadParameter(f"{str(written)!r} is the data itself", param_hint=option)
        with ExitStack() as stack:
            table = stack.enter_context(open_table(data, format))
            config, chunks = _prepared(table, data, path, column, time, hazard, look, quiet)
            file = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
            _run(table, chunks, config, file, alarms, plot, report, quiet)


def _prepared(
    table: Table,
    data: str,
    path: Path | None,
    column: str | None,
    time: str | None,
    hazard: float | None,
    look: int | None,
    quiet: bool,
) -> tuple[Config, Iterable[Chunk]]:
    """The config, from its file or from the first readings, and all rows."""
    from ..io.config import Config

    if path is None:
        config, chunks = _guessed(table, data, column, time, look, quiet)
    else:
        config = Config.load(path)
    given = config.to_dict()
    if hazard is not None:
        given["hazard"] = hazard
    if path is not None:
        given = _placed(given, table, column, time)
    config = Config.parse(given)
    if path is not None:
        wanted = [f.column for f in config.fidelities if f.zeta > 0.0]
        chunks = table.chunks([*dict.fromkeys([*wanted, *([config.data.time] if config.data.time else [])])])
    return config, chunks


def _guessed(
    table: Table, data: str, column: str | None, time: str | None, look: int | None, quiet: bool
) -> tuple[Config, Iterable[Chunk]]:
    """Ordinary BOCD of one column, its model from the first readings."""
    from ..calibrate.draft import TIMES, classify_columns, guess_model
    from ..io.config import Config

    columns = table.columns
    if column is not None:
        stamps = [time] if time else [name for name in table.columns if name.strip().lower() in TIMES][:1]
        columns = tuple(dict.fromkeys([column, *stamps]))
    rows = table.chunks(columns)
    look = look or (LOOK_LIVE if table.live else LOOK)
    if table.live:
        say(f"Waiting for {look} readings to look at; with a config the first is answered at once.", quiet=quiet)
    head: list[Chunk] = []
    seen = 0
    while seen < look and (chunk := next(rows, None)) is not None:
        head.append(chunk)
        seen += len(chunk)
    if not head:
        raise ValueError(f"{table.name} has no rows")
    if time is not None and time not in columns:
        raise click.BadParameter(f"{time!r} is none of {', '.join(columns)}", param_hint="--time")
    found = classify_columns(head, columns, time=time)
    if column is None and len(found.readings) > 1:
        raise click.UsageError(
            f"{table.name} has several columns of numbers: {', '.join(found.readings)}. Pick one with --column, "
            f"or run `mfbocd init --from {data} --out mf.toml` to use them as fidelities of one stream."
        )
    if not found.readings:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in found.reasons.items())
        raise ValueError(f"{table.name} has no column of numbers ({why})")
    name = column or next(iter(found.readings))
    if name not in found.readings:
        raise ValueError(f"column {name!r} has no numbers: {found.reasons.get(name, 'it is the time')}")
    guess = guess_model(found.readings[name][:look])
    given: dict[str, Any] = {"model": guess.model, "fidelity": [{"name": name, "zeta": 1.0, "cost": 1.0}]}
    if found.time is not None:
        given["data"] = {"time": found.time}
    say(f"No config: ordinary changepoint detection of column {name!r}.", quiet=quiet)
    for key, reason in guess.reasons.items():
        value = guess.model[key]
        say(f"  {key} = {value if isinstance(value, str) else format(value, '.4g')}: {reason}", quiet=quiet)
    return Config.parse(given), chain(head, rows)


def _placed(given: dict[str, Any], table: Table, column: str | None, time: str | None) -> dict[str, Any]:
    """The config's columns as they are in this table."""
    rows = given.get("fidelity") or [{"name": "full", "zeta": 1.0, "cost": 1.0}]
    stamps = time or given.get("data", {}).get("time")
    if column is not None and len(rows) > 1:
        raise click.UsageError("--column is for one fidelity; with several each has `column = ...` in the config")
    others = [name for name in table.columns if name != stamps]
    if len(rows) == 1:
        known = column or rows[0].get("column", rows[0]["name"])
        if column is None and known not in table.columns and len(others) == 1:
            known = others[0]
        rows = [rows[0] | {"column": known}]
    if stamps is not None:
        given = given | {"data": given.get("data", {}) | {"time": stamps}}
    return given | {"fidelity": rows}


def _run(
    table: Table,
    chunks: Iterable[Chunk],
    config: Config,
    file: IO[str],
    alarms: bool,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    from ..trace.recorder import Recorder
    from .progress import progress
    from .steps import Steps

    detector = config.detector(missing="skip")  # a missing reading is judged here, where its line is known
    if detector.model.dimension > 1:
        raise click.UsageError(
            f"a reading of this {config.model['kind']} model is {detector.model.dimension} numbers, and detect reads "
            "one column a fidelity; `mfbocd drive` takes lists of numbers"
        )
    steps = Steps(file, config, detector, timed=bool(config.data.time), alarms=alarms, live=table.live)
    watch = Recorder(detector) if plot or report else None
    times: list[Time] = []
    stopped = False
    drawn = not quiet and not (file is sys.stdout and sys.stdout.isatty())
    try:
        with progress(table, shown=drawn) as moved:
            for chunk in chunks:
                for time in _advanced(chunk, config, detector, steps, watch):
                    times.append(time)
                moved()
    except KeyboardInterrupt:
        stopped = True
    finally:
        file.flush()
    if detector.ticks == 0 and not stopped:
        raise ValueError(f"{table.name} has no rows")
    say(steps.summary(), quiet=quiet)
    if watch is not None and watch.steps:
        _picture(config, watch, times, detector.ticks, table.name, plot, report, quiet)
    if stopped:
        raise click.exceptions.Exit(130)


def _advanced(chunk: Chunk, config: Config, detector: Detector, steps: Steps, watch: Any) -> Iterator[Time]:
    """Make the ticks of a chunk; gives the timestamps of those that are kept for a picture."""
    from ..io.tables import TableError

    columns = {f.name: f.column if f.zeta > 0.0 else None for f in config.fidelities}
    stamps = config.data.time
    for i in range(len(chunk)):
        fidelity = detector.choose().name
        column = columns[fidelity]
        x = None if column is None else chunk.number(i, column)
        if x is None and column is not None and config.missing == "raise":
            raise TableError(
                f"{chunk.where(i, column)}: the reading is missing, and the config says missing = 'raise'"
            )
        kept = watch is not None and detector.ticks < PICTURED
        if kept:
            watch.before_tick()
        try:
            step = detector.update(x, fidelity)
        except (TypeError, ValueError) as error:
            raise TableError(f"{chunk.where(i, str(column))}: {error}") from None
        time = chunk.label(i, stamps) if stamps else None
        steps.add(step, time)
        if kept:
            watch.after_tick(step)
            yield time


def _check_pictures(plot: Path | None, report: Path | None) -> None:
    """Refuse at once what would only fail after a long run."""
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


def _picture(
    config: Config,
    watch: Any,
    times: list[Time],
    ticks: int,
    name: str,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    trace = watch.trace()
    if len(trace) < ticks:
        say(f"The picture shows the first {len(trace)} of {ticks} ticks.", quiet=quiet)
    shared: dict[str, Any] = {
        "time": _moments(times),
        "unit": config.data.unit,
        "cost_unit": config.data.cost_unit,
        "budget": _budget(config),
    }
    if plot is not None:
        label = config.data.time if shared["time"] is not None else "tick"
        trace.plot(xlabel=label, **shared).savefig(plot, dpi=150)
        say(f"Wrote {plot}.", quiet=quiet)
    if report is not None:
        from ..report import write

        write(report, trace, title=f"Changes in {name}", config_text=config.to_toml(), **shared)
        say(f"Wrote {report}.", quiet=quiet)


def _moments(times: list[Time]) -> list[Any] | None:
    """Timestamps as numbers or datetimes, which can be drawn; None if they are neither, or some are missing."""
    from datetime import datetime

    from ..io.tables import number

    def read(parse: Any) -> list[Any] | None:
        try:
            found = [parse(t) for t in times]
        except (TypeError, ValueError):
            return None
        return None if any(t is None for t in found) else found

    return read(number) or read(datetime.fromisoformat)


def _budget(config: Config) -> float | None:
    """The average cost a tick that the policy may spend, if it has a budget."""
    policy = config.policy or {}
    if policy.get("kind") != "budget":
        return None
    if "per_tick" in policy:
        return float(policy["per_tick"])
    costs = [f.cost for f in config.fidelities]
    return min(costs) + float(policy["share"]) * (max(costs) - min(costs))

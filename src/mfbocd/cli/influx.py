"""`detect` over line protocol: every field of every series is a stream, and results are fields of the same line."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .common import status

if TYPE_CHECKING:
    from ..io.influx import Lines, Point, Value
    from .output import StepWriter
    from .prepare import Request
    from .results import Outputs
    from .tasks import Task

MAX_SERIES = 1000
"""Streams in memory by default; one of the automatic detector takes up to about 0.7 MB."""
MAX_SUMMARIES = 20
"""Series whose changes are listed at the end."""
_TIME = "\n"  # the column of timestamps: no field has this name
_ALL = "mfbocd"  # begins the names of the results if all fields are fidelities of one stream


def is_line_protocol(data: str, format: str | None, input_format: str | None) -> bool:
    """Tell whether the input is line protocol: by option, by file name, or by the output format for stdin."""
    from ..io.influx import SUFFIXES

    if input_format is not None or data == "-":
        return input_format == "influx" or (input_format is None and format == "influx")
    return Path(data).suffix.lower() in SUFFIXES


def format_of(out: Path) -> str:
    """Return the format of an output file, from its name."""
    from ..io.influx import SUFFIXES

    suffix = out.suffix.lower()
    return "csv" if suffix == ".csv" else "influx" if suffix in SUFFIXES else "jsonl"


def step_point(step: Mapping[str, Any], column: str) -> str:
    """Return a step of a table, as JSON has it, as a line of line protocol."""
    from ..io.influx import Point

    time = _nanoseconds(step.get("time"))
    fields: dict[str, Value] = {}
    if isinstance(step.get("x"), int | float):
        fields["x"] = float(step["x"])
    fields |= result_fields(step)
    if time is None and step.get("time") is not None:
        fields["time"] = str(step["time"])
    return Point("mfbocd", {"column": column} if column else {}, fields, time).line() + "\n"


def result_fields(step: Mapping[str, Any], prefix: str = "") -> dict[str, Value]:
    """Return the results of a step, as JSON has them, as fields; what is null is left out."""
    fields: dict[str, Value] = {}
    for name, value in step.items():
        if name in ("column", "time", "x") or value is None:
            continue
        if name in ("before", "after"):
            levels = value if isinstance(value, dict) else {}
            fields |= {f"{prefix}{name}_{end}": float(one) for end, one in levels.items() if one is not None}
        elif name in ("tick", "run_length", "changed_at", "alarm", "fidelity", "changed_at_time"):
            fields[prefix + name] = value
        elif isinstance(value, int | float):
            fields[prefix + name] = float(value)  # a field never changes its type
    return fields


def _nanoseconds(label: Any) -> int | None:
    """Return a timestamp in nanoseconds since 1970; None unless it is a Unix time or ISO 8601."""
    from ..inputs.times import Times

    if label is None or isinstance(label, bool):
        return None
    read = Times.of([label])
    if read.epoch and read.at is not None:
        text = str(label)
        if text.isdigit():  # exact: 10, 13, 16 or 19 digits
            return int(text) * 10 ** (19 - len(text)) if len(text) in (10, 13, 16, 19) else None
        return int(read.at[0].astype("datetime64[ns]").astype("int64"))
    try:
        at = datetime.fromisoformat(str(label))
    except ValueError:
        return None
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


class _Series:
    """The detector of one series and the steps it has just made."""

    def __init__(self, task: Task, writer: StepWriter, prefix: str) -> None:
        self.task, self.writer, self.prefix = task, writer, prefix
        self.lines: list[tuple[int, str]] = []
        writer.pending = self.lines

    def advance(self, line: int, cells: Mapping[str, Any], lines: Lines) -> None:
        from ..io.tables.cells import Chunk

        chunk = Chunk("line", [line], {name: [value] for name, value in cells.items()}, skipped=lines.skipped)
        for _ in self.task.advance(chunk, self.writer, None):
            pass


class Streams:
    """The detectors of all series, of which the least recently seen one is forgotten when there are too many.

    Parameters
    ----------
    request : Request
        What is run.
    outputs : Outputs
        How results are written.
    file : IO[str]
        Where they are written.
    most : int
        Series in memory.
    unit : str or None
        Unit of the readings.
    """

    def __init__(self, request: Request, outputs: Outputs, file: IO[str], most: int, unit: str | None) -> None:
        self._outputs, self._file, self._most = outputs, file, most
        self._unit = unit
        self._series: OrderedDict[tuple[str, str], _Series] = OrderedDict()
        self.forgotten = self.changes = self.points = self.seen = 0
        self._task, self._fidelities, self._wanted = _tasks(request)

    def advance(self, point: Point, lines: Lines) -> None:
        """Process one point and write its results."""
        self.points += 1
        influx = self._outputs.format == "influx"
        found: dict[str, Value] = {}
        alarm, twice = False, ""
        for name, cells in self._readings(point).items():
            series = self._of(point.series, name)
            cells[_TIME] = point.time
            series.advance(lines.number, cells, lines)
            for _, line in series.lines:
                if not influx:
                    self._file.write(line)
                    continue
                step = json.loads(line)
                alarm = alarm or step["alarm"]
                self.changes += step["alarm"]
                if not self._fidelities:  # there is nothing to choose
                    del step["fidelity"], step["cost"]
                for field, value in result_fields(step, series.prefix).items():
                    twice = field if field in found else twice
                    found[field] = value
            series.lines.clear()
        if influx and (alarm or not self._outputs.alarms):
            self._file.write(point.extended(self._new(found, twice, point, lines)) + "\n")
        self._file.flush()

    def _new(self, found: dict[str, Value], twice: str, point: Point, lines: Lines) -> dict[str, Value]:
        """Return the results; nothing if one has the name of a field of the line or of another result."""
        taken = next((name for name in found if name in point.fields), twice)
        if not taken:
            return found
        error = f"line {lines.number}: the line has a field {taken!r} already; select other fields with --column"
        if lines.skipped is None:
            raise ValueError(error)
        lines.skipped.add(error)
        return {}

    def _readings(self, point: Point) -> dict[str, dict[str, Any]]:
        """Return the cells of each stream of a line, by the name of the stream."""
        if self._fidelities:
            if not any(name in point.fields for name in self._fidelities):
                return {}
            return {"": {name: _cell(point.fields.get(name)) for name in self._fidelities}}
        return {
            name: {name: _cell(value)}
            for name, value in point.fields.items()
            if (name in self._wanted if self._wanted else not isinstance(value, bool | str))
        }

    def _of(self, series: str, name: str) -> _Series:
        """Return the stream of a field; a new one if it has not been seen."""
        key = series, name
        if (found := self._series.get(key)) is not None:
            self._series.move_to_end(key)
            return found
        if len(self._series) >= self._most:
            self._series.popitem(last=False)
            if not self.forgotten:
                status(
                    f"Warning: more than {self._most} series. The least recently seen one is forgotten, and begins "
                    "again if it returns. Select fields with --column, or raise --max-series.",
                    quiet=self._outputs.quiet,
                )
            self.forgotten += 1
        self._series[key] = self._new_series(series, name)
        self.seen += 1
        return self._series[key]

    def _new_series(self, series: str, name: str) -> _Series:
        from .output import StepWriter

        task, outputs = self._task(name), self._outputs
        task.data = replace(task.data, time=_TIME, unit=self._unit or task.data.unit)
        writer = StepWriter(
            self._file,
            task.detector,
            timed=True,
            advice=task.advice,
            unit=task.data.unit,
            cost_unit=task.data.cost_unit,
            reach=task.reach,
            alarms=outputs.alarms and outputs.format != "influx",
            format="jsonl" if outputs.format == "influx" else outputs.format,
            column=f"{series} {name}".rstrip(),
        )
        if outputs.format == "csv" and not self.seen:
            self._file.write(writer.header())
        return _Series(task, writer, f"{name or _ALL}_")

    def summarize(self) -> None:
        """Print the summary: on a terminal it is the output, else a message."""
        text = self._outputs.format == "text"
        if self._outputs.quiet and not text:
            return
        if text:
            for series in [*self._series.values()][:MAX_SUMMARIES]:
                click.echo(f"{series.writer.column}: {series.writer.summary()}")
            if len(self._series) > MAX_SUMMARIES:
                click.echo(f"... and {len(self._series) - MAX_SUMMARIES} more series; --json prints all steps.")
            return
        changes = f" Changes: {self.changes}." if self._outputs.format == "influx" else ""
        status(f"Points: {self.points}. Series: {self.seen}.{changes}")
        if self.points and not self.seen:
            status("Warning: no point had a field to analyse.")


def _tasks(request: Request) -> tuple[Callable[[str], Task], tuple[str, ...], set[str]]:
    """Return what makes the detector of a field, the fields of several fidelities, and the selected fields."""
    from .tasks import Task

    if request.config is None:
        try:
            period = None if request.period is None else float(request.period)
        except ValueError:
            raise click.BadParameter("with line protocol, a number of ticks", param_hint="--period") from None
        return (
            lambda name: Task.automatic(name, None, request.hazard, period, request.surprise),
            (),
            set(request.columns),
        )
    from ..io.config import Config
    from .prepare import assign_columns, check_dimension

    if request.period is not None:
        raise click.UsageError("--period is for the automatic detector: use a seasonal model with -c")
    given = Config.load(request.config).to_dict()
    if request.hazard is not None:
        given["hazard"] = request.hazard
    check_dimension(Config.parse(given))
    rows = given.get("fidelity") or [{"name": "full", "zeta": 1.0, "cost": 1.0}]
    if len(rows) == 1:
        own = rows[0].get("column", rows[0]["name"])
        selected = set(request.columns) or ({own} if own != rows[0]["name"] else set())

        def configured(name: str) -> Task:
            return Task.configured(Config.parse(given | {"fidelity": [rows[0] | {"column": name}]}), request.surprise)

        return configured, (), selected
    config = Config.parse(assign_columns(given, (), request.columns, None)[0])
    names = tuple(dict.fromkeys(f.column for f in config.fidelities if f.zeta > 0.0))
    return lambda _: Task.configured(config, request.surprise), names, set()


def _cell(value: Value | None) -> Any:
    """Return a reading as the tables have it; booleans are 0 and 1."""
    return float(value) if isinstance(value, bool) else value


def detect_lines(
    request: Request, outputs: Outputs, on_bad: str, most: int, unit: str | None, refused: Mapping[str, Any]
) -> None:
    """Run `detect` over line protocol.

    Parameters
    ----------
    request, outputs
        The options of `detect`.
    on_bad : {"stop", "skip"}
        What happens at a bad line.
    most : int
        Series in memory.
    unit : str or None
        Unit of the readings.
    refused : mapping
        Options that make no sense here, by name.
    """
    from ..io.influx import Lines
    from ..io.tables.cells import BadCells

    for option, value in refused.items():
        if value:
            raise click.UsageError(f"{option} does not work with line protocol")
    skipped = BadCells() if on_bad == "skip" else None
    interrupted = False
    with _opened(request.data, "rb") as source, _opened(outputs.out, "w") as file:
        lines = Lines(request.data, source, skipped)
        streams = Streams(request, outputs, file, most, unit)
        try:
            for point, text, end in lines:
                if point is not None:
                    streams.advance(point, lines)
                elif outputs.format == "influx" and not outputs.alarms:
                    file.write(text + end)  # a comment
                    file.flush()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            file.flush()
    streams.summarize()
    if skipped is not None and skipped.count:
        status(f"Skipped {skipped.count} bad lines or fields; the first: {skipped.first}.", quiet=outputs.quiet)
    if interrupted:
        raise click.exceptions.Exit(130)


@contextmanager
def _opened(path: str | Path | None, mode: str) -> Iterator[Any]:
    """Open a file, or standard input or output, which stay open."""
    if path is None or path == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout
        return
    with Path(path).open(mode, encoding=None if mode == "rb" else "utf-8") as file:
        yield file

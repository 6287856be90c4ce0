"""Run the detectors of `detect` over a table, and write steps, summary, plots and report."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .common import check_new, skipped_note, status

if TYPE_CHECKING:
    from ..io.tables import Chunk, Table
    from ..report.assets import Script
    from ..trace.recorder import Recorder
    from .output import StepFormat, StepWriter, Time
    from .tasks import Task


@dataclass(frozen=True)
class Outputs:
    """Where the results go.

    Attributes
    ----------
    format : {"jsonl", "csv", "influx", "text"}
        How steps are written; as text, only the summary is, and changes of a pipe when they are found.
    alarms : bool
        Write only steps that raise an alarm.
    out, plot, report : Path or None
        Files to write.
    script : {"inline", "shared"}
        Where the script of the report's figures is.
    force, quiet : bool
        The options of these names.
    """

    format: StepFormat
    alarms: bool
    out: Path | None
    plot: Path | None
    report: Path | None
    script: Script
    force: bool
    quiet: bool


@dataclass
class _Stream:
    """One detector with its output."""

    task: Task
    writer: StepWriter
    recorder: Recorder | None = None
    times: list[Time] = field(default_factory=list)

    def advance(self, chunk: Chunk) -> None:
        self.times.extend(self.task.advance(chunk, self.writer, self.recorder))


def run(table: Table, chunks: Iterable[Chunk], tasks: Sequence[Task], outputs: Outputs, file: IO[str]) -> None:
    """Run all detectors over all rows."""
    from .order import OrderCheck
    from .output import StepWriter
    from .progress import progress

    several, quiet, text = len(tasks) > 1, outputs.quiet, outputs.format == "text"
    plots = _plot_paths(outputs.plot, [task.column for task in tasks])
    check_new(plots, force=outputs.force)
    streams = []
    for task in tasks:
        writer = StepWriter(
            file,
            task.detector,
            timed=bool(task.data.time),
            advice=task.advice,
            unit=task.data.unit,
            cost_unit=task.data.cost_unit,
            reach=task.reach,
            alarms=outputs.alarms,
            live=table.live,
            format=outputs.format,
            column=task.column if several else "",
        )
        writer.pending = [] if several else None
        streams.append(_Stream(task, writer))
    order = OrderCheck(tasks[0].data.time)
    interrupted = False
    if text and table.live:
        status(
            f"Reading {table.name}. Changes are printed when they are found; --json prints all steps.", quiet=quiet
        )
    # Steps on a terminal leave no place for a bar.
    shown = not quiet and (text or file is not sys.stdout or not sys.stdout.isatty())
    file.write(streams[0].writer.header())
    try:
        with progress(table, shown=shown) as redraw:
            for chunk in chunks:
                order.check(chunk)
                _record(streams, outputs, table, len(chunk))
                try:
                    for stream in streams:
                        stream.advance(chunk)
                finally:
                    _write_pending(streams, file, table.live)
                redraw()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        file.flush()
    if streams[0].task.detector.ticks == 0 and not interrupted:
        raise ValueError(f"{table.name} has no rows")
    _summarize(streams, [*order.warnings(), *filter(None, [skipped_note(table)])], outputs)
    _draw(streams, table.name, plots, outputs)
    if interrupted:
        raise click.exceptions.Exit(130)


def _record(streams: Sequence[_Stream], outputs: Outputs, table: Table, rows: int) -> None:
    """Begin to record at the first chunk, from whose size the number of ticks follows."""
    from ..trace.recorder import Recorder

    if (outputs.plot or outputs.report) and streams[0].recorder is None:
        for stream in streams:
            stream.recorder = Recorder(stream.task.detector, ticks=_expected(table, rows))


def _write_pending(streams: Sequence[_Stream], file: IO[str], live: bool) -> None:
    """Write the lines of several streams in the order of their ticks."""
    lanes = [stream.writer.pending for stream in streams if stream.writer.pending is not None]
    for _, line in merge(*lanes, key=lambda entry: entry[0]):
        file.write(line)
    for lane in lanes:
        lane.clear()
    if live and lanes:
        file.flush()


def _summarize(streams: Sequence[_Stream], warnings: Sequence[str], outputs: Outputs) -> None:
    """Print the summary: on a terminal it is the output, else a message."""
    result = outputs.format == "text"
    if outputs.quiet and not result:
        return
    for i, stream in enumerate(streams):
        name = f"{stream.writer.column}: " if stream.writer.column else ""
        gap = "\n" if name and i else ""
        click.echo(f"{gap}{name}{stream.writer.summary()}", err=not result)
        if not outputs.quiet:
            for remark in stream.task.remarks():
                click.echo(remark, err=not result)
    for warning in warnings if not outputs.quiet else ():
        status(warning)


def _expected(table: Table, rows: int) -> int:
    """Return a number of ticks that a plot surely has, from the size of the first rows; 0 if it is unknown.

    Half of the estimate: the recorder then leaves out no tick that it would keep at the end.
    """
    if table.live or not table.total or not table.done:
        return 0
    return int(0.5 * rows * table.total / table.done)


def check_outputs(outputs: Outputs, data: str) -> None:
    """Raise now for outputs that would fail only at the end of a long run."""
    from importlib.util import find_spec

    files = (("--out", outputs.out), ("--plot", outputs.plot), ("--report", outputs.report))
    for option, path in files:
        if path is None:
            continue
        if data != "-" and path.exists() and path.samefile(data):
            raise click.BadParameter(f"{str(path)!r} is the input file", param_hint=option)
        if not path.absolute().parent.is_dir():
            raise click.BadParameter(f"the folder of {str(path)!r} does not exist", param_hint=option)
    for path, extra, module in ((outputs.plot, "plot", "matplotlib"), (outputs.report, "report", "plotly")):
        if path is not None and find_spec(module) is None:
            raise ImportError(f"--{extra} needs {module}: pip install 'mfbocd[{extra}]'")
    if outputs.plot is not None and outputs.plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise click.BadParameter(f"{str(outputs.plot)!r} must end in .png, .svg or .pdf", param_hint="--plot")
    check_new([path for _, path in files], force=outputs.force)


def _plot_paths(plot: Path | None, columns: Sequence[str]) -> list[Path]:
    """Return the file of each stream's plot; with several streams the name contains the column."""
    if plot is None or len(columns) == 1:
        return [] if plot is None else [plot]
    names = [re.sub(r"[^\w.-]+", "_", column) for column in columns]
    return [plot.with_name(f"{plot.stem}-{name}{plot.suffix}") for name in names]


def _draw(streams: Sequence[_Stream], name: str, plots: Sequence[Path], outputs: Outputs) -> None:
    """Write the plots and the report."""
    from ..calibrate.draft.series import times_of

    drawn = [stream for stream in streams if stream.recorder is not None and stream.recorder.ticks]
    if not drawn:
        return
    data, quiet = drawn[0].task.data, outputs.quiet
    read = times_of(drawn[0].times) if data.time else None
    if read is not None and read.warning:
        status(f"Warning: {read.warning}", quiet=quiet)
    traces = [stream.recorder.trace() for stream in drawn if stream.recorder is not None]
    shared: dict[str, Any] = {
        "time": read,
        "xlabel": data.time or None,
        "unit": data.unit,
        "cost_unit": data.cost_unit,
        "budget": drawn[0].task.budget,
    }
    for trace, plot in zip(traces, plots, strict=bool(plots)):
        trace.plot(**shared).savefig(plot, dpi=150)
        status(f"Wrote {plot}.", quiet=quiet)
    if outputs.report is None:
        return
    from ..report import write
    from .tasks import WARNING

    texts = [stream.task.describe() for stream in drawn]
    remarks = (stream.task.remarks() for stream in drawn)
    notes = [[text.removeprefix(WARNING) for text in lines if text.startswith(WARNING)] for lines in remarks]
    names = [stream.writer.column for stream in drawn]
    several = len(drawn) > 1
    write(
        outputs.report,
        dict(zip(names, traces, strict=True)) if several else traces[0],
        title=f"Changes in {name}",
        config_text=dict(zip(names, texts, strict=True)) if several else texts[0],
        notes=dict(zip(names, notes, strict=True)) if several else notes[0],
        script=outputs.script,
        **shared,
    )
    status(f"Wrote {outputs.report}.", quiet=quiet)

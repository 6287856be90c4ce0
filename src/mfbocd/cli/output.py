"""The output of `detect` and `drive`: steps as JSON Lines, CSV or line protocol, and a summary."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections import deque
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from ..inputs.times import Times
from ..trace.levels import Level, Levels, describe_change, levels_to_json
from ..trace.regimes import NEAREST
from ..trace.tracker import LevelTracker

if TYPE_CHECKING:
    from ..detector.base import BaseDetector
    from ..detector.step import Step

Time = str | int | float | None
StepFormat = Literal["jsonl", "csv", "influx", "text"]
"""How steps are written: as JSON Lines, CSV, line protocol, or, on a terminal, only changes as text."""

MAX_LISTED = 20
"""Changes listed in the summary."""
SUSPICIOUS_SPACING = 25
"""With fewer ticks per change than this, most changes are probably noise or drift: the summary suggests a remedy."""


def on_terminal() -> bool:
    """Tell whether stdout is a terminal, where a summary is more useful than all steps."""
    return sys.stdout.isatty()


class _Change(NamedTuple):
    """One change of the summary."""

    step: Step
    time: Time
    levels: tuple[Levels, Levels]

    def describe(self, unit: str) -> str:
        """Say what changed, and when in the words of the input."""
        at, step = f"tick {self.step.changed_at}", self.step
        if self.time is not None:
            at = Times.of([self.time]).describe(0)
        delay = step.tick - (step.changed_at or 0)
        return describe_change(*self.levels, at, step.confidence or 0.0, delay, unit)


class StepWriter:
    """Write one line per step, and collect what the summary needs in constant memory.

    Parameters
    ----------
    out : text file
        Where the lines go.
    detector : BaseDetector
        The detector before its first step of this run.
    timed : bool
        Whether every step has a timestamp, even if it is null.
    advice : str
        What the summary suggests if there are suspiciously many changes.
    unit : str, default ""
        Unit of the readings.
    cost_unit : str, default ""
        Unit of the costs.
    reach : int, optional
        How many ticks before an alarm the change may have been; the alarm's window by default.
    alarms : bool, default False
        Write only the steps that raise an alarm.
    live : bool, default True
        Flush after every line; as text, write each change when it is found.
    format : {"jsonl", "csv", "influx", "text"}, default "jsonl"
        How steps are written.
    column : str, default ""
        The stream's column, if there are several streams: it is in every line.

    Attributes
    ----------
    pending : list of tuple or None
        If it is a list, lines are appended to it with their ticks instead of being written.
    """

    def __init__(
        self,
        out: IO[str],
        detector: BaseDetector,
        *,
        timed: bool,
        advice: str,
        unit: str = "",
        cost_unit: str = "",
        reach: int | None = None,
        alarms: bool = False,
        live: bool = True,
        format: StepFormat = "jsonl",
        column: str = "",
    ) -> None:
        self.timed, self.alarms, self.live, self.format, self.column = timed, alarms, live, format, column
        self.pending: list[tuple[int, str]] | None = None
        self._about = "{" + (f'"column": {json.dumps(column, ensure_ascii=False)}, ' if column else "")
        self._out, self._detector, self._advice = out, detector, advice
        self._unit, self._cost_unit = unit, cost_unit
        self._surprise = detector.surprise
        self._encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
        within = detector.alarm.within if detector.alarm else 0
        self._times: deque[Time] = deque(maxlen=(within if reach is None else reach) + 1)
        self._first, self._spent = detector.ticks, detector.spent
        self.tracker = LevelTracker.of(detector, self._times.maxlen or 1)
        self._around: tuple[Levels, Levels] = (None, None)  # of the last alarm, when it fired
        self._level_due = -1  # tick at which enough readings for the level after the last change have been made
        self._readings = {f.name: 0 for f in detector.fidelities}
        self._missing = 0
        self._changes: list[_Change] = []
        self._count = 0

    def write(self, step: Step, time: Time = None) -> None:
        """Write a step; with `alarms`, only if it raises one."""
        self._times.append(time)
        self.tracker.add(step)
        if step.fidelity is not None:
            self._readings[step.fidelity] += 1
        self._missing += step.x is None
        if step.alarm:
            assert step.changed_at is not None
            self._complete_level(step.changed_at)
            self._count += 1
            self._around = self.tracker.around(step.changed_at)
            self._level_due = step.changed_at + NEAREST
            if self._count <= MAX_LISTED:
                self._changes.append(_Change(step, self._change_time(step), self._around))
        elif step.tick + 1 == self._level_due:
            self._complete_level()
        if self.format == "text":
            if step.alarm and self.live:
                prefix = f"{self.column}: " if self.column else ""
                change = _Change(step, self._change_time(step), self._around)
                self._put(step.tick, f"{prefix}{change.describe(self._unit)}\n")
        elif step.alarm or not self.alarms:
            line = self._line(step, time)
            if self.format == "csv":
                line = self._csv_row(json.loads(line))
            elif self.format == "influx":
                from .influx import step_point

                line = step_point(json.loads(line), self.column)
            self._put(step.tick, line)

    def _put(self, tick: int, line: str) -> None:
        if self.pending is not None:
            self.pending.append((tick, line))
            return
        self._out.write(line)
        if self.live:
            self._out.flush()

    def header(self) -> str:
        """Return the first line of the output: the names of the columns of CSV, else nothing."""
        return _csv_line(self._names()) if self.format == "csv" else ""

    def _names(self) -> list[str]:
        """Return the names of the fields of a step."""
        timed = self.timed
        return [
            *(["column"] if self.column else []),
            "tick",
            *(["time"] if timed else []),
            *("fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at"),
            *(["changed_at_time"] if timed else []),
            "confidence",
            *(["outlier"] if self._detector.has_outliers else []),
            *(f"{side}_{end}" for side in ("before", "after") for end in Level._fields),
            *(_surprise_names() if self._surprise else []),
        ]

    def _csv_row(self, step: dict[str, Any]) -> str:
        """Return the fields of a step as CSV, missing ones empty."""
        levels: dict[str, Any] = {}
        for side in ("before", "after"):
            level = step.get(side)
            if isinstance(level, list):  # one for each category
                level = {end: json.dumps([one and one[end] for one in level]) for end in Level._fields}
            levels |= {f"{side}_{end}": value for end, value in (level or {}).items()}
        values = ((step | levels).get(name) for name in self._names())
        return _csv_line([str(value).lower() if isinstance(value, bool) else value for value in values])

    def flush(self) -> None:
        """Print what was written so far."""
        self._out.flush()

    def _line(self, step: Step, time: Time) -> str:
        """Return a step as JSON; composed here, because an encoder takes as long as the detector."""
        text = self._text
        timed = self.timed or time is not None
        at = f'"time": {text(time)}, ' if timed else ""
        more: dict[str, Any] = {} if step.outlier is None else {"outlier": step.outlier}
        if step.alarm:
            more |= {"before": levels_to_json(self._around[0]), "after": levels_to_json(self._around[1])}
        if self._surprise:
            more |= _surprise_fields(step)
        rest = "".join(f', "{name}": {text(value)}' for name, value in more.items())
        began = f', "changed_at_time": {text(self._change_time(step))}' if timed else ""
        return (
            f'{self._about}"tick": {step.tick}, {at}"fidelity": {text(step.fidelity)}, "x": {text(step.x)}, '
            f'"cost": {text(step.cost)}, "mean": {text(step.mean)}, "run_length": {step.run_length}, '
            f'"p_change": {text(step.p_change)}, "alarm": {"true" if step.alarm else "false"}, '
            f'"changed_at": {text(step.changed_at)}{began}, "confidence": {text(step.confidence)}{rest}}}\n'
        )

    def _text(self, value: Any) -> str:
        """Return a value as JSON."""
        if value is None:
            return "null"
        if type(value) is float and math.isfinite(value):
            return float.__repr__(value)
        return self._encode(value)

    def _change_time(self, step: Step) -> Time:
        """Return the timestamp of the tick at which the regime began, if it is among the last ones."""
        if step.changed_at is None or step.tick - step.changed_at >= len(self._times):
            return None
        return self._times[-1 - (step.tick - step.changed_at)]

    def _complete_level(self, until: int | None = None) -> None:
        """Compute the level after the last listed change again, from the readings since its alarm as well."""
        if self._level_due >= 0 and self._count <= MAX_LISTED:
            last = self._changes[-1]
            self._changes[-1] = last._replace(levels=(last.levels[0], self.tracker.after(until)))
        self._level_due = -1

    def summary(self) -> str:
        """Return the changes found and the costs, as text."""
        detector = self._detector
        ticks, spent = detector.ticks - self._first, detector.spent - self._spent
        if ticks == 0:
            return "No ticks."
        lines = [f"{_count(ticks, 'tick')}, {_count(self._count, 'change')} found" + (":" if self._count else ".")]
        self._complete_level()
        lines += (f"  {change.describe(self._unit)}" for change in self._changes)
        if self._count > MAX_LISTED:
            lines.append(f"  ... and {self._count - MAX_LISTED} more; --alarms --json prints all")
        if self._count > 3 and ticks < SUSPICIOUS_SPACING * self._count:
            lines.append(
                f"That is one change every {ticks / self._count:.0f} ticks. If that is too many: drifting or "
                f"oscillating readings look like changes; {self._advice}."
            )
        if self._missing:
            lines.append(f"{_count(self._missing, 'reading')} missing.")
        if len(detector.fidelities) > 1:
            unit = f" {self._cost_unit}" if self._cost_unit else ""
            readings = ", ".join(f"{name} {count}" for name, count in self._readings.items())
            lines.append(f"Readings: {readings}. Spent {spent:g}{unit}, {spent / ticks:.3g} per tick;")
            expensive = max(detector.fidelities, key=lambda f: f.cost_of())
            full = expensive.cost_of() * ticks
            saved = 100 * (1.0 - spent / full)
            lines.append(f"{expensive.name} at every tick would have cost {full:g}{unit} ({saved:.0f} % saved).")
        return "\n".join(lines)


def advice(model: Mapping[str, Any]) -> str:
    """Return what to try if a configured model finds too many changes."""
    remedy = "a larger noise_var" if "noise_var" in model else "a gaussian model with a large noise_var"
    return f"use {remedy}, or detect without a configuration"


def _surprise_fields(step: Step) -> dict[str, float | None]:
    """Return the fields of a step's surprise; null without one, or if it is minus infinity, which JSON lacks."""
    names = _surprise_names()
    values = (None,) * len(names) if step.surprise is None else step.surprise
    return {
        name: value if value is not None and math.isfinite(value) else None
        for name, value in zip(names, values, strict=True)
    }


def _surprise_names() -> tuple[str, ...]:
    from ..belief.records import Surprise

    return Surprise._fields


def _csv_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _count(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"

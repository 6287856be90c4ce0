"""What `detect` runs over a table: the automatic detector of one column, or the detector of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..belief.records import Surprise
from ..calibrate.auto import HAZARD, AutoDetector
from ..detector.detector import Detector
from ..detector.step import Step
from ..io.config import Config, Data
from ..io.tables import Chunk, TableError
from ..policy import Budget, Fidelity
from ..policy.fidelity import name_from
from .output import advice

if TYPE_CHECKING:
    from ..trace.recorder import Recorder
    from ..trace.trace import Trace
    from .output import StepWriter, Time

WARNING = "Warning: "
"""Begins a remark that makes the result unreliable."""

_AT_ONCE = 200_000  # readings processed at once
_FIRST = 10  # rows of a file that are printed before the kernels are needed, and perhaps compiled


class Task(Protocol):
    """A detector, and the column of timestamps and the units of its data."""

    data: Data

    @property
    def detector(self) -> Detector | AutoDetector:
        """The detector."""
        ...

    @property
    def column(self) -> str:
        """The column of readings; empty if there are several."""
        ...

    @property
    def advice(self) -> str:
        """What to try if there are too many changes."""
        ...

    @property
    def reach(self) -> int:
        """How many ticks before an alarm the change may have been."""
        ...

    @property
    def budget(self) -> float | None:
        """The requested average cost per tick."""
        ...

    def advance(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows of a chunk; yield their timestamps if they were recorded for a plot."""
        ...

    def describe(self) -> str:
        """Return the configuration of the detector, for a report."""
        ...

    def remarks(self) -> list[str]:
        """Return what to print at the end, after the changes."""
        ...


class Configured:
    """The detector of a configuration; it reads the column of the fidelity it chooses."""

    def __init__(self, config: Config, surprise: bool = False) -> None:
        self.config, self.data = config, config.data
        self.column = config.fidelities[0].column if len(config.fidelities) == 1 else ""
        self.detector = config.detector(missing="skip")  # checked in `advance`, where the line is known
        self.detector.surprise = surprise
        self.advice = advice(config.model)
        self.reach = self.detector.alarm.within if self.detector.alarm else 0

    @property
    def budget(self) -> float | None:
        """The target of the policy; None if it is not a budget."""
        if (self.config.policy or {}).get("kind") != "budget":
            return None
        policy = self.config.detector(shared=True).policy
        return policy.target if isinstance(policy, Budget) else None

    def describe(self) -> str:
        """Return the configuration."""
        return self.config.to_toml()

    def remarks(self) -> list[str]:
        """Return nothing: the configuration says it all."""
        return []

    def advance(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows one by one."""
        detector, config = self.detector, self.config
        columns = {f.name: f.column if f.zeta > 0.0 else None for f in config.fidelities}
        for i in range(len(chunk)):
            fidelity = detector.choose().name
            column = columns[fidelity]
            x = None if column is None else chunk.number(i, column)
            if x is None and column is not None and config.missing == "raise" and chunk.skipped is None:
                raise TableError(
                    f"{chunk.where(i, column)}: the reading is missing, and the configuration has missing = 'raise'"
                )
            if recorder is not None:
                recorder.before_tick()
            try:
                step = detector.update(x, fidelity)
            except (TypeError, ValueError) as error:
                raise TableError(f"{chunk.where(i, str(column))}: {error}") from None
            time = chunk.label(i, self.data.time) if self.data.time else None
            writer.write(step, time)
            if recorder is not None:
                recorder.after_tick(step)
                yield time


class Automatic:
    """The automatic detector of one column."""

    advice = "pass a smaller --hazard, or select a family with --model"
    budget = None

    def __init__(
        self,
        column: str,
        time: str | None,
        hazard: float | None,
        period: float | None = None,
        surprise: bool = False,
    ) -> None:
        self.column, self.name, self.data = column, name_from(column), Data(time=time or "")
        self.detector = AutoDetector(HAZARD if hazard is None else hazard, period=period, surprise=surprise)
        self.detector.fidelities = (Fidelity(self.name, 1.0, 1.0),)  # plots and reports name the column
        self.reach = self.detector.history
        self._explained = (-1, "")  # tick, and the explanation then

    def describe(self) -> str:
        """Return the structure of the series in words."""
        return f"Without a configuration: {type(self.detector).__name__}\n{self._explain()}"

    def remarks(self) -> list[str]:
        """Return the structure of the series in words, and warnings."""
        return [self._explain(), *(f"{WARNING}{text}" for text in self.detector.warnings())]

    def _explain(self) -> str:
        """Return the explanation, which takes long: the readings are replayed for it several times."""
        ticks = self.detector.ticks
        if self._explained[0] != ticks:
            self._explained = ticks, self.detector.explain()
        return self._explained[1]

    def advance(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows, many at once unless they arrive one by one."""
        x, bad = _readings(chunk, self.column)
        stamps = self.data.time
        times: list[Time] = [chunk.label(i, stamps) for i in range(len(x))] if stamps else [None] * len(x)
        start = 0
        while start < len(x):
            end = min(start + self._piece(recorder), len(x))
            steps = self._steps(x[start:end])
            for step, time in zip(steps, times[start:end], strict=True):
                writer.write(step, time)
            if recorder is not None:
                recorder.after_ticks(steps)
                yield from times[start:end]
            start = end
            if self.detector.ticks <= _FIRST:
                writer.flush()
        if bad is not None:
            raise bad

    def _piece(self, recorder: Recorder | None) -> int:
        """Return how many readings to take at once."""
        most = _FIRST if self.detector.ticks < _FIRST else _AT_ONCE
        return most if recorder is None else min(recorder.ticks_to_row, most)

    def _steps(self, x: Sequence[float]) -> list[Step]:
        if len(x) == 1:  # several times faster than `run`
            step = self.detector.update(x[0])
            return [step if step.x is None else step._replace(fidelity=self.name)]
        return steps_of(self.detector.run(x), self.name)


def steps_of(trace: Trace, fidelity: str) -> list[Step]:
    """Return the rows of a trace with one fidelity as steps; nothing was read where the reading is missing."""
    names = [None if j < 0 else fidelity for j in trace.choice.tolist()]
    alarm = trace.alarm.tolist()
    columns: list[list[Any]] = [
        list(range(trace.first, trace.first + len(trace))),
        names,
        [None if name is None else x for name, x in zip(names, trace.x.tolist(), strict=True)],
        trace.cost.tolist(),
        trace.mean.tolist(),
        trace.run_length.tolist(),
        trace.p_change.tolist(),
        alarm,
        [at if fired else None for at, fired in zip(trace.changed_at.tolist(), alarm, strict=True)],
        [p if fired else None for p, fired in zip(trace.confidence.tolist(), alarm, strict=True)],
    ]
    steps = [Step(*row) for row in zip(*columns, strict=True)]
    if trace.surprise is None:
        return steps
    found = [Surprise(*row) for row in np.array(trace.surprise).T.tolist()]
    return [
        step if math.isnan(one.log_density) else step._replace(surprise=one)
        for step, one in zip(steps, found, strict=True)
    ]


def _readings(chunk: Chunk, column: str) -> tuple[list[float], TableError | None]:
    """Return the readings up to the first cell that is not a number, NaN where missing, and that cell's error."""
    cells = chunk.cells[column]
    try:
        plain = chunk.decimal != "," and not chunk.missing.numbers
        if plain and not any("_" in cell for cell in cells):
            x = list(map(float, cells))  # much faster than cell by cell, and the same for plain numbers
            if all(-_LARGEST <= value <= _LARGEST for value in x):
                return x, None
    except (TypeError, ValueError):
        pass
    x = []
    for i in range(len(chunk)):
        try:
            value = chunk.number(i, column)
        except TableError as error:
            return x, error
        x.append(float("nan") if value is None else value)
    return x, None


_LARGEST = 1.7976931348623157e308

"""What `detect` runs over a table: a detector, and the columns that it reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..belief.records import Surprise
from ..calibrate.auto import HAZARD, AutoDetector
from ..detector.base import BaseDetector
from ..detector.step import Step
from ..io.config import Config, Data
from ..io.tables import Chunk, TableError
from ..policy import Budget, Fidelity
from ..policy.fidelity import name_from
from ..trace.run import run
from .output import advice

if TYPE_CHECKING:
    from ..trace.recorder import Recorder
    from ..trace.trace import Trace
    from .output import StepWriter, Time

WARNING = "Warning: "
"""Begins a remark that makes the result unreliable."""

_AT_ONCE = 200_000  # readings processed at once
_FIRST = 10  # rows of a file that are printed before the kernels are needed, and perhaps compiled


@dataclass
class Task:
    """A detector, the columns that it reads, and the words about it.

    Attributes
    ----------
    detector : BaseDetector
        The detector.
    columns : mapping of str
        The column of each fidelity; None where nothing is read.
    data : Data
        The column of timestamps and the units.
    advice : str
        What to try if there are too many changes.
    reach : int
        How many ticks before an alarm the change may have been.
    config : str
        The configuration, for a report; empty if the detector explains itself.
    required : bool
        Whether a missing reading is an error.
    budget : float or None
        The requested average cost per tick.
    """

    detector: BaseDetector
    columns: Mapping[str, str | None]
    data: Data
    advice: str
    reach: int
    config: str = ""
    required: bool = False
    budget: float | None = None
    _explained: tuple[int, str] = (-1, "")  # tick, and the explanation then

    @classmethod
    def configured(cls, config: Config, surprise: bool = False) -> Task:
        """Return the detector of a configuration."""
        detector = config.detector(missing="skip")  # `advance` checks missing readings, since it knows the line
        detector.surprise = surprise
        policy = detector.policy
        return cls(
            detector,
            {f.name: f.column if f.zeta > 0.0 else None for f in config.fidelities},
            config.data,
            advice(config.model),
            detector.alarm.within if detector.alarm else 0,
            config.to_toml(),
            config.missing == "raise",
            policy.target if config.policy and isinstance(policy, Budget) else None,
        )

    @classmethod
    def automatic(
        cls,
        column: str,
        time: str | None,
        hazard: float | None,
        period: float | None = None,
        surprise: bool = False,
    ) -> Task:
        """Return the automatic detector of one column."""
        fidelity = Fidelity(name_from(column), 1.0, 1.0)  # plots and reports name the column
        hazard = HAZARD if hazard is None else hazard
        detector = AutoDetector(hazard, period=period, surprise=surprise, fidelities=fidelity)
        too_many = "pass a smaller --hazard, or select a family with --model"
        return cls(detector, {fidelity.name: column}, Data(time=time or ""), too_many, detector.history)

    @property
    def column(self) -> str:
        """The column of readings; empty if there are several."""
        columns = list(self.columns.values())
        return columns[0] or "" if len(columns) == 1 else ""

    def describe(self) -> str:
        """Return the configuration, or the structure of the series in words."""
        if self.config:
            return self.config
        return f"Without a configuration: {type(self.detector).__name__}\n{self._explain()}"

    def remarks(self) -> list[str]:
        """Return what to print after the changes: nothing where the configuration says it all."""
        if self.config:
            return []
        return [self._explain(), *(f"{WARNING}{text}" for text in self.detector.warnings())]

    def _explain(self) -> str:
        """Return the explanation, which takes long: the readings are replayed for it several times."""
        ticks = self.detector.ticks
        if self._explained[0] != ticks:
            self._explained = ticks, self.detector.explain()
        return self._explained[1]

    def advance(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows of a chunk; yield their timestamps if they were recorded for a plot."""
        detector = self.detector
        if self.config or detector.surprise or not detector.bulk or len(chunk) == 1:
            return self._advance_rows(chunk, writer, recorder)
        return self._advance_pieces(chunk, writer, recorder)

    def _advance_rows(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows one by one."""
        detector = self.detector
        for i in range(len(chunk)):
            fidelity = detector.choose().name
            column = self.columns[fidelity]
            x = None if column is None else chunk.number(i, column)
            if x is None and column is not None and self.required and chunk.skipped is None:
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

    def _advance_pieces(self, chunk: Chunk, writer: StepWriter, recorder: Recorder | None) -> Iterator[Time]:
        """Process the rows of one column, many at once."""
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

    def _steps(self, x: Sequence[float]) -> list[Step]:
        if len(x) == 1:  # `run` copies the detector, in case that a reading is refused
            return [self.detector.update(x[0])]
        return steps_of(run(self.detector, np.array(x)))

    def _piece(self, recorder: Recorder | None) -> int:
        """Return how many readings to take at once."""
        most = _FIRST if self.detector.ticks < _FIRST else _AT_ONCE
        return most if recorder is None else min(recorder.ticks_to_row, most)


def steps_of(trace: Trace) -> list[Step]:
    """Return the rows of a trace as steps; nothing was read where the reading is missing."""
    names = [*trace.fidelities, None]
    alarm = trace.alarm.tolist()
    columns: list[list[Any]] = [
        list(range(trace.first, trace.first + len(trace))),
        [names[j] for j in trace.choice.tolist()],
        [None if math.isnan(x) else x for x in trace.x.tolist()],
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
    surprises = [Surprise(*row) for row in np.array(trace.surprise).T.tolist()]
    return [
        step if math.isnan(surprise.log_density) else step._replace(surprise=surprise)
        for step, surprise in zip(steps, surprises, strict=True)
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

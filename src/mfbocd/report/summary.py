"""The numbers in the report's text and tables: changes and costs."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..trace.change import Change
from ..trace.levels import Level, Levels
from ..trace.plots.queries import most_expensive
from ..trace.plots.timeline import Timeline
from ..trace.trace import Trace


@dataclass(frozen=True)
class Costs:
    """The total cost, the cost of the most expensive fidelity alone, and the budget.

    Attributes
    ----------
    spent : float
        Total cost of the readings.
    most_expensive : str or None
        Name of the most expensive fidelity, if there are several and costs are known.
    all_high : float or None
        Total cost of reading it at every tick; None if it is not known.
    allowed : float or None
        The budget per tick, multiplied by the number of ticks; None without a budget.
    """

    spent: float
    most_expensive: str | None
    all_high: float | None
    allowed: float | None

    @property
    def saved(self) -> float | None:
        """Saving as a fraction of `all_high`, negative if more was spent; None if `all_high` is not known."""
        return None if not self.all_high else 1.0 - self.spent / self.all_high


class Found(NamedTuple):
    """One alarm.

    Attributes
    ----------
    change : Change
        What changed and when.
    began : tuple[int, int] or None
        First and last tick of the credible interval of the change; None without detail.
    """

    change: Change
    began: tuple[int, int] | None


def costs(trace: Trace, budget: float | None, all_high: float | None) -> Costs:
    """Return the costs of a trace.

    Parameters
    ----------
    trace : Trace
        The trace.
    budget : float or None
        Allowed average cost per tick.
    all_high : float or None
        Total cost of the most expensive fidelity alone; computed from the trace if None and costs are numbers.

    Returns
    -------
    Costs
        The costs.
    """
    ticks = len(trace.choice)
    high = most_expensive(trace) if len(trace.fidelities) > 1 else None
    if all_high is None and high is not None:
        all_high = trace.costs[high] * ticks
    return Costs(
        spent=float(trace.cost.sum()),
        most_expensive=None if high is None else trace.fidelities[high],
        all_high=all_high,
        allowed=None if budget is None else budget * ticks,
    )


def found(trace: Trace) -> list[Found]:
    """Return the alarms of a trace, in order.

    Parameters
    ----------
    trace : Trace
        The trace.

    Returns
    -------
    list[Found]
        One entry per alarm.
    """
    intervals = [None] * len(trace.changes) if trace.detail is None else trace.detail.began.tolist()
    return [
        Found(change, None if began is None else (began[0], began[1]))
        for change, began in zip(trace.changes, intervals, strict=True)
    ]


def to_csv(alarms: list[Found], timeline: Timeline) -> str:
    """Return the alarms as CSV, one row per alarm.

    Parameters
    ----------
    alarms : list[Found]
        The alarms.
    timeline : Timeline
        Times of the ticks, if there are any.

    Returns
    -------
    str
        The CSV text.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    timed = timeline.times is not None
    times = ["alarm_time", "changed_at_time"] if timed else []
    levels = [f"{when}{end}" for when in ("before", "after") for end in ("", "_low", "_high", "_is", "_trusted")]
    writer.writerow(["alarm_tick", "changed_at", "confidence", "earliest", "latest", *times, *levels])
    for change, began in alarms:
        when = timeline.labels([change.tick, change.changed_at]) if timed else []
        around = [*_cells(change.before), *_cells(change.after)]
        first = [change.tick, change.changed_at, f"{change.confidence:.6g}", *(began or ("", ""))]
        writer.writerow([*first, *when, *around])
    return out.getvalue()


def _cells(levels: Levels) -> list[str]:
    """Return a level, its interval, what it is and whether to trust it as text; of several, separated by spaces."""
    several = [levels] if levels is None or isinstance(levels, Level) else list(levels)
    rows = [("",) * 5 if level is None else _row(level) for level in several]
    return [" ".join(column) for column in zip(*rows, strict=True)]


def _row(level: Level) -> tuple[str, ...]:
    numbers = [f"{v:.6g}" if np.isfinite(v) else "" for v in (level.value, level.low, level.high)]
    return (*numbers, level.statistic, str(level.trusted).lower())

"""The numbers in the report's text and tables: changes and costs."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class Found:
    """One alarm.

    Attributes
    ----------
    tick : int
        Tick at which the alarm fired.
    changed_at : int
        Tick at which the new regime most probably began.
    confidence : float
        P(a new regime began).
    began : tuple[int, int] or None
        First and last tick of the credible interval of the change; None without detail.
    """

    tick: int
    changed_at: int
    confidence: float
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
    rows = np.flatnonzero(trace.alarm).tolist()
    intervals = [None] * len(rows) if trace.detail is None else [(int(a), int(b)) for a, b in trace.detail.began]
    return [
        Found(trace.first + t, int(trace.changed_at[t]), float(trace.confidence[t]), began)
        for t, began in zip(rows, intervals, strict=True)
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
    writer.writerow(["alarm_tick", "changed_at", "confidence", "earliest", "latest", *times])
    for alarm in alarms:
        began = alarm.began or ("", "")
        when = timeline.labels([alarm.tick, alarm.changed_at]) if timed else []
        writer.writerow([alarm.tick, alarm.changed_at, f"{alarm.confidence:.6g}", *began, *when])
    return out.getvalue()

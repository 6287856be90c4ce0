"""What the page says in words and tables: changes, readings, costs."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

from ..trace.plots.clock import Clock
from ..trace.plots.shape import TraceLike, dearest


@dataclass(frozen=True)
class Costs:
    """What was paid, beside what the dearest fidelity alone would have cost and what the budget allowed."""

    spent: float
    dearest: str | None
    """Name of the dearest fidelity, if one costs more than the others."""
    all_high: float | None
    """What it would have cost to read that at every tick; None where nobody knows."""
    allowed: float | None
    """The budget's average cost a tick, times the ticks."""

    @property
    def saved(self) -> float | None:
        """As a share of `all_high`; negative if more was paid."""
        return None if not self.all_high else 1.0 - self.spent / self.all_high


@dataclass(frozen=True)
class Found:
    """One alarm."""

    tick: int
    changed_at: int
    confidence: float
    began: tuple[int, int] | None
    """Ticks between which the regime began, with the detail's probability if it is a new one."""


def costs(trace: TraceLike, budget: float | None, all_high: float | None) -> Costs:
    """From the trace; `all_high` where costs are functions, or another comparison is wanted."""
    ticks = len(trace.choice)
    high = dearest(trace) if len(trace.fidelities) > 1 else None
    if all_high is None and high is not None:
        all_high = trace.costs[high] * ticks
    return Costs(
        spent=float(trace.cost.sum()),
        dearest=None if high is None else trace.fidelities[high],
        all_high=all_high,
        allowed=None if budget is None else budget * ticks,
    )


def found(trace: TraceLike) -> list[Found]:
    """The alarms, in order."""
    rows = np.flatnonzero(trace.alarm).tolist()
    told = [None] * len(rows) if trace.detail is None else [(int(a), int(b)) for a, b in trace.detail.began]
    return [
        Found(trace.first + t, int(trace.changed_at[t]), float(trace.confidence[t]), began)
        for t, began in zip(rows, told, strict=True)
    ]


def to_csv(alarms: list[Found], clock: Clock, timed: bool) -> str:
    """One row an alarm; `timed` adds the times beside the ticks."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    times = ["alarm_time", "changed_at_time"] if timed else []
    writer.writerow(["alarm_tick", "changed_at", "confidence", "earliest", "latest", *times])
    for alarm in alarms:
        began = alarm.began or ("", "")
        when = clock.words([alarm.tick, alarm.changed_at]) if timed else []
        writer.writerow([alarm.tick, alarm.changed_at, f"{alarm.confidence:.6g}", *began, *when])
    return out.getvalue()

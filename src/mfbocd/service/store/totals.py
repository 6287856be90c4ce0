"""Sums over all streams, which never decrease.

The sums of deleted streams are kept in the table `removed`, by group. Costs are floating-point numbers: their sum
depends on the order and on what was added before, and a counter that decreases by one bit looks to Prometheus like a
restart from zero. All sums of costs are therefore exact and rounded once, in `Usage.spent`.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

SELECT_TOTALS = (
    "SELECT id, group_id, created, tick, spent, alarms, updated, last_alarm, '' FROM streams "
    "UNION ALL SELECT NULL, group_id, 0.0, ticks, 0.0, alarms, 0.0, NULL, spent FROM removed"
)
"""Both tables in one statement, so that a stream which is deleted meanwhile is counted once."""

_SELECT_REMOVED = "SELECT ticks, spent, alarms FROM removed WHERE group_id = ?"
REMOVED_GROUPS = "/"
"""Key in `removed` of deleted groups. It cannot be an id."""
RECENT = 50
"""Ticks for which a stream is in the state alarm, as on the page."""
STATES = ("never read", "silent", "alarm", "quiet", "damaged")
"""States of streams in the metrics; the first that applies, after damaged."""


@dataclass
class Usage:
    """The sums of some streams."""

    streams: int = 0
    ticks: int = 0
    alarms: int = 0
    costs: list[float] = field(default_factory=list)
    """Numbers whose exact sum is the cost of all readings."""

    @property
    def spent(self) -> float:
        """The cost of all readings, rounded once."""
        return math.fsum(self.costs)

    def add(self, ticks: int, costs: Iterable[float], alarms: int) -> None:
        """Add sums."""
        self.ticks += ticks
        self.alarms += alarms
        self.costs.extend(costs)


@dataclass
class Totals:
    """Sums over the streams of a store, including those of deleted ones."""

    usage: Usage = field(default_factory=Usage)
    """All streams together."""
    groups: dict[str, Usage] = field(default_factory=dict)
    """By group; the empty key has the streams without one."""
    states: Counter[str] = field(default_factory=Counter)
    """Number of streams in each of `STATES`."""
    streams: list[tuple[str, int, float, int]] = field(default_factory=list)
    """Id, ticks, cost and alarms of some streams, oldest first."""


def collect(rows: Iterable[tuple[Any, ...]], now: float, silent: float, most: int) -> Totals:
    """The totals from the rows of `SELECT_TOTALS`.

    Parameters
    ----------
    rows : iterable of tuple
    now : float
        Seconds since 1970.
    silent : float
        Seconds without an observation after which a stream is silent.
    most : int
        Number of streams to report individually. These are the oldest ones, so that a new stream replaces none.
    """
    found = Totals()
    single: list[tuple[float, str, int, float, int]] = []
    for stream, group, created, tick, spent, alarms, updated, last_alarm, parts in rows:
        if stream is None:
            costs = _parts(parts)
            found.usage.add(tick, costs, alarms)
            if group != REMOVED_GROUPS:
                found.groups.setdefault(group, Usage()).add(tick, costs, alarms)
            continue
        state = _state(tick, spent, alarms, updated, last_alarm, now - silent)
        found.states[state] += 1
        if state == "damaged":
            tick, (spent,), alarms = removed_usage(tick, spent, alarms)
        for usage in (found.usage, found.groups.setdefault(group or "", Usage())):
            usage.streams += 1
            usage.add(tick, (spent,), alarms)
        if most and state != "damaged" and isinstance(created, float):
            single.append((created, stream, tick, spent, alarms))
    if most:
        found.streams = [one[1:] for one in heapq.nsmallest(most, single)]
    return found


def _state(tick: Any, spent: Any, alarms: Any, updated: Any, last_alarm: Any, silent_before: float) -> str:
    try:
        if not (isinstance(tick, int) and isinstance(alarms, int) and math.isfinite(spent)):
            return "damaged"
        if tick == 0:
            return "never read"
        if updated < silent_before:
            return "silent"
        if last_alarm is None:
            return "quiet"
        return "alarm" if tick - 1 - orjson.loads(last_alarm)["tick"] < RECENT else "quiet"
    except (TypeError, ValueError, KeyError):
        return "damaged"


def _number(value: Any, kind: type) -> Any:
    """A number of a damaged row; 0 if it is none."""
    return kind(value) if isinstance(value, (int, float)) and math.isfinite(value) else kind(0)


def _parts(stored: Any) -> list[float]:
    """The sum of deleted streams; a damaged one is lost, so that it does not fail every other query."""
    try:
        return [float(part) for part in json.loads(stored)]
    except (TypeError, ValueError):
        return []


def removed_usage(tick: Any, spent: Any, alarms: Any) -> tuple[int, list[float], int]:
    """The sums of a stream that is deleted; its row may be damaged."""
    return _number(tick, int), [_number(spent, float)], _number(alarms, int)


def exact_sum(parts: Iterable[float], more: Iterable[float]) -> list[float]:
    """Numbers with the same exact sum as all of these; few, because none overlaps another (Shewchuk 1997).

    >>> exact_sum([1e16], [1.0, 1.0])
    [1.0000000000000002e+16]
    >>> exact_sum([1e16], [1.0])
    [1.0, 1e+16]
    """
    found = list(parts)
    for x in more:
        rest: list[float] = []
        for y in found:
            large, small = (x, y) if abs(x) >= abs(y) else (y, x)
            x = large + small
            if error := small - (x - large):
                rest.append(error)
        found = [*rest, x]
    return found


def add_removed(cursor: Any, sql: Any, group: str, ticks: int, costs: Iterable[float], alarms: int) -> None:
    """Add the sums of deleted streams to the table `removed`.

    Parameters
    ----------
    cursor : database cursor
        In the transaction that deletes them.
    sql : callable
        `StoreReader.sql`.
    group : str
        Their group; empty without one.
    ticks, costs, alarms
        Their sums.
    """
    # an update that changes nothing locks the row, so that another worker cannot add to it meanwhile
    cursor.execute(
        sql(
            "INSERT INTO removed (group_id, ticks, spent, alarms) VALUES (?, 0, '[]', 0) "
            "ON CONFLICT (group_id) DO UPDATE SET ticks = removed.ticks"
        ),
        (group,),
    )
    before = cursor.execute(sql(_SELECT_REMOVED), (group,)).fetchone()
    spent = json.dumps(exact_sum(_parts(before[1]), costs))
    cursor.execute(
        sql("UPDATE removed SET ticks = ?, spent = ?, alarms = ? WHERE group_id = ?"),
        (before[0] + ticks, spent, before[2] + alarms, group),
    )


def fold_group(cursor: Any, sql: Any, group: str) -> None:
    """Move the sums of a deleted group to those of all deleted groups, so that the number of rows is bounded."""
    found = cursor.execute(sql(_SELECT_REMOVED), (group,)).fetchone()
    if found is not None:
        cursor.execute(sql("DELETE FROM removed WHERE group_id = ?"), (group,))
        add_removed(cursor, sql, REMOVED_GROUPS, found[0], _parts(found[1]), found[2])

"""Alarms that a webhook has not received yet.

An alarm is written in the transaction of its tick and deleted after it was delivered, so that a crash in between
delivers it again. It does not depend on the events, which `keep` or the deletion of the stream may remove before.

Several workers deliver from one table. A worker claims alarms by moving their `due` into the future. If it dies, they
are due again after that time, or when a worker with the same address starts.

An alarm is given up after a number of attempts, never for its age: the clock may be wrong, or nothing was running. An
endpoint that fails concerns all alarms, so its failures are counted once, in the table `meta`. The column `attempts`
is the number of refusals of this alarm, less the failures before it was written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .base import Changes, Store

LONGEST = 300.0
"""Most seconds for which an alarm is postponed. One that is due later was postponed before the clock was set back."""
FAILURE_INTERVAL = 300.0
"""Seconds in which failures of the endpoint count once, whichever workers try it and however often."""

_KEY = "stream = ? AND tick = ? AND at = ?"


class Entry(NamedTuple):
    """An alarm to be delivered."""

    stream: str
    tick: int
    at: float
    """Seconds since 1970."""
    name: str
    """Name of the stream."""
    group: str | None
    step: str
    """The step as JSON."""
    attempts: int
    """Number of attempts that failed since it was written: its refusals and the failures of the endpoint."""


def put(cursor: Any, sql: Any, changes: Changes) -> int:
    """Write the alarms of changes, in their transaction; returns their number."""
    alarms = [event for event in changes.events if event.alarm]
    if not alarms:
        return 0
    rows = {row.id: row for row, _ in changes.streams}
    earlier = _failures(cursor)[0]
    cursor.executemany(
        # a tick must not fail because of its notification
        sql("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, 0, NULL) ON CONFLICT DO NOTHING"),
        [(e.stream, e.tick, e.at, rows[e.stream].name, rows[e.stream].group, e.step, -earlier) for e in alarms],
    )
    return len(alarms)


def claim(store: Store, limit: int, now: float, hold: float) -> list[Entry]:
    """Alarms that are due, oldest first. Other workers do not get them for `hold` seconds."""
    many_workers = store.lease is not None
    query = store.sql(
        "SELECT stream, tick, at, name, group_id, step, attempts + ? FROM outbox WHERE due <= ? OR due > ? "
        f"ORDER BY at, stream, tick LIMIT ?{' FOR UPDATE SKIP LOCKED' if many_workers else ''}"
    )
    with store.transaction() if many_workers else store.cursor() as cursor:
        values = (_failures(cursor)[0], now, now + LONGEST, limit)
        found = [Entry(*row) for row in cursor.execute(query, values).fetchall()]
        if found and many_workers:
            cursor.executemany(
                store.sql(f"UPDATE outbox SET due = ?, owner = ? WHERE {_KEY}"),
                [(now + hold, store.worker, *entry[:3]) for entry in found],
            )
    return found


def finish(store: Store, entries: Sequence[Entry]) -> None:
    """Delete alarms that were delivered."""
    with store.transaction() as cursor:
        cursor.executemany(store.sql(f"DELETE FROM outbox WHERE {_KEY}"), [entry[:3] for entry in entries])


def release(store: Store, entries: Sequence[Entry]) -> None:
    """Make alarms due that were claimed and not delivered."""
    with store.transaction() as cursor:
        statement = store.sql(f"UPDATE outbox SET due = 0, owner = NULL WHERE {_KEY}")
        cursor.executemany(statement, [entry[:3] for entry in entries])


def refuse(store: Store, entry: Entry, due: float) -> None:
    """Count an attempt in which an alarm was refused; it is due again later."""
    with store.transaction() as cursor:
        cursor.execute(
            store.sql(f"UPDATE outbox SET due = ?, attempts = attempts + 1, owner = NULL WHERE {_KEY}"),
            (due, *entry[:3]),
        )


def reclaim(store: Store) -> None:
    """Make the alarms due that this worker had claimed before it was restarted."""
    if store.lease is not None:
        with store.transaction() as cursor:
            cursor.execute(store.sql("UPDATE outbox SET due = 0, owner = NULL WHERE owner = ?"), (store.worker,))


def count_failure(store: Store, now: float) -> None:
    """Count an attempt in which the endpoint failed."""
    with store.transaction() as cursor:
        count, at = _failures(cursor)
        if not 0.0 <= now - at < FAILURE_INTERVAL:
            statement = (
                "INSERT INTO meta (key, value) VALUES ('webhook', ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            )
            cursor.execute(store.sql(statement), (json.dumps([count + 1, now]),))


def _failures(cursor: Any) -> tuple[int, float]:
    """Number of failures of the endpoint that were counted, and the time of the last one."""
    found = cursor.execute("SELECT value FROM meta WHERE key = 'webhook'").fetchone()
    if found is None:
        return 0, 0.0
    try:
        count, at = json.loads(found[0])
        return int(count), float(at)
    except (TypeError, ValueError):  # a tick must not fail because of its notification
        return 0, 0.0


def abandon(store: Store, attempts: int) -> list[tuple[str, int]]:
    """Delete alarms after so many attempts; returns the stream and tick of each."""
    with store.transaction() as cursor:
        statement = "DELETE FROM outbox WHERE attempts >= ? RETURNING stream, tick"
        rows = cursor.execute(store.sql(statement), (attempts - _failures(cursor)[0],))
        return [(str(stream), int(tick)) for stream, tick in rows.fetchall()]


class Backlog(NamedTuple):
    """The alarms that were not delivered yet."""

    alarms: int = 0
    oldest: float | None = None
    """Time of the oldest, in seconds since 1970."""
    refused: int = 0
    """Number of those that were refused and are postponed."""


def backlog(store: Store) -> Backlog:
    """What was not delivered yet."""
    with store.cursor() as cursor:
        alarms, oldest, refused = cursor.execute(
            "SELECT count(*), min(at), count(CASE WHEN due > 0 AND owner IS NULL THEN 1 END) FROM outbox"
        ).fetchone()
    return Backlog(int(alarms), oldest, int(refused))

"""Alarms that a webhook has not received yet.

An alarm is written in the transaction of its tick and deleted after it was delivered, so that a crash in between
delivers it again. It does not depend on the events, which `keep` or the deletion of the stream may remove before.

Several workers deliver from one table. A worker claims alarms by moving their `due` into the future. If it dies, they
are due again after that time, or when a worker with the same address starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .base import Changes, Store

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
    """Number of failed deliveries in which it was refused."""


def put(cursor: Any, sql: Any, changes: Changes) -> int:
    """Write the alarms of changes, in their transaction; returns their number."""
    alarms = [event for event in changes.events if event.alarm]
    if not alarms:
        return 0
    rows = {row.id: row for row, _ in changes.streams}
    cursor.executemany(
        # a tick must not fail because of its notification
        sql("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, 0, 0, NULL) ON CONFLICT DO NOTHING"),
        [(e.stream, e.tick, e.at, rows[e.stream].name, rows[e.stream].group, e.step) for e in alarms],
    )
    return len(alarms)


def claim(store: Store, limit: int, now: float, hold: float) -> list[Entry]:
    """Alarms that are due, oldest first. Other workers do not get them for `hold` seconds."""
    many_workers = store.lease is not None
    query = (
        "SELECT stream, tick, at, name, group_id, step, attempts FROM outbox WHERE due <= ? "
        f"ORDER BY at, stream, tick LIMIT ?{' FOR UPDATE SKIP LOCKED' if many_workers else ''}"
    )
    if not many_workers:
        with store.cursor() as cursor:
            return [Entry(*row) for row in cursor.execute(query, (now, limit))]
    with store.transaction() as cursor:
        found = [Entry(*row) for row in cursor.execute(store.sql(query), (now, limit)).fetchall()]
        if found:
            cursor.executemany(
                store.sql(f"UPDATE outbox SET due = ?, owner = ? WHERE {_KEY}"),
                [(now + hold, store.worker, *entry[:3]) for entry in found],
            )
    return found


def finish(store: Store, entries: Sequence[Entry]) -> None:
    """Delete alarms that were delivered."""
    with store.transaction() as cursor:
        cursor.executemany(store.sql(f"DELETE FROM outbox WHERE {_KEY}"), [entry[:3] for entry in entries])


def postpone(store: Store, entries: Sequence[Entry], due: float, *, refused: bool) -> None:
    """Try alarms again later; `refused` counts an attempt."""
    with store.transaction() as cursor:
        cursor.executemany(
            store.sql(f"UPDATE outbox SET due = ?, attempts = attempts + ?, owner = NULL WHERE {_KEY}"),
            [(due, int(refused), *entry[:3]) for entry in entries],
        )


def reclaim(store: Store) -> None:
    """Make the alarms due that this worker had claimed before it was restarted."""
    if store.lease is not None:
        with store.transaction() as cursor:
            cursor.execute(store.sql("UPDATE outbox SET due = 0, owner = NULL WHERE owner = ?"), (store.worker,))


def abandon(store: Store, before: float) -> list[tuple[str, int]]:
    """Delete alarms that are older than a time; returns the stream and tick of each."""
    with store.transaction() as cursor:
        rows = cursor.execute(store.sql("DELETE FROM outbox WHERE at < ? RETURNING stream, tick"), (before,))
        return [(str(stream), int(tick)) for stream, tick in rows.fetchall()]


def backlog(store: Store) -> tuple[int, float | None]:
    """Number of alarms that were not delivered yet, and the time of the oldest."""
    with store.cursor() as cursor:
        count, oldest = cursor.execute("SELECT count(*), min(at) FROM outbox").fetchone()
    return int(count), oldest

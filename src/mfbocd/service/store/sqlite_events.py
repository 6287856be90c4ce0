"""How SQLite finds the events of a stream by tick: recent ones in a linked list, older ones in an index.

Events of many streams are written in the order in which they happen. In an index by (stream, tick) neighbouring
entries belong to one stream, so every new event changes a different page. Updating such an index at every commit made
up half of all bytes written.

Therefore new events form a linked list per stream: `streams.latest` is the sequence number of the newest event, and
`events.prev` that of the event before. Every `INDEX_INTERVAL` ticks of a stream its list is copied into the table
`event_index`, where its entries share pages, and a new list starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import RequestError
from ..records import Event
from .base import Changes, is_due
from .sqlite_rows import execute_rows

INDEX_INTERVAL = 64
"""Ticks of a stream between two copies of its list into the index."""
MAX_TICK = 2**63 - 1
"""Later than any tick."""

_INSERT = (
    "INSERT INTO events (seq, stream, tick, at, alarm, step, prev) "
    "SELECT column1, column2, column3, column4, column5, column6, "
    "coalesce(column7, (SELECT latest FROM streams WHERE id = column2)) FROM (VALUES {rows})"
)

# Every event of the list is later than every indexed one.
_LIST = """
WITH RECURSIVE list (seq, tick, prev) AS (
    SELECT e.seq, e.tick, e.prev FROM streams s JOIN events e ON e.seq = s.latest WHERE s.id = :stream
    UNION ALL
    SELECT e.seq, e.tick, e.prev FROM list l JOIN events e ON e.seq = l.prev WHERE l.tick > :first
)
"""

_INDEX = f"INSERT INTO event_index (stream, tick, seq) {_LIST} SELECT :stream, tick, seq FROM list ORDER BY tick"

SELECT_EVENT = f"""
{_LIST}
SELECT stream, tick, at, alarm, step, seq FROM events WHERE seq = (
    SELECT seq FROM event_index WHERE stream = :stream AND tick = :first
    UNION ALL
    SELECT seq FROM list WHERE tick = :first
    LIMIT 1
)
"""
"""The event of tick `first` of a stream."""

SELECT_EVENTS = f"""
{_LIST}
SELECT e.stream, e.tick, e.at, e.alarm, e.step, e.seq FROM (
    SELECT tick, seq FROM event_index WHERE stream = :stream AND tick >= :first
    UNION ALL
    SELECT tick, seq FROM list WHERE tick >= :first
    ORDER BY tick LIMIT :limit
) found JOIN events e ON e.seq = found.seq ORDER BY found.tick
"""
"""At most `limit` events of a stream from tick `first` on, in order."""


def insert(cursor: Any, changes: Changes) -> dict[str, int]:
    """Insert new events into the lists of their streams.

    Parameters
    ----------
    cursor : sqlite3.Cursor
        In a transaction that also updates the streams.
    changes : Changes
        Each event must be later than those its stream has: there is no unique index to detect a duplicate.

    Returns
    -------
    dict of str to int
        Sequence number of the newest event of each stream, for `streams.latest`.

    Raises
    ------
    RequestError
        409, if an event is not later than those before it or its stream is not among the changes.
    """
    next_tick = {row.id: before for row, before in changes.streams}
    newest: dict[str, int] = {}
    rows = []
    for seq, e in enumerate(changes.events, _last_seq(cursor) + 1):
        if e.tick < next_tick.get(e.stream, MAX_TICK):
            raise RequestError(409, f"tick {e.tick} of {e.stream!r} is already stored, or its stream is not updated")
        rows.append((seq, e.stream, e.tick, e.at, int(e.alarm), e.step, newest.get(e.stream)))
        next_tick[e.stream], newest[e.stream] = e.tick + 1, seq
    execute_rows(cursor, _INSERT, rows)
    return newest


def insert_history(cursor: Any, events: Sequence[Event]) -> None:
    """Insert and index the events of a stream that has none yet, in any order."""
    last = _last_seq(cursor)
    cursor.executemany(
        "INSERT INTO events (seq, stream, tick, at, alarm, step) VALUES (?, ?, ?, ?, ?, ?)",
        [(seq, e.stream, e.tick, e.at, int(e.alarm), e.step) for seq, e in enumerate(events, last + 1)],
    )
    cursor.execute(
        "INSERT INTO event_index SELECT stream, tick, seq FROM events WHERE seq > ? ORDER BY tick", (last,)
    )


def due(changes: Changes) -> list[str]:
    """Ids of the streams whose list is to be indexed after these changes."""
    return [row.id for row, before in changes.streams if is_due(row.id, before, row.tick, INDEX_INTERVAL)]


def index(cursor: Any, streams: Sequence[str]) -> None:
    """Copy the lists of these streams into the index, and start new ones."""
    cursor.executemany(_INDEX, [{"stream": stream, "first": 0} for stream in streams])
    cursor.executemany("UPDATE streams SET latest = NULL WHERE id = ?", [(stream,) for stream in streams])


def delete_before(cursor: Any, limits: Sequence[tuple[str, int]]) -> None:
    """Delete the events of each stream that are before a tick, given as (stream, tick)."""
    index(cursor, [stream for stream, _ in limits])
    cursor.executemany(
        "DELETE FROM events WHERE seq IN (SELECT seq FROM event_index WHERE stream = ? AND tick < ?)", limits
    )
    cursor.executemany("DELETE FROM event_index WHERE stream = ? AND tick < ?", limits)


def _last_seq(cursor: Any) -> int:
    """The highest sequence number ever assigned, even if that event was deleted."""
    found = cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return 0 if found is None else int(found[0])

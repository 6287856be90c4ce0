"""How SQLite finds a stream's steps: the newest by a chain, the others by an index that is written in bulk.

Steps of many streams come mixed, so in an index by stream each is on another page: kept up at every commit, such an
index is half of all that is written. Here a step has the number of the one before it (`prev`) and its stream that of
the newest (`latest`); every `FILE` ticks of a stream its chain goes into the table `filed`, and a new one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import RequestError
from ..records import Event
from .base import Changes, crossed

FILE = 64
"""Ticks of a stream between two of its filings."""
NEVER = 2**63 - 1
"""A tick that no stream gets to."""

_ADD = (
    "INSERT INTO events (seq, stream, tick, at, alarm, step, prev) "
    "VALUES (?, ?, ?, ?, ?, ?, coalesce(?, (SELECT latest FROM streams WHERE id = ?)))"
)

# no step of the chain is earlier than one that is filed
_CHAIN = """
WITH RECURSIVE chain (seq, tick, prev) AS (
    SELECT e.seq, e.tick, e.prev FROM streams s JOIN events e ON e.seq = s.latest WHERE s.id = :stream
    UNION ALL
    SELECT e.seq, e.tick, e.prev FROM chain c JOIN events e ON e.seq = c.prev WHERE c.tick > :first
)
"""

_FILE = f"INSERT INTO filed (stream, tick, seq) {_CHAIN} SELECT :stream, tick, seq FROM chain ORDER BY tick"

STEP = f"""
{_CHAIN}
SELECT stream, tick, at, alarm, step, seq FROM events WHERE seq = (
    SELECT seq FROM filed WHERE stream = :stream AND tick = :first
    UNION ALL
    SELECT seq FROM chain WHERE tick = :first
    LIMIT 1
)
"""
"""One step, given a stream and its tick as `first`."""

STEPS = f"""
{_CHAIN}
SELECT e.stream, e.tick, e.at, e.alarm, e.step, e.seq FROM (
    SELECT tick, seq FROM filed WHERE stream = :stream AND tick >= :first
    UNION ALL
    SELECT tick, seq FROM chain WHERE tick >= :first
    ORDER BY tick LIMIT :limit
) found JOIN events e ON e.seq = found.seq ORDER BY found.tick
"""
"""At most `limit` steps of a stream from tick `first` on, in order."""


def add(cursor: Any, changes: Changes) -> dict[str, int]:
    """Write steps in chains; the number of each stream's newest.

    A step must come after those its stream has: only then is there but one of each tick.
    """
    coming = {row.id: before for row, before in changes.streams}
    newest: dict[str, int] = {}
    rows = []
    for seq, e in enumerate(changes.events, _last(cursor) + 1):
        if e.tick < coming.get(e.stream, NEVER):
            raise RequestError(409, f"tick {e.tick} of {e.stream!r} is over, or not written with its stream")
        rows.append((seq, e.stream, e.tick, e.at, int(e.alarm), e.step, newest.get(e.stream), e.stream))
        coming[e.stream], newest[e.stream] = e.tick + 1, seq
    cursor.executemany(_ADD, rows)
    return newest


def add_old(cursor: Any, events: Sequence[Event]) -> None:
    """Write the steps of a stream that has none yet, in any order, and file them."""
    last = _last(cursor)
    cursor.executemany(
        "INSERT INTO events (seq, stream, tick, at, alarm, step) VALUES (?, ?, ?, ?, ?, ?)",
        [(seq, e.stream, e.tick, e.at, int(e.alarm), e.step) for seq, e in enumerate(events, last + 1)],
    )
    cursor.execute("INSERT INTO filed SELECT stream, tick, seq FROM events WHERE seq > ? ORDER BY tick", (last,))


def due(changes: Changes) -> list[str]:
    """The streams that are to be filed."""
    return [row.id for row, before in changes.streams if crossed(row.id, before, row.tick, FILE)]


def file(cursor: Any, streams: Sequence[str]) -> None:
    """File the chains of streams."""
    cursor.executemany(_FILE, [{"stream": stream, "first": 0} for stream in streams])
    cursor.executemany("UPDATE streams SET latest = NULL WHERE id = ?", [(stream,) for stream in streams])


def forget(cursor: Any, old: Sequence[tuple[str, int]]) -> None:
    """Remove the steps of each stream that are before a tick."""
    file(cursor, [stream for stream, _ in old])
    cursor.executemany("DELETE FROM events WHERE seq IN (SELECT seq FROM filed WHERE stream = ? AND tick < ?)", old)
    cursor.executemany("DELETE FROM filed WHERE stream = ? AND tick < ?", old)


def _last(cursor: Any) -> int:
    """The number given last, also if its step is gone."""
    found = cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return 0 if found is None else int(found[0])

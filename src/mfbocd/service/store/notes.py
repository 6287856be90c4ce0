"""Notes of people on alarms: acknowledgements and comments.

A note has an id that its client chose. Adding it again returns the stored one, so that a request whose response was
lost can be repeated. Any worker may add notes, whichever owns the stream: a note changes nothing of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RequestError, not_found

if TYPE_CHECKING:
    from .base import Store
    from .reader import StoreReader

MOST = 1000
"""Notes kept per stream. A further one replaces the oldest."""

_COLUMNS = "stream, id, tick, at, acknowledged, author, token, text"
_INSERT = f"INSERT INTO notes ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


class Note(NamedTuple):
    """A note on an alarm."""

    stream: str
    id: str
    tick: int
    """Tick of the alarm."""
    at: float
    """When it was written, in seconds since 1970."""
    acknowledged: bool
    """Whether it acknowledges the alarm; otherwise it is a comment."""
    author: str
    """As the client gave it; may be empty."""
    token: str | None
    """Name of the token that the client had, which was verified; None if the service requires none."""
    text: str

    def record(self) -> dict[str, Any]:
        """The note as returned to clients."""
        return self._asdict() | {"acknowledged": bool(self.acknowledged)}


def add(store: Store, note: Note) -> tuple[Note, bool]:
    """Insert a note, durable when this returns.

    Returns
    -------
    note : Note
        As it is stored, with the time of the first request.
    created : bool
        False if it was there already.

    Raises
    ------
    RequestError
        If there is no such stream, or another note with this id.
    """
    with store.transaction() as cursor:
        if cursor.execute(store.sql("SELECT 1 FROM streams WHERE id = ?"), (note.stream,)).fetchone() is None:
            raise not_found("stream", note.stream)
        created = _insert(cursor, store.sql, [note]) == 1
        where = store.sql(f"SELECT {_COLUMNS} FROM notes WHERE stream = ? AND id = ?")
        stored = _note(cursor.execute(where, (note.stream, note.id)).fetchone())
        if stored._replace(at=note.at) != note:
            raise RequestError(409, f"there is another note {note.id!r} already", {"note": stored.record()})
        if created:
            newest = "SELECT id FROM notes WHERE stream = ? ORDER BY at DESC, id DESC LIMIT ?"
            old = store.sql(f"DELETE FROM notes WHERE stream = ? AND id <> ? AND id NOT IN ({newest})")
            cursor.execute(old, (note.stream, note.id, note.stream, MOST))
    return stored, created


def insert_history(cursor: Any, sql: Any, notes: Sequence[Note]) -> None:
    """Insert the notes of a stream that is imported, in its transaction."""
    if notes:
        _insert(cursor, sql, notes)


def _insert(cursor: Any, sql: Any, notes: Sequence[Note]) -> int:
    rows = [(*note[:4], int(note.acknowledged), *note[5:]) for note in notes]
    cursor.executemany(sql(_INSERT), rows)
    return int(cursor.rowcount)


def delete(cursor: Any, sql: Any, stream: str) -> None:
    """Delete the notes of a stream, in the transaction that deletes it."""
    cursor.execute(sql("DELETE FROM notes WHERE stream = ?"), (stream,))


def notes_of(store: StoreReader, stream: str) -> list[Note]:
    """The notes of a stream, oldest first."""
    with store.cursor() as cursor:
        rows = cursor.execute(
            store.sql(f"SELECT {_COLUMNS} FROM notes WHERE stream = ? ORDER BY at, id"), (stream,)
        ).fetchall()
    return [_note(row) for row in rows]


def _note(row: Sequence[Any]) -> Note:
    fields: tuple[Any, ...] = (*row[:4], bool(row[4]), *row[5:])
    return Note(*fields)


def last_acknowledged(store: StoreReader, streams: Sequence[str]) -> dict[str, int]:
    """The tick of the latest alarm of each stream that is acknowledged; streams without one are absent."""
    if not streams:
        return {}
    marks = ", ".join("?" * len(streams))
    query = f"SELECT stream, max(tick) FROM notes WHERE acknowledged = 1 AND stream IN ({marks}) GROUP BY stream"
    with store.cursor() as cursor:
        return dict(cursor.execute(store.sql(query), tuple(streams)).fetchall())


def last_change(store: StoreReader) -> float | None:
    """When the latest note of any stream was written; None if there is none."""
    with store.cursor() as cursor:
        found = cursor.execute("SELECT max(at) FROM notes").fetchone()[0]
    return found if isinstance(found, float) else None  # a damaged row must not make the list of streams unreadable

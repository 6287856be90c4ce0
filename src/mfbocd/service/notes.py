"""What people write about alarms, as the HTTP endpoints need it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from .errors import RequestError, not_found
from .records import StreamRow
from .schemas import NewNote
from .store import notes
from .store.base import Store


def add_note(store: Store, stream: str, note: str, body: NewNote, token: str | None) -> tuple[dict[str, Any], bool]:
    """Write a note on an alarm.

    Parameters
    ----------
    store : Store
    stream : str
    note : str
        Its id, chosen by the client. With the same id and content the request may be repeated.
    body : NewNote
    token : str or None
        Name of the client's token.

    Returns
    -------
    record : dict
        The note as it is stored.
    created : bool
        False if it was there already.
    """
    if not body.acknowledged and not body.text.strip():
        raise RequestError(422, "text is empty: a comment needs one", {"text": "a comment", "acknowledged": True})
    row = store.stream(stream)
    if row is None:
        raise not_found("stream", stream)
    if not _is_alarm(store, row, body.tick):
        raise RequestError(404, f"stream {stream!r} has no alarm at tick {body.tick}, or it is no longer stored")
    new = notes.Note(stream, note, body.tick, round(time.time(), 3), body.acknowledged, body.author, token, body.text)
    stored, created = notes.add(store, new)
    return stored.record(), created


def _is_alarm(store: Store, row: StreamRow, tick: int) -> bool:
    """Whether a stream raised an alarm at a tick. The last one is known even if its step was deleted."""
    event = store.event(row.id, tick)
    if event is not None:
        return bool(event.alarm)
    last = row.summary()["last_alarm"]
    return last is not None and last.get("tick") == tick


def summaries(store: Store, rows: Sequence[StreamRow]) -> list[dict[str, Any]]:
    """Streams as they are listed, with whether their last alarm is acknowledged."""
    ticks = notes.last_acknowledged(store, [row.id for row in rows])
    return [row.summary(ticks.get(row.id)) for row in rows]


def full_record(store: Store, row: StreamRow) -> dict[str, Any]:
    """A stream as it is returned alone."""
    return row.full(notes.last_acknowledged(store, [row.id]).get(row.id))


def with_notes(store: Store, stream: str, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Changes of a stream, each with the notes on its alarm."""
    found = [note.record() for note in notes.notes_of(store, stream)]
    return [change | {"notes": [note for note in found if note["tick"] == change["tick"]]} for change in changes]


def recent(store: Store, streams: Sequence[str], limit: int) -> dict[str, Any]:
    """The predicted means and the changes in the last steps of streams, for small figures.

    Parameters
    ----------
    store : Store
    streams : sequence of str
        Ids; those that do not exist, or whose steps are damaged, are absent from the result.
    limit : int
        Number of steps.

    Returns
    -------
    dict
        For each stream ``ticks``, ``mean`` (the first number of several) and ``changes``, the ticks of changes.
    """
    found: dict[str, Any] = {}
    for stream, last in store.last_ticks(streams).items():
        try:
            steps = [orjson.loads(event.step) for event in store.events(stream, max(last - limit, -1), limit)]
            found[stream] = {
                "ticks": [step["tick"] for step in steps],
                "mean": [_first(step["mean"]) for step in steps],
                "changes": [step["changed_at"] for step in steps if step["alarm"]],
            }
        except (ValueError, TypeError, KeyError, IndexError):
            continue
    return found


def _first(mean: Any) -> Any:
    return mean[0] if isinstance(mean, list) else mean

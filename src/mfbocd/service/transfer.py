"""Export and import of streams as lines of JSON."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..detector.detector import Detector
from ..io.config import Config
from ..policy.fidelity import CONTROL, LONGEST, name_from
from .budgets import budget_of
from .errors import RequestError, not_found
from .fleets import StreamFleet
from .records import Event, GroupRow, StreamRow, json_text
from .schemas import ID, NewNote
from .store.base import Store
from .store.notes import Note, notes_of
from .store.reader import StoreReader

VERSION = 1
"""Version of the format."""
PAGE = 1000
"""Rows read from the store at a time."""
MAX_GROUPS = 2**31
"""More groups than a store has."""


def export_streams(store: Store, streams: Sequence[str] = ()) -> Iterator[str]:
    """Lines of JSON with streams, their groups, their steps and the notes on their alarms.

    All lines are of the same moment, so that the price of a group fits its streams even if they are being observed.

    Parameters
    ----------
    store : Store
    streams : sequence of str
        Ids; all streams and groups by default.
    """
    with store.snapshot() as reader:
        groups: set[str] = set()
        for name in list(streams) or [row.id for row in _all_streams(reader)]:
            row = reader.stream(name)
            if row is None:
                raise not_found("stream", name)
            if row.group is not None and row.group not in groups:
                groups.add(row.group)
                group = reader.group(row.group)
                assert group is not None
                yield _group_line(group)
            yield _line(row)
            after = -1
            while page := reader.events(name, after, PAGE):
                for event in page:
                    yield json_text({"kind": "step", "stream": name, "at": event.at, "step": json.loads(event.step)})
                after = page[-1].tick
            for note in notes_of(reader, name):
                yield json_text({"kind": "note", **note.record()})
        if not streams:
            yield from (_group_line(group) for group in reader.groups(MAX_GROUPS) if group.id not in groups)


def stream_line(name: str, settings: Mapping[str, Any], detector: Detector) -> str:
    """A line as `export_streams` returns it, for a detector that was saved outside of a service.

    Parameters
    ----------
    name : str
        Name of the stream; its id is made of the characters of it that an id may have.
    settings : mapping
        The configuration of the detector.
    detector : Detector
        The detector, which chooses its next fidelity.

    Returns
    -------
    str
        A stream without steps, for `import_streams`.
    """
    config = Config.parse(settings)
    now = round(time.time(), 3)
    row = StreamRow(
        id=re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64] or "stream",
        name=name_from(name, "stream"),
        config=json_text(config.to_dict()),
        observers="{}",
        budget=budget_of(detector),
        created=now,
        group=None,
        tick=detector.ticks,
        spent=detector.spent,
        alarms=0,
        alarmed=None,
        last_alarm=None,
        last=None,
        next="{}",
        updated=now,
        state=detector.to_bytes(),
    )
    row.next = json_text(StreamFleet(config, grouped=False).choice_of(row))
    return _line(row)


def _group_line(row: GroupRow) -> str:
    return json_text({"kind": "group", **asdict(row), "version": VERSION})


def _line(row: StreamRow) -> str:
    fields = asdict(row) | {"state": base64.b64encode(row.state).decode()}
    return json_text({"kind": "stream", "version": VERSION, **fields})


def import_streams(store: Store, lines: Iterable[str]) -> list[str]:
    """Import what `export_streams` returned.

    Returns
    -------
    list of str
        Ids of the imported streams.

    Raises
    ------
    ValueError
        Naming the line, if it is invalid or its stream exists. Streams before it are imported.
    """
    imported: list[str] = []
    row: StreamRow | None = None
    events: list[Event] = []
    notes: list[Note] = []

    def finish() -> None:
        if row is not None:
            store.add_stream(row, events, notes)
            imported.append(row.id)

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            kind = fields.pop("kind")
            if kind not in ("step", "note") and fields.pop("version") != VERSION:
                raise ValueError(f"this mfbocd reads version {VERSION}")
            if kind == "group":
                finish()
                row = None
                _add_group(store, fields)
            elif kind == "stream":
                finish()
                new = _stream_row(fields)
                row, events, notes = None, [], []
                if store.stream(new.id) is not None:
                    raise ValueError(f"there is a stream {new.id!r} already")
                row = new
            elif kind == "step" and row is not None and fields["stream"] == row.id:
                step = fields["step"]
                if not 0 <= step["tick"] < row.tick:
                    raise ValueError(f"tick {step['tick']} is not one of the {row.tick} ticks of {row.id!r}")
                events.append(
                    Event(row.id, int(step["tick"]), float(fields["at"]), bool(step["alarm"]), json_text(step))
                )
            elif kind == "note" and row is not None and fields["stream"] == row.id:
                notes.append(_note(fields))
            else:
                raise ValueError(f"kind {kind!r} was not expected here")
        except (ValueError, TypeError, KeyError, AttributeError, RequestError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from None
    finish()
    return imported


def _check_names(fields: dict[str, Any]) -> None:
    """Refuse ids and names that the service itself would refuse."""
    if not isinstance(fields["id"], str) or re.fullmatch(ID, fields["id"]) is None:
        raise ValueError(f"id must be 1 to 64 letters, digits and _.-, not {str(fields['id'])[:80]!r}")
    name = fields["name"]
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST or CONTROL.search(name):
        raise ValueError(f"name must be 1 to {LONGEST} characters and no control characters, not {str(name)[:80]!r}")


def _add_group(store: Store, fields: dict[str, Any]) -> None:
    """Insert a group unless it exists."""
    _check_names(fields)
    Config.parse(json.loads(fields["config"]))
    if store.group(fields["id"]) is None:
        facts = (fields["id"], fields["name"], fields["config"], fields["created"])
        store.add_group(GroupRow(*facts, 0, fields["state"]))


def _stream_row(fields: dict[str, Any]) -> StreamRow:
    _check_names(fields)
    row = StreamRow(**fields | {"state": base64.b64decode(fields["state"], validate=True)})
    Config.parse(json.loads(row.config))
    detector = Detector.from_bytes(row.state)
    if detector.ticks != row.tick:
        raise ValueError(f"the state of {row.id!r} is after {detector.ticks} ticks, not {row.tick}")
    return row


def _note(fields: dict[str, Any]) -> Note:
    """A note that the service itself could have written."""
    if re.fullmatch(ID, fields["id"]) is None:
        raise ValueError(f"id must be 1 to 64 letters, digits and _.-, not {fields['id'][:80]!r}")
    body = NewNote(**{name: fields[name] for name in NewNote.model_fields})
    return Note(token=fields["token"], at=float(fields["at"]), stream=fields["stream"], id=fields["id"], **dict(body))


def _all_streams(reader: StoreReader) -> Iterator[StreamRow]:
    offset = 0
    while page := reader.streams(limit=PAGE, offset=offset)[0]:
        yield from page
        offset += len(page)

"""Export and import of streams as lines of JSON."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
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
from .store.reader import StoreReader, stream_row

VERSION = 1
"""Version of the format."""
PAGE = 1000
"""Rows read from the store at a time."""
MAX_GROUPS = 2**31
"""More groups than a store has."""


def export_streams(
    store: Store, streams: Sequence[str] = (), report: Callable[[str], None] | None = None
) -> Iterator[str]:
    """Lines of JSON with streams, their groups, their steps and the notes on their alarms, and a line for the end.

    All lines are of the same moment, so that the price of a group fits its streams even if they are being observed.

    Parameters
    ----------
    store : Store
    streams : sequence of str
        Ids; all streams and groups by default.
    report : callable, optional
        Receives a sentence about everything that is damaged in the store, and is left out. By default this is an
        error.
    """
    count = 0
    with store.snapshot() as reader:
        for fields in _records(reader, streams, report or _refuse):
            count += 1
            yield json_text(fields)
    yield end_line(count)


def end_line(count: int) -> str:
    """The last line of an export, by which an import sees that it is complete: the number of lines before it."""
    return json_text({"kind": "end", "version": VERSION, "lines": count})


def _refuse(problem: str) -> None:
    raise ValueError(problem)


def _records(reader: StoreReader, streams: Sequence[str], report: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    groups: dict[str, str] = {}
    """What is wrong with each group so far; empty if nothing is."""
    for name in list(streams) or [row.id for row in _all_streams(reader)]:
        row = reader.stream(name)
        if row is None:
            raise not_found("stream", name)
        if row.group is not None and not row.damage and row.group not in groups:
            group = reader.group(row.group)
            groups[row.group] = "it is missing" if group is None else group.damage
            if group is not None and not group.damage:
                yield _group_fields(group)
        damage = row.full()["damaged"] or (groups[row.group] if row.group is not None else "")
        if damage:
            report(f"stream {name!r} is damaged and left out: {damage}")
            continue
        yield _fields(row)
        yield from _step_records(reader, row, report)
        try:
            for note in notes_of(reader, name):
                _note(record := note.record())
                yield {"kind": "note", **record}
        except (ValueError, TypeError) as error:
            report(f"stream {name!r}: its notes are damaged and left out: {error}")
    if not streams:
        for group in reader.groups(MAX_GROUPS):
            if group.damage:
                report(f"group {group.id!r} is damaged and left out: {group.damage}")
            elif group.id not in groups:
                yield _group_fields(group)


def _step_records(reader: StoreReader, row: StreamRow, report: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    after = -1
    while page := reader.events(row.id, after, PAGE):
        for event in page:
            fields = {"kind": "step", "stream": row.id, "at": event.at}
            try:
                fields["step"] = json.loads(event.step)
                found = _event(row, fields)
                if (found.tick, found.at) != (event.tick, event.at):
                    raise ValueError("its columns differ from it")
            except (ValueError, TypeError, KeyError) as error:
                report(f"stream {row.id!r}: the step of tick {event.tick} is damaged and left out: {error}")
                continue
            yield fields
        if not isinstance(page[-1].tick, int) or page[-1].tick <= after:
            report(f"stream {row.id!r}: the steps after tick {after} are damaged and left out")
            return
        after = page[-1].tick


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
    return json_text(_fields(row))


def _group_fields(row: GroupRow) -> dict[str, Any]:
    fields = asdict(row) | {"version": VERSION}
    del fields["damage"]
    return {"kind": "group", **fields}


def _fields(row: StreamRow) -> dict[str, Any]:
    fields = asdict(row) | {"state": base64.b64encode(row.state).decode()}
    del fields["damage"]
    return {"kind": "stream", "version": VERSION, **fields}


def import_streams(store: Store, lines: Iterable[str]) -> list[str]:
    """Import what `export_streams` returned.

    Returns
    -------
    list of str
        Ids of the imported streams.

    Raises
    ------
    ValueError
        Naming the line, if it is invalid or its stream exists, or saying that lines are missing. Streams before it
        are imported.
    """
    imported: list[str] = []
    seen = last = 0  # lines since the last end, and number of the last line
    complete = False
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
        seen, last, complete = seen + 1, number, False
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
                events.append(_event(row, fields))
            elif kind == "note" and row is not None and fields["stream"] == row.id:
                notes.append(_note(fields))
            elif kind == "end":
                if fields["lines"] != seen - 1:
                    raise ValueError(f"{fields['lines']} lines were exported, and {seen - 1} are here")
                finish()
                row, seen, complete = None, 0, True
            else:
                raise ValueError(f"kind {kind!r} was not expected here")
        except (ValueError, TypeError, KeyError, AttributeError, RequestError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from None
    if not complete:
        which = "nothing was" if not imported else f"{len(imported)} streams, up to {imported[-1]!r}, were"
        raise ValueError(f"the end is missing after line {last}: the export was interrupted or cut; {which} imported")
    return imported


def _event(row: StreamRow, fields: Mapping[str, Any]) -> Event:
    """A step of a stream from its line."""
    step = fields["step"]
    tick = step["tick"]
    if not isinstance(tick, int) or not 0 <= tick < row.tick:
        raise ValueError(f"tick {tick!r} is not one of the {row.tick} ticks of {row.id!r}")
    return Event(row.id, tick, float(fields["at"]), bool(step["alarm"]), json_text(step))


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
    given = StreamRow(**fields | {"state": base64.b64decode(fields["state"], validate=True), "damage": ""})
    row = stream_row(astuple(given)[:-1])
    if row.damage:
        raise ValueError(row.damage)
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

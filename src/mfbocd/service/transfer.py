"""Streams as lines of JSON, to be kept elsewhere or taken to another store."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ..detector.detector import Detector
from ..io.config import Config
from ..policy.fidelity import CONTROL, LONGEST
from .errors import RequestError, absent
from .records import Event, GroupRow, StreamRow, text
from .schemas import ID
from .store.base import Store

VERSION = 1
PAGE = 1000


def exported(store: Store, streams: Sequence[str] = ()) -> Iterator[str]:
    """A line for each group that is needed, each stream and each step; of all streams unless some are named."""
    names = list(streams) or [row.id for row in _all(store)]
    groups: set[str] = set()
    for name in names:
        row = store.stream(name)
        if row is None:
            raise absent("stream", name)
        if row.group is not None and row.group not in groups:
            groups.add(row.group)
            group = store.group(row.group)
            assert group is not None
            yield text({"kind": "group", **asdict(group), "version": VERSION})
        facts = asdict(row) | {"state": base64.b64encode(row.state).decode()}
        yield text({"kind": "stream", "version": VERSION, **facts})
        after = -1
        while page := [e for e in store.events(name, after, PAGE) if e.tick < row.tick]:  # later ones may come
            for event in page:
                yield text({"kind": "step", "stream": name, "at": event.at, "step": json.loads(event.step)})
            after = page[-1].tick


def imported(store: Store, lines: Iterable[str]) -> list[str]:
    """Ids of the streams that were taken in; one that is there already is refused, and all after it."""
    taken: list[str] = []
    row: StreamRow | None = None
    events: list[Event] = []

    def finish() -> None:
        if row is not None:
            store.add_stream(row, events)
            taken.append(row.id)

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            kind = given.pop("kind")
            if kind != "step" and given.pop("version") != VERSION:
                raise ValueError(f"this mfbocd reads version {VERSION}")
            if kind == "group":
                finish()
                row = None
                _add_group(store, given)
            elif kind == "stream":
                finish()
                made = _stream(given)
                row, events = None, []
                if store.stream(made.id) is not None:
                    raise ValueError(f"there is a stream {made.id!r} already")
                row = made
            elif kind == "step" and row is not None and given["stream"] == row.id:
                step = given["step"]
                if not 0 <= step["tick"] < row.tick:
                    raise ValueError(f"tick {step['tick']} is not one of the {row.tick} that {row.id!r} had")
                events.append(Event(row.id, int(step["tick"]), float(given["at"]), bool(step["alarm"]), text(step)))
            else:
                raise ValueError(f"kind {kind!r} was not expected here")
        except (ValueError, TypeError, KeyError, AttributeError, RequestError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from None
    finish()
    return taken


def _named(given: dict[str, Any]) -> None:
    """Refuse ids and names that the service itself would not have made."""
    if not isinstance(given["id"], str) or re.fullmatch(ID, given["id"]) is None:
        raise ValueError(f"id must be 1 to 64 letters, digits and _.-, not {str(given['id'])[:80]!r}")
    name = given["name"]
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST or CONTROL.search(name):
        raise ValueError(f"name must be 1 to {LONGEST} characters and no control characters, not {str(name)[:80]!r}")


def _add_group(store: Store, given: dict[str, Any]) -> None:
    _named(given)
    Config.parse(json.loads(given["config"]))
    if store.group(given["id"]) is None:
        store.add_group(GroupRow(given["id"], given["name"], given["config"], given["created"], 0, given["state"]))


def _stream(given: dict[str, Any]) -> StreamRow:
    _named(given)
    row = StreamRow(**given | {"state": base64.b64decode(given["state"], validate=True)})
    Config.parse(json.loads(row.config))
    detector = Detector.from_bytes(row.state)
    if detector.ticks != row.tick:
        raise ValueError(f"the state of {row.id!r} is after {detector.ticks} ticks, not {row.tick}")
    return row


def _all(store: Store) -> Iterator[StreamRow]:
    offset = 0
    while page := store.streams(limit=PAGE, offset=offset)[0]:
        yield from page
        offset += len(page)

"""Where streams, groups, steps and tokens are kept: the SQL both databases share, always with parameters."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any
from zlib import crc32

from ..errors import UnavailableError
from ..records import Event, GroupRow, StreamRow, Token

_FACTS = (
    "id, name, config, observers, budget, created, group_id, "
    "tick, spent, alarms, alarmed, last_alarm, last, next, updated"
)
STREAM = f"SELECT {_FACTS}, state FROM streams"
GROUP = "SELECT id, name, config, created, version, state FROM stream_groups"
EVENT = "SELECT stream, tick, at, alarm, step, seq FROM events"

SORTS = {
    "alarm": "alarmed IS NULL, alarmed DESC, name, id",
    "name": "name, id",
    "updated": "updated DESC, id",
    "spent": "spent DESC, id",
    "created": "created, id",
}
"""How a list of streams can be ordered."""

PROBE = 262_144
"""Bytes that `Store.probe` writes; random ones, as a database may compress others."""
SWEEP = 256
"""Ticks between two looks at what a stream may forget."""
APART = 64
"""Ticks from one such look to the next where streams tick together: they take turns.

Their steps share pages: one turn for all is a long transaction, a turn for each writes every page many times.
"""


@dataclass
class Loaded:
    """Streams and groups this worker now holds, and who holds those it could not have."""

    streams: dict[str, StreamRow] = field(default_factory=dict)
    groups: dict[str, GroupRow] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)


@dataclass
class Changes:
    """What one transaction writes."""

    streams: list[tuple[StreamRow, int]] = field(default_factory=list)
    """Each with the tick it had before."""
    groups: list[tuple[GroupRow, int]] = field(default_factory=list)
    """Each with the version it had before."""
    events: list[Event] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """Changes that came one after another, as one: of a row the last, with what was before the first."""
        if len(parts) == 1:
            return parts[0]
        streams: dict[str, tuple[StreamRow, int]] = {}
        groups: dict[str, tuple[GroupRow, int]] = {}
        for part in parts:
            for row, before in part.streams:
                streams[row.id] = (row, streams[row.id][1] if row.id in streams else before)
            for group, version in part.groups:
                groups[group.id] = (group, groups[group.id][1] if group.id in groups else version)
        return cls([*streams.values()], [*groups.values()], [event for part in parts for event in part.events])


class Store(ABC):
    """A database. `writing` is used by one thread alone, `reading` by any."""

    keep: int | None = None
    """How many of a stream's last steps are kept; None is all."""
    lease: float | None = None
    """For how many seconds a stream belongs to a worker; None where there is only one."""
    worker: str = ""
    """The address at which other workers reach this one."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Any]:
        """A cursor in a transaction that is on disk when the block ends; `UnavailableError` if that cannot be."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Any]:
        """A cursor that sees what is committed."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @abstractmethod
    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """Take streams, with their groups, for this worker; what is not there is in no part of the answer."""

    def claim(self, streams: Sequence[str]) -> dict[str, bool]:
        """Whether this worker has each stream, or another; what it has or could take is its own for another lease.

        A stream that is in no part of the answer went, or is being written at this moment by another.
        """
        return dict.fromkeys(streams, True)

    @abstractmethod
    def release(self) -> None:
        """Let other workers have what this one holds."""

    def _q(self, sql: str) -> str:
        return sql

    def _owned(self) -> tuple[str, tuple[Any, ...], str, tuple[Any, ...]]:
        """What an update sets beside, and asks for beside, so that only the holder writes; with their parameters."""
        return "", (), "", ()

    def _settled(self) -> str:
        """Asks for events no earlier one can still come before."""
        return ""

    # --- steps, which each database finds in its own way -----------------------------------------------------------

    @abstractmethod
    def _put(self, cursor: Any, changes: Changes) -> None:
        """Write the streams and their steps."""

    @abstractmethod
    def _put_old(self, cursor: Any, events: Sequence[Event]) -> None:
        """Write the steps of a stream that is new here."""

    @abstractmethod
    def _forget(self, cursor: Any, old: Sequence[tuple[str, int]]) -> None:
        """Remove the steps of each stream that are before a tick."""

    @abstractmethod
    def _forget_all(self, cursor: Any, stream: str) -> None:
        """Remove all steps of a stream."""

    @abstractmethod
    def _event(self, stream: str, tick: int) -> tuple[str, Any]:
        """What to ask for one step, with its parameters."""

    @abstractmethod
    def _events(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        """What to ask for the steps of a stream later than a tick, in one statement: they are of one moment."""

    # --- one transaction ---------------------------------------------------------------------------------------

    def commit(self, changes: Changes) -> None:
        """Write all or nothing, on disk when it returns."""
        with self.writing() as cursor:
            self._put(cursor, changes)
            self._update_groups(cursor, changes.groups)
            if self.keep is not None:
                old = [
                    (row.id, row.tick - self.keep)
                    for row, before in changes.streams
                    if crossed(row.id, before, row.tick, SWEEP, APART)
                ]
                if old:
                    self._forget(cursor, old)

    def _update(
        self,
        cursor: Any,
        streams: Sequence[tuple[StreamRow, int]],
        beside: str = "",
        given: Iterable[tuple[Any, ...]] = repeat(()),
    ) -> None:
        """Write streams that are still as they were read; `beside` is set too, to what is `given` for each."""
        if not streams:
            return
        sets, own, asks, asked = self._owned()
        cursor.executemany(
            self._q(
                "UPDATE streams SET tick = ?, spent = ?, alarms = ?, alarmed = ?, last_alarm = ?, last = ?, "
                f"next = ?, updated = ?, state = ?{beside}{sets} WHERE id = ? AND tick = ?"
                + (f" AND (group_id IS NOT NULL OR {asks})" if asks else "")
            ),
            [
                (
                    *(row.tick, row.spent, row.alarms, row.alarmed, row.last_alarm, row.last, row.next),
                    *(row.updated, row.state, *more, *own, row.id, before, *asked),
                )
                for (row, before), more in zip(streams, given, strict=False)
            ],
        )
        _expect(cursor.rowcount, len(streams))

    def _update_groups(self, cursor: Any, groups: Sequence[tuple[GroupRow, int]]) -> None:
        if not groups:
            return
        sets, own, asks, asked = self._owned()
        cursor.executemany(
            self._q(
                f"UPDATE stream_groups SET state = ?, version = ?{sets} WHERE id = ? AND version = ?"
                + (f" AND {asks}" if asks else "")
            ),
            [(row.state, row.version, *own, row.id, before, *asked) for row, before in groups],
        )
        _expect(cursor.rowcount, len(groups))

    def add_stream(self, row: StreamRow, events: Iterable[Event] = ()) -> None:
        """A new stream, with the steps it already had."""
        with self.writing() as cursor:
            cursor.execute(
                self._q(f"INSERT INTO streams ({_FACTS}, state) VALUES ({', '.join('?' * 16)})"),
                (
                    *(row.id, row.name, row.config, row.observers, row.budget, row.created, row.group, row.tick),
                    *(row.spent, row.alarms, row.alarmed, row.last_alarm, row.last, row.next, row.updated, row.state),
                ),
            )
            self._changed(cursor, row.group)
            self._put_old(cursor, list(events))

    def _changed(self, cursor: Any, group: str | None) -> None:
        """Whoever has the group in memory must read it again: it has more streams, or fewer."""
        if group is not None:
            cursor.execute(self._q("UPDATE stream_groups SET version = version + 1 WHERE id = ?"), (group,))

    def remove_stream(self, stream: str, group: str | None = None) -> bool:
        """Whether there was one to remove."""
        with self.writing() as cursor:
            self._changed(cursor, group)
            self._forget_all(cursor, stream)
            cursor.execute(self._q("DELETE FROM streams WHERE id = ?"), (stream,))
            return bool(cursor.rowcount)

    def add_group(self, row: GroupRow) -> None:
        """A new group."""
        with self.writing() as cursor:
            cursor.execute(
                self._q(
                    "INSERT INTO stream_groups (id, name, config, created, version, state) VALUES (?, ?, ?, ?, ?, ?)"
                ),
                (row.id, row.name, row.config, row.created, row.version, row.state),
            )

    def remove_group(self, group: str) -> bool:
        """Whether there was one to remove; it must have no streams."""
        with self.writing() as cursor:
            cursor.execute(self._q("DELETE FROM stream_groups WHERE id = ?"), (group,))
            return bool(cursor.rowcount)

    def probe(self) -> None:
        """See whether the store can be written, and has room for as much as a batch writes.

        What is there can often be written again where there is no room for more.
        """
        with self.writing() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")
            cursor.execute(
                self._q("INSERT INTO meta (key, value) VALUES ('probe', ?)"), (secrets.token_hex(PROBE // 2),)
            )
        with self.writing() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")

    def full(self) -> str:
        """Why there will soon be no room, where that can be known before."""
        return ""

    # --- reading -----------------------------------------------------------------------------------------------

    def stream(self, stream: str) -> StreamRow | None:
        """A stream as it is stored, whoever holds it."""
        with self.reading() as cursor:
            found = cursor.execute(self._q(f"{STREAM} WHERE id = ?"), (stream,)).fetchone()
        return None if found is None else stream_of(found)

    def streams(
        self, search: str = "", sort: str = "created", limit: int = 100, offset: int = 0, group: str | None = None
    ) -> tuple[list[StreamRow], int]:
        """Some streams, without their state, and how many there are; `search` is part of a name or an id."""
        plain = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").lower()
        like = f"%{plain}%"
        where = "WHERE (lower(name) LIKE ? ESCAPE '\\' OR lower(id) LIKE ? ESCAPE '\\')"
        given: tuple[Any, ...] = (like, like)
        if group is not None:
            where, given = f"{where} AND group_id = ?", (*given, group)
        with self.reading() as cursor:
            total = cursor.execute(self._q(f"SELECT count(*) FROM streams {where}"), given).fetchone()[0]
            rows = cursor.execute(
                self._q(f"SELECT {_FACTS} FROM streams {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?"),
                (*given, limit, offset),
            ).fetchall()
        return [stream_of((*row, b"")) for row in rows], int(total)

    def configs(self) -> list[str]:
        """All different configs of streams and groups, as they are stored."""
        with self.reading() as cursor:
            rows = cursor.execute("SELECT config FROM streams UNION SELECT config FROM stream_groups").fetchall()
        return [str(row[0]) for row in rows]

    def totals(self) -> dict[str, float]:
        """Streams, steps, spend and alarms of all streams together."""
        with self.reading() as cursor:
            found = cursor.execute(
                "SELECT count(*), coalesce(sum(tick), 0), coalesce(sum(spent), 0), coalesce(sum(alarms), 0) "
                "FROM streams"
            ).fetchone()
        return dict(zip(("streams", "ticks", "spent", "alarms"), map(float, found), strict=True))

    def group(self, group: str) -> GroupRow | None:
        """A group."""
        with self.reading() as cursor:
            found = cursor.execute(self._q(f"{GROUP} WHERE id = ?"), (group,)).fetchone()
        return None if found is None else GroupRow(*found)

    def groups(self, limit: int = 1000) -> list[GroupRow]:
        """All groups."""
        with self.reading() as cursor:
            return [GroupRow(*row) for row in cursor.execute(self._q(f"{GROUP} ORDER BY id LIMIT ?"), (limit,))]

    def members(self, group: str) -> int:
        """How many streams a group has."""
        with self.reading() as cursor:
            found = cursor.execute(self._q("SELECT count(*) FROM streams WHERE group_id = ?"), (group,)).fetchone()
        return int(found[0])

    def event(self, stream: str, tick: int) -> Event | None:
        """One step of a stream."""
        with self.reading() as cursor:
            found = cursor.execute(*self._event(stream, tick)).fetchone()
        return None if found is None else Event(*found)

    def events(self, stream: str, after: int, limit: int) -> list[Event]:
        """Steps of a stream later than a tick, in order."""
        with self.reading() as cursor:
            return [Event(*row) for row in cursor.execute(*self._events(stream, after, limit))]

    def tail(self, after: int, limit: int) -> list[Event]:
        """Steps of all streams later than a place, in order."""
        with self.reading() as cursor:
            rows = cursor.execute(
                self._q(f"{EVENT} WHERE seq > ?{self._settled()} ORDER BY seq LIMIT ?"), (after, limit)
            )
            return [Event(*row) for row in rows]

    def end(self) -> int:
        """The place of the latest step."""
        with self.reading() as cursor:
            found = cursor.execute(f"SELECT coalesce(max(seq), 0) FROM events WHERE true{self._settled()}").fetchone()
        return int(found[0])

    # --- tokens ------------------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """A new token."""
        with self.writing() as cursor:
            cursor.execute(
                self._q("INSERT INTO tokens (name, hash, scope, created) VALUES (?, ?, ?, ?)"),
                (token.name, token.hash, token.scope, token.created),
            )

    def remove_token(self, name: str) -> bool:
        """Whether there was one to remove."""
        with self.writing() as cursor:
            cursor.execute(self._q("DELETE FROM tokens WHERE name = ?"), (name,))
            return bool(cursor.rowcount)

    def tokens(self) -> list[Token]:
        """All tokens."""
        with self.reading() as cursor:
            return [
                Token(*row) for row in cursor.execute("SELECT name, hash, scope, created FROM tokens ORDER BY name")
            ]


def stream_of(row: Sequence[Any]) -> StreamRow:
    """A row of `STREAM`."""
    # a state that is no bytes is no state, which shows when it is used: the row can still be listed and deleted
    facts: tuple[Any, ...] = (*row[:-1], bytes(row[-1]) if isinstance(row[-1], (bytes, memoryview)) else b"")
    return StreamRow(*facts)


def crossed(stream: str, before: int, tick: int, every: int, apart: int = 1) -> bool:
    """Whether what is done every so many ticks is due; streams that tick together take turns, so many ticks `apart`.

    >>> [t for t in range(1, 1000) if crossed("a", t - 1, t, 256)]
    [189, 445, 701, 957]
    """
    phase = crc32(stream.encode()) * apart
    return (before + phase) // every != (tick + phase) // every


def _expect(changed: int, wanted: int) -> None:
    """Refuse a write to rows that are no longer as they were read: another worker has them."""
    if changed != wanted:
        raise UnavailableError("a stream went to another worker meanwhile")

"""The interface of a store, and the SQL that both databases share. Values are always passed as parameters."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import UnavailableError
from ..records import Event, GroupRow, StreamRow, Token

_COLUMNS = (
    "id, name, config, observers, budget, created, group_id, "
    "tick, spent, alarms, alarmed, last_alarm, last, next, updated"
)
SELECT_STREAM = f"SELECT {_COLUMNS}, state FROM streams"
SELECT_GROUP = "SELECT id, name, config, created, version, state FROM stream_groups"
SELECT_EVENT = "SELECT stream, tick, at, alarm, step, seq FROM events"

SORTS = {
    "alarm": "alarmed IS NULL, alarmed DESC, name, id",
    "name": "name, id",
    "updated": "updated DESC, id",
    "spent": "spent DESC, id",
    "created": "created, id",
}
"""The ORDER BY clause of each order in which streams can be listed."""

PROBE_BYTES = 262_144
"""Size of what `Store.probe` writes. It is random, because a database may compress other data."""
RETENTION_INTERVAL = 256
"""Ticks of a stream between two deletions of its old events."""
RETENTION_STAGGER = 64
"""Ticks between the deletions of streams that tick together.

The events of such streams share pages. Deleting for all streams at once makes one long transaction; a separate
deletion for each stream writes every page many times.
"""


@dataclass
class Loaded:
    """The result of `Store.load`."""

    streams: dict[str, StreamRow] = field(default_factory=dict)
    """Streams that now belong to this worker."""
    groups: dict[str, GroupRow] = field(default_factory=dict)
    """Groups that now belong to this worker."""
    owners: dict[str, str] = field(default_factory=dict)
    """The worker that owns each stream or group that this one could not get."""


@dataclass
class Changes:
    """The changes that one transaction writes."""

    streams: list[tuple[StreamRow, int]] = field(default_factory=list)
    """New rows, each with the tick of the stored row that it replaces."""
    groups: list[tuple[GroupRow, int]] = field(default_factory=list)
    """New rows, each with the version of the stored row that it replaces."""
    events: list[Event] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: Sequence[Changes]) -> Changes:
        """Consecutive changes as one: the last row of each stream and group, replacing what the first one did."""
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


class Ownership(NamedTuple):
    """SQL that an UPDATE needs in addition, so that only the owner of a row writes it."""

    assignments: str = ""
    """Appended to SET: extends the lease."""
    assigned: tuple[Any, ...] = ()
    """Parameters of `assignments`."""
    condition: str = ""
    """Required in WHERE: this worker owns the row."""
    required: tuple[Any, ...] = ()
    """Parameters of `condition`."""


class Store(ABC):
    """A database of streams, groups, events and tokens.

    `transaction` is used by one thread at a time, `cursor` by any number. Both raise `UnavailableError` if the
    database cannot be used at present.
    """

    keep: int | None = None
    """Number of latest steps kept per stream; None keeps all."""
    lease: float | None = None
    """Seconds for which a stream belongs to a worker; None where there is only one worker."""
    worker: str = ""
    """URL at which other workers reach this one."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A cursor in a transaction, which is durable on disk when the block ends."""

    @abstractmethod
    def cursor(self) -> AbstractContextManager[Any]:
        """A cursor that reads committed data."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """Lease streams, with their groups, and groups for this worker, and read them.

        Ids that do not exist are absent from the result.
        """

    def claim(self, streams: Sequence[str]) -> dict[str, bool]:
        """Lease streams without reading them; leases of this worker are extended.

        Returns
        -------
        dict of str to bool
            Whether this worker owns each stream; False if another one does. A stream that does not exist, or that
            another worker is writing at this moment, is absent.
        """
        return dict.fromkeys(streams, True)

    @abstractmethod
    def release(self) -> None:
        """End all leases of this worker, so that others can take its streams at once."""

    # --- differences between the databases -----------------------------------------------------------------------

    def _sql(self, sql: str) -> str:
        """SQL with the parameter marks of this database; it is given with ``?``."""
        return sql

    def _ownership(self) -> Ownership:
        return Ownership()

    def _only_settled(self) -> str:
        """A condition that excludes events which an event of an uncommitted transaction may still precede."""
        return ""

    @abstractmethod
    def _write_ticks(self, cursor: Any, changes: Changes) -> None:
        """Update streams and insert their new events."""

    @abstractmethod
    def _insert_history(self, cursor: Any, events: Sequence[Event]) -> None:
        """Insert the events of a stream that has none yet."""

    @abstractmethod
    def _delete_before(self, cursor: Any, limits: Sequence[tuple[str, int]]) -> None:
        """Delete the events of each stream that are before a tick, given as (stream, tick)."""

    @abstractmethod
    def _delete_events(self, cursor: Any, stream: str) -> None:
        """Delete all events of a stream."""

    @abstractmethod
    def _event_query(self, stream: str, tick: int) -> tuple[str, Any]:
        """A query for one event, and its parameters."""

    @abstractmethod
    def _events_query(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        """A query for the events of a stream after a tick, and its parameters.

        It is a single statement, so that its result is consistent.
        """

    # --- writing -------------------------------------------------------------------------------------------------

    def commit(self, changes: Changes) -> None:
        """Write changes in one transaction, durable when this returns.

        Raises
        ------
        UnavailableError
            If the database cannot be written, or a row is no longer the one that the changes replace. Nothing was
            written then.
        """
        with self.transaction() as cursor:
            self._write_ticks(cursor, changes)
            self._update_groups(cursor, changes.groups)
            if self.keep is not None:
                old = [
                    (row.id, row.tick - self.keep)
                    for row, before in changes.streams
                    if is_due(row.id, before, row.tick, RETENTION_INTERVAL, RETENTION_STAGGER)
                ]
                if old:
                    self._delete_before(cursor, old)

    def _update_streams(
        self,
        cursor: Any,
        streams: Sequence[tuple[StreamRow, int]],
        extra: str = "",
        values: Iterable[tuple[Any, ...]] = repeat(()),
    ) -> None:
        """Update streams whose stored row is still the expected one.

        Parameters
        ----------
        cursor : database cursor
        streams : list of (StreamRow, int)
            New rows, each with the tick that the stored row must have.
        extra : str
            Additional assignments.
        values : iterable of tuple
            Their parameters, for each stream.
        """
        if not streams:
            return
        own = self._ownership()
        cursor.executemany(
            self._sql(
                "UPDATE streams SET tick = ?, spent = ?, alarms = ?, alarmed = ?, last_alarm = ?, last = ?, "
                f"next = ?, updated = ?, state = ?{extra}{own.assignments} WHERE id = ? AND tick = ?"
                # a stream of a group is owned through its group, whose row is updated in the same transaction
                + (f" AND (group_id IS NOT NULL OR {own.condition})" if own.condition else "")
            ),
            [
                (
                    *(row.tick, row.spent, row.alarms, row.alarmed, row.last_alarm, row.last, row.next),
                    *(row.updated, row.state, *more, *own.assigned, row.id, before, *own.required),
                )
                for (row, before), more in zip(streams, values, strict=False)
            ],
        )
        _require_rows(cursor.rowcount, len(streams))

    def _update_groups(self, cursor: Any, groups: Sequence[tuple[GroupRow, int]]) -> None:
        if not groups:
            return
        own = self._ownership()
        cursor.executemany(
            self._sql(
                f"UPDATE stream_groups SET state = ?, version = ?{own.assignments} WHERE id = ? AND version = ?"
                + (f" AND {own.condition}" if own.condition else "")
            ),
            [(row.state, row.version, *own.assigned, row.id, before, *own.required) for row, before in groups],
        )
        _require_rows(cursor.rowcount, len(groups))

    def add_stream(self, row: StreamRow, events: Iterable[Event] = ()) -> None:
        """Insert a stream, with its past events."""
        with self.transaction() as cursor:
            cursor.execute(
                self._sql(f"INSERT INTO streams ({_COLUMNS}, state) VALUES ({', '.join('?' * 16)})"),
                (
                    *(row.id, row.name, row.config, row.observers, row.budget, row.created, row.group, row.tick),
                    *(row.spent, row.alarms, row.alarmed, row.last_alarm, row.last, row.next, row.updated, row.state),
                ),
            )
            self._bump_version(cursor, row.group)
            self._insert_history(cursor, list(events))

    def _bump_version(self, cursor: Any, group: str | None) -> None:
        """Invalidate cached copies of a group whose number of streams changes."""
        if group is not None:
            cursor.execute(self._sql("UPDATE stream_groups SET version = version + 1 WHERE id = ?"), (group,))

    def remove_stream(self, stream: str, group: str | None = None) -> bool:
        """Delete a stream of this group, with its events; False if there is none."""
        with self.transaction() as cursor:
            self._bump_version(cursor, group)
            self._delete_events(cursor, stream)
            cursor.execute(self._sql("DELETE FROM streams WHERE id = ?"), (stream,))
            return bool(cursor.rowcount)

    def add_group(self, row: GroupRow) -> None:
        """Insert a group."""
        with self.transaction() as cursor:
            cursor.execute(
                self._sql(
                    "INSERT INTO stream_groups (id, name, config, created, version, state) VALUES (?, ?, ?, ?, ?, ?)"
                ),
                (row.id, row.name, row.config, row.created, row.version, row.state),
            )

    def remove_group(self, group: str) -> bool:
        """Delete a group without streams; False if there is none."""
        with self.transaction() as cursor:
            cursor.execute(self._sql("DELETE FROM stream_groups WHERE id = ?"), (group,))
            return bool(cursor.rowcount)

    def probe(self) -> None:
        """Test whether the store has space for as much as a batch writes.

        On a full disk existing rows can often still be updated, so that an update would prove nothing.
        """
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")
            cursor.execute(
                self._sql("INSERT INTO meta (key, value) VALUES ('probe', ?)"), (secrets.token_hex(PROBE_BYTES // 2),)
            )
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")

    def space_problem(self) -> str:
        """Why the store will soon be full, where that can be predicted; otherwise empty."""
        return ""

    # --- reading -------------------------------------------------------------------------------------------------

    def stream(self, stream: str) -> StreamRow | None:
        """A stream as it is stored, whichever worker owns it."""
        with self.cursor() as cursor:
            found = cursor.execute(self._sql(f"{SELECT_STREAM} WHERE id = ?"), (stream,)).fetchone()
        return None if found is None else stream_row(found)

    def streams(
        self, search: str = "", sort: str = "created", limit: int = 100, offset: int = 0, group: str | None = None
    ) -> tuple[list[StreamRow], int]:
        """A page of streams without their states, and the number of all that match.

        Parameters
        ----------
        search : str
            Part of a name or an id, in any case.
        sort : str
            A key of `SORTS`.
        limit, offset : int
            The page.
        group : str, optional
            Only streams of this group.
        """
        escaped = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").lower()
        like = f"%{escaped}%"
        where = "WHERE (lower(name) LIKE ? ESCAPE '\\' OR lower(id) LIKE ? ESCAPE '\\')"
        values: tuple[Any, ...] = (like, like)
        if group is not None:
            where, values = f"{where} AND group_id = ?", (*values, group)
        with self.cursor() as cursor:
            total = cursor.execute(self._sql(f"SELECT count(*) FROM streams {where}"), values).fetchone()[0]
            rows = cursor.execute(
                self._sql(f"SELECT {_COLUMNS} FROM streams {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?"),
                (*values, limit, offset),
            ).fetchall()
        return [stream_row((*row, b"")) for row in rows], int(total)

    def configs(self) -> list[str]:
        """The distinct configurations of all streams and groups, as stored."""
        with self.cursor() as cursor:
            rows = cursor.execute("SELECT config FROM streams UNION SELECT config FROM stream_groups").fetchall()
        return [str(row[0]) for row in rows]

    def totals(self) -> dict[str, float]:
        """Number of streams, and the ticks, spend and alarms of all streams together."""
        with self.cursor() as cursor:
            found = cursor.execute(
                "SELECT count(*), coalesce(sum(tick), 0), coalesce(sum(spent), 0), coalesce(sum(alarms), 0) "
                "FROM streams"
            ).fetchone()
        return dict(zip(("streams", "ticks", "spent", "alarms"), map(float, found), strict=True))

    def group(self, group: str) -> GroupRow | None:
        """A group as it is stored."""
        with self.cursor() as cursor:
            found = cursor.execute(self._sql(f"{SELECT_GROUP} WHERE id = ?"), (group,)).fetchone()
        return None if found is None else GroupRow(*found)

    def groups(self, limit: int = 1000) -> list[GroupRow]:
        """Groups, ordered by id."""
        with self.cursor() as cursor:
            rows = cursor.execute(self._sql(f"{SELECT_GROUP} ORDER BY id LIMIT ?"), (limit,))
            return [GroupRow(*row) for row in rows]

    def group_size(self, group: str) -> int:
        """Number of streams of a group."""
        with self.cursor() as cursor:
            found = cursor.execute(self._sql("SELECT count(*) FROM streams WHERE group_id = ?"), (group,)).fetchone()
        return int(found[0])

    def event(self, stream: str, tick: int) -> Event | None:
        """The event of one tick of a stream."""
        with self.cursor() as cursor:
            found = cursor.execute(*self._event_query(stream, tick)).fetchone()
        return None if found is None else Event(*found)

    def events(self, stream: str, after: int, limit: int) -> list[Event]:
        """Events of a stream after a tick, in order."""
        with self.cursor() as cursor:
            return [Event(*row) for row in cursor.execute(*self._events_query(stream, after, limit))]

    def events_after(self, seq: int, limit: int) -> list[Event]:
        """Events of all streams after a sequence number, in order."""
        with self.cursor() as cursor:
            rows = cursor.execute(
                self._sql(f"{SELECT_EVENT} WHERE seq > ?{self._only_settled()} ORDER BY seq LIMIT ?"), (seq, limit)
            )
            return [Event(*row) for row in rows]

    def last_seq(self) -> int:
        """The sequence number of the latest event; 0 if there is none."""
        with self.cursor() as cursor:
            found = cursor.execute(f"SELECT max(seq) FROM events WHERE true{self._only_settled()}").fetchone()
        return int(found[0] or 0)

    # --- tokens --------------------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """Insert a token."""
        with self.transaction() as cursor:
            cursor.execute(
                self._sql("INSERT INTO tokens (name, hash, scope, created) VALUES (?, ?, ?, ?)"),
                (token.name, token.hash, token.scope, token.created),
            )

    def remove_token(self, name: str) -> bool:
        """Delete a token; False if there is none."""
        with self.transaction() as cursor:
            cursor.execute(self._sql("DELETE FROM tokens WHERE name = ?"), (name,))
            return bool(cursor.rowcount)

    def tokens(self) -> list[Token]:
        """All tokens, ordered by name."""
        with self.cursor() as cursor:
            rows = cursor.execute("SELECT name, hash, scope, created FROM tokens ORDER BY name")
            return [Token(*row) for row in rows]


def stream_row(values: Sequence[Any]) -> StreamRow:
    """The row of `SELECT_STREAM`. A state that is not bytes becomes empty.

    Such a row is damaged, which is reported when the state is used. It can still be listed and deleted.
    """
    state = bytes(values[-1]) if isinstance(values[-1], (bytes, memoryview)) else b""
    fields: tuple[Any, ...] = (*values[:-1], state)
    return StreamRow(*fields)


def is_due(stream: str, before: int, tick: int, interval: int, stagger: int = 1) -> bool:
    """Whether a task that a stream does every `interval` ticks is due between two ticks.

    Streams that tick together do it at different ticks, which are multiples of `stagger` apart.

    >>> [t for t in range(1, 1000) if is_due("a", t - 1, t, 256)]
    [189, 445, 701, 957]
    """
    phase = crc32(stream.encode()) * stagger
    return (before + phase) // interval != (tick + phase) // interval


def _require_rows(updated: int, expected: int) -> None:
    """Fail the transaction if a row was not the expected one: another worker has written it."""
    if updated != expected:
        raise UnavailableError("a stream went to another worker meanwhile")

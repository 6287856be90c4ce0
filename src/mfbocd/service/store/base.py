"""The interface of a store, and the statements that both databases share. Values are always passed as parameters."""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import UnavailableError
from ..instruments import Counter
from ..records import Event, GroupRow, StreamRow, Token
from . import notes, outbox
from .reader import COLUMNS, StoreReader
from .totals import add_removed, fold_group, removed_usage

TICK_COLUMNS = ("tick", "spent", "alarms", "alarmed", "last_alarm", "last", "next", "updated", "state")
"""What a tick changes in the row of its stream."""
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


class Store(StoreReader):
    """A database of streams, groups, events and tokens.

    Any number of threads may use it. `transaction` and `cursor` raise `UnavailableError` if the database cannot be
    used at present.
    """

    keep: int | None = None
    """Number of latest steps kept per stream; None keeps all."""
    lease: float | None = None
    """Seconds for which a stream belongs to a worker; None where there is only one worker."""
    worker: str = ""
    """URL at which other workers reach this one."""
    on_alarms: Callable[[], None] | None = None
    """Called after a commit with alarms. If it is set, alarms are put into the outbox."""

    @cached_property
    def failures(self) -> Counter:
        """Number of failed reads and writes."""
        return Counter(
            "mfbocd_store_failures_total",
            "Reads and transactions that the database refused or did not finish.",
            ("operation",),
            [("read",), ("write",)],
        )

    @cached_property
    def _epoch(self) -> float:
        return time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970 by a clock that all workers share, and that does not jump where there is only one."""
        return self._epoch + time.monotonic()

    def _unavailable(self, operation: str, error: str) -> UnavailableError:
        """Count a failure, and return it as an exception."""
        self.failures.add(operation)
        return UnavailableError(error)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A cursor in a transaction, which is durable on disk when the block ends."""

    @abstractmethod
    def snapshot_cursor(self) -> AbstractContextManager[Any]:
        """A cursor that reads the data as they are at its first statement, whatever is committed afterwards."""

    @contextmanager
    def snapshot(self) -> Iterator[StoreReader]:
        """Read the store as it is at the first query, while it is being written; the writers do not wait."""
        with self.snapshot_cursor() as cursor:
            yield _Snapshot(self, cursor)

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

    def _ownership(self) -> Ownership:
        return Ownership()

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
            notify = self.on_alarms
            has_alarms = notify is not None and outbox.put(cursor, self.sql, changes) > 0
            if self.keep is not None:
                old = [
                    (row.id, row.tick - self.keep)
                    for row, before in changes.streams
                    if is_due(row.id, before, row.tick, RETENTION_INTERVAL, RETENTION_STAGGER)
                ]
                if old:
                    self._delete_before(cursor, old)
        if notify is not None and has_alarms:
            notify()

    def _update_groups(self, cursor: Any, groups: Sequence[tuple[GroupRow, int]]) -> None:
        if not groups:
            return
        own = self._ownership()
        cursor.executemany(
            self.sql(
                f"UPDATE stream_groups SET state = ?, version = ?{own.assignments} WHERE id = ? AND version = ?"
                + (f" AND {own.condition}" if own.condition else "")
            ),
            [(row.state, row.version, *own.assigned, row.id, before, *own.required) for row, before in groups],
        )
        require_rows(cursor.rowcount, len(groups))

    def add_stream(self, row: StreamRow, events: Iterable[Event] = (), written: Sequence[notes.Note] = ()) -> None:
        """Insert a stream, with its past events and the notes on its alarms."""
        with self.transaction() as cursor:
            cursor.execute(
                self.sql(f"INSERT INTO streams ({COLUMNS}, state) VALUES ({', '.join('?' * 16)})"),
                (
                    *(row.id, row.name, row.config, row.observers, row.budget, row.created, row.group, row.tick),
                    *(row.spent, row.alarms, row.alarmed, row.last_alarm, row.last, row.next, row.updated, row.state),
                ),
            )
            self._bump_version(cursor, row.group)
            self._insert_history(cursor, list(events))
            notes.insert_history(cursor, self.sql, written)

    def _bump_version(self, cursor: Any, group: str | None) -> None:
        """Invalidate cached copies of a group whose number of streams changes."""
        if group is not None:
            cursor.execute(self.sql("UPDATE stream_groups SET version = version + 1 WHERE id = ?"), (group,))

    def remove_stream(self, stream: str, group: str | None = None) -> bool:
        """Delete a stream of this group, with its events and notes; False if there is none."""
        with self.transaction() as cursor:
            self._bump_version(cursor, group)
            self._delete_events(cursor, stream)
            notes.delete(cursor, self.sql, stream)
            sql = "DELETE FROM streams WHERE id = ? RETURNING coalesce(group_id, ''), tick, spent, alarms"
            found = cursor.execute(self.sql(sql), (stream,)).fetchone()
            if found is None:
                return False
            add_removed(cursor, self.sql, str(found[0]), *removed_usage(*found[1:]))
            return True

    def add_group(self, row: GroupRow) -> None:
        """Insert a group."""
        with self.transaction() as cursor:
            cursor.execute(
                self.sql(
                    "INSERT INTO stream_groups (id, name, config, created, version, state) VALUES (?, ?, ?, ?, ?, ?)"
                ),
                (row.id, row.name, row.config, row.created, row.version, row.state),
            )

    def remove_group(self, group: str) -> bool:
        """Delete a group without streams; False if there is none."""
        with self.transaction() as cursor:
            cursor.execute(self.sql("DELETE FROM stream_groups WHERE id = ?"), (group,))
            removed = bool(cursor.rowcount)
            fold_group(cursor, self.sql, group)
            return removed

    def probe(self) -> None:
        """Test whether the store has space for as much as a batch writes.

        On a full disk existing rows can often still be updated, so that an update would prove nothing.
        """
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")
            cursor.execute(
                self.sql("INSERT INTO meta (key, value) VALUES ('probe', ?)"), (secrets.token_hex(PROBE_BYTES // 2),)
            )
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'probe'")

    def free_bytes(self) -> int | None:
        """Free space where the data are; None where that is not known."""
        return None

    def space_problem(self) -> str:
        """Why the store will soon be full, where that can be predicted; otherwise empty."""
        return ""

    # --- tokens --------------------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """Insert a token."""
        with self.transaction() as cursor:
            cursor.execute(
                self.sql("INSERT INTO tokens (name, hash, scope, created) VALUES (?, ?, ?, ?)"),
                (token.name, token.hash, token.scope, token.created),
            )

    def remove_token(self, name: str) -> bool:
        """Delete a token; False if there is none."""
        with self.transaction() as cursor:
            cursor.execute(self.sql("DELETE FROM tokens WHERE name = ?"), (name,))
            return bool(cursor.rowcount)


class _Snapshot(StoreReader):
    """Reads with one cursor, whose transaction determines what it sees."""

    def __init__(self, store: Store, cursor: Any) -> None:
        self._store, self._cursor = store, cursor

    def sql(self, sql: str) -> str:
        """SQL with the parameter marks of the store."""
        return self._store.sql(sql)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """The cursor of the snapshot."""
        yield self._cursor

    def _only_settled(self) -> str:
        return self._store._only_settled()

    def _number_in(self, column: str, field: str) -> str:
        return self._store._number_in(column, field)

    def _lower(self, column: str) -> str:
        return self._store._lower(column)

    def _event_query(self, stream: str, tick: int) -> tuple[str, Any]:
        return self._store._event_query(stream, tick)

    def _events_query(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        return self._store._events_query(stream, after, limit)


def is_due(stream: str, before: int, tick: int, interval: int, stagger: int = 1) -> bool:
    """Whether a task that a stream does every `interval` ticks is due between two ticks.

    Streams that tick together do it at different ticks, which are multiples of `stagger` apart.

    >>> [t for t in range(1, 1000) if is_due("a", t - 1, t, 256)]
    [189, 445, 701, 957]
    """
    phase = crc32(stream.encode()) * stagger
    return (before + phase) // interval != (tick + phase) // interval


def tick_values(row: StreamRow) -> tuple[Any, ...]:
    """The values of `TICK_COLUMNS`."""
    return (
        *(row.tick, row.spent, row.alarms, row.alarmed, row.last_alarm, row.last),
        *(row.next, row.updated, row.state),
    )


def require_rows(updated: int, expected: int) -> None:
    """Fail the transaction if a row was not the expected one: another worker has written it."""
    if updated != expected:
        raise UnavailableError("a stream went to another worker meanwhile")

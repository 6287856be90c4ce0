"""The store in PostgreSQL, for several workers: a stream belongs to one of them at a time, by a lease."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import RequestError, UnavailableError
from ..records import Event, GroupRow
from .base import EVENT, GROUP, STREAM, Changes, Loaded, Store, stream_of
from .schema import plan

_LOCK = 0x6D66626F6364  # of the one that makes or migrates the tables
_NOW = "extract(epoch FROM clock_timestamp())"
PATIENCE = 30.0
"""Seconds a statement may run."""


class PostgresStore(Store):
    """A store in a database that others share.

    `worker` is the address at which other workers reach this one. Without it, nothing is held. `patience` is for how
    many seconds a statement may run; a worker gives up a transaction that takes a little longer.
    """

    def __init__(
        self,
        address: str,
        *,
        keep: int | None = None,
        worker: str = "",
        lease: float = 10.0,
        patience: float = PATIENCE,
    ) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool, PoolTimeout
        except ImportError:
            raise ImportError("PostgreSQL needs psycopg: pip install 'mfbocd[postgres]'") from None
        self.keep, self.worker, self.lease = keep, worker, lease
        self._errors = (psycopg.Error, PoolTimeout)
        self._broken = psycopg.errors.IntegrityError
        try:
            given = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise ValueError(f"cannot use the database: {_said(error)}") from None
        # whoever takes in a large stream, with no worker to keep waiting, may take longer
        self._silence = Silence(patience + 5.0 if worker else 0.0)
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=4,
            timeout=5.0,
            open=False,
            kwargs={"autocommit": True, **_timeouts(patience, given)},
            check=self._check,
        )
        try:
            self._pool.open(wait=True, timeout=10.0)
            self._migrate()
        except self._errors as error:
            self.close()
            raise ValueError(f"cannot use the database: {_said(error)}") from None
        except BaseException:
            self.close()
            raise

    def _check(self, connection: Any) -> None:
        with self._silence.bounded(connection):
            self._pool.check_connection(connection)

    def _migrate(self) -> None:
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")  # a large database may take its time
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            there = connection.execute("SELECT to_regclass('meta')").fetchone()
            found = None
            if there is not None and there[0] is not None:
                row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
                found = None if row is None else int(row[0])
            for statement in plan(found, postgres=True):
                connection.execute(statement.encode())

    def _q(self, sql: str) -> str:
        return sql.replace("?", "%s")

    def _owned(self) -> tuple[str, tuple[Any, ...], str, tuple[Any, ...]]:
        return ", owner = ?, until = " + _NOW + " + ?", (self.worker, self.lease), "owner = ?", (self.worker,)

    def _settled(self) -> str:
        return " AND xact < pg_snapshot_xmin(pg_current_snapshot())"

    def _put(self, cursor: Any, changes: Changes) -> None:
        self._update(cursor, changes.streams)
        self._put_old(cursor, changes.events)

    def _put_old(self, cursor: Any, events: Sequence[Event]) -> None:
        if events:
            cursor.executemany(
                "INSERT INTO events (stream, tick, at, alarm, step) VALUES (%s, %s, %s, %s, %s)",
                [(e.stream, e.tick, e.at, int(e.alarm), e.step) for e in events],
            )

    def _forget(self, cursor: Any, old: Sequence[tuple[str, int]]) -> None:
        cursor.executemany("DELETE FROM events WHERE stream = %s AND tick < %s", old)

    def _forget_all(self, cursor: Any, stream: str) -> None:
        cursor.execute("DELETE FROM events WHERE stream = %s", (stream,))

    def _event(self, stream: str, tick: int) -> tuple[str, Any]:
        return f"{EVENT} WHERE stream = %s AND tick = %s", (stream, tick)

    def _events(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        return f"{EVENT} WHERE stream = %s AND tick > %s ORDER BY tick LIMIT %s", (stream, after, limit)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """One transaction, on disk when the block ends."""
        try:
            with (
                self._pool.connection() as connection,
                self._silence.bounded(connection),
                connection.transaction(),
                connection.cursor() as cursor,
            ):
                cursor.execute("SET LOCAL synchronous_commit = on")
                yield cursor
        except self._broken as error:
            raise RequestError(409, f"the store holds it already, or holds what needs it: {_said(error)}") from None
        except self._errors as error:
            raise UnavailableError(_said(error)) from None

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A cursor that sees what is committed."""
        try:
            with (
                self._pool.connection() as connection,
                self._silence.bounded(connection),
                connection.cursor() as cursor,
            ):
                yield cursor
        except self._errors as error:
            raise UnavailableError(_said(error)) from None

    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """Lease what nobody else has: a stream of a group goes with its group.

        Rows that another worker is taking at this moment are passed over, not waited for.
        """
        loaded = Loaded()
        with self.writing() as cursor:
            lone, members, wanted = self._named(cursor, streams)
            wanted = sorted({*wanted, *groups})
            mine = set(self._take(cursor, "stream_groups", wanted))
            taken = self._take(cursor, "streams", lone)
            held = [*taken, *(stream for stream, group in members.items() if group in mine)]
            for row in cursor.execute(f"{STREAM} WHERE id = ANY(%s)", (held,)):
                loaded.streams[row[0]] = stream_of(row)
            for row in cursor.execute(f"{GROUP} WHERE id = ANY(%s)", (list(mine),)):
                loaded.groups[row[0]] = GroupRow(*row)
            theirs = self._owners(cursor, "stream_groups", set(wanted) - mine)
            loaded.elsewhere = theirs | self._owners(cursor, "streams", set(lone) - set(taken))
            loaded.elsewhere |= {stream: theirs[group] for stream, group in members.items() if group in theirs}
        return loaded

    def claim(self, streams: Sequence[str]) -> dict[str, bool]:
        """As `load` without reading; a lease with more than half of its time left is not written again."""
        with self.writing() as cursor:
            lone, members, wanted = self._named(cursor, streams)
            groups = self._renewed(cursor, "stream_groups", wanted)
            found = self._renewed(cursor, "streams", lone)
        return found | {stream: groups[group] for stream, group in members.items() if group in groups}

    def _named(self, cursor: Any, streams: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
        """Of these streams those of no group, the group of the others, and these groups."""
        named = cursor.execute("SELECT id, group_id FROM streams WHERE id = ANY(%s)", (list(streams),)).fetchall()
        members = {stream: group for stream, group in named if group is not None}
        return [stream for stream, group in named if group is None], members, sorted(set(members.values()))

    def _renewed(self, cursor: Any, table: str, ids: Sequence[str]) -> dict[str, bool]:
        """Whether this worker has a row, or another: one that is locked may be about to go."""
        rows = cursor.execute(
            f"SELECT id FROM {table} WHERE id = ANY(%s) AND owner = %s AND until > {_NOW} + %s * 0.5",
            (list(ids), self.worker, self.lease),
        )
        mine = {row[0] for row in rows}
        if rest := set(ids) - mine:
            mine.update(self._take(cursor, table, sorted(rest)))
        left = rest - mine
        others = self._owners(cursor, table, left) if left else {}
        theirs = (name for name, owner in others.items() if owner not in ("", self.worker))
        return dict.fromkeys(mine, True) | dict.fromkeys(theirs, False)

    def _take(self, cursor: Any, table: str, ids: Sequence[str]) -> list[str]:
        """Of these rows, those this worker now has."""
        found = cursor.execute(
            f"UPDATE {table} SET owner = %s, until = {_NOW} + %s WHERE id IN (SELECT id FROM {table} "
            f"WHERE id = ANY(%s) AND (owner IS NULL OR owner = %s OR until < {_NOW}) FOR UPDATE SKIP LOCKED) "
            "RETURNING id",
            (self.worker, self.lease, list(ids), self.worker),
        )
        return [row[0] for row in found]

    def _owners(self, cursor: Any, table: str, ids: set[str]) -> dict[str, str]:
        rows = cursor.execute(f"SELECT id, coalesce(owner, '') FROM {table} WHERE id = ANY(%s)", (list(ids),))
        return dict(rows.fetchall())

    def release(self) -> None:
        """Let other workers have what this one holds, at once rather than when the leases end."""
        if not self.worker:
            return
        with suppress(UnavailableError), self.writing() as cursor:  # if not, the leases end by themselves
            for table in ("streams", "stream_groups"):
                cursor.execute(f"UPDATE {table} SET owner = NULL, until = NULL WHERE owner = %s", (self.worker,))

    def close(self) -> None:
        """Let go of the database."""
        self._silence.stop()
        self._pool.close()


class Silence(threading.Thread):
    """Breaks connections that somebody has waited for too long.

    Neither the server's own timeouts nor those of TCP help against a server that is stopped while its machine goes
    on, and the driver has none.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(name="mfbocd-silence", daemon=True)
        self.seconds = seconds
        self._since: dict[int, tuple[float, Any]] = {}
        self._stopping = threading.Event()
        if seconds:
            self.start()

    @contextmanager
    def bounded(self, connection: Any) -> Iterator[None]:
        """A connection that is broken if the block does not end in time; what then waits for it fails."""
        if not self.seconds:
            yield
            return
        self._since[id(connection)] = time.monotonic(), connection
        try:
            yield
        finally:
            self._since.pop(id(connection), None)

    def run(self) -> None:
        """Look from time to time, until it is stopped."""
        while not self._stopping.wait(min(1.0, 0.2 * self.seconds)):
            for since, connection in list(self._since.values()):
                if time.monotonic() - since > self.seconds:
                    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as found:
                        found.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End."""
        self._stopping.set()


def _timeouts(patience: float, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of a connection, but for what its address says itself."""
    wanted: dict[str, Any] = {
        "connect_timeout": 5,
        "options": f"-c statement_timeout={round(1000 * patience)}",
        **{"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
        "tcp_user_timeout": round(1000 * patience),
    }
    return {name: value for name, value in wanted.items() if name not in given}


def _said(error: Exception) -> str:
    """What a driver said, in one line; its addresses hold no password."""
    return " ".join(str(error).split())[:300]

"""A store in PostgreSQL, for several workers: a stream belongs to one worker at a time, by a lease that expires."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import MissingDatabaseError, RequestError, UnavailableError
from ..records import Event
from .base import TICK_COLUMNS, Changes, Loaded, Ownership, Store, require_rows, tick_values
from .reader import SELECT_EVENT, SELECT_GROUP, SELECT_STREAM, group_row, stream_row
from .schema import upgrade_statements

_UPGRADE_LOCK = 0x6D66626F6364  # advisory lock: one worker creates or migrates the tables
_NOW = "extract(epoch FROM clock_timestamp())"
_SETTLE = """
UPDATE events SET xact = '0' WHERE xact >= pg_snapshot_xmax(pg_current_snapshot())
AND (SELECT xact FROM events ORDER BY seq DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot())"""
"""Settles the events that a restored dump contains. Their transactions are of another server, which may have had more
than this one, so that they would seem to be in the future. Only the latest event is read if there are none."""
STATEMENT_TIMEOUT = 30.0
"""Seconds a statement may run."""


class PostgresStore(Store):
    """A store in a shared database; see `open_store` for the other parameters.

    Parameters
    ----------
    url : str
        ``postgresql://...``
    timeout : float
        Seconds a statement may run. A worker breaks a connection that has not answered 5 seconds later.
    """

    def __init__(
        self,
        url: str,
        *,
        keep: int | None = None,
        worker: str = "",
        lease: float = 10.0,
        timeout: float = STATEMENT_TIMEOUT,
        create: bool = True,
    ) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool, PoolTimeout
        except ImportError:
            raise ImportError("PostgreSQL needs psycopg: pip install 'mfbocd[postgres]'") from None
        self.keep, self.worker, self.lease = keep, worker, lease
        self._errors = (psycopg.Error, PoolTimeout)
        self._integrity_error = psycopg.errors.IntegrityError
        try:
            given = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ValueError(f"cannot use the database: {_one_line(error)}") from None
        # a command such as `mfbocd state import` is no worker: a large stream may take longer, and nobody waits
        self._watchdog = Watchdog(timeout + 5.0 if worker else 0.0)
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=4,
            timeout=5.0,
            open=False,
            kwargs={"autocommit": True, **_timeouts(timeout, given)},
            check=self._check,
        )
        try:
            self._pool.open(wait=True, timeout=10.0)
            self._upgrade(create)
        except self._errors as error:
            self.close()
            raise ValueError(f"cannot use the database: {_one_line(error)}") from None
        except BaseException:
            self.close()
            raise

    def _check(self, connection: Any) -> None:
        with self._watchdog.guard(connection):
            self._pool.check_connection(connection)

    def _upgrade(self, create: bool) -> None:
        """Create or migrate the tables."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")  # migrating a large database may take long
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_UPGRADE_LOCK,))
            table = connection.execute("SELECT to_regclass('meta')").fetchone()
            found = None
            if table is not None and table[0] is not None:
                row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
                found = None if row is None else int(row[0])
            if found is None and not create:
                raise MissingDatabaseError("the PostgreSQL database has no tables of mfbocd")
            for statement in upgrade_statements(found, "postgres"):
                connection.execute(statement.encode())
            if self.worker:  # a command may only read, such as from a replica
                connection.execute(_SETTLE)

    def now(self) -> float:
        """Seconds since 1970 by the clock of the database."""
        with self.cursor() as cursor:
            return float(cursor.execute(f"SELECT {_NOW}").fetchone()[0])

    def sql(self, sql: str) -> str:
        """SQL with psycopg's parameter marks."""
        return sql.replace("?", "%s")

    def _ownership(self) -> Ownership:
        extend = f", owner = ?, until = {_NOW} + ?"
        return Ownership(extend, (self.worker, self.lease), "owner = ?", (self.worker,))

    def _only_settled(self) -> str:
        return " AND xact < pg_snapshot_xmin(pg_current_snapshot())"

    def _write_ticks(self, cursor: Any, changes: Changes) -> None:
        if changes.streams:
            own = self._ownership()
            # a stream of a group is owned through its group, whose row is updated in the same transaction
            cursor.executemany(
                f"UPDATE streams SET {', '.join(f'{name} = %s' for name in TICK_COLUMNS)}{self.sql(own.assignments)} "
                f"WHERE id = %s AND tick = %s AND (group_id IS NOT NULL OR {self.sql(own.condition)})",
                [
                    (*tick_values(row), *own.assigned, row.id, before, *own.required)
                    for row, before in changes.streams
                ],
            )
            require_rows(cursor.rowcount, len(changes.streams))
        self._insert_history(cursor, changes.events)

    def _insert_history(self, cursor: Any, events: Sequence[Event]) -> None:
        if events:
            cursor.executemany(
                "INSERT INTO events (stream, tick, at, alarm, step) VALUES (%s, %s, %s, %s, %s)",
                [(e.stream, e.tick, e.at, int(e.alarm), e.step) for e in events],
            )

    def _delete_before(self, cursor: Any, limits: Sequence[tuple[str, int]]) -> None:
        cursor.executemany("DELETE FROM events WHERE stream = %s AND tick < %s", limits)

    def _delete_events(self, cursor: Any, stream: str) -> None:
        cursor.execute("DELETE FROM events WHERE stream = %s", (stream,))

    def _number_in(self, column: str, field: str) -> str:
        # a cast to json fails on a damaged row, and with it the whole query; quotation marks in strings are escaped
        number = r"-{0,1}[0-9]+(\.[0-9]+){0,1}([eE][-+]{0,1}[0-9]{1,3}){0,1}"  # no question marks: see `sql`
        return f"""CAST(substring({column} from '"{field}":\\[{{0,1}}({number})') AS numeric)"""

    def _lower(self, column: str) -> str:
        return f"lower({column})"

    def _event_query(self, stream: str, tick: int) -> tuple[str, Any]:
        return f"{SELECT_EVENT} WHERE stream = %s AND tick = %s", (stream, tick)

    def _events_query(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        return f"{SELECT_EVENT} WHERE stream = %s AND tick > %s ORDER BY tick LIMIT %s", (stream, after, limit)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in a transaction, which is durable on disk when the block ends."""
        try:
            with (
                self._pool.connection() as connection,
                self._watchdog.guard(connection),
                connection.transaction(),
                connection.cursor() as cursor,
            ):
                cursor.execute("SET LOCAL synchronous_commit = on")
                yield cursor
        except self._integrity_error as error:
            raise RequestError(
                409, f"it exists already, or something else refers to it: {_one_line(error)}"
            ) from None
        except self._errors as error:
            raise self._unavailable("write", _one_line(error)) from None

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor that reads committed data."""
        try:
            with (
                self._pool.connection() as connection,
                self._watchdog.guard(connection),
                connection.cursor() as cursor,
            ):
                yield cursor
        except self._errors as error:
            raise self._unavailable("read", _one_line(error)) from None

    @contextmanager
    def snapshot_cursor(self) -> Iterator[Any]:
        """A cursor in a transaction that only reads. No row is vacuumed until the block ends."""
        try:
            with self._pool.connection() as connection, connection.transaction(), connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield cursor
        except self._errors as error:
            raise self._unavailable("read", _one_line(error)) from None

    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """Lease and read streams and groups that no other worker owns. A stream of a group is leased with its group.

        Rows that another worker is leasing at this moment are skipped rather than waited for.
        """
        loaded = Loaded()
        with self.transaction() as cursor:
            single, members, wanted = self._split(cursor, streams)
            wanted = sorted({*wanted, *groups})
            mine = set(self._lease(cursor, "stream_groups", wanted))
            leased = self._lease(cursor, "streams", single)
            owned = [*leased, *(stream for stream, group in members.items() if group in mine)]
            for row in cursor.execute(f"{SELECT_STREAM} WHERE id = ANY(%s)", (owned,)):
                loaded.streams[row[0]] = stream_row(row)
            for row in cursor.execute(f"{SELECT_GROUP} WHERE id = ANY(%s)", (list(mine),)):
                loaded.groups[row[0]] = group_row(row)
            theirs = self._owners(cursor, "stream_groups", set(wanted) - mine)
            loaded.owners = theirs | self._owners(cursor, "streams", set(single) - set(leased))
            loaded.owners |= {stream: theirs[group] for stream, group in members.items() if group in theirs}
        return loaded

    def claim(self, streams: Sequence[str]) -> dict[str, bool]:
        """Lease streams without reading them. A lease that has more than half of its time left is not extended."""
        with self.transaction() as cursor:
            single, members, wanted = self._split(cursor, streams)
            groups = self._extend(cursor, "stream_groups", wanted)
            found = self._extend(cursor, "streams", single)
        return found | {stream: groups[group] for stream, group in members.items() if group in groups}

    def _split(self, cursor: Any, streams: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
        """Streams without a group, the group of each other stream, and the ids of these groups."""
        found = cursor.execute("SELECT id, group_id FROM streams WHERE id = ANY(%s)", (list(streams),)).fetchall()
        members = {stream: group for stream, group in found if group is not None}
        return [stream for stream, group in found if group is None], members, sorted(set(members.values()))

    def _extend(self, cursor: Any, table: str, ids: Sequence[str]) -> dict[str, bool]:
        """Lease rows, and return whether this worker or another one owns each; a locked row is absent."""
        rows = cursor.execute(
            f"SELECT id FROM {table} WHERE id = ANY(%s) AND owner = %s AND until > {_NOW} + %s * 0.5",
            (list(ids), self.worker, self.lease),
        )
        mine = {row[0] for row in rows}
        if rest := set(ids) - mine:
            mine.update(self._lease(cursor, table, sorted(rest)))
        left = rest - mine
        others = self._owners(cursor, table, left) if left else {}
        theirs = (name for name, owner in others.items() if owner not in ("", self.worker))
        return dict.fromkeys(mine, True) | dict.fromkeys(theirs, False)

    def _lease(self, cursor: Any, table: str, ids: Sequence[str]) -> list[str]:
        """Lease rows that are free, expired or this worker's own; the ids of those it now owns."""
        found = cursor.execute(
            f"UPDATE {table} SET owner = %s, until = {_NOW} + %s WHERE id IN (SELECT id FROM {table} "
            f"WHERE id = ANY(%s) AND (owner IS NULL OR owner = %s OR until < {_NOW}) FOR UPDATE SKIP LOCKED) "
            "RETURNING id",
            (self.worker, self.lease, list(ids), self.worker),
        )
        return [row[0] for row in found]

    def _owners(self, cursor: Any, table: str, ids: set[str]) -> dict[str, str]:
        """The worker that owns each row; empty if none does."""
        rows = cursor.execute(f"SELECT id, coalesce(owner, '') FROM {table} WHERE id = ANY(%s)", (list(ids),))
        return dict(rows.fetchall())

    def release(self) -> None:
        """End all leases of this worker, so that others can take its streams before they expire."""
        if not self.worker:
            return
        with suppress(UnavailableError), self.transaction() as cursor:  # if this fails, the leases expire
            for table in ("streams", "stream_groups"):
                cursor.execute(f"UPDATE {table} SET owner = NULL, until = NULL WHERE owner = %s", (self.worker,))

    def close(self) -> None:
        """Close all connections."""
        self._watchdog.stop()
        self._pool.close()


class Watchdog(threading.Thread):
    """Breaks connections that have not answered for too long; the statement in progress fails.

    If the server process is stopped while its machine keeps running, neither the server's timeouts nor those of TCP
    apply, and the driver has none.

    Parameters
    ----------
    seconds : float
        Time allowed for a block of statements; 0 disables the watchdog.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(name="mfbocd-watchdog", daemon=True)
        self.seconds = seconds
        self._busy_since: dict[int, tuple[float, Any]] = {}
        self._stopping = threading.Event()
        if seconds:
            self.start()

    @contextmanager
    def guard(self, connection: Any) -> Iterator[None]:
        """Break the connection if the block does not end in time."""
        if not self.seconds:
            yield
            return
        self._busy_since[id(connection)] = time.monotonic(), connection
        try:
            yield
        finally:
            self._busy_since.pop(id(connection), None)

    def run(self) -> None:
        """Check all guarded connections periodically, until stopped."""
        while not self._stopping.wait(min(1.0, 0.2 * self.seconds)):
            for started, connection in list(self._busy_since.values()):
                if time.monotonic() - started > self.seconds:
                    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as found:
                        found.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()


def _timeouts(timeout: float, given: Mapping[str, Any]) -> dict[str, Any]:
    """Connection options that bound waiting; those given in the URL take precedence."""
    options: dict[str, Any] = {
        "connect_timeout": 5,
        "options": f"-c statement_timeout={round(1000 * timeout)}",
        **{"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
        "tcp_user_timeout": round(1000 * timeout),
    }
    return {name: value for name, value in options.items() if name not in given}


def _one_line(error: Exception) -> str:
    """The message of a driver's exception in one line; it contains no password."""
    return " ".join(str(error).split())[:300]

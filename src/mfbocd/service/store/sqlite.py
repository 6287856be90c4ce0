"""A store in one file, for one service process: SQLite with a write-ahead log, synced at every commit."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import MissingDatabaseError, RequestError
from ..records import DamagedText, Event
from . import sqlite_events
from .base import TICK_COLUMNS, Changes, Loaded, Store, require_rows, tick_values
from .reader import SELECT_GROUP, SELECT_STREAM, group_row, stream_row
from .schema import upgrade_statements
from .sqlite_rows import STATEMENTS, execute_rows

MIN_FREE_BYTES = 4 * 2**20
"""A disk with less free space is reported as full."""
PAGE_BYTES = 16384
"""Page size of a new file; a state has several kilobytes."""
LOG_PAGES = 4000
"""Pages of the write-ahead log (64 MB) after which the writer itself runs a checkpoint; see `_Checkpointer`."""

_UPDATE = (
    f"UPDATE streams SET {', '.join(f'{name} = new.column{k}' for k, name in enumerate(TICK_COLUMNS, 4))}, "
    "latest = coalesce(new.column3, latest) FROM (VALUES {rows}) new "
    "WHERE streams.id = new.column1 AND streams.tick = new.column2"
)


class SqliteStore(Store):
    """A store in a file; see `open_store` for the parameters.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SqliteStore(f"{folder}/mfbocd.db")
    ...     print(store.count_streams())
    ...     store.close()
    0
    """

    def __init__(
        self, path: str | Path, *, keep: int | None = None, exclusive: bool = False, create: bool = True
    ) -> None:
        self.path = Path(path)
        self.keep = keep
        if not create and not self.path.exists():
            raise MissingDatabaseError(f"there is no database {self.path}")
        self._lock_file = _lock(self.path) if exclusive else None
        self._writer_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._of_thread = threading.local()
        self._readers: list[sqlite3.Connection] = []
        """The reading connections of all threads."""
        self._checkpointer: _Checkpointer | None = None
        try:
            self._writer = self._connect(writer=True)
            self._upgrade(create)
            if exclusive:
                self._checkpointer = _Checkpointer(self._connect())
        except sqlite3.Error as error:
            self.close()
            raise ValueError(f"{self.path}: {error}") from None
        except BaseException:
            self.close()
            raise

    def _connect(self, *, writer: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=10.0, cached_statements=STATEMENTS
        )
        connection.text_factory = _text
        connection.create_function("lowered", 1, _lowered, deterministic=True)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        # a log that became longer during a backup is truncated when it starts again
        connection.execute(f"PRAGMA journal_size_limit = {LOG_PAGES * PAGE_BYTES}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if writer:  # 64 MB: enough for the pages of a large batch, which would else be written and read twice
            connection.execute("PRAGMA cache_size = -65536")
        return connection

    def _upgrade(self, create: bool) -> None:
        """Create or migrate the tables."""
        assert self._writer is not None
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            tables = {name for (name,) in self._writer.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = None
            if "meta" in tables:
                found = int(self._writer.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])
            elif tables:
                raise ValueError(f"{self.path} has tables that are not mfbocd's: {', '.join(sorted(tables))}")
            elif not create:
                raise MissingDatabaseError(f"{self.path} is empty")
            for statement in upgrade_statements(found, "sqlite"):
                self._writer.execute(statement)
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """A cursor in a transaction, which is synced to disk when the block ends; one at a time."""
        with self._writer_lock:
            try:
                if self._writer is None:
                    self._writer = self._connect(writer=True)
                cursor = self._writer.cursor()
                cursor.execute("BEGIN IMMEDIATE")
                yield cursor
                self._writer.execute("COMMIT")
                if self._checkpointer is not None:
                    self._checkpointer.wake.set()
            except sqlite3.IntegrityError as error:
                self._roll_back()
                raise RequestError(409, f"it exists already, or something else refers to it: {error}") from None
            except sqlite3.Error as error:
                self._roll_back()
                raise self._unavailable("write", str(error)) from None
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        """Roll back. A connection that cannot is closed, and replaced at the next transaction."""
        connection = self._writer
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._writer = None
            connection.close()

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor of this thread's connection: what one thread reads does not delay another."""
        try:
            yield self._reader().cursor()
        except sqlite3.Error as error:
            raise self._unavailable("read", str(error)) from None

    def _reader(self) -> sqlite3.Connection:
        """The reading connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = self._connect()
            self._readers.append(connection)
        return connection

    @contextmanager
    def snapshot_cursor(self) -> Iterator[Any]:
        """A cursor of a separate connection. The write-ahead log grows until the block ends."""
        try:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN")
                yield connection.cursor()
        except sqlite3.Error as error:
            raise self._unavailable("read", str(error)) from None

    def _write_ticks(self, cursor: Any, changes: Changes) -> None:
        newest = sqlite_events.insert(cursor, changes)
        rows = [(row.id, before, newest.get(row.id), *tick_values(row)) for row, before in changes.streams]
        require_rows(execute_rows(cursor, _UPDATE, rows), len(rows))
        sqlite_events.index(cursor, sqlite_events.due(changes))

    def _insert_history(self, cursor: Any, events: Sequence[Event]) -> None:
        sqlite_events.insert_history(cursor, events)

    def _delete_before(self, cursor: Any, limits: Sequence[tuple[str, int]]) -> None:
        sqlite_events.delete_before(cursor, limits)

    def _delete_events(self, cursor: Any, stream: str) -> None:
        sqlite_events.delete_before(cursor, [(stream, sqlite_events.MAX_TICK)])

    def _number_in(self, column: str, field: str) -> str:
        path = f"{column}, '$.{field}"
        first = f"CASE json_type({path}') WHEN 'array' THEN json_extract({path}[0]') ELSE json_extract({path}') END"
        return f"CASE WHEN json_valid({column}) THEN {first} END"

    def _lower(self, column: str) -> str:
        return f"lowered(CAST({column} AS BLOB))"

    def _event_query(self, stream: str, tick: int) -> tuple[str, Any]:
        return sqlite_events.SELECT_EVENT, {"stream": stream, "first": tick}

    def _events_query(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        return sqlite_events.SELECT_EVENTS, {"stream": stream, "first": after + 1, "limit": limit}

    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """Read streams and groups; the only worker owns them all."""
        loaded = Loaded()
        wanted = set(groups)
        with self.cursor() as cursor:
            for stream in streams:
                found = cursor.execute(f"{SELECT_STREAM} WHERE id = ?", (stream,)).fetchone()
                if found is not None:
                    row = loaded.streams[stream] = stream_row(found)
                    wanted |= {row.group} if row.group is not None else set()
            for group in wanted:
                found = cursor.execute(f"{SELECT_GROUP} WHERE id = ?", (group,)).fetchone()
                if found is not None:
                    loaded.groups[group] = group_row(found)
        return loaded

    def free_bytes(self) -> int:
        """Free space on the disk of the file."""
        return shutil.disk_usage(self.path.parent).free

    def space_problem(self) -> str:
        """Report a full disk before it is completely full."""
        free = self.free_bytes()
        return f"the disk is full: {free} bytes are free" if free < MIN_FREE_BYTES else ""

    def release(self) -> None:
        """Do nothing: there are no leases."""

    def close(self) -> None:
        """Close the file and unlock it."""
        if self._checkpointer is not None:
            self._checkpointer.stop()
            self._checkpointer = None
        for connection in self._readers:
            connection.close()
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None


class _Checkpointer(threading.Thread):
    """Copies committed pages from the write-ahead log into the database, in small portions.

    By default SQLite does this in the writing connection once the log is full, and every pending request waits for
    all of it.
    """

    PAUSE = 0.2
    """Seconds between two checkpoints."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(name="mfbocd-checkpoint", daemon=True)
        self.wake = threading.Event()
        """Set after every commit."""
        self._connection = connection
        self._stopping = False
        self.start()

    def run(self) -> None:
        """Run a checkpoint after commits, until stopped."""
        while self.wake.wait() and not self._stopping:
            self.wake.clear()
            with suppress(sqlite3.Error):  # a persistent error also fails the next commit, which reports it
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            time.sleep(self.PAUSE)

    def stop(self) -> None:
        """Stop after the checkpoint in progress."""
        self._stopping = True
        self.wake.set()
        self.join()
        self._connection.close()


def _text(stored: bytes) -> str:
    """A text of the database. By default one that is not UTF-8 fails the query, and with it all other rows."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return DamagedText(stored.decode(errors="backslashreplace"))


def _lowered(stored: bytes) -> str:
    """A text in lower case. SQLite's own function changes only the letters of ASCII."""
    return stored.decode(errors="replace").lower()


def _lock(path: Path) -> IO[str]:
    """Lock a file next to the database, whose path is resolved; the lock ends with the process.

    The database itself cannot be locked this way: closing it would release SQLite's own locks on it.
    """
    resolved = path.resolve()
    if resolved.exists() and resolved.stat().st_nlink > 1:
        raise ValueError(f"{path} has several hard links: SQLite would keep a log for each name, and lose data")
    lock_path = resolved.with_name(f"{resolved.name}.lock")
    try:
        file = lock_path.open("a+")
    except OSError as error:
        raise ValueError(f"cannot open {lock_path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        pid = file.read().strip()
        file.close()
        raise ValueError(f"{path} is served by another process already (pid {pid or 'unknown'})") from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file

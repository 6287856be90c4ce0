"""The store in one file, for one process: SQLite with a write-ahead log, synced at every commit."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import RequestError, UnavailableError
from ..records import Event, GroupRow
from . import sqlite_events as filed
from .base import GROUP, STREAM, Changes, Loaded, Store, stream_of
from .schema import plan

ROOM = 4 * 2**20
"""Bytes: with fewer left, a disk is said to be full."""


class SqliteStore(Store):
    """A store in a file.

    `alone` takes the file for this process, as the service must: two of them would each hold the streams in memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SqliteStore(f"{folder}/mfbocd.db")
    ...     print(store.totals()["streams"])
    ...     store.close()
    0.0
    """

    def __init__(self, path: str | Path, *, keep: int | None = None, alone: bool = False) -> None:
        self.path = Path(path)
        self.keep = keep
        self._guard = _taken(self.path) if alone else None
        self._reader_lock = threading.Lock()
        self._writer = self._reader = None
        self._mover: _Mover | None = None
        try:
            self._writer = self._open(writer=True)
            self._migrate()
            self._reader = self._open()
            if alone:
                self._mover = _Mover(self._open())
        except sqlite3.Error as error:
            self.close()
            raise ValueError(f"{self.path}: {error}") from None
        except BaseException:
            self.close()
            raise

    def _open(self, *, writer: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10.0)
        connection.execute("PRAGMA page_size = 16384")  # of a new file: a state is some kilobytes
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")  # 64 MB; `_Mover` leaves little of it to do
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if writer:  # 64 MB: the pages of a large batch, which else are written out of turn and read again
            connection.execute("PRAGMA cache_size = -65536")
        return connection

    def _migrate(self) -> None:
        assert self._writer is not None
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            tables = {name for (name,) in self._writer.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = None
            if "meta" in tables:
                found = int(self._writer.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])
            elif tables:
                raise ValueError(f"{self.path} holds other tables than mfbocd's: {', '.join(sorted(tables))}")
            for statement in plan(found, postgres=False):
                self._writer.execute(statement)
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Cursor]:
        """One transaction, synced when the block ends."""
        try:
            if self._writer is None:
                self._writer = self._open(writer=True)
            cursor = self._writer.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            self._writer.execute("COMMIT")
            if self._mover is not None:
                self._mover.wake.set()
        except sqlite3.IntegrityError as error:
            self._undo()
            raise RequestError(409, f"the store holds it already, or holds what needs it: {error}") from None
        except sqlite3.Error as error:
            self._undo()
            raise UnavailableError(str(error)) from None
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        """Roll back; a connection that cannot is not used again."""
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
    def reading(self) -> Iterator[Any]:
        """A cursor of the connection that only reads."""
        with self._reader_lock:
            try:
                if self._reader is None:
                    self._reader = self._open()
                yield self._reader.cursor()
            except sqlite3.Error as error:
                raise UnavailableError(str(error)) from None

    def _put(self, cursor: Any, changes: Changes) -> None:
        newest = filed.add(cursor, changes)
        self._update(
            cursor,
            changes.streams,
            ", latest = coalesce(?, latest)",
            [(newest.get(row.id),) for row, _ in changes.streams],
        )
        filed.file(cursor, filed.due(changes))

    def _put_old(self, cursor: Any, events: Sequence[Event]) -> None:
        filed.add_old(cursor, events)

    def _forget(self, cursor: Any, old: Sequence[tuple[str, int]]) -> None:
        filed.forget(cursor, old)

    def _forget_all(self, cursor: Any, stream: str) -> None:
        filed.forget(cursor, [(stream, filed.NEVER)])

    def _event(self, stream: str, tick: int) -> tuple[str, Any]:
        return filed.STEP, {"stream": stream, "first": tick}

    def _events(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        return filed.STEPS, {"stream": stream, "first": after + 1, "limit": limit}

    def load(self, streams: Sequence[str], groups: Sequence[str] = ()) -> Loaded:
        """There is one worker: whatever is there is its own."""
        loaded = Loaded()
        wanted = set(groups)
        with self.reading() as cursor:
            for stream in streams:
                found = cursor.execute(f"{STREAM} WHERE id = ?", (stream,)).fetchone()
                if found is not None:
                    row = loaded.streams[stream] = stream_of(found)
                    wanted |= {row.group} if row.group is not None else set()
            for group in wanted:
                found = cursor.execute(f"{GROUP} WHERE id = ?", (group,)).fetchone()
                if found is not None:
                    loaded.groups[group] = GroupRow(*found)
        return loaded

    def full(self) -> str:
        """Report a full disk a little before it is full."""
        left = shutil.disk_usage(self.path.parent).free
        return f"the disk is full, {left} bytes are left" if left < ROOM else ""

    def release(self) -> None:
        """There is nobody to let have them."""

    def close(self) -> None:
        """Let go of the file."""
        if self._mover is not None:
            self._mover.stop()
            self._mover = None
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
        if self._guard is not None:
            self._guard.close()
            self._guard = None


class _Mover(threading.Thread):
    """Moves what was committed from the log into the database, a little at a time, beside the writer.

    Left to the writer, it does so once the log is full, and whoever then waits for an answer waits for all of it.
    """

    PAUSE = 0.2

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(name="mfbocd-mover", daemon=True)
        self.wake = threading.Event()
        self._connection = connection
        self._stopping = False
        self.start()

    def run(self) -> None:
        """Move, whenever there was a commit, until told to stop."""
        while self.wake.wait() and not self._stopping:
            self.wake.clear()
            with suppress(sqlite3.Error):  # the writer will meet it, and say so
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            time.sleep(self.PAUSE)

    def stop(self) -> None:
        """End, once what is under way is done."""
        self._stopping = True
        self.wake.set()
        self.join()
        self._connection.close()


def _taken(path: Path) -> IO[str]:
    """A locked file beside the database; the lock ends with the process, however that ends.

    It is beside the file itself, whatever names lead there. The file itself cannot be locked: to close it after a
    look would end the locks that SQLite has on it.
    """
    real = path.resolve()
    if real.exists() and real.stat().st_nlink > 1:
        raise ValueError(f"{path} has several names (hard links): SQLite would keep a log for each, and lose data")
    beside = real.with_name(f"{real.name}.lock")
    try:
        file = beside.open("a+")
    except OSError as error:
        raise ValueError(f"cannot open {beside}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        by = file.read().strip()
        file.close()
        raise ValueError(f"{path} is served by another process already (pid {by or 'unknown'})") from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file

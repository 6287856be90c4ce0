"""The store a `--db` means."""

from __future__ import annotations

from .base import Store

POSTGRES = ("postgresql://", "postgres://")


def open_store(
    db: str, *, keep: int | None = None, worker: str = "", lease: float = 10.0, alone: bool = False
) -> Store:
    """PostgreSQL for an address, SQLite for a file; `worker` and `lease` matter to the one, `alone` to the other.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/mfbocd.db")
    ...     print(type(store).__name__)
    ...     store.close()
    SqliteStore
    """
    if db.startswith(POSTGRES):
        from .postgres import PostgresStore

        return PostgresStore(db, keep=keep, worker=worker, lease=lease)
    from .sqlite import SqliteStore

    return SqliteStore(db, keep=keep, alone=alone)

"""Where the service stores its streams: SQLite or PostgreSQL.

This module imports neither database driver until it is needed.
"""

from __future__ import annotations

from .base import Store

__all__ = ["Store", "open_store"]

_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    db: str,
    *,
    keep: int | None = None,
    worker: str = "",
    lease: float = 10.0,
    exclusive: bool = False,
    create: bool = True,
) -> Store:
    """Open a database, and create its tables if it is empty.

    Parameters
    ----------
    db : str
        Path of an SQLite file, or the URL of a PostgreSQL database (``postgresql://...``).
    keep : int, optional
        Number of latest steps kept per stream; all by default.
    worker : str
        URL at which other workers reach this one (PostgreSQL only). Without it no stream can be leased.
    lease : float
        Seconds for which a stream belongs to a worker (PostgreSQL only).
    exclusive : bool
        Refuse to open a file that another process has opened this way (SQLite only). The service needs this: it
        caches streams, and two caches of one file would diverge.
    create : bool
        Whether a database that does not exist, or is empty, is created; True by default.

    Returns
    -------
    Store
        To be closed by the caller.

    Raises
    ------
    ValueError
        If the address is of another kind of database, or the database cannot be opened, has tables of another
        application or of another version, or does not exist and is not to be created.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/mfbocd.db")
    ...     print(type(store).__name__)
    ...     store.close()
    SqliteStore
    """
    if db.startswith(_POSTGRES):
        from .postgres import PostgresStore

        return PostgresStore(db, keep=keep, worker=worker, lease=lease, create=create)
    scheme, address, _ = db.partition("://")
    if address:
        raise ValueError(f"a database is an SQLite file or postgresql://..., not {scheme}://...")
    from .sqlite import SqliteStore

    return SqliteStore(db, keep=keep, exclusive=exclusive, create=create)

"""The tables of both databases, their version, and where migrations between versions belong."""

from __future__ import annotations

VERSION = 4
"""Version of the tables, stored under the key ``version`` of the table ``meta``."""

# The streams are indexed by what no tick changes: an index of anything else is written at every tick.
#
# `removed` has the sums of deleted streams by group, so that counters do not decrease (the module totals). `outbox`
# has the alarms that a webhook has not received yet (the module outbox), `notes` those of people on alarms (notes).
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE stream_groups (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, config TEXT NOT NULL, created REAL NOT NULL,
    version INTEGER NOT NULL, state TEXT NOT NULL, owner TEXT, until REAL
);
CREATE TABLE streams (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, config TEXT NOT NULL, observers TEXT NOT NULL, budget REAL,
    created REAL NOT NULL, group_id TEXT REFERENCES stream_groups (id), tick INTEGER NOT NULL, spent REAL NOT NULL,
    alarms INTEGER NOT NULL, alarmed REAL, last_alarm TEXT, last TEXT, next TEXT NOT NULL, updated REAL NOT NULL,
    owner TEXT, until REAL, state BLOB NOT NULL
);
CREATE INDEX streams_by_group ON streams (group_id);
CREATE INDEX streams_by_name ON streams (name, id);
CREATE INDEX streams_by_creation ON streams (created, id);
CREATE INDEX streams_by_alarm ON streams (alarmed DESC, name, id);
CREATE TABLE tokens (name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE removed (
    group_id TEXT PRIMARY KEY, ticks INTEGER NOT NULL, spent TEXT NOT NULL, alarms INTEGER NOT NULL
);
CREATE TABLE outbox (
    stream TEXT NOT NULL, tick INTEGER NOT NULL, at REAL NOT NULL, name TEXT NOT NULL, group_id TEXT,
    step TEXT NOT NULL, attempts INTEGER NOT NULL, due REAL NOT NULL, owner TEXT, PRIMARY KEY (stream, tick, at)
);
CREATE INDEX outbox_by_due ON outbox (due);
CREATE TABLE notes (
    stream TEXT NOT NULL, id TEXT NOT NULL, tick INTEGER NOT NULL, at REAL NOT NULL, acknowledged INTEGER NOT NULL,
    author TEXT NOT NULL, token TEXT, text TEXT NOT NULL, PRIMARY KEY (stream, id)
);
CREATE INDEX notes_by_time ON notes (at);
"""

# The module sqlite_events explains `latest`, `prev` and `event_index`.
SQLITE = f"""
{_TABLES.replace("state BLOB", "latest INTEGER, state BLOB")}
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, tick INTEGER NOT NULL, at REAL NOT NULL,
    alarm INTEGER NOT NULL, prev INTEGER, step TEXT NOT NULL
);
CREATE TABLE event_index (
    stream TEXT NOT NULL, tick INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (stream, tick)
) WITHOUT ROWID;
"""


def _postgres(script: str) -> str:
    """The script with PostgreSQL's names of SQLite's types."""
    return script.replace("REAL", "DOUBLE PRECISION").replace("BLOB", "BYTEA").replace("INTEGER", "BIGINT")


# STORAGE EXTERNAL turns compression off: states hardly compress, and trying took half of PostgreSQL's time where they
# are large. Every update leaves a dead copy of the state until the table is vacuumed. At its default pace autovacuum
# falls behind a busy service and the table grows without bound, so its pauses are turned off.
#
# `xact` is the transaction that wrote an event. Sequence numbers are assigned before transactions commit, and they
# commit in another order; with `xact` a reader can exclude events that an earlier, uncommitted one may still precede.
POSTGRES = f"""
{_postgres(_TABLES)}
ALTER TABLE streams ALTER COLUMN state SET STORAGE EXTERNAL;
ALTER TABLE streams SET (toast.autovacuum_vacuum_cost_delay = 0);
CREATE TABLE events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream TEXT NOT NULL REFERENCES streams (id) ON DELETE CASCADE, tick BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, alarm BIGINT NOT NULL, step TEXT NOT NULL,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(), UNIQUE (stream, tick)
);
"""

MIGRATIONS: dict[int, dict[str, str]] = {}
"""For each version after the first release, the SQL that brings a database to it from the version before.

The keys of each entry are ``"sqlite"`` and ``"postgres"``. Databases of an older version are migrated when they are
opened. Migrations are never removed. Databases of versions before the first release are refused.
"""

_TABLES_OF = {"sqlite": SQLITE, "postgres": POSTGRES}


def upgrade_statements(found: int | None, kind: str) -> list[str]:
    """SQL statements that create the tables, or migrate them to the current version.

    Parameters
    ----------
    found : int or None
        Version of the existing tables; None for an empty database.
    kind : str
        ``"sqlite"`` or ``"postgres"``.

    Returns
    -------
    list of str
        Statements to execute in one transaction; none if the tables are current.

    Raises
    ------
    ValueError
        If there is no migration from the version found.

    Examples
    --------
    >>> upgrade_statements(VERSION, "sqlite")
    []
    >>> upgrade_statements(7, "sqlite")
    Traceback (most recent call last):
    ...
    ValueError: the database has schema version 7, and this mfbocd uses version 4: open it with the mfbocd that ...
    """
    if found is None:
        return [*_split(_TABLES_OF[kind]), f"INSERT INTO meta (key, value) VALUES ('version', '{VERSION}')"]
    needed = range(found + 1, VERSION + 1)
    if found > VERSION or not all(version in MIGRATIONS for version in needed):
        raise ValueError(
            f"the database has schema version {found}, and this mfbocd uses version {VERSION}: open it with the "
            "mfbocd that wrote it, or move its streams with that version's `mfbocd state export` and this version's "
            "`mfbocd state import`"
        )
    if found == VERSION:
        return []
    script = "".join(MIGRATIONS[version][kind] for version in needed)
    return [*_split(script), f"UPDATE meta SET value = '{VERSION}' WHERE key = 'version'"]


def _split(script: str) -> list[str]:
    """The statements of a script in which semicolons only end statements."""
    return [part for part in (part.strip() for part in script.split(";")) if part]

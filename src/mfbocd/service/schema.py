"""The tables, and how an older database becomes a present one."""

from __future__ import annotations

VERSION = 2
"""1 had neither groups nor leases."""

SQLITE = """
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
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL REFERENCES streams (id) ON DELETE CASCADE,
    tick INTEGER NOT NULL, at REAL NOT NULL, alarm INTEGER NOT NULL, step TEXT NOT NULL, UNIQUE (stream, tick)
);
CREATE TABLE tokens (name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, created REAL NOT NULL);
"""

# An event's transaction is kept so that a reader can tell when no earlier one is still under way: numbers are given
# out before transactions end, and end in another order.
POSTGRES = (
    SQLITE.replace("REAL", "DOUBLE PRECISION")
    .replace("BLOB", "BYTEA")
    .replace("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
    .replace("INTEGER", "BIGINT")
    .replace("UNIQUE (stream, tick)", "xact xid8 NOT NULL DEFAULT pg_current_xact_id(), UNIQUE (stream, tick)")
)

_TO_2 = """
CREATE TABLE stream_groups (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, config TEXT NOT NULL, created REAL NOT NULL,
    version INTEGER NOT NULL, state TEXT NOT NULL, owner TEXT, until REAL
);
ALTER TABLE streams ADD COLUMN group_id TEXT REFERENCES stream_groups (id);
ALTER TABLE streams ADD COLUMN owner TEXT;
ALTER TABLE streams ADD COLUMN until REAL;
CREATE INDEX streams_by_group ON streams (group_id);
"""

_TO_2_POSTGRES = (
    _TO_2.replace("REAL", "DOUBLE PRECISION").replace("INTEGER", "BIGINT")
    + "ALTER TABLE events ADD COLUMN xact xid8 NOT NULL DEFAULT pg_current_xact_id();"
)


def statements(script: str) -> list[str]:
    """The statements of a script that has no semicolons elsewhere."""
    return [part for part in (part.strip() for part in script.split(";")) if part]


def plan(found: int | None, *, postgres: bool) -> list[str]:
    """What must be run to bring a database of this version (None: an empty one) to the present one.

    >>> plan(2, postgres=False)
    []
    >>> plan(3, postgres=False)
    Traceback (most recent call last):
    ...
    ValueError: the database has schema version 3; this mfbocd knows versions 1 to 2
    """
    if found is None:
        mark = f"INSERT INTO meta (key, value) VALUES ('version', '{VERSION}')"
        return [*statements(POSTGRES if postgres else SQLITE), mark]
    if not 1 <= found <= VERSION:
        raise ValueError(f"the database has schema version {found}; this mfbocd knows versions 1 to {VERSION}")
    if found == VERSION:
        return []
    mark = f"UPDATE meta SET value = '{VERSION}' WHERE key = 'version'"
    return [*statements(_TO_2_POSTGRES if postgres else _TO_2), mark]

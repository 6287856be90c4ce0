"""The tables, and how an older database becomes a present one."""

from __future__ import annotations

VERSION = 4
"""1 had neither groups nor leases; in 2 SQLite wrote every step to an index of steps too; in 3 PostgreSQL tried to
compress every state, and was late to remove old ones."""

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
CREATE TABLE tokens (name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, created REAL NOT NULL);
"""

# How steps are found by stream and tick is in `filed`.
_STEPS = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, tick INTEGER NOT NULL, at REAL NOT NULL,
    alarm INTEGER NOT NULL, prev INTEGER, step TEXT NOT NULL
);
CREATE TABLE filed (
    stream TEXT NOT NULL, tick INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (stream, tick)
) WITHOUT ROWID;
"""

SQLITE = _TABLES.replace("state BLOB", "latest INTEGER, state BLOB") + _STEPS


def _postgres(script: str) -> str:
    return script.replace("REAL", "DOUBLE PRECISION").replace("BLOB", "BYTEA").replace("INTEGER", "BIGINT")


# States hardly become smaller, and where they are large, trying took PostgreSQL half of its time. What they were
# before lies in the table until it is vacuumed, which at its usual pace falls behind a service in full use: the
# database grew by the size of a state with every tick, without end.
_STATES = """
ALTER TABLE streams ALTER COLUMN state SET STORAGE EXTERNAL;
ALTER TABLE streams SET (toast.autovacuum_vacuum_cost_delay = 0);
"""

# An event's transaction is kept so that a reader can tell when no earlier one is still under way: numbers are given
# out before transactions end, and end in another order.
POSTGRES = f"""
{_postgres(_TABLES)}
{_STATES}
CREATE TABLE events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream TEXT NOT NULL REFERENCES streams (id) ON DELETE CASCADE, tick BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, alarm BIGINT NOT NULL, step TEXT NOT NULL,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(), UNIQUE (stream, tick)
);
"""

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

# The numbers go on where they were, also where the last steps were removed.
_TO_3 = f"""
ALTER TABLE streams ADD COLUMN latest INTEGER;
ALTER TABLE events RENAME TO events_2;
{_STEPS}
INSERT INTO events (seq, stream, tick, at, alarm, step)
    SELECT seq, stream, tick, at, alarm, step FROM events_2 ORDER BY seq;
INSERT INTO filed (stream, tick, seq) SELECT stream, tick, seq FROM events_2 ORDER BY stream, tick;
DELETE FROM sqlite_sequence WHERE name = 'events';
UPDATE sqlite_sequence SET name = 'events' WHERE name = 'events_2';
DROP TABLE events_2;
"""

_CHANGES = {2: _TO_2, 3: _TO_3, 4: ""}
_CHANGES_POSTGRES = {
    2: _postgres(_TO_2) + "ALTER TABLE events ADD COLUMN xact xid8 NOT NULL DEFAULT pg_current_xact_id();",
    3: "",
    4: _STATES,
}


def statements(script: str) -> list[str]:
    """The statements of a script that has no semicolons elsewhere."""
    return [part for part in (part.strip() for part in script.split(";")) if part]


def plan(found: int | None, *, postgres: bool) -> list[str]:
    """What must be run to bring a database of this version (None: an empty one) to the present one.

    >>> plan(3, postgres=False)
    ["UPDATE meta SET value = '4' WHERE key = 'version'"]
    >>> plan(4, postgres=False)
    []
    >>> plan(5, postgres=False)
    Traceback (most recent call last):
    ...
    ValueError: the database has schema version 5; this mfbocd knows versions 1 to 4
    """
    if found is None:
        mark = f"INSERT INTO meta (key, value) VALUES ('version', '{VERSION}')"
        return [*statements(POSTGRES if postgres else SQLITE), mark]
    if not 1 <= found <= VERSION:
        raise ValueError(f"the database has schema version {found}; this mfbocd knows versions 1 to {VERSION}")
    if found == VERSION:
        return []
    changes = _CHANGES_POSTGRES if postgres else _CHANGES
    script = "".join(changes[version] for version in range(found + 1, VERSION + 1))
    return [*statements(script), f"UPDATE meta SET value = '{VERSION}' WHERE key = 'version'"]

"""Reading a store: the queries that both databases share."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ..records import DamagedText, Event, GroupRow, StreamRow, Token
from .totals import RECENT, SELECT_TOTALS, Totals, collect

COLUMNS = (
    "id, name, config, observers, budget, created, group_id, "
    "tick, spent, alarms, alarmed, last_alarm, last, next, updated"
)
SELECT_STREAM = f"SELECT {COLUMNS}, state FROM streams"
SELECT_GROUP = "SELECT id, name, config, created, version, state FROM stream_groups"
SELECT_EVENT = "SELECT stream, tick, at, alarm, step, seq FROM events"


class Order(NamedTuple):
    """An order in which streams can be listed."""

    key: str
    descending: bool = False
    ties: str = "name, id"
    """The order of streams with the same key."""

    def clause(self, *, reverse: bool) -> str:
        """The ORDER BY clause. Streams without the key come last, in either direction."""
        direction = "DESC" if self.descending != reverse else "ASC"
        return f"{self.key} {direction} NULLS LAST, {self.ties}"


SORTS = {
    "alarm": Order("alarmed", descending=True),
    "name": Order("{name}"),
    "updated": Order("updated", descending=True, ties="id"),
    "spent": Order("spent", descending=True, ties="id"),
    "created": Order("created", ties="id"),
    "tick": Order("tick", descending=True),
    "mean": Order("{mean}", descending=True),
    "state": Order("{state}", ties="alarmed DESC NULLS LAST, name, id"),
}
"""The orders in which streams can be listed."""


class Current(NamedTuple):
    """Sums over the streams of a group as they are now, without deleted ones."""

    group: str | None
    """None for the streams without a group."""
    streams: int
    in_alarm: int
    """Streams with a recent alarm that nobody has acknowledged."""
    never_read: int
    ticks: int
    spent: float
    budgeted: float
    """What the streams with a budget of their own have spent."""
    allowed: float
    """What these budgets allowed for their ticks."""


class StoreReader(ABC):
    """Reads streams, groups, events and tokens as they are committed, whichever worker owns them."""

    @abstractmethod
    def cursor(self) -> AbstractContextManager[Any]:
        """A cursor that reads committed data."""

    def sql(self, sql: str) -> str:
        """SQL with the parameter marks of this database; it is given with ``?``."""
        return sql

    def _only_settled(self) -> str:
        """A condition that excludes events which an event of an uncommitted transaction may still precede."""
        return ""

    @abstractmethod
    def _number_in(self, column: str, field: str) -> str:
        """An expression for a number in a step, the first one of a list; NULL if there is none.

        The column has the step as JSON, which may be damaged.
        """

    @abstractmethod
    def _lower(self, column: str) -> str:
        """An expression for a text in lower case."""

    def _state(self) -> str:
        """An expression for the state of a stream: 0 in alarm, 1 acknowledged, 2 quiet, 3 never read."""
        alarm = self._number_in("last_alarm", "tick")
        return (
            "CASE WHEN streams.tick = 0 THEN 3 "
            f"WHEN last_alarm IS NULL OR coalesce(streams.tick - 1 - {alarm} >= {RECENT}, true) THEN 2 "
            "WHEN EXISTS (SELECT 1 FROM notes WHERE notes.stream = streams.id AND notes.acknowledged = 1 "
            f"AND notes.tick = {alarm}) THEN 1 ELSE 0 END"
        )

    @abstractmethod
    def _event_query(self, stream: str, tick: int) -> tuple[str, Any]:
        """A query for one event, and its parameters."""

    @abstractmethod
    def _events_query(self, stream: str, after: int, limit: int) -> tuple[str, Any]:
        """A query for the events of a stream after a tick, and its parameters.

        It is a single statement, so that its result is consistent.
        """

    def stream(self, stream: str) -> StreamRow | None:
        """A stream as it is stored, whichever worker owns it."""
        with self.cursor() as cursor:
            found = cursor.execute(self.sql(f"{SELECT_STREAM} WHERE id = ?"), (stream,)).fetchone()
        return None if found is None else stream_row(found)

    def streams(
        self,
        search: str = "",
        sort: str = "created",
        limit: int = 100,
        offset: int = 0,
        group: str | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[list[StreamRow], int]:
        """A page of streams without their states, and the number of all that match.

        Parameters
        ----------
        search : str
            Part of a name or an id, in any case.
        sort : str
            A key of `SORTS`.
        limit, offset : int
            The page.
        group : str, optional
            Only streams of this group.
        reverse : bool
            List by descending instead of ascending key, or the other way round.
        """
        conditions, values = list[str](), list[Any]()
        if search:
            escaped = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").lower()
            like = "LIKE ? ESCAPE '\\'"
            conditions.append(f"({self._lower('name')} {like} OR {self._lower('id')} {like})")
            values += [f"%{escaped}%"] * 2
        if group is not None:
            conditions.append("group_id = ?")
            values.append(group)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        keys = {"name": self._lower("name"), "mean": self._number_in("last", "mean"), "state": self._state()}
        order = SORTS[sort].clause(reverse=reverse).format_map(keys)
        # the ids alone are in the indices; whole rows are long, and only those of the page are read
        page = f"SELECT id FROM streams {where} ORDER BY {order} LIMIT ? OFFSET ?"
        with self.cursor() as cursor:
            total = cursor.execute(self.sql(f"SELECT count(*) FROM streams {where}"), values).fetchone()[0]
            ids = [row[0] for row in cursor.execute(self.sql(page), [*values, limit, offset]).fetchall()]
            found = []
            if ids:
                columns = f"SELECT {COLUMNS} FROM streams WHERE id IN ({', '.join('?' * len(ids))})"
                found = cursor.execute(self.sql(columns), ids).fetchall()
        rows = {row[0]: row for row in found}
        return [stream_row((*rows[stream], b"")) for stream in ids if stream in rows], int(total)

    def last_ticks(self, streams: Sequence[str]) -> dict[str, int]:
        """The tick of the last step of each stream, -1 before the first; streams that do not exist are absent."""
        query = self.sql(f"SELECT id, tick - 1 FROM streams WHERE id IN ({', '.join('?' * len(streams))})")
        with self.cursor() as cursor:
            return dict(cursor.execute(query, tuple(streams)).fetchall())

    def configs(self) -> list[str]:
        """The distinct configurations of all streams and groups, as stored."""
        with self.cursor() as cursor:
            rows = cursor.execute("SELECT config FROM streams UNION SELECT config FROM stream_groups").fetchall()
        return [str(row[0]) for row in rows]

    def count_streams(self) -> int:
        """Number of streams."""
        with self.cursor() as cursor:
            return int(cursor.execute("SELECT count(*) FROM streams").fetchone()[0])

    def totals(self, silent: float = math.inf, most: int = 0) -> Totals:
        """Sums over all streams, also deleted ones; see `collect` for the parameters."""
        with self.cursor() as cursor:
            rows = cursor.execute(SELECT_TOTALS).fetchall()
        return collect(rows, time.time(), silent, most)

    def current(self) -> list[Current]:
        """Sums over the streams as they are now, for each group."""
        now = f"SELECT group_id, tick, spent, budget, {self._state()} AS state FROM streams"
        query = (
            "SELECT group_id, count(*), sum(CASE state WHEN 0 THEN 1 ELSE 0 END), "
            "sum(CASE state WHEN 3 THEN 1 ELSE 0 END), CAST(sum(tick) AS BIGINT), coalesce(sum(spent), 0.0), "
            "coalesce(sum(CASE WHEN budget IS NOT NULL THEN spent END), 0.0), coalesce(sum(budget * tick), 0.0) "
            f"FROM ({now}) now GROUP BY group_id"
        )
        with self.cursor() as cursor:
            return [Current(*row) for row in cursor.execute(query).fetchall()]

    def group(self, group: str) -> GroupRow | None:
        """A group as it is stored."""
        with self.cursor() as cursor:
            found = cursor.execute(self.sql(f"{SELECT_GROUP} WHERE id = ?"), (group,)).fetchone()
        return None if found is None else group_row(found)

    def groups(self, limit: int = 1000) -> list[GroupRow]:
        """Groups, ordered by id."""
        with self.cursor() as cursor:
            rows = cursor.execute(self.sql(f"{SELECT_GROUP} ORDER BY id LIMIT ?"), (limit,))
            return [group_row(row) for row in rows]

    def group_size(self, group: str) -> int:
        """Number of streams of a group."""
        with self.cursor() as cursor:
            found = cursor.execute(self.sql("SELECT count(*) FROM streams WHERE group_id = ?"), (group,)).fetchone()
        return int(found[0])

    def event(self, stream: str, tick: int) -> Event | None:
        """The event of one tick of a stream."""
        with self.cursor() as cursor:
            found = cursor.execute(*self._event_query(stream, tick)).fetchone()
        return None if found is None else Event(*found)

    def events(self, stream: str, after: int, limit: int) -> list[Event]:
        """Events of a stream after a tick, in order."""
        with self.cursor() as cursor:
            return [Event(*row) for row in cursor.execute(*self._events_query(stream, after, limit))]

    def events_after(self, seq: int, limit: int) -> list[Event]:
        """Events of all streams after a sequence number, in order."""
        with self.cursor() as cursor:
            rows = cursor.execute(
                self.sql(f"{SELECT_EVENT} WHERE seq > ?{self._only_settled()} ORDER BY seq LIMIT ?"), (seq, limit)
            )
            return [Event(*row) for row in rows]

    def last_seq(self) -> int:
        """The sequence number of the latest event; 0 if there is none."""
        with self.cursor() as cursor:
            found = cursor.execute(f"SELECT max(seq) FROM events WHERE true{self._only_settled()}").fetchone()
        return int(found[0] or 0)

    def tokens(self) -> list[Token]:
        """All tokens, ordered by name."""
        with self.cursor() as cursor:
            rows = cursor.execute("SELECT name, hash, scope, created FROM tokens ORDER BY name")
            return [Token(*row) for row in rows]


def _text(value: Any) -> str:
    if isinstance(value, DamagedText) or not isinstance(value, str):
        raise ValueError("is not UTF-8 text")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("is not a number")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError("is not a count")
    return value


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, (bytes, memoryview)) else b""  # its use reports that it is no state


_CHECKS: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    **dict.fromkeys(("id", "name", "config", "observers", "group_id", "last_alarm", "last", "next"), (_text, "")),
    **dict.fromkeys(("budget", "created", "spent", "alarmed", "updated"), (_number, 0.0)),
    **dict.fromkeys(("tick", "alarms", "version"), (_count, 0)),
}
"""How the values of each column are read, and the substitute of those that cannot be."""
_OPTIONAL = ("budget", "group_id", "alarmed", "last_alarm", "last")
_STREAM, _GROUP = COLUMNS.split(", "), ["id", "name", "config", "created", "version", "state"]


def _read(columns: Sequence[str], values: Sequence[Any], state: Callable[[Any], Any]) -> tuple[list[Any], str]:
    """The values of a row, with substitutes for those that are damaged, and what the first of these is."""
    found, damage = [], ""
    for column, value in zip(columns, values, strict=True):
        check, substitute = (state, "") if column == "state" else _CHECKS[column]
        try:
            found.append(None if value is None and column in _OPTIONAL else check(value))
        except ValueError as error:
            damage = damage or f"{column} {error}"
            escaped = isinstance(value, str) and check is _text  # says more than nothing
            found.append(str(value) if escaped else None if column in _OPTIONAL else substitute)
    return found, damage


def stream_row(values: Sequence[Any]) -> StreamRow:
    """The row of `SELECT_STREAM`. If it is damaged, it says so, and can still be listed and deleted."""
    read, damage = _read([*_STREAM, "state"], values, _bytes)
    fields: tuple[Any, ...] = (*read, damage)
    return StreamRow(*fields)


def group_row(values: Sequence[Any]) -> GroupRow:
    """The row of `SELECT_GROUP`, likewise."""
    read, damage = _read(_GROUP, values, _text)
    fields: tuple[Any, ...] = (*read, damage)
    return GroupRow(*fields)

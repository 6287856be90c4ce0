"""Creating and deleting streams and groups. Functions that take an engine run in its thread (`run_exclusive`)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..io.config import Config, ConfigError
from .budgets import budget_of, group_budget
from .engine import Engine
from .errors import DamagedError, RequestError, not_found
from .fleets import Price, StreamFleet
from .records import GroupRow, StreamRow, json_text
from .store.base import Store

# --- configurations ----------------------------------------------------------------------------------------------


def parse_config(config: Mapping[str, Any]) -> Config:
    """Parse a configuration that `Checker` has accepted; raises `RequestError` naming the key if it is invalid."""
    try:
        return Config.parse(config)
    except ConfigError as error:
        raise RequestError(422, f"config: {error}", {"config": "as in the TOML of `mfbocd init`"}) from None


# --- streams -----------------------------------------------------------------------------------------------------


def add_stream(
    engine: Engine,
    *,
    stream: str | None,
    name: str,
    config: Mapping[str, Any] | None,
    group: str | None,
    observers: Mapping[str, str],
    available: Mapping[str, Any],
    max_streams: int,
) -> dict[str, Any]:
    """Create a stream before its first tick.

    Parameters
    ----------
    engine : Engine
    stream : str or None
        Its id; random if None.
    name : str
    config : mapping or None
        May be None if there is a group, whose configuration it has.
    group : str or None
        Id of the group whose budget it shares.
    observers : mapping of str to str
        Names of the operator's observers by fidelity.
    available : mapping
        The operator's observers by name.
    max_streams : int
        Largest number of streams in the store.

    Returns
    -------
    dict
        The stream as returned to clients.
    """
    store = engine.store
    if store.count_streams() >= max_streams:
        raise RequestError(429, f"there are {max_streams} streams already, which is the limit of this service")
    cached = None
    if group is not None:
        cached = engine.cache.group(group)
        if config is not None and parse_config(config).digest(costs=True) != parse_config(
            json.loads(cached.row.config)
        ).digest(costs=True):
            raise RequestError(
                422, "config differs from the group's: leave it out", {"config": json.loads(cached.row.config)}
            )
        parsed = parse_config(json.loads(cached.row.config))
    elif config is None:
        raise RequestError(
            422, "config is missing, and the operator has set no default", {"config": "as in the TOML"}
        )
    else:
        parsed = parse_config(config)
    _check_observers(parsed, observers, available)
    try:
        detector = parsed.detector(missing="skip", shared=group is not None)
    except ValueError as error:
        raise RequestError(422, f"config: {error}", {"config": "a budget that the stream can spend"}) from None
    budget, price = budget_of(detector), None
    if cached is not None:
        members = store.group_size(cached.row.id) + 1
        try:
            shared = group_budget(parsed, members, cached.row.state)
        except ValueError as error:
            raise RequestError(409, f"group {group!r} cannot take another stream: {error}") from None
        budget, price = None, Price.of(shared)
    state, choice = StreamFleet(parsed, grouped=group is not None).new_stream(price)
    if len(state) > engine.max_state:
        raise RequestError(422, f"config needs a state of {len(state)} bytes; the limit is {engine.max_state}", None)
    now = round(time.time(), 3)
    row = StreamRow(
        id=stream or secrets.token_hex(8),
        name=name,
        config=json_text(parsed.to_dict()),
        observers=json_text(dict(observers)),
        budget=budget,
        created=now,
        group=group,
        tick=0,
        spent=0.0,
        alarms=0,
        alarmed=None,
        last_alarm=None,
        last=None,
        next=json_text(choice),
        updated=now,
        state=state,
    )
    if store.stream(row.id) is not None:
        raise RequestError(409, f"there is a stream {row.id!r} already", {"id": "another, or none"})
    store.add_stream(row)
    engine.cache.evict([row.id], [] if group is None else [group])
    return row.full()


def _check_observers(config: Config, observers: Mapping[str, str], available: Mapping[str, Any]) -> None:
    names = [f.name for f in config.fidelities] or ["full"]
    for fidelity, observer in observers.items():
        if fidelity not in names:
            raise RequestError(422, f"observers names {fidelity!r}, which is no fidelity", {"observers": names})
        if observer not in available:
            raise RequestError(
                422, f"observers: the operator has set no {observer!r}", {"observers": sorted(available)}
            )


def remove_stream(engine: Engine, stream: str) -> None:
    """Delete a stream and its steps."""
    row = engine.store.stream(stream)
    if row is None:
        raise not_found("stream", stream)
    if row.group is not None:
        with suppress(DamagedError):  # a stream of a damaged group can be deleted
            engine.cache.group(row.group)
    engine.store.remove_stream(stream, row.group)
    engine.cache.evict([stream], [] if row.group is None else [row.group])


# --- groups ------------------------------------------------------------------------------------------------------


def add_group(engine: Engine, *, group: str | None, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Create a group without streams; its id is random if `group` is None."""
    parsed = parse_config(config)
    try:
        shared = group_budget(parsed, 1)
    except ValueError as error:
        raise RequestError(422, f"config: {error}", {"policy": {"kind": "budget", "share": 0.35}}) from None
    row = GroupRow(
        id=group or secrets.token_hex(8),
        name=name,
        config=json_text(parsed.to_dict()),
        created=round(time.time(), 3),
        version=0,
        state=json_text(shared.state()),
    )
    if engine.store.group(row.id) is not None:
        raise RequestError(409, f"there is a group {row.id!r} already", {"id": "another, or none"})
    engine.store.add_group(row)
    return _group_record(row, 0)


def remove_group(engine: Engine, group: str) -> None:
    """Delete a group that has no streams."""
    with suppress(DamagedError):
        engine.cache.group(group)
    members = engine.store.group_size(group)
    if members:
        raise RequestError(409, f"group {group!r} has {members} streams: delete them first", {"streams": 0})
    engine.store.remove_group(group)
    engine.cache.evict(groups=[group])


def current_totals(store: Store) -> dict[str, Any]:
    """Sums over the streams as they are now, as returned to clients."""
    found = store.current()
    groups = {str(one.group): {"ticks": one.ticks, "spent": one.spent} for one in found if one.group is not None}
    names = ("streams", "in_alarm", "never_read", "spent", "budgeted", "allowed")
    return {name: sum(getattr(one, name) for one in found) for name in names} | {"groups": groups}


def group_records(store: Store, rows: Sequence[GroupRow]) -> list[dict[str, Any]]:
    """`group_record` of each group."""
    return [group_record(row, store.group_size(row.id)) for row in rows]


def group_record(row: GroupRow, streams: int) -> dict[str, Any]:
    """A group as returned to clients. Its budget is the cost of a round of one reading per stream.

    If the row is damaged, the fields that cannot be read are None and `damaged` says why.
    """
    try:
        return _group_record(row, streams)
    except Exception as error:
        known = {"id": row.id, "name": row.name, "config": None, "created": row.created, "streams": streams}
        damaged = DamagedError("group", row.id, error).error
        return known | {"price": None, "limit": None, "budget": None, "rounds": None, "damaged": damaged}


def _group_record(row: GroupRow, streams: int) -> dict[str, Any]:
    if row.damage:
        raise ValueError(row.damage)
    config = Config.parse(json.loads(row.config))
    shared = group_budget(config, streams, row.state)
    return {
        "id": row.id,
        "name": row.name,
        "config": config.to_dict(),
        "created": row.created,
        "streams": streams,
        "price": shared.price,
        "limit": shared.limit or None,
        "budget": shared.target,
        "rounds": shared.policy.ticks,
        "damaged": None,
    }

"""Creating and deleting streams and groups. Functions that take an engine run in its thread (`run_exclusive`)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..io.config import Config, ConfigError
from ..io.config.size import DEPTH, cost, depth
from ..io.warm import rehearse
from .budgets import budget_of, group_budget
from .engine import Engine
from .errors import DamagedError, RequestError, not_found
from .fleets import Price, StreamFleet
from .limits import Limits
from .records import GroupRow, StreamRow, json_text, step_record
from .store.base import Store

MAX_VALUES = {"model": 500, "hazard": 20_000}
"""Largest number of values in a part of a configuration; other parts have the limit of a model."""
MAX_SIZES = {"resample": 4096, "top_k": 4096, "slack": 4096, "horizon": 100_000, "trials": 1_000_000}
"""Largest value of each number that determines memory or computing time."""
MAX_TEXT = 200
"""Largest number of characters of a string in a configuration."""


# --- checks of configurations ------------------------------------------------------------------------------------


def parse_config(config: Mapping[str, Any]) -> Config:
    """Parse a configuration; raises `RequestError` naming the key if it is invalid or too large."""
    _check_size(config)
    try:
        return Config.parse(config)
    except ConfigError as error:
        raise RequestError(422, f"config: {error}", {"config": "as in the TOML of `mfbocd init`"}) from None


def check_cost(config: Mapping[str, Any], limits: Limits) -> None:
    """Refuse a configuration whose streams could need more memory or time than the limits allow.

    This estimates the cost from the configuration alone, before anything is allocated.
    """
    _check_size(config)
    found = cost(config, limits.state)
    for what, needed, most, by in (
        ("bytes of state", found.state, limits.state, found.state_by),
        ("operations per tick", found.work, limits.work, found.work_by),
    ):
        if needed > most:
            raise RequestError(
                422,
                f"config: {by} can require {needed:.3g} {what}; the limit of this service is {most:.3g}",
                {key: "smaller" for key in by.replace(" and ", ", ").split(", ")},
            )


def check_runs(config: Mapping[str, Any]) -> None:
    """Compute the first ticks of a configuration, and refuse it if they fail.

    Call this outside the engine's thread: it compiles kernels that are not compiled yet.
    """
    parsed = parse_config(config)
    try:
        json_text(StreamFleet(parsed, grouped=False).new_stream()[1])
        last = rehearse(parsed)
        json_text([step_record(last.step, last.spent, 0.0, last.likely), last.gains])
    except Exception as error:
        raise RequestError(
            422, f"config cannot be computed: {error}", {"config": "numbers of an ordinary magnitude"}
        ) from error


def _check_size(config: Mapping[str, Any]) -> None:
    if depth(config) > DEPTH:
        raise RequestError(422, f"config: more than {DEPTH} nested tables or lists", {"config": "less nesting"})
    for key, part in config.items():
        most = MAX_VALUES.get(key, MAX_VALUES["model"])
        if _count_values(key, part) > most:
            raise RequestError(422, f"config: {key} holds more than {most} values", {key: f"at most {most} values"})


def _count_values(key: str, part: Any) -> int:
    """Number of values in a part of a configuration; raises `RequestError` if one of them is too large."""
    if isinstance(part, Mapping):
        return 1 + sum(_count_values(name, value) for name, value in part.items())
    if isinstance(part, list):
        return 1 + sum(_count_values(key, value) for value in part)
    if isinstance(part, str) and len(part) > MAX_TEXT:
        raise RequestError(
            422,
            f"config: {key} must have at most {MAX_TEXT} characters, not {len(part)}",
            {key: f"at most {MAX_TEXT} characters"},
        )
    most = MAX_SIZES.get(key)
    if most is not None and isinstance(part, (int, float)) and part > most:
        raise RequestError(
            422, f"config: {key} must be at most {most} in a service, not {part!r}", {key: f"at most {most}"}
        )
    return 1


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

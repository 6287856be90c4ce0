"""Streams and groups come and go; run in the writer's thread."""

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
from ..policy import Budget
from .choice import SharedBudget, budget_of, decide
from .engine import Engine
from .errors import DamagedError, RequestError, absent
from .limits import Limits
from .records import GroupRow, StreamRow, step_record, text
from .store.base import Store

NUMBERS = {"model": 500, "hazard": 20_000}
"""How many numbers a part of a config may hold; any other as many as a model."""
SIZES = {"resample": 4096, "top_k": 4096, "slack": 4096, "horizon": 100_000, "trials": 1_000_000}
"""How large a number may be that says how much is computed or kept."""
TEXT = 200
"""Characters of a text in a config."""


def parsed(config: Mapping[str, Any]) -> Config:
    """A config of a size a service bears, or a refusal that names the key."""
    _small(config)
    try:
        return Config.parse(config)
    except ConfigError as error:
        raise RequestError(422, f"config: {error}", {"config": "as in the TOML of `mfbocd init`"}) from None


def _small(config: Mapping[str, Any]) -> None:
    """Refuse a config that is written at too great a length."""
    if depth(config) > DEPTH:
        raise RequestError(
            422, f"config: more than {DEPTH} tables or lists inside one another", {"config": "flatter"}
        )
    for key, part in config.items():
        most = NUMBERS.get(key, NUMBERS["model"])
        if _count(key, part) > most:
            raise RequestError(422, f"config: {key} holds more than {most} values", {key: f"at most {most} values"})


def affordable(config: Mapping[str, Any], limits: Limits) -> None:
    """Refuse a config whose streams would need more than the service grants one, before anything is made of it."""
    _small(config)
    found = cost(config, limits.state)
    for what, needed, most, by in (
        ("bytes of state", found.state, limits.state, found.state_by),
        ("operations a tick", found.work, limits.work, found.work_by),
    ):
        if needed > most:
            raise RequestError(
                422,
                f"config: {by} can make it {needed:.3g} {what}, and {most:.3g} is the most in this service",
                {key: "smaller" for key in by.replace(" and ", ", ").split(", ")},
            )


def rehearsed(config: Mapping[str, Any]) -> None:
    """Run a config's first ticks: what it cannot do shows now.

    To be called outside the writer's thread, since what is not compiled is now.
    """
    made = parsed(config)
    try:
        text(decide(made.detector(missing="skip", shared=True)))
        moved = rehearse(made)
        text([step_record(moved.step, moved.spent, 0.0, moved.likely), moved.gains])
    except Exception as error:
        raise RequestError(
            422, f"config cannot be computed with: {error}", {"config": "numbers of a usual size"}
        ) from error


def _count(key: str, part: Any) -> int:
    """Values in a part of a config, whose sizes are looked at as well."""
    if isinstance(part, Mapping):
        return 1 + sum(_count(name, value) for name, value in part.items())
    if isinstance(part, list):
        return 1 + sum(_count(key, value) for value in part)
    if isinstance(part, str) and len(part) > TEXT:
        raise RequestError(
            422, f"config: {key} must have at most {TEXT} characters, not {len(part)}", {key: f"at most {TEXT}"}
        )
    most = SIZES.get(key)
    if most is not None and isinstance(part, (int, float)) and part > most:
        raise RequestError(
            422, f"config: {key} must be at most {most} in a service, not {part!r}", {key: f"at most {most}"}
        )
    return 1


def add_stream(
    engine: Engine,
    *,
    stream: str | None,
    name: str,
    config: Mapping[str, Any] | None,
    group: str | None,
    observers: Mapping[str, str],
    known: Mapping[str, Any],
    most: int,
) -> dict[str, Any]:
    """A stream before its first tick; of a group it has the group's config and price."""
    store = engine.store
    if store.totals()["streams"] >= most:
        raise RequestError(429, f"there are {most} streams already, the most this service keeps")
    held = None
    if group is not None:
        held = engine.memory.group(group)
        if config is not None and parsed(config).digest() != parsed(json.loads(held.row.config)).digest():
            raise RequestError(
                422, "config differs from the group's: leave it out", {"config": json.loads(held.row.config)}
            )
        made = parsed(json.loads(held.row.config))
    elif config is None:
        raise RequestError(422, "config is missing, and the operator has set none", {"config": "as in the TOML"})
    else:
        made = parsed(config)
    names = [f.name for f in made.fidelities] or ["full"]
    for fidelity, observer in observers.items():
        if fidelity not in names:
            raise RequestError(422, f"observers names {fidelity!r}, which is no fidelity", {"observers": names})
        if observer not in known:
            raise RequestError(422, f"observers: the operator has set no {observer!r}", {"observers": sorted(known)})
    try:
        detector = made.detector(missing="skip", shared=group is not None)
    except ValueError as error:
        raise RequestError(422, f"config: {error}", {"config": "a budget that the stream can spend"}) from None
    budget, price = budget_of(detector), None
    if held is not None:
        members = store.members(held.row.id) + 1
        try:
            shared = SharedBudget(made, members, held.row.state)
        except ValueError as error:
            raise RequestError(409, f"group {group!r} cannot take another stream: {error}") from None
        budget, price = None, shared.price
    state = detector.to_bytes()
    if len(state) > engine.largest:
        raise RequestError(422, f"config makes a state of {len(state)} bytes; {engine.largest} is the most", None)
    now = round(time.time(), 3)
    row = StreamRow(
        id=stream or secrets.token_hex(8),
        name=name,
        config=text(made.to_dict()),
        observers=text(dict(observers)),
        budget=budget,
        created=now,
        group=group,
        tick=0,
        spent=0.0,
        alarms=0,
        alarmed=None,
        last_alarm=None,
        last=None,
        next=text(decide(detector, price)),
        updated=now,
        state=state,
    )
    if store.stream(row.id) is not None:
        raise RequestError(409, f"there is a stream {row.id!r} already", {"id": "another, or none"})
    store.add_stream(row)
    engine.forget(stream=row.id, group=group)
    return row.full()


def remove_stream(engine: Engine, stream: str) -> None:
    """Forget a stream and its steps."""
    row = engine.store.stream(stream)
    if row is None:
        raise absent("stream", stream)
    if row.group is not None:
        with suppress(DamagedError):  # which is no reason to keep it
            engine.memory.group(row.group)
    engine.store.remove_stream(stream, row.group)
    engine.forget(stream=stream, group=row.group)


def add_group(engine: Engine, *, group: str | None, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """A group with no streams yet."""
    made = parsed(config)
    try:
        shared = SharedBudget(made, 1, "")
    except ValueError as error:
        raise RequestError(422, f"config: {error}", {"policy": {"kind": "budget", "share": 0.35}}) from None
    row = GroupRow(
        id=group or secrets.token_hex(8),
        name=name,
        config=text(made.to_dict()),
        created=round(time.time(), 3),
        version=0,
        state=shared.state(),
    )
    if engine.store.group(row.id) is not None:
        raise RequestError(409, f"there is a group {row.id!r} already", {"id": "another, or none"})
    engine.store.add_group(row)
    return group_record(row, 0)


def remove_group(engine: Engine, group: str) -> None:
    """Forget a group that has no streams."""
    with suppress(DamagedError):
        engine.memory.group(group)
    members = engine.store.members(group)
    if members:
        raise RequestError(409, f"group {group!r} has {members} streams: delete them first", {"streams": 0})
    engine.store.remove_group(group)
    engine.forget(group=group)


def group_records(store: Store, rows: Sequence[GroupRow]) -> list[dict[str, Any]]:
    """Groups as they are answered; one that cannot be read is among them."""
    return [shown_group(row, store.members(row.id)) for row in rows]


def shown_group(row: GroupRow, streams: int) -> dict[str, Any]:
    """`group_record`, or what can be said of a group that is damaged in the store."""
    try:
        return group_record(row, streams)
    except Exception as error:
        facts = {"id": row.id, "name": row.name, "config": None, "created": row.created, "streams": streams}
        said = DamagedError("group", row.id, error).error
        return facts | {"price": None, "budget": None, "rounds": None, "damaged": said}


def group_record(row: GroupRow, streams: int) -> dict[str, Any]:
    """A group as it is answered: its budget is what a round of one reading a stream may cost."""
    made = Config.parse(json.loads(row.config))
    shared = SharedBudget(made, streams, row.state)
    policy = shared.policy
    assert isinstance(policy, Budget)
    if policy.per_tick is not None:
        budget = policy.per_tick
    else:
        low, high = float(policy.cost.min()), float(policy.cost.max())
        budget = policy.streams * (low + (policy.share or 0.0) * (high - low))
    return {
        "id": row.id,
        "name": row.name,
        "config": made.to_dict(),
        "created": row.created,
        "streams": streams,
        "price": policy.price,
        "budget": budget,
        "rounds": policy.ticks,
        "damaged": None,
    }

"""What is kept of a stream, a group, a step and a token; steps as plain JSON values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from ..detector.step import Step

SHOWN = 16
"""Run lengths a step lists at most,"""
LEAST = 0.01
"""and the least probability of one that is listed."""

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_NUMPY = orjson.OPT_SERIALIZE_NUMPY


@dataclass
class StreamRow:
    """A stream as it is stored."""

    id: str
    name: str
    config: str
    """The config as JSON."""
    observers: str
    """Names of the operator's observers by fidelity, as JSON."""
    budget: float | None
    """The wanted average cost a tick, where the policy has one."""
    created: float
    group: str | None
    tick: int
    """The coming tick: how many there were."""
    spent: float
    alarms: int
    alarmed: float | None
    """When the last alarm was, seconds since 1970."""
    last_alarm: str | None
    """The last alarm's step as JSON."""
    last: str | None
    """The last step as JSON."""
    next: str
    """What is to be read at the coming tick: fidelity, gains, price, as JSON."""
    updated: float
    state: bytes
    """`Detector.to_bytes` after `tick` ticks."""

    def after(
        self,
        tick: int,
        spent: float,
        alarms: tuple[int, float | None, str | None],
        last: str,
        following: str,
        updated: float,
        state: bytes,
    ) -> StreamRow:
        """The row after a tick. In order, not by name: half the time of `dataclasses.replace`."""
        same = (self.id, self.name, self.config, self.observers, self.budget, self.created, self.group)
        return StreamRow(*same, tick, spent, *alarms, last, following, updated, state)

    def summary(self) -> dict[str, Any]:
        """What a list of streams shows of one; what cannot be read is null, and `damaged` says why."""
        read = _Reading()
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "tick": self.tick,
            "spent": self.spent,
            "budget": self.budget,
            "alarms": self.alarms,
            "last_alarm": None if self.last_alarm is None else read("last_alarm", self.last_alarm),
            "last": None if self.last is None else read("last", self.last),
            "next": read("next", self.next),
            "created": self.created,
            "updated": self.updated,
            "damaged": read.damaged,
        }

    def full(self) -> dict[str, Any]:
        """The summary, the config and the observers."""
        found, read = self.summary(), _Reading()
        more = {"config": read("config", self.config), "observers": read("observers", self.observers)}
        return found | more | {"damaged": found["damaged"] or read.damaged}


class _Reading:
    """Reads the JSON of a row; of what cannot be read it notes the first."""

    damaged: str | None = None

    def __call__(self, name: str, stored: Any) -> Any:
        try:
            found = json.loads(stored)
            if isinstance(found, dict):
                return found
            error = "not an object"
        except (TypeError, ValueError, RecursionError) as failure:
            error = str(failure)
        self.damaged = self.damaged or f"{name} cannot be read: {error}"[:300]
        return None


@dataclass
class GroupRow:
    """Streams of one config under one budget."""

    id: str
    name: str
    config: str
    created: float
    version: int
    """Counts the writes."""
    state: str
    """What the budget has learnt, and the round under way, as JSON."""


class Event(NamedTuple):
    """A step as it is stored."""

    stream: str
    tick: int
    at: float
    alarm: bool
    step: str
    seq: int = 0
    """Its place among the steps of all streams; 0 before it is stored."""


@dataclass(frozen=True)
class Token:
    """Who may ask: only the hash of what they show is kept."""

    name: str
    hash: str
    scope: str
    created: float


def encoded(value: Any) -> bytes:
    """Plain values as JSON, as short as it gets; a text that is no Unicode is spelt out.

    orjson writes a step in a tenth of the standard encoder's time, which was a third of a tick's; it has no numbers
    of more than 64 bits.

    >>> encoded({"x": [1.5, None], "y": 2**70})
    b'{"x":[1.5,null],"y":1180591620717411303424}'
    """
    try:
        return orjson.dumps(value, option=_NUMPY)
    except orjson.JSONEncodeError:
        return _encode(value).encode("utf-8", "backslashreplace")


def text(value: Any) -> str:
    """`encoded` as a text."""
    return encoded(value).decode()


def number(value: Any) -> Any:
    """A reading or a mean as JSON has it: a missing number is null.

    >>> number((1.0, float("nan")))
    [1.0, None]
    """
    if isinstance(value, tuple):
        return [None if math.isnan(v) else v for v in value]
    return value


def step_record(step: Step, spent: float, at: float, likely: list[list[float]]) -> dict[str, Any]:
    """A step as it is answered, stored and streamed: its fields, the spend so far, the likely run lengths."""
    tick, fidelity, x, cost, mean, run_length, p_change, alarm, changed_at, confidence, _, _ = step
    return {
        "tick": tick,
        "fidelity": fidelity,
        "x": number(x),
        "cost": cost,
        "mean": number(mean),
        "run_length": run_length,
        "p_change": p_change,
        "alarm": alarm,
        "changed_at": changed_at,
        "confidence": confidence,
        "spent": spent,
        "at": at,
        "posterior": likely,
    }

"""Rows of the store, and steps as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from ..detector.step import Step

MAX_RUN_LENGTHS = 16
"""Largest number of run lengths in a step."""
MIN_PROBABILITY = 0.01
"""Smallest probability of a run length in a step."""

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_NUMPY = orjson.OPT_SERIALIZE_NUMPY


class DamagedText(str):
    """A text of the database that is not UTF-8, with the bytes that are none escaped."""

    __slots__ = ()


@dataclass
class StreamRow:
    """A stream as it is stored."""

    id: str
    name: str
    config: str
    """The configuration as JSON."""
    observers: str
    """Names of the operator's observers by fidelity, as JSON."""
    budget: float | None
    """Average cost per tick that the policy aims at; None if the policy has no budget."""
    created: float
    """Seconds since 1970."""
    group: str | None
    tick: int
    """The next tick, which is also the number of ticks so far."""
    spent: float
    alarms: int
    alarmed: float | None
    """Time of the last alarm, in seconds since 1970."""
    last_alarm: str | None
    """Step of the last alarm as JSON."""
    last: str | None
    """The last step as JSON."""
    next: str
    """The choice for the next tick as JSON: fidelity, gains, price, limit."""
    updated: float
    """Seconds since 1970."""
    state: bytes
    """`Detector.to_bytes` after `tick` ticks."""
    damage: str = ""
    """Why the row as it is stored cannot be used; empty if it can. Values that cannot be read have a substitute."""

    def advanced(
        self,
        tick: int,
        spent: float,
        alarms: tuple[int, float | None, str | None],
        last: str,
        choice: str,
        updated: float,
        state: bytes,
    ) -> StreamRow:
        """The row after a tick. Positional arguments take half the time of `dataclasses.replace`."""
        same = (self.id, self.name, self.config, self.observers, self.budget, self.created, self.group)
        return StreamRow(*same, tick, spent, *alarms, last, choice, updated, state)

    def choice(self) -> str:
        """The choice for the next tick, with the tick, as it is returned to clients."""
        return f'{{"tick":{self.tick},{self.next[1:]}'

    def summary(self, acknowledged: int | None = None) -> dict[str, Any]:
        """The entry of a list of streams. Unreadable fields are null, and `damaged` says why.

        Parameters
        ----------
        acknowledged : int, optional
            Tick of the latest alarm that is acknowledged.
        """
        read = _FieldReader(self.damage)
        last_alarm = None if self.last_alarm is None else read("last_alarm", self.last_alarm)
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "tick": self.tick,
            "spent": self.spent,
            "budget": self.budget,
            "alarms": self.alarms,
            "last_alarm": last_alarm,
            "acknowledged": last_alarm is not None
            and acknowledged is not None
            and last_alarm.get("tick") == acknowledged,
            "last": None if self.last is None else read("last", self.last),
            "next": read("next", self.next),
            "created": self.created,
            "updated": self.updated,
            "damaged": read.damaged,
        }

    def full(self, acknowledged: int | None = None) -> dict[str, Any]:
        """The summary with the configuration and the observers."""
        summary, read = self.summary(acknowledged), _FieldReader(self.damage)
        more = {"config": read("config", self.config), "observers": read("observers", self.observers)}
        return summary | more | {"damaged": summary["damaged"] or read.damaged}


class _FieldReader:
    """Parses JSON fields of a row, and remembers the first that is not an object."""

    def __init__(self, damage: str) -> None:
        self.damaged: str | None = damage or None

    def __call__(self, name: str, stored: Any) -> Any:
        try:
            found = orjson.loads(stored)
            if isinstance(found, dict):
                return found
            error = "not an object"
        except (TypeError, ValueError, RecursionError) as failure:
            error = str(failure)
        self.damaged = self.damaged or f"{name} cannot be read: {error}"[:300]
        return None


@dataclass
class GroupRow:
    """A group as it is stored: streams of one configuration that share a budget."""

    id: str
    name: str
    config: str
    """The configuration as JSON."""
    created: float
    version: int
    """Number of writes, to detect those of other workers."""
    state: str
    """The learned price and the round in progress, as JSON."""
    damage: str = ""
    """Why the row as it is stored cannot be used, as of a stream."""


class Event(NamedTuple):
    """A step as it is stored."""

    stream: str
    tick: int
    at: float
    """Seconds since 1970."""
    alarm: bool
    step: str
    """The step as JSON."""
    seq: int = 0
    """Position among the events of all streams; 0 before it is stored."""


@dataclass(frozen=True)
class Token:
    """An access token, of which only the hash is stored."""

    name: str
    hash: str
    scope: str
    created: float


def json_bytes(value: Any) -> bytes:
    """Compact JSON. Characters that are not valid Unicode are escaped.

    orjson takes a tenth of the time of the standard encoder, which was a third of a tick's time. It has no integers
    of more than 64 bits, so those are left to the standard encoder.

    >>> json_bytes({"x": [1.5, None], "y": 2**70})
    b'{"x":[1.5,null],"y":1180591620717411303424}'
    """
    try:
        return orjson.dumps(value, option=_NUMPY)
    except orjson.JSONEncodeError:
        return _encode(value).encode("utf-8", "backslashreplace")


def json_text(value: Any) -> str:
    """`json_bytes` as a string."""
    return json_bytes(value).decode()


def json_number(value: Any) -> Any:
    """A reading or a mean for JSON: a tuple becomes a list, with None for missing numbers.

    >>> json_number((1.0, float("nan")))
    [1.0, None]
    """
    if isinstance(value, tuple):
        return [None if math.isnan(v) else v for v in value]
    return value


def step_record(step: Step, spent: float, at: float, posterior: list[list[float]]) -> dict[str, Any]:
    """A step as it is stored and returned to clients.

    Parameters
    ----------
    step : Step
    spent : float
        Cost of all readings so far.
    at : float
        Seconds since 1970.
    posterior : list of [run length, probability]
        The likely run lengths.
    """
    tick, fidelity, x, cost, mean, run_length, p_change, alarm, changed_at, confidence, *_ = step
    return {
        "tick": tick,
        "fidelity": fidelity,
        "x": json_number(x),
        "cost": cost,
        "mean": json_number(mean),
        "run_length": run_length,
        "p_change": p_change,
        "alarm": alarm,
        "changed_at": changed_at,
        "confidence": confidence,
        **({} if step.outlier is None else {"outlier": step.outlier}),
        "spent": spent,
        "at": at,
        "posterior": posterior,
    }


def with_reasons(step: str, choice: str) -> str:
    """A step with the gains and the price that its fidelity was chosen by.

    Both are JSON already, and are joined as text: parsing the choice would take longer than encoding the step.

    Parameters
    ----------
    step : str
        The step as JSON.
    choice : str
        The choice of its tick as JSON, as `StreamRow.next`.

    Examples
    --------
    >>> with_reasons('{"tick":0}', '{"fidelity":"gps","gains":{"imu":0.1,"gps":0.5},"price":0.01}')
    '{"tick":0,"gains":{"imu":0.1,"gps":0.5},"price":0.01}'
    """
    # a quotation mark inside a name is escaped, so that this occurs only where the gains begin
    _, found, reasons = choice.partition(',"gains":')
    return f"{step[:-1]}{found}{reasons}" if found else step

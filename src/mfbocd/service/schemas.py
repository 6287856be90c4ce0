"""What requests and answers look like: checked when they come in, and told in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, StringConstraints

CONFIG: dict[str, Any] = {
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    "policy": {"kind": "budget", "share": 0.35},
}
"""An example: two sensors under a budget."""
STEP: dict[str, Any] = {
    **{"tick": 0, "fidelity": "gps", "x": 0.3, "cost": 40.0, "mean": 0.27, "run_length": 0, "p_change": 0.0},
    **{"alarm": False, "changed_at": None, "confidence": None, "spent": 40.0, "at": 1767225600.0},
    "posterior": [[0, 1.0]],
}

ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Id = Annotated[str, StringConstraints(pattern=ID)]
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN)]
Word = Annotated[StrictStr, Field(min_length=1, max_length=200, pattern=PLAIN)]
Tick = Annotated[StrictInt, Field(ge=0, lt=2**53)]
Number = StrictFloat | StrictInt  # strict: true and " 1e3 " are no readings
X = Annotated[
    Number | Annotated[list[Number | None], Field(max_length=1000)] | None,
    Field(description="The reading: a number, a list of them where a reading has several, null if there is none."),
]


class Body(BaseModel):
    """A request: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewStream(Body):
    """A stream to be made. Without a config it has the group's, or the operator's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "walk", "name": "A walk", "config": CONFIG}]})
    id: Id | None = None
    name: Name | None = None
    config: dict[str, Any] | None = None
    group: Id | None = None
    observers: dict[Word, Word] = Field(default_factory=dict, max_length=100)


class NewGroup(Body):
    """A group to be made: its streams have this config and share its budget."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "fleet", "name": "A fleet", "config": CONFIG}]})
    id: Id | None = None
    name: Name | None = None
    config: dict[str, Any]


class Observation(Body):
    """What was read at a tick, at the fidelity chosen for it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tick": 0, "fidelity": "gps", "x": 0.3}]})
    tick: Tick
    fidelity: Word
    x: X


class StreamObservation(Observation):
    """What was read of one of many streams."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"stream": "walk", "tick": 0, "fidelity": "gps", "x": 0.3}]}
    )
    stream: Id


class Observations(Body):
    """What was read of many streams."""

    observations: Annotated[list[StreamObservation], Field(min_length=1)]


class Choices(Body):
    """Streams to be asked about."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"streams": ["walk"]}]})
    streams: Annotated[list[Id], Field(min_length=1)]


class Raw(Body):
    """A raw input for the operator's observer of the chosen fidelity."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"raw": {"frame": 7}}]})
    raw: Any
    tick: Tick | None = None


class Choice(BaseModel):
    """What to read at the coming tick, and why: the gain of each fidelity, and the gain one unit of cost must buy."""

    tick: int
    fidelity: str
    gains: dict[str, float]
    price: float | None


class Step(BaseModel):
    """The record of one tick."""

    model_config = ConfigDict(json_schema_extra={"examples": [STEP]})
    tick: int
    fidelity: str
    x: Any
    cost: float
    mean: Any
    run_length: int
    p_change: float
    alarm: bool
    changed_at: int | None
    confidence: float | None
    spent: float
    at: float
    posterior: list[tuple[float, float]]


class Failure(BaseModel):
    """Why something was not done, and what was expected."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"error": "tick 3 is not yet: 2 is the coming one", "expected": {"tick": 2, "fidelity": "imu"}}
            ]
        }
    )
    error: str
    expected: Any


class Results(BaseModel):
    """One answer for each command, in order: what a single request would have answered, or `status` and why not."""

    results: list[dict[str, Any]]


class Stream(BaseModel):
    """A stream: where it stands, its last step and last alarm, what it shall read next."""

    id: str
    name: str
    group: str | None
    tick: int
    spent: float
    budget: float | None
    alarms: int
    last_alarm: Step | None
    last: Step | None
    next: dict[str, Any] | None
    created: float
    updated: float
    damaged: str | None
    """Why what is stored of it cannot be read; then what cannot is null."""


class FullStream(Stream):
    """A stream with its config."""

    config: dict[str, Any] | None
    observers: dict[str, str] | None


class Streams(BaseModel):
    """Some streams and how many there are."""

    streams: list[Stream]
    total: int


class Group(BaseModel):
    """A group: its budget is what a round of one reading a stream may cost on average."""

    id: str
    name: str
    config: dict[str, Any] | None
    created: float
    streams: int
    price: float | None
    budget: float | None
    rounds: int | None
    damaged: str | None
    """Why what is stored of it cannot be read; then what cannot is null."""


class Groups(BaseModel):
    """All groups."""

    groups: list[Group]

"""The schemas of requests, which are validated, and of responses; both are in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

CONFIG: dict[str, Any] = {
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    "policy": {"kind": "budget", "share": 0.35},
}
"""An example: two sensors and a budget."""
STEP: dict[str, Any] = {
    **{"tick": 0, "fidelity": "gps", "x": 0.3, "cost": 40.0, "mean": 0.27, "run_length": 0, "p_change": 0.0},
    **{"alarm": False, "changed_at": None, "confidence": None, "spent": 40.0, "at": 1767225600.0},
    **{"posterior": [[0, 1.0]], "gains": {"imu": 0.09, "gps": 0.66}, "price": 0.012, "limit": None},
}

ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Id = Annotated[str, StringConstraints(pattern=ID)]
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters."""
LINES = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$"
"""No control characters except tabs and line breaks."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN)]
Word = Annotated[StrictStr, Field(min_length=1, max_length=200, pattern=PLAIN)]
Tick = Annotated[StrictInt, Field(ge=0, lt=2**53)]
Number = StrictFloat | StrictInt  # strict: true and " 1e3 " are not readings
X = Annotated[
    Number | Annotated[list[Number | None], Field(max_length=1000)] | None,
    Field(description="The reading: a number, a list of numbers if the model has several, null if it is missing."),
]


class Body(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewStream(Body):
    """A new stream. Without a config it has that of the group, or the default of the operator."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "walk", "name": "A walk", "config": CONFIG}]})
    id: Id | None = None
    name: Name | None = None
    config: dict[str, Any] | None = None
    group: Id | None = None
    observers: dict[Word, Word] = Field(default_factory=dict, max_length=100)


class NewGroup(Body):
    """A new group, whose streams have this config and share its budget."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "fleet", "name": "A fleet", "config": CONFIG}]})
    id: Id | None = None
    name: Name | None = None
    config: dict[str, Any]


class Observation(Body):
    """The reading of a tick at the fidelity chosen for it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tick": 0, "fidelity": "gps", "x": 0.3}]})
    tick: Tick
    fidelity: Word
    x: X


class StreamObservation(Observation):
    """The reading of one of many streams."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"stream": "walk", "tick": 0, "fidelity": "gps", "x": 0.3}]}
    )
    stream: Id


class Observations(Body):
    """Readings of many streams."""

    observations: Annotated[list[StreamObservation], Field(min_length=1)]


class Choices(Body):
    """Streams whose choices are requested."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"streams": ["walk"]}]})
    streams: Annotated[list[Id], Field(min_length=1)]


class Raw(Body):
    """A raw input for the operator's observer of the chosen fidelity."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"raw": {"frame": 7}}]})
    raw: Any
    tick: Tick | None = None


class NewNote(Body):
    """A note on an alarm: an acknowledgement, with or without a text, or a comment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"tick": 41, "acknowledged": True, "author": "Ann", "text": "Pump serviced"}]}
    )
    tick: Annotated[Tick, Field(description="Tick of the alarm.")]
    acknowledged: StrictBool = False
    author: Annotated[StrictStr, Field(max_length=100, pattern=PLAIN)] = ""
    text: Annotated[StrictStr, Field(max_length=2000, pattern=LINES)] = ""


Limit = Literal["forbidden", "demanded"]


class Choice(BaseModel):
    """The fidelity to read at the next tick, the gain of each fidelity, and the price: gain per unit of cost."""

    tick: int
    fidelity: str
    gains: dict[str, float]
    price: float | None
    limit: Limit | None
    """Why the price does not decide: debt of the budget forbids an expensive reading, or savings demand one."""


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
    outlier: float | None = Field(default=None, description="P(outlier); absent if the model has no outliers")
    spent: float
    at: float
    posterior: list[tuple[float, float]]
    gains: dict[str, float] | None = Field(default=None, description="Of each fidelity, when this one was chosen.")
    price: float | None = Field(default=None, description="Gain that a unit of cost had to buy then.")
    limit: Limit | None = Field(
        default=None,
        description="Why the price did not decide: debt forbade an expensive reading, or savings demanded one.",
    )


class Level(BaseModel):
    """The level of a regime with a 95 % interval of its mean, or of its median; an infinite end is null."""

    mean: float | None
    low: float | None
    high: float | None
    median: float | None = Field(description="With outliers or a long tail: then the interval is that of the median.")
    trusted: bool = Field(description="Whether the readings are enough for their autocorrelation.")
    statistic: str = Field(description="What the interval belongs to: mean or median.")


class Note(BaseModel):
    """A note on the alarm of a tick. `token` is the name of the token it was written with, which was verified."""

    stream: str
    id: str
    tick: int
    at: float
    acknowledged: bool
    author: str
    token: str | None
    text: str


class Notes(BaseModel):
    """The notes on the alarms of a stream, oldest first."""

    notes: list[Note]


class Change(BaseModel):
    """A change, with the levels before and after: one for each number of a reading, or for each category."""

    tick: int
    changed_at: int
    confidence: float
    before: Level | list[Level | None] | None
    after: Level | list[Level | None] | None
    delay: int
    at: float
    text: str
    notes: list[Note]


class Changes(BaseModel):
    """The changes among the last steps of a stream."""

    changes: list[Change]


class Failure(BaseModel):
    """Why a request was refused, and what was expected."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"error": "tick 3 is in the future; the next tick is 2", "expected": {"tick": 2, "fidelity": "imu"}}
            ]
        }
    )
    error: str
    expected: Any


class Results(BaseModel):
    """One result per command, in order: `status` and the response of a single request."""

    results: list[dict[str, Any]]


class Stream(BaseModel):
    """A stream with its last step, its last alarm and its next choice."""

    id: str
    name: str
    group: str | None
    tick: int
    spent: float
    budget: float | None
    alarms: int
    last_alarm: Step | None
    acknowledged: bool
    """Whether there is an acknowledgement of the last alarm."""
    last: Step | None
    next: dict[str, Any] | None
    created: float
    updated: float
    damaged: str | None
    """Why fields of its stored row cannot be read; these are null."""


class FullStream(Stream):
    """A stream with its config."""

    config: dict[str, Any] | None
    observers: dict[str, str] | None


class Streams(BaseModel):
    """A page of streams, the number of all that match, and when the latest note on any alarm was written."""

    streams: list[Stream]
    total: int
    noted: float | None


class GroupTotals(BaseModel):
    """Sums over the streams of a group."""

    ticks: int
    spent: float | None


class Totals(BaseModel):
    """Sums over the streams as they are now, without deleted ones."""

    streams: int
    in_alarm: int
    """Streams with an alarm in their last 50 ticks that nobody has acknowledged."""
    never_read: int
    spent: float | None
    budgeted: float | None
    """What the streams with a budget of their own have spent."""
    allowed: float | None
    """What these budgets allowed for their ticks."""
    groups: dict[str, GroupTotals]
    """By id; a group without streams is absent."""


class RecentMeans(BaseModel):
    """The predicted means after the last steps, and the ticks of the changes found in them."""

    ticks: list[int]
    mean: list[float | None]
    changes: list[int]


class Recent(BaseModel):
    """The recent means of streams by id."""

    streams: dict[str, RecentMeans]


class Group(BaseModel):
    """A group. Its budget is the average cost of a round of one reading per stream."""

    id: str
    name: str
    config: dict[str, Any] | None
    created: float
    streams: int
    price: float | None
    limit: Limit | None
    budget: float | None
    rounds: int | None
    damaged: str | None
    """Why fields of its stored row cannot be read; these are null."""


class Groups(BaseModel):
    """All groups."""

    groups: list[Group]

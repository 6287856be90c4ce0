"""Items, their labels, and what a `JudgeMonitor` reports about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from ...detector.late import Key
from ...detector.step import Step
from ...inputs.readings import number

Label = bool | float | Literal["pass", "fail"]
_WORDS = {"pass": 0.0, "fail": 1.0}


class RateChange(NamedTuple):
    """A change of the failure rate.

    Parameters
    ----------
    item : int
        Index of the item at which it was detected; 0 is the first.
    changed_at : int
        Index of the item at which the rate most probably changed.
    confidence : float
        P(the rate has changed).
    rate : float
        The failure rate, as estimated at that item.
    """

    item: int
    changed_at: int
    confidence: float
    rate: float


class Asked(NamedTuple):
    """An item that the judge was asked about: level, expected cost, whether it was drawn at random, and its day."""

    level: int
    cost: float
    drawn: bool
    day: Key


def change_of(step: Step) -> RateChange:
    """Return the change that an alarm reports."""
    assert step.changed_at is not None
    assert step.confidence is not None
    return RateChange(step.tick, step.changed_at, step.confidence, step.mean)


def key_of(item: Any, key: Callable[[Any], Key] | None) -> Key:
    """Return what identifies an item: `key` of it if that is given, else the item itself or its "id"."""
    if key is not None:
        found: Any = key(item)
    elif isinstance(item, str | int):
        found = item
    else:
        found = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    if not isinstance(found, str | int):
        raise TypeError(f"key must return a str or int that identifies the item, not {found!r}; pass key=")
    return found


def label_of(given: Any, score: bool = False) -> float:
    """Return 1 for "fail" and 0 for "pass"; a check may also return a score."""
    value = _WORDS.get(given) if isinstance(given, str) else number(given)
    if value is None or not 0.0 <= value <= 1.0 or not (score or value in (0.0, 1.0)):
        what = "a check must return a score in [0, 1] or" if score else "a label must be"
        raise ValueError(f"{what} 0, 1, 'pass' or 'fail', not {given!r}")
    return value

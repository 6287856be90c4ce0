"""One tick: what comes in, what is told of it, and when it is an alarm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inputs.readings import cells, number, numbers
from ..models import Model
from ..models.base import finite

Array = NDArray[np.float64]
Missing = Literal["raise", "skip"]
NEVER = 2.0  # an alarm level no probability reaches


@dataclass(frozen=True)
class Alarm:
    """Fire when P(a change within the last `within` ticks) reaches `threshold`.

    One change is one alarm: after it fires, only regimes that began later than that tick count towards the
    next. `within` must be long enough for the evidence to gather: a change is no longer seen once it is older.

    >>> Alarm(within=30, threshold=0.9)
    Alarm(within=30, threshold=0.9)
    """

    within: int = 50
    threshold: float = 0.9

    def __post_init__(self) -> None:
        if isinstance(self.within, bool) or not isinstance(self.within, int):
            raise TypeError(f"Alarm.within must be a whole number, not {self.within!r}")
        if self.within < 1:
            raise ValueError(f"Alarm.within must be at least 1, not {self.within!r}")
        if self.within >= 2**53:
            raise ValueError("Alarm.within must be below 2**53, the ticks that can be counted")
        if not 0.0 < finite("Alarm", "threshold", self.threshold) <= 1.0:
            raise ValueError(f"Alarm.threshold must lie in (0, 1], not {self.threshold!r}")


class Step(NamedTuple):
    """The record of one tick."""

    tick: int
    """0 for the first."""
    fidelity: str | None
    """Name of the fidelity read; None where time merely passed."""
    x: Any
    """The reading, a float, or a tuple of them where a reading has several numbers; None if it was missing."""
    cost: float
    mean: Any
    """E[x_{t+1}] after this tick, a float or a tuple like the reading."""
    run_length: int
    """MAP of r_t: ticks since the first of the current regime."""
    p_change: float
    """P(change within the alarm's window)."""
    alarm: bool
    changed_at: int | None
    """At an alarm, the tick the new regime most probably began at."""
    confidence: float | None
    """At an alarm, P(a regime began after the last alarm, within the window)."""
    failed: tuple[str, ...] = ()
    """Fidelities that were asked and gave no reading, with `on_error="fallback"`; their cost is in `cost`."""
    warning: str | None = None
    """At a shadow reading that shows a fidelity to be worse than declared: what it shows."""


def reading(model: Model, x: Any, missing: Missing) -> Any:
    """A reading the model can have produced, None if it is missing and may be; else an error.

    A float, or an array where the model's readings have several numbers. `number` says what a number is.
    """
    if model.dimension > 1:
        return _several(model, x, missing)
    value = number(x)
    if math.isnan(value):
        if missing == "skip":
            return None
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    return model.check(value)


def _several(model: Model, x: Any, missing: Missing) -> Array | None:
    d = model.dimension
    given = cells(x)
    if given.ndim == 0:
        try:
            gone = math.isnan(number(given))
        except TypeError:
            raise TypeError(f"x must be {d} numbers, not {x!r}") from None
        if gone and missing == "skip":
            return None
        if gone:
            raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if given.shape != (d,):
        raise ValueError(f"x must be {d} numbers, not of shape {given.shape}: {x!r}")
    try:
        values = numbers(given)
    except TypeError:
        raise TypeError(f"x must be {d} numbers, not {x!r}") from None
    if np.isinf(values).any():
        raise ValueError(f"x must be finite, not {x!r}")
    absent = np.isnan(values)
    if not absent.any() or (model.partial and not absent.all()):
        if absent.any() and missing == "raise":
            raise ValueError(f"x is {x!r}: pass missing='skip' if a number may be missing")
        checked: Array = model.check(values)
        return checked
    if missing == "raise":
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if not absent.all():
        raise ValueError(f"x is {x!r}: {type(model).__name__} takes all of its {d} numbers or none")
    return None


def readings(model: Model, given: NDArray[Any], missing: Missing, where: Callable[[int], str]) -> Array:
    """`reading` of many at once, which lie along the first axis of `given` (`cells`), as floats; NaN if missing.

    Numbers are taken in bulk, and only those the model cannot have produced are judged one by one. `where` names the
    i-th in an error.
    """
    values = numbers(given, where)
    for i in np.flatnonzero(~model.possible(values)).tolist():
        x = given[i]
        try:
            checked = reading(model, float(x) if isinstance(x, np.floating) else x, missing)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where(i)}: {error}") from None
        values[i] = np.nan if checked is None else checked
    return values


def told(report: Array) -> dict[str, Any]:
    """What the kernels report of n ticks or streams, shape (FIELDS, n), as fields of a trace or a fleet's step."""
    mean, run_length, p_change, alarm, changed_at, confidence = report
    fired = alarm != 0.0
    return {
        "mean": mean,
        "run_length": run_length.astype(np.int64),
        "p_change": p_change,
        "alarm": fired,
        "changed_at": np.where(fired, changed_at, -1.0).astype(np.int64),
        "confidence": np.where(fired, confidence, np.nan),
    }


def alarm_of(alarm: Alarm | float | None) -> Alarm | None:
    """An Alarm from itself, from a threshold, or none."""
    if alarm is None or isinstance(alarm, Alarm):
        return alarm
    return Alarm(threshold=finite("Detector", "alarm", alarm))


def seed_of(seed: int) -> int:
    """A seed the kernels can hold."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed must be a whole number, not {seed!r}")
    if not 0 <= seed < 2**53:
        raise ValueError(f"seed must lie in [0, 2**53), not {seed!r}")
    return int(seed)


def level_of(level: float) -> float:
    """A probability strictly between 0 and 1."""
    if not 0.0 < finite("Detector", "level", level) < 1.0:
        raise ValueError(f"level must lie in (0, 1), not {level!r}")
    return float(level)

"""One tick: what comes in, what is told of it, and when it is an alarm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .models import Model
from .models.base import finite

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

    A float, or an array where the model's readings have several numbers.
    """
    if model.dimension > 1:
        return _several(model, x, missing)
    if x is None or (isinstance(x, (float, np.floating)) and math.isnan(x)):
        if missing == "skip":
            return None
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if not isinstance(x, (bool, int, float, np.bool_, np.integer, np.floating)):
        raise TypeError(f"x must be a number, not {x!r}")
    value = float(x)
    if math.isinf(value):
        raise ValueError(f"x must be finite, not {x!r}")
    return model.check(value)


def _several(model: Model, x: Any, missing: Missing) -> Array | None:
    d = model.dimension
    if x is not None:
        try:
            values = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"x must be {d} numbers, not {x!r}") from None
        if values.shape != (d,):
            raise ValueError(f"x must be {d} numbers, not of shape {values.shape}: {x!r}")
        gone = np.isnan(values)
        if np.isinf(values).any():
            raise ValueError(f"x must be finite, not {x!r}")
        if not gone.any() or (model.partial and not gone.all()):
            if gone.any() and missing == "raise":
                raise ValueError(f"x is {x!r}: pass missing='skip' if a number may be missing")
            checked: Array = model.check(values)
            return checked
        if not gone.all() and missing == "skip":
            raise ValueError(f"x is {x!r}: {type(model).__name__} takes all of its {d} numbers or none")
    if missing == "skip":
        return None
    raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")


def readings(
    model: Model, values: Array, missing: Missing, item: Callable[[int], Any], where: Callable[[int], str]
) -> Array:
    """Check readings taken as floats in bulk: those the model cannot have produced are judged one by one.

    `item` gives the i-th as it came and `where` names it in an error; a missing one becomes NaN. Readings lie along
    the first axis.
    """
    for i in np.flatnonzero(~model.possible(values)).tolist():
        value = item(i)
        try:
            checked = reading(model, value.item() if isinstance(value, np.generic) else value, missing)
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

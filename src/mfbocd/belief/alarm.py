"""Alarms: P(change) reaches a threshold, optionally with a direction, a known level or a smallest change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.alarm import decide_alarm, jump_odds, level_of_old
from ..inputs.arguments import finite, positive, probability, whole
from ..models import Model
from .state import dropped_stats, stats_of

Array = NDArray[np.float64]
Direction = Literal["up", "down"]
NEVER = 2.0  # a threshold that no probability reaches


@dataclass(frozen=True)
class Alarm:
    """Fire when P(a change within the last `within` ticks) reaches `threshold`.

    One change causes one alarm: after it, only regimes that began later than that tick count towards the next.

    Parameters
    ----------
    within : int, default 200
        Length of the window in ticks. It must be long enough for the evidence to accumulate: an older change is no
        longer detected. With few expensive readings that takes many ticks.
    threshold : float, default 0.9
        The probability that must be reached, in (0, 1].
    direction : {'up', 'down'}, optional
        Only changes of the mean in this direction count.
    before : float or sequence of float, optional
        The level before a change, in units of the readings: the mean of a reading, or readings from before any
        change, from which the level is estimated. A stream then begins with a known level.
    at_least : float, optional
        The smallest relevant change of the mean, in units of the readings. P(change) is then the probability that
        the level has jumped by this much (Shiryaev's rule), which is as fast as a CUSUM that knows both levels if
        `before` is given. Otherwise the level is estimated. Larger changes are detected sooner.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    With `before` and `at_least`, the alarm fires again only once the level has returned: after P(change) has fallen
    below half the threshold, or below the threshold `within` ticks or more after the last alarm.

    Examples
    --------
    >>> Alarm(within=30, threshold=0.9)
    Alarm(within=30, threshold=0.9, direction=None, before=None, at_least=None)
    >>> Alarm(direction="up", before=7.1, at_least=0.5).at_least
    0.5
    """

    within: int = 200
    threshold: float = 0.9
    direction: Direction | None = None
    before: float | Sequence[float] | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", whole("Alarm", "within", self.within, 1))
        object.__setattr__(self, "threshold", probability("Alarm", "threshold", self.threshold, "(0, 1]"))
        if self.direction is not None and self.direction not in get_args(Direction):
            raise ValueError(f"Alarm.direction must be 'up' or 'down', not {self.direction!r}")
        object.__setattr__(self, "before", _checked_before(self.before))
        if self.at_least is not None:
            object.__setattr__(self, "at_least", positive("Alarm", "at_least", self.at_least))

    @property
    def has_options(self) -> bool:
        """Whether a direction, a level before the change or a smallest change is given."""
        return not (self.direction is None and self.before is None and self.at_least is None)


class AlarmSetup(NamedTuple):
    """An alarm in the form that the kernels use.

    Parameters
    ----------
    numbers : dict of int to float
        Values of the setup by index (`_kernels.layout`).
    start : ndarray
        Statistics of the regime that a stream begins in, if its level is known; else empty.
    """

    numbers: dict[int, float]
    start: Array


def alarm_setup(alarm: Alarm | None, model: Model) -> AlarmSetup:
    """Return an alarm in the form that the kernels use.

    Raises
    ------
    ValueError
        If the alarm has options that this model does not support.
    """
    origin, unit = model.units
    numbers = {
        layout.WITHIN: Alarm.within,
        layout.THRESHOLD: NEVER,
        layout.LEVEL: 0.0,
        layout.DIRECTION: 0.0,
        layout.AT_LEAST: 0.0,
        layout.KNOWN: 0.0,
        layout.BEFORE: 0.0,
        layout.ORIGIN: origin,
        layout.UNIT: unit,
    }
    start = np.empty(0)
    if alarm is None:
        return AlarmSetup(numbers, start)
    numbers[layout.WITHIN], numbers[layout.THRESHOLD] = alarm.within, alarm.threshold
    if not alarm.has_options:
        return AlarmSetup(numbers, start)
    if model.dimension > 1 or (model.observe is not None and model.gains is None):
        raise ValueError(
            f"Alarm.direction, Alarm.before and Alarm.at_least are not available for {type(model).__name__}"
        )
    if model.core is not model and (alarm.before is not None or alarm.at_least is not None):
        raise ValueError(
            f"Alarm.before and Alarm.at_least are not available for {type(model).__name__}, which maps its readings"
        )
    numbers[layout.LEVEL], numbers[layout.THRESHOLD] = alarm.threshold, NEVER
    numbers[layout.DIRECTION] = {None: 0.0, "up": 1.0, "down": -1.0}[alarm.direction]
    numbers[layout.AT_LEAST] = (alarm.at_least or 0.0) / unit
    if alarm.before is not None:
        start = _start(model, alarm.before)
        level = alarm.before if isinstance(alarm.before, float) else float(model.predictive(start)[0])
        numbers[layout.KNOWN], numbers[layout.BEFORE] = 1.0, (level - origin) / unit
    return AlarmSetup(numbers, start)


def _checked_before(before: Any) -> float | tuple[float, ...] | None:
    if before is None:
        return None
    if np.ndim(before) == 0:
        return finite("Alarm", "before", before)
    readings = tuple(finite("Alarm", "before", x) for x in before)
    if len(readings) < 2:
        raise ValueError(f"Alarm.before must be a level or at least 2 readings, not {before!r}")
    return readings


def _start(model: Model, before: float | Sequence[float]) -> Array:
    if isinstance(before, float):
        return model.known_level(before)
    stats = model.prior()
    for x in before:
        stats = model.update(stats, model.check(x), 1.0)
    return stats


# --- for models that are not compiled ------------------------------------------------------------------------


def full_moments(model: Model, state: Array, setup: Array) -> tuple[Array, Array]:
    """Mean and variance of a full reading under every hypothesis, in the units and the order that the kernels use."""
    live = stats_of(model, state)
    stats = np.concatenate([live, model.new_regime(live)[:, None], dropped_stats(model, state)], axis=1)
    mean, variance = model.core.predictive(model.core_stats(stats))
    unit = setup[layout.UNIT]
    return (mean - setup[layout.ORIGIN]) / unit, variance / unit**2


def with_moments(setup: Array, mean: Array, variance: Array) -> Array:
    """Return the setup followed by moments, as `_kernels.alarm.given_moments` reads them."""
    end = layout.FIRST + int(setup[layout.PARAMS] + setup[layout.HAZARDS])
    return np.concatenate([setup[:end], np.stack([mean, variance], axis=1).ravel()])


def watch(model: Model, state: Array, setup: Array, x: float, zeta: float) -> None:
    """Update Shiryaev's odds with the coming reading."""
    if setup[layout.AT_LEAST] <= 0.0:
        return
    rise = fall = 0.0
    if zeta > 0.0:
        found, level, variance = level_of_old(state, with_moments(setup, *full_moments(model, state, setup)))
        if not found:
            return
        if 0.0 < variance < math.inf:
            origin, unit = setup[layout.ORIGIN], setup[layout.UNIT]
            before, size = origin + unit * level, unit * setup[layout.AT_LEAST]
            rise, fall = (model.log_ratio(x, zeta, before, before + d, variance * unit**2) for d in (size, -size))
    jump_odds(state, setup, rise, fall)


def decide(model: Model, state: Array, setup: Array) -> None:
    """Set P(change) and the alarm of the tick that has just been finished."""
    decide_alarm(state, with_moments(setup, *full_moments(model, state, setup)))

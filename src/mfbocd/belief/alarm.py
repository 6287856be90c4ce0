"""Alarms: P(change) reaches a threshold, optionally with a direction, a known level or a smallest change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.alarm import MOST_ODDS, REARM
from ..inputs.arguments import finite, positive, probability, whole
from ..models import Model
from .state import stats_of, table

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


# --- the same as the kernels, for models that are not compiled -----------------------------------------------


def moments_until(model: Model, state: Array, newest: float) -> tuple[float, Any, Any]:
    """Weight, mean and variance of a full reading under the hypotheses that began at tick `newest` or before."""
    weight, birth = table(state)[:2]
    old = (birth <= newest) & (weight > 0.0)
    if not old.any():
        return 0.0, 0.0, 0.0
    total = weight[old].sum()
    share = weight[old] / total
    means, variances = model.core.predictive(model.core_stats(stats_of(model, state))[:, old])
    mean = means @ share
    return float(total), mean, (variances + (means - np.expand_dims(mean, -1)) ** 2) @ share


def old_moments(model: Model, state: Array, setup: Array) -> tuple[float, Any, Any]:
    """`moments_until` of the hypotheses that do not count towards an alarm.

    The mean is the level before a change if that is known.
    """
    newest = max(state[layout.TICK] + 1.0 - setup[layout.WITHIN], 0.0, state[layout.FIRED])
    total, mean, spread = moments_until(model, state, newest)
    if setup[layout.KNOWN]:
        mean = setup[layout.ORIGIN] + setup[layout.UNIT] * setup[layout.BEFORE]
    return total, mean, spread


def watch(model: Model, state: Array, setup: Array, x: float, zeta: float, h: float) -> None:
    """Update Shiryaev's odds with the coming reading; `h` is P(change at the coming tick)."""
    if setup[layout.AT_LEAST] <= 0.0:
        return
    direction, h = setup[layout.DIRECTION], min(h, 1.0 - 1e-12)
    jumps = (state[[layout.RISE, layout.FALL]] + (0.5 * h if direction == 0.0 else h)) / (1.0 - h)
    if zeta > 0.0:
        total, mean, variance = old_moments(model, state, setup)
        size = setup[layout.AT_LEAST] * setup[layout.UNIT]
        if 0.0 < variance < math.inf:
            ratios = [model.log_ratio(x, zeta, mean, mean + way * size, variance) for way in (1.0, -1.0)]
            jumps *= np.exp(np.clip(ratios, -700.0, 700.0))
        elif total <= 0.0:
            jumps[:] = 0.0
    jumps = np.minimum(jumps, MOST_ODDS) * [direction >= 0.0, direction <= 0.0]
    state[layout.RISE], state[layout.FALL] = jumps


def decide(model: Model, state: Array, setup: Array) -> None:
    """Set P(change) and the alarm of the tick that has just been finished."""
    weight, birth = table(state)[:2]
    tick, level = state[layout.TICK], setup[layout.LEVEL]
    recent = birth > max(tick - setup[layout.WITHIN], 0.0, state[layout.FIRED])
    _, mean, _ = old_moments(model, state, setup)
    means, _ = model.core.predictive(model.core_stats(stats_of(model, state)))
    counted = np.where(recent & (setup[layout.DIRECTION] * (means - mean) >= 0.0), weight, 0.0)
    p = min(float(counted.sum() / state[layout.TOTAL]), 1.0)
    sized = setup[layout.AT_LEAST] > 0.0
    if sized:
        odds = state[layout.RISE] + state[layout.FALL]
        p = float(odds / (1.0 + odds))
    state[layout.P_CHANGE], state[layout.ALARM] = p, 0.0
    if p < REARM * level or (p < level and tick - state[layout.FIRED] >= setup[layout.WITHIN]):
        state[layout.ARMED] = 1.0
    if p >= level and (state[layout.ARMED] > 0.0 or not sized):
        best = len(weight) - 1 - int(np.argmax(counted[::-1])) if counted.any() else len(weight) - 1
        state[layout.ALARM], state[layout.FIRED] = 1.0, tick
        state[layout.CHANGED_AT], state[layout.CONFIDENCE] = birth[best], p
        state[layout.ARMED] = 0.0
        if not setup[layout.KNOWN]:
            state[layout.RISE] = state[layout.FALL] = 0.0

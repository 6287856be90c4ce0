"""Alarms with a direction, a known level before the change, or a smallest relevant change.

The functions are templates (`compile.bind`): the names below `TYPE_CHECKING` stand for the formulas of a family. For
models that are not compiled, they stand for moments that follow the setup (`given_moments`). Readings, means and
sizes are in the family's units: (x - ORIGIN) / UNIT.

Without a smallest change, only the recent hypotheses whose mean lies in the alarm's direction count. With one, the
alarm uses Shiryaev's statistic, the odds that the level has jumped by exactly that much:

    odds <- (odds + h) / (1 - h) * p(x | level after) / p(x | level before)

It is as fast as a CUSUM that knows both levels, and larger changes are detected sooner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .compile import bind, kernel, scalar
from .dropped import dropped, dropped_births, newest_old_at
from .layout import (
    ALARM,
    ARMED,
    AT_LEAST,
    BEFORE,
    BIRTH,
    CHANGED_AT,
    CONFIDENCE,
    COUNT,
    DIRECTION,
    DROPPED,
    FALL,
    FIRED,
    FIRST,
    HAZARDS,
    KNOWN,
    LEVEL,
    ORIGIN,
    P_CHANGE,
    PARAMS,
    RISE,
    TICK,
    TOTAL,
    UNIT,
    WEIGHT,
    WITHIN,
)
from .pointer import Array, Pointer, pointer
from .scalar import exp
from .weights import column, ending, hazards

MOST_ODDS = 1e9  # limit of the odds, so that they return once the level has
# If the size of a change is known, the next alarm needs P(change) to fall below this part of the threshold, or to be
# below the threshold when the window has passed: after a false alarm it may remain in between for a long time.
REARM = 0.5

if TYPE_CHECKING:

    def moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
        """Mean and variance of a full reading under hypothesis i; i = COUNT is a regime that starts with it."""

    def moments_dropped(state: Pointer, setup: Pointer, j: int) -> tuple[float, float]:
        """The same of the j-th dropped hypothesis."""

    def log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
        """log p(y | mean after) - log p(y | mean before) at zeta, for readings of this variance."""

    def level(state: Pointer, setup: Pointer, newest: float) -> tuple[bool, float, float]:
        """`level_until` of the family."""

    def reference(state: Pointer, setup: Pointer, tick: float) -> tuple[bool, float, float]:
        """`old_level` of the family."""


@scalar
def normal_log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """The log ratio of two normals of this variance."""
    return zeta * (after - before) * (y - 0.5 * (before + after)) / variance


def dropped_moments(state: Pointer, setup: Pointer, j: int) -> tuple[float, float]:
    """`moments` of the j-th dropped hypothesis, for a family with kernels."""
    return moments(dropped(state), setup, j)


def level_until(state: Pointer, setup: Pointer, newest: float) -> tuple[bool, float, float]:
    """Mean and variance of a full reading under the hypotheses that began at tick `newest` or before.

    If none of them has any weight left, those of the newest of them: after a large change it is the one that the
    readings since refute least. False before the first tick, when there is none.
    """
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    total = 0.0
    first = 0.0
    second = 0.0
    end = 0
    while end < n and birth[end] <= newest:
        if weight[end] > 0.0:  # a variance may be infinite
            total += weight[end]
            m, v = moments(state, setup, end)
            first += weight[end] * m
            second += weight[end] * v
        end += 1
    if total > 0.0:
        mean = first / total
        for i in range(end):
            m, _ = moments(state, setup, i)
            second += weight[i] * (m - mean) * (m - mean)
        return True, mean, second / total
    if n == 0:
        return False, 0.0, 0.0
    if end > 0 or state[DROPPED] == 0.0:  # none is dropped in a state from elsewhere
        mean, variance = moments(state, setup, max(end - 1, 0))
        return True, mean, variance
    births = dropped_births(state)
    j = int(state[DROPPED]) - 1
    while j > 0 and births[j] > newest:
        j -= 1
    mean, variance = moments_dropped(state, setup, j)
    return True, mean, variance


def old_level(state: Pointer, setup: Pointer, tick: float) -> tuple[bool, float, float]:
    """`level_until` of the hypotheses that do not count towards an alarm at this tick.

    The mean is the level before a change if that is known.
    """
    found, mean, variance = level(state, setup, newest_old_at(state, setup, tick))
    return found, setup[BEFORE] if setup[KNOWN] > 0.0 else mean, variance


@kernel
def p_new_regime(state: Pointer, setup: Pointer) -> float:
    """P(change at the coming tick), less than 1."""
    n = int(state[COUNT])
    h = hazards(setup)[0]
    if setup[HAZARDS] > 1.0 and n > 0:
        weight = column(state, WEIGHT)
        h = 0.0
        for i in range(n):
            h += weight[i] * ending(state, setup, i)
        h /= state[TOTAL]
    return min(h, 1.0 - 1e-12)


@kernel
def jump(state: Pointer, setup: Pointer, rise: float, fall: float) -> None:
    """Update Shiryaev's odds with the log ratios of the coming reading, for a jump up and for a jump down."""
    h = p_new_regime(state, setup)
    new = 0.5 * h if setup[DIRECTION] == 0.0 else h
    up = (state[RISE] + new) / (1.0 - h) * exp(min(max(rise, -700.0), 700.0))
    down = (state[FALL] + new) / (1.0 - h) * exp(min(max(fall, -700.0), 700.0))
    state[RISE] = min(up, MOST_ODDS) if setup[DIRECTION] >= 0.0 else 0.0
    state[FALL] = min(down, MOST_ODDS) if setup[DIRECTION] <= 0.0 else 0.0


def watch(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """Update Shiryaev's odds with the coming reading, before the tick; a template."""
    if setup[AT_LEAST] <= 0.0:
        return
    rise = 0.0
    fall = 0.0
    if zeta > 0.0:
        found, mean, variance = reference(state, setup, state[TICK] + 1.0)
        if not found:
            return  # nothing is known of the level before the first reading
        if variance > 0.0 and variance < math.inf:
            y = (x - setup[ORIGIN]) / setup[UNIT]
            rise = log_ratio(setup, y, zeta, mean, mean + setup[AT_LEAST], variance)
            fall = log_ratio(setup, y, zeta, mean, mean - setup[AT_LEAST], variance)
    jump(state, setup, rise, fall)


def decide(state: Pointer, setup: Pointer) -> None:
    """Set P(change) and the alarm of the tick that has just been finished; a template."""
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    tick = state[TICK]
    old = newest_old_at(state, setup, tick)
    direction = setup[DIRECTION]
    _, mean, _ = reference(state, setup, tick)
    counted = 0.0
    best = n - 1
    heaviest = -1.0
    i = n - 1
    while i >= 0 and birth[i] > old:
        m, _ = moments(state, setup, i)
        if direction * (m - mean) >= 0.0:
            counted += weight[i]
            if weight[i] > heaviest:
                heaviest = weight[i]
                best = i
        i -= 1
    p = min(counted / state[TOTAL], 1.0)
    if setup[AT_LEAST] > 0.0:
        odds = state[RISE] + state[FALL]
        p = odds / (1.0 + odds)
    state[P_CHANGE] = p
    state[ALARM] = 0.0
    if p < REARM * setup[LEVEL] or (p < setup[LEVEL] and tick - state[FIRED] >= setup[WITHIN]):
        state[ARMED] = 1.0
    if p >= setup[LEVEL] and (state[ARMED] > 0.0 or setup[AT_LEAST] <= 0.0):
        state[ALARM] = 1.0
        state[FIRED] = tick
        state[CHANGED_AT] = birth[best]
        state[CONFIDENCE] = p
        state[ARMED] = 0.0
        if setup[KNOWN] <= 0.0:  # the next change starts from the new level
            state[RISE] = 0.0
            state[FALL] = 0.0


# --- for models that are not compiled ------------------------------------------------------------------------


@kernel
def given_moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """Moments that follow the hazard in the setup: of the live hypotheses, a new regime, the dropped hypotheses."""
    at = FIRST + int(setup[PARAMS]) + int(setup[HAZARDS]) + 2 * i
    return setup[at], setup[at + 1]


@kernel
def given_dropped_moments(state: Pointer, setup: Pointer, j: int) -> tuple[float, float]:
    """`given_moments` of the j-th dropped hypothesis."""
    return given_moments(state, setup, int(state[COUNT]) + 1 + j)


_given_level = bind(level_until, moments=given_moments, moments_dropped=given_dropped_moments)
_given_reference = bind(old_level, level=_given_level)
_given_decide = bind(decide, moments=given_moments, reference=_given_reference)


@kernel
def level_of_old(state: Array, setup: Array) -> tuple[bool, float, float]:
    """`old_level` at the coming tick."""
    return _given_reference(pointer(state, 0), pointer(setup, 0), state[TICK] + 1.0)


@kernel
def level_of_until(state: Array, setup: Array, newest: float) -> tuple[bool, float, float]:
    """`level_until` for arrays."""
    return _given_level(pointer(state, 0), pointer(setup, 0), newest)


@kernel
def jump_odds(state: Array, setup: Array, rise: float, fall: float) -> None:
    """`jump` for arrays."""
    jump(pointer(state, 0), pointer(setup, 0), rise, fall)


@kernel
def decide_alarm(state: Array, setup: Array) -> None:
    """`decide` for arrays."""
    _given_decide(pointer(state, 0), pointer(setup, 0))

"""Alarms with a direction, a known level before the change, or a smallest relevant change.

The functions are templates (`compile.bind`): `moments` and `log_ratio` stand for the formulas of a family. Readings,
means and sizes are in the family's units: (x - ORIGIN) / UNIT.

Without a smallest change, only the recent hypotheses whose mean lies in the alarm's direction count. With one, the
alarm uses Shiryaev's statistic, the odds that the level has jumped by exactly that much:

    odds <- (odds + h) / (1 - h) * p(x | level after) / p(x | level before)

It is as fast as a CUSUM that knows both levels, and larger changes are detected sooner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .change import newest_old
from .compile import kernel, scalar
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
    FALL,
    FIRED,
    HAZARDS,
    KNOWN,
    LEVEL,
    ORIGIN,
    P_CHANGE,
    RISE,
    TICK,
    TOTAL,
    UNIT,
    WEIGHT,
    WITHIN,
)
from .pointer import Pointer
from .scalar import exp
from .weights import column, ending, hazards

MOST_ODDS = 1e9  # limit of the odds, so that they return once the level has
# If the size of a change is known, the next alarm needs P(change) to fall below this part of the threshold, or to be
# below the threshold when the window has passed: after a false alarm it may remain in between for a long time.
REARM = 0.5

if TYPE_CHECKING:

    def moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
        """Mean and variance of a full reading under hypothesis i; i = COUNT is a regime that starts with it."""

    def log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
        """log p(y | mean after) - log p(y | mean before) at zeta, for readings of this variance."""

    def older(state: Pointer, setup: Pointer, newest: float) -> tuple[float, float, float]:
        """`moments_until` of the family."""

    def reference(state: Pointer, setup: Pointer) -> tuple[float, float, float]:
        """`old_moments` of the family."""


@scalar
def normal_log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """The log ratio of two normals of this variance."""
    return zeta * (after - before) * (y - 0.5 * (before + after)) / variance


def moments_until(state: Pointer, setup: Pointer, newest: float) -> tuple[float, float, float]:
    """Weight, mean and variance of a full reading under the hypotheses that began at tick `newest` or before."""
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    total = 0.0
    first = 0.0
    second = 0.0
    end = 0
    while end < n and birth[end] <= newest:
        if weight[end] > 0.0:  # a variance may be infinite
            m, v = moments(state, setup, end)
            total += weight[end]
            first += weight[end] * m
            second += weight[end] * v
        end += 1
    if total <= 0.0:
        return 0.0, 0.0, 0.0
    mean = first / total
    for i in range(end):
        m, _ = moments(state, setup, i)
        second += weight[i] * (m - mean) * (m - mean)
    return total, mean, second / total


def old_moments(state: Pointer, setup: Pointer) -> tuple[float, float, float]:
    """`moments_until` of the hypotheses that do not count towards an alarm.

    The mean is the level before a change if that is known.
    """
    total, mean, variance = older(state, setup, newest_old(state, setup))
    if total <= 0.0 or setup[KNOWN] > 0.0:
        mean = setup[BEFORE]
    return total, mean, variance


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


def watch(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """Update Shiryaev's odds with the coming reading; before the tick."""
    if setup[AT_LEAST] <= 0.0:
        return
    h = p_new_regime(state, setup)
    new = 0.5 * h if setup[DIRECTION] == 0.0 else h
    up = (state[RISE] + new) / (1.0 - h)
    down = (state[FALL] + new) / (1.0 - h)
    if zeta > 0.0:
        total, mean, variance = reference(state, setup)
        if variance > 0.0 and variance < math.inf:
            y = (x - setup[ORIGIN]) / setup[UNIT]
            size = setup[AT_LEAST]
            up *= exp(min(max(log_ratio(setup, y, zeta, mean, mean + size, variance), -700.0), 700.0))
            down *= exp(min(max(log_ratio(setup, y, zeta, mean, mean - size, variance), -700.0), 700.0))
        elif total <= 0.0:
            up = down = 0.0
    state[RISE] = min(up, MOST_ODDS) if setup[DIRECTION] >= 0.0 else 0.0
    state[FALL] = min(down, MOST_ODDS) if setup[DIRECTION] <= 0.0 else 0.0


def decide(state: Pointer, setup: Pointer) -> None:
    """Set P(change) and the alarm of the tick that has just been finished."""
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    tick = state[TICK]
    oldest = max(tick - setup[WITHIN], 0.0, state[FIRED])
    direction = setup[DIRECTION]
    _, mean, _ = reference(state, setup)
    counted = 0.0
    best = n - 1
    heaviest = -1.0
    i = n - 1
    while i >= 0 and birth[i] > oldest:
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

"""What a reading is worth for detecting a change (gain "change").

If hypothesis i, which began recently, is true, a reading at zeta moves the log odds of a change by about zeta * D_i,
where D_i is the divergence of its predictive from that of the older hypotheses. So the reading saves zeta full
readings, whatever D_i is, as long as the change is large enough to be found:

    Q = sum over recent i of w_i * D_i / (D_i + SMALL),    gain = zeta * Q + E_r I(theta; x | r)

Recent hypotheses are those that count towards the next alarm: they began within its window and after the last alarm.
The second term is the information about the parameter. It keeps the gain positive before the first reading.

An alarm may be false. Until that is known, the next change is mistaken for the reported one. The hypotheses that the
last alarm reported (those of its window) therefore count as well, times the probability that they are wrong. With P,
the probability of a regime that began before the window, and D' the divergence from such regimes,

    Q += P * sum over reported i of w_i * D'_i / (D'_i + SMALL)

This is small again as soon as the reported change is refuted or certain.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .compile import kernel, scalar
from .dropped import newest_old
from .layout import AT_LEAST, BIRTH, COUNT, DIRECTION, FALL, FIRED, RISE, TICK, WITHIN
from .pointer import Array, Pointer, pointer
from .scalar import log
from .weights import column, predict, scratch

SMALL = 0.1
"""Divergence, in nats per full reading, at which a change counts half."""

if TYPE_CHECKING:

    def moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
        """Mean and variance of a full reading under hypothesis i; i = COUNT is a regime that starts with it."""

    def level(state: Pointer, setup: Pointer, newest: float) -> tuple[bool, float, float]:
        """`alarm.level_until` of the family."""

    def reference(state: Pointer, setup: Pointer, tick: float) -> tuple[bool, float, float]:
        """`alarm.old_level` of the family."""

    def divergence(mean: float, variance: float, mean_0: float, variance_0: float) -> float:
        """KL of a predictive with the first two moments from one with the last two."""


@scalar
def normal_divergence(mean: float, variance: float, mean_0: float, variance_0: float) -> float:
    """KL of N(mean, variance) from N(mean_0, variance_0), also where a variance is infinite."""
    if variance == variance_0 and mean == mean_0:
        return 0.0
    if variance == math.inf or variance_0 == math.inf:
        return 0.0 if variance == variance_0 else math.inf
    if variance_0 <= 0.0 or variance <= 0.0:
        return math.inf
    ratio = variance / variance_0
    d = mean - mean_0
    return max(0.5 * (ratio - 1.0 - log(ratio) + d * d / variance_0), 0.0)


@scalar
def bernoulli_divergence(mean: float, variance: float, mean_0: float, variance_0: float) -> float:
    """KL of Bern(mean) from Bern(mean_0); a level beyond 0 or 1 counts as 0 or 1."""
    p = min(max(mean_0, 1e-300), 1.0 - 1e-16)
    q = min(max(mean, 0.0), 1.0)
    one = q * log(max(q, 1e-300) / p)
    zero = (1.0 - q) * log(max(1.0 - q, 1e-300) / (1.0 - p))
    return max(one + zero, 0.0)


@scalar
def detectability(d: float) -> float:
    """D / (D + SMALL): near 1 for a change that few readings show, near 0 for one that none would."""
    return 1.0 - SMALL / (d + SMALL)


@kernel
def reported_after(state: Pointer, setup: Pointer) -> float:
    """The hypotheses that the last alarm reported began after this tick; infinite if it is older than the window."""
    oldest = max(state[TICK] + 1.0 - setup[WITHIN], 0.0)
    return oldest if state[FIRED] > oldest else math.inf


@kernel
def recent_weight(state: Pointer, setup: Pointer, weight: Array, apart: Array) -> float:
    """The part of Q of the recent hypotheses; `apart` has the divergence of each from the old ones.

    It is 0 for those whose mean does not lie in the alarm's direction.
    """
    birth = column(state, BIRTH)
    old = newest_old(state, setup)
    last = int(state[COUNT])
    q = 0.0
    i = last
    while i == last or (i >= 0 and birth[i] > old):
        if weight[i] > 0.0:
            q += weight[i] * detectability(apart[i])
        i -= 1
    return q


@kernel
def reported_weight(state: Pointer, setup: Pointer, weight: Array, apart: Array) -> float:
    """The part of Q of the last alarm; `apart` has the divergence of each hypothesis from those before the window."""
    oldest = reported_after(state, setup)
    birth = column(state, BIRTH)
    before = 0.0
    shown = 0.0
    for i in range(int(state[COUNT])):
        if birth[i] <= oldest:
            before += weight[i]
        elif birth[i] <= state[FIRED] and weight[i] > 0.0:
            shown += weight[i] * detectability(apart[i])
    return before * shown


@kernel
def jump_weight(state: Pointer, rise: float, fall: float) -> float:
    """Q for a smallest change, from the divergence of a level higher and of one lower by it."""
    up, down = state[RISE], state[FALL]
    return (up * detectability(rise) + down * detectability(fall)) / (1.0 + up + down)


def change_weight(state: Pointer, setup: Pointer) -> float:
    """Q, from the moments of each hypothesis; a template (`compile.bind`)."""
    found, mean, variance = reference(state, setup, state[TICK] + 1.0)
    if not found:
        return 0.0
    if setup[AT_LEAST] > 0.0:
        up = divergence(mean + setup[AT_LEAST], variance, mean, variance)
        return jump_weight(state, up, divergence(mean - setup[AT_LEAST], variance, mean, variance))
    n = int(state[COUNT]) + 1
    weight = scratch(n)
    predict(state, setup, weight)
    birth = column(state, BIRTH)
    apart = scratch(n)
    old = newest_old(state, setup)
    i = n - 1
    while i == n - 1 or (i >= 0 and birth[i] > old):
        m, v = moments(state, setup, i)
        apart[i] = divergence(m, v, mean, variance) if setup[DIRECTION] * (m - mean) >= 0.0 else 0.0
        i -= 1
    q = recent_weight(state, setup, weight, apart)
    oldest = reported_after(state, setup)
    if oldest == math.inf:
        return q
    _, mean, variance = level(state, setup, oldest)
    while i >= 0 and birth[i] > oldest:
        m, v = moments(state, setup, i)
        apart[i] = divergence(m, v, mean, variance)
        i -= 1
    return q + reported_weight(state, setup, weight, apart)


# --- the same for arrays, for models that are not compiled ---------------------------------------------------


@kernel
def doubted_after(state: Array, setup: Array) -> float:
    """`reported_after` for arrays."""
    return reported_after(pointer(state, 0), pointer(setup, 0))


@kernel
def weight_of_recent(state: Array, setup: Array, weight: Array, apart: Array) -> float:
    """`recent_weight` for arrays."""
    return recent_weight(pointer(state, 0), pointer(setup, 0), weight, apart)


@kernel
def weight_of_reported(state: Array, setup: Array, weight: Array, apart: Array) -> float:
    """`reported_weight` for arrays."""
    return reported_weight(pointer(state, 0), pointer(setup, 0), weight, apart)


@kernel
def weight_of_jump(state: Array, rise: float, fall: float) -> float:
    """`jump_weight` for arrays."""
    return jump_weight(pointer(state, 0), rise, fall)

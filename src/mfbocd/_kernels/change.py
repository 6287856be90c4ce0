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
from .layout import (
    AT_LEAST,
    BIRTH,
    COUNT,
    DIRECTION,
    FALL,
    FIRED,
    RISE,
    TICK,
    WITHIN,
)
from .pointer import Array, Pointer
from .scalar import log
from .weights import column, predict, scratch

SMALL = 0.1
"""Divergence, in nats per full reading, at which a change counts half."""

if TYPE_CHECKING:

    def moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
        """Mean and variance of a full reading under hypothesis i; i = COUNT is a regime that starts with it."""

    def divergence(mean: float, variance: float, mean_0: float, variance_0: float) -> float:
        """KL of a predictive with the first two moments from one with the last two."""

    def reference(state: Pointer, setup: Pointer) -> tuple[float, float, float]:
        """Weight, mean and variance of the older hypotheses (`alarm.old_moments`)."""

    def older(state: Pointer, setup: Pointer, newest: float) -> tuple[float, float, float]:
        """The same for the hypotheses that began at a given tick or before (`alarm.moments_until`)."""

    def doubt(state: Pointer, setup: Pointer, weight: Array) -> float:
        """`reported_doubt` of the family."""


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
def newest_old(state: Pointer, setup: Pointer) -> float:
    """The last start tick that does not count towards an alarm at the coming tick."""
    return max(state[TICK] + 1.0 - setup[WITHIN], 0.0, state[FIRED])


def reported_doubt(state: Pointer, setup: Pointer, weight: Array) -> float:
    """The part of Q that belongs to the last alarm, from the predicted weights; a template (`compile.bind`)."""
    oldest = max(state[TICK] + 1.0 - setup[WITHIN], 0.0)
    if state[FIRED] <= oldest:
        return 0.0
    total, mean, variance = older(state, setup, oldest)
    if total <= 0.0:
        return 0.0
    birth = column(state, BIRTH)
    before = 0.0
    shown = 0.0
    for i in range(int(state[COUNT])):
        if birth[i] <= oldest:
            before += weight[i]
        elif birth[i] <= state[FIRED] and weight[i] > 0.0:
            m, v = moments(state, setup, i)
            shown += weight[i] * detectability(divergence(m, v, mean, variance))
    return before * shown


def change_weight(state: Pointer, setup: Pointer) -> float:
    """Q, from the moments of each hypothesis; a template (`compile.bind`)."""
    total, mean, variance = reference(state, setup)
    if total <= 0.0:
        return 0.0
    direction = setup[DIRECTION]
    if setup[AT_LEAST] > 0.0:
        up = state[RISE] * detectability(divergence(mean + setup[AT_LEAST], variance, mean, variance))
        down = state[FALL] * detectability(divergence(mean - setup[AT_LEAST], variance, mean, variance))
        return (up + down) / (1.0 + state[RISE] + state[FALL])
    n = int(state[COUNT]) + 1
    birth = column(state, BIRTH)
    old = newest_old(state, setup)
    weight = scratch(n)
    predict(state, setup, weight)
    q = 0.0
    i = n - 1
    while i == n - 1 or (i >= 0 and birth[i] > old):
        if weight[i] > 0.0:
            m, v = moments(state, setup, i)
            if direction * (m - mean) >= 0.0:
                q += weight[i] * detectability(divergence(m, v, mean, variance))
        i -= 1
    return q + doubt(state, setup, weight)

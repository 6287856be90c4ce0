"""The part of a tick that does not depend on the model: new hypothesis, weights, pruning, alarm.

`state` and `setup` are pointers (`pointer`), except in the last section, which Python calls.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .layout import (
    ALARM,
    BIRTH,
    CAP,
    CHANGED_AT,
    COLUMNS,
    CONFIDENCE,
    COUNT,
    FIRED,
    FIRST,
    HAZARDS,
    HEAD,
    LANES,
    LEARNED,
    LIMIT,
    MAP_INDEX,
    P_CHANGE,
    PARAMS,
    RUN,
    THRESHOLD,
    TICK,
    TINY,
    TOTAL,
    WEIGHT,
    WITHIN,
)
from .pointer import Array, Pointer, pointer, shift
from .prune import prune
from .scalar import bits_of, bits_to_float, exp


@kernel
def column(state: Pointer, which: int) -> Pointer:
    """One column of the state: a number per hypothesis, oldest first."""
    return shift(state, HEAD + which * int(state[CAP]))


@kernel
def padded_count(state: Pointer) -> int:
    """The number of hypotheses rounded up to a multiple of LANES, so that loops over it are fully vectorized."""
    return (int(state[COUNT]) + LANES - 1) // LANES * LANES


@kernel
def scratch(n: int) -> Array:
    """An array of n numbers, at least LANES numbers away from any other array in memory.

    A loop that stores to one array while it sums another is vectorized only if they are that far apart. With smaller
    arrays the order of the sum, and so its last bit, would depend on their addresses.
    """
    return np.empty(max(n, LANES))[:n]


@kernel
def hazards(setup: Pointer) -> Pointer:
    """The hazard by run length; longer runs use the last value."""
    return shift(setup, FIRST + int(setup[PARAMS]))


@kernel
def begin(state: Pointer, setup: Pointer) -> float:
    """Advance the clock and add the hypothesis that a regime starts now (`mbocd_recursive_rl_estimation`).

    Returns the factor that turns the weight column into the predicted p(r_t | past). It is applied in the loop that
    multiplies by the predictive, so normalizing costs nothing.
    """
    n = int(state[COUNT])
    tick = state[TICK] + 1.0
    state[TICK] = tick
    state[COUNT] = n + 1
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    birth[n] = tick
    if setup[LEARNED] > 0.0:
        return _begin_learning(state, setup, n)
    if n == 0:
        weight[0] = 1.0
        return 1.0
    hazard = hazards(setup)
    total = state[TOTAL]
    last = int(setup[HAZARDS]) - 1
    if last == 0:
        h = hazard[0]
        weight[n] = total * h / (1.0 - h)
        return (1.0 - h) / total
    new_weight = 0.0
    for i in range(n):
        h = hazard[min(int(tick - 1.0 - birth[i]), last)]
        new_weight += h * weight[i]
        weight[i] *= 1.0 - h
    weight[n] = new_weight
    return 1.0 / total


@kernel
def candidate(state: Pointer, setup: Pointer, j: int) -> Pointer:
    """P(candidate hazard j | hypothesis) of each hypothesis."""
    return column(state, int(state[COLUMNS]) - int(setup[LEARNED]) + j)


@kernel
def _begin_learning(state: Pointer, setup: Pointer, n: int) -> float:
    """`begin` for a learned hazard: each hypothesis has its own posterior over the candidates.

    Statistics do not depend on the hazard, so one filter per candidate would differ in its weights only. This is
    exactly the mixture of those filters.
    """
    many = int(setup[LEARNED])
    hazard = hazards(setup)
    weight = column(state, WEIGHT)
    if n == 0:
        weight[0] = 1.0
        for j in range(many):
            candidate(state, setup, j)[0] = hazard[many + j]
        return 1.0
    stay = np.zeros(n)
    new_weight = 0.0
    for j in range(many):
        share = candidate(state, setup, j)
        h = hazard[j]
        ended = 0.0
        for i in range(n):
            ended += weight[i] * share[i]
            stay[i] += (1.0 - h) * share[i]
        share[n] = h * ended
        new_weight += h * ended
    for j in range(many):
        share = candidate(state, setup, j)
        for i in range(n):
            share[i] *= (1.0 - hazard[j]) / stay[i]
        share[n] /= new_weight
    for i in range(n):
        weight[i] *= stay[i]
    weight[n] = new_weight
    return 1.0 / state[TOTAL]


@kernel
def ending(state: Pointer, setup: Pointer, i: int) -> float:
    """P(the regime of hypothesis i ends at the coming tick)."""
    hazard = hazards(setup)
    if setup[LEARNED] > 0.0:
        h = 0.0
        for j in range(int(setup[LEARNED])):
            h += hazard[j] * candidate(state, setup, j)[i]
        return h
    last = int(setup[HAZARDS]) - 1
    return hazard[min(int(state[TICK] - column(state, BIRTH)[i]), last)]


@kernel
def skip_tick(state: Pointer, scale: float) -> tuple[float, int]:
    """The weights of a tick without an observation: only the hazard acts. Returns (total, bits of the largest)."""
    weight = column(state, WEIGHT)
    total = 0.0
    top = 0
    for i in range(padded_count(state)):
        w = weight[i] * scale
        weight[i] = w
        total += w
        top = max(top, bits_of(w))
    return total, top


@kernel
def reweigh(state: Pointer, scale: float, log_predictive: Array) -> tuple[float, float, int]:
    """Multiply the predicted weights by predictives given as logarithms, without underflow.

    Returns (total, log of the factor divided out, bits of the largest weight).
    """
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    highest = -np.inf
    for i in range(n):
        value = log_predictive[i] + (math.log(weight[i] * scale) if weight[i] > 0.0 else -np.inf)
        log_predictive[i] = value
        highest = max(highest, value)
    for i in range(n):
        w = exp(max(log_predictive[i] - highest, -700.0))
        weight[i] = w if w > TINY else 0.0
    # A separate loop: combined with stores, its order would depend on the address of the caller's array (`scratch`).
    total = 0.0
    top = 0
    for i in range(n):
        total += weight[i]
        top = max(top, bits_of(weight[i]))
    return total, highest, top


@kernel
def weight_after(state: Pointer, tick: float, most: int) -> float:
    """Total weight of the hypotheses that started after `tick`, of which there are at most `most`."""
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    start = max(int(state[COUNT]) - most, 0) // LANES * LANES
    total = 0.0
    for i in range(padded_count(state) - start):
        total += weight[start + i] if birth[start + i] > tick else 0.0
    return total


@kernel
def finish_tick(state: Pointer, setup: Pointer, total: float, top: int) -> bool:
    """Prune if due, find the MAP run length, decide about an alarm. Returns whether hypotheses were pruned."""
    state[TOTAL] = total
    pruned = state[COUNT] > state[LIMIT]
    if pruned:
        prune(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    # The MAP hypothesis rarely changes: check the previous one before searching.
    where = int(state[MAP_INDEX])
    if not pruned and weight[where] != bits_to_float(top):
        where = 0
        for i in range(n):
            if weight[i] > weight[where]:
                where = i
        state[MAP_INDEX] = where
    tick = state[TICK]
    state[RUN] = tick - birth[where]

    total = state[TOTAL]
    oldest = max(tick - setup[WITHIN], 0.0)  # later starts are changes within the window; 0 is the stream's start
    recent = weight_after(state, oldest, int(setup[WITHIN]))
    # One alarm per change: only regimes that started after the last alarm count towards the next.
    fired = state[FIRED]
    after_alarm = recent if fired <= oldest else weight_after(state, fired, int(setup[WITHIN]))
    state[P_CHANGE] = min(recent / total, 1.0)
    state[ALARM] = 0.0
    if after_alarm >= setup[THRESHOLD] * total:
        best = n - 1
        i = n - 1
        while i >= 0 and birth[i] > max(oldest, fired):
            if weight[i] > weight[best]:
                best = i
            i -= 1
        state[ALARM] = 1.0
        state[FIRED] = tick
        state[CHANGED_AT] = birth[best]
        state[CONFIDENCE] = min(after_alarm / total, 1.0)
    return pruned


@kernel
def expect(state: Pointer, setup: Pointer, values: Array, prior: float) -> float:
    """E over the predicted r_{t+1} of one value per hypothesis, with the prior's for a regime that starts then."""
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    total = 0.0
    if setup[HAZARDS] == 1.0:
        h = hazards(setup)[0]
        for i in range(n):
            total += weight[i] * values[i]
        return (1.0 - h) * total / state[TOTAL] + h * prior
    for i in range(n):
        h = ending(state, setup, i)
        total += weight[i] * ((1.0 - h) * values[i] + h * prior)
    return total / state[TOTAL]


@kernel
def predict(state: Pointer, setup: Pointer, weight: Array) -> None:
    """P(r_{t+1} = l | x_1..x_t) for the COUNT hypotheses and, last, for a regime that starts at the next tick."""
    n = int(state[COUNT])
    old = column(state, WEIGHT)
    if n == 0:
        weight[0] = 1.0
        return
    new_weight = 0.0
    scale = 1.0 / state[TOTAL]
    if setup[HAZARDS] == 1.0:
        h = hazards(setup)[0]
        new_weight = h
        for i in range(n):
            weight[i] = (1.0 - h) * scale * old[i]
    else:
        for i in range(n):
            h = ending(state, setup, i)
            new_weight += h * scale * old[i]
            weight[i] = (1.0 - h) * scale * old[i]
    weight[n] = new_weight


# --- the same for arrays, for models that are not compiled ---------------------------------------------------


@kernel
def begin_tick(state: Array, setup: Array) -> float:
    """`begin` for arrays."""
    return begin(pointer(state, 0), pointer(setup, 0))


@kernel
def end_tick(state: Array, setup: Array, scale: float, log_predictive: Array) -> float:
    """`reweigh` and `finish_tick` for arrays; returns the tick's contribution to the log evidence."""
    base = pointer(state, 0)
    total, factor, top = reweigh(base, scale, log_predictive)
    finish_tick(base, pointer(setup, 0), total, top)
    return factor + math.log(total)


@kernel
def endings(state: Array, setup: Array) -> Array:
    """`ending` of every hypothesis."""
    out = np.empty(int(state[COUNT]))
    for i in range(out.size):
        out[i] = ending(pointer(state, 0), pointer(setup, 0), i)
    return out


@kernel
def expectation(state: Array, setup: Array, values: Array, prior: float) -> float:
    """`expect` for arrays."""
    return expect(pointer(state, 0), pointer(setup, 0), values, prior)

"""Pruning of hypotheses: by a threshold, top-K, or stratified optimal resampling (MATH section 3)."""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .dropped import keep_dropped
from .layout import CAP, COLUMNS, COUNT, EPS, HEAD, LIMIT, MAP_INDEX, MOST, RESAMPLE, SEED, SLACK, TICK, TOTAL
from .pointer import Pointer, shift
from .random import uniform
from .scalar import bits_of

_SALT = 1  # makes these draws independent of a policy's at the same tick


@kernel
def keep_heaviest(weight: Pointer, n: int, k: int) -> None:
    """Set all but the k largest of n weights to zero; among equal weights the youngest stay."""
    # Bisect for a cut with k weights above it. Non-negative floats order like their bits, and counting
    # vectorizes: some fifteen passes are faster than one selection that branches on every weight.
    low = -1  # more than k lie above it
    high = 0x7FF0000000000000  # at most k do
    above = 0
    while high - low > 1:
        middle = low + (high - low) // 2
        count = 0
        for i in range(n):
            count += bits_of(weight[i]) > middle
        if count > k:
            low = middle
        else:
            high = middle
            above = count
            if count == k:
                break
    ties = k - above  # weights equal to `high` that may stay
    for i in range(n - 1, -1, -1):
        bits = bits_of(weight[i])
        if bits <= high:
            if bits == high and ties > 0:
                ties -= 1
            else:
                weight[i] = 0.0


@kernel
def resample(weight: Pointer, n: int, k: int, u: float) -> None:
    """Stratified optimal resampling (Fearnhead and Liu 2007): about k weights survive, E[new_i] = old_i.

    c solves sum_i min(w_i / c, 1) = k. Weights of at least c stay as they are; each lighter one survives with
    probability w_i / c and then weighs c. One uniform u places the strata, which are c wide.
    """
    positive = 0
    total = 0.0
    for i in range(n):
        total += weight[i]
        if weight[i] > 0.0:
            positive += 1
    if positive <= k:
        return  # no c exists, and none is needed
    # From c = total / k downwards: each round moves weights of at least c out of the sum, so c falls
    # monotonically to the solution, in a handful of passes.
    c = total / k
    heavy = -1
    while True:
        above = 0
        rest = 0.0
        for i in range(n):
            if weight[i] >= c:
                above += 1
            else:
                rest += weight[i]
        if above <= heavy or above >= k:  # fewer only by rounding, where many weights equal c
            break
        heavy = above
        c = rest / (k - above)
    left = u * c
    for i in range(n):
        if weight[i] < c:
            left -= weight[i]
            if left < 0.0:
                weight[i] = c
                left += c
            else:
                weight[i] = 0.0


@kernel
def prune(state: Pointer, setup: Pointer) -> None:
    """Drop hypotheses as configured in `setup`, close the gaps in every column, and set the next LIMIT."""
    n = int(state[COUNT])
    cap = int(state[CAP])
    weight = shift(state, HEAD)
    kept = np.empty(n, np.int64)
    for i in range(n):
        kept[i] = bits_of(weight[i])  # for `keep_dropped`, until the rows to keep are known
    if setup[EPS] > 0.0:
        cut = setup[EPS] * state[TOTAL]
        heaviest = 0
        for i in range(n):
            if weight[i] > weight[heaviest]:
                heaviest = i
        for i in range(n):
            if weight[i] < cut and i != heaviest:
                weight[i] = 0.0
    slack = int(setup[SLACK])
    if setup[MOST] > 0.0:
        k = int(setup[MOST]) - slack
        alive = 0
        for i in range(n):
            if weight[i] > 0.0:
                alive += 1
        if alive > k:
            if setup[RESAMPLE] > 0.0:
                resample(weight, n, k, uniform(int(state[SEED]), int(state[TICK]), _SALT))
            else:
                keep_heaviest(weight, n, k)
    first = 0
    while first < n and weight[first] == 0.0:
        first += 1
    if 0 < first < n:
        keep_dropped(state, setup, kept, first)
    m = 0
    total = 0.0
    top = 0
    heaviest_weight = 0.0
    for i in range(n):
        w = weight[i]
        if w > 0.0:
            if w > heaviest_weight:
                heaviest_weight = w
                top = m
            kept[m] = i
            m += 1
            total += w
    for c in range(int(state[COLUMNS])):
        rows = shift(state, HEAD + c * cap)
        for j in range(m):
            rows[j] = rows[kept[j]]
    for i in range(m, n):
        weight[i] = 0.0
    state[COUNT] = m
    state[TOTAL] = total
    state[MAP_INDEX] = top
    limit = m + slack
    if setup[MOST] > 0.0:
        limit = min(limit, int(setup[MOST]))
    state[LIMIT] = limit

"""Hypotheses that pruning dropped, kept for the level before a change.

An alarm with a direction or a smallest change, and the gain "change", compare the recent hypotheses with those that
began before the window. After a change nothing speaks for the old ones, so pruning drops them, but the level before
the change is still theirs. Up to KEPT of those that no older hypothesis survived therefore stay in a table of their
own. They have no weight and never return, so the posterior is the same with and without them, but their statistics
take in every reading, as without pruning.

One of them is the heaviest that is already older than the window. The others began within it and will be older
later: the first in each part of the window that outweighs everything before it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import kernel, rare
from .layout import BIRTH, CAP, COLUMNS, DROPPED, FIRED, HEAD, KEPT, TICK, WITHIN
from .pointer import Array, Pointer, pointer, shift

Bits = NDArray[np.int64]


@kernel
def newest_old_at(state: Pointer, setup: Pointer, tick: float) -> float:
    """The last start tick that does not count towards an alarm at this tick."""
    return max(tick - setup[WITHIN], 0.0, state[FIRED])


@kernel
def newest_old(state: Pointer, setup: Pointer) -> float:
    """The last start tick that does not count towards an alarm at the coming tick."""
    return newest_old_at(state, setup, state[TICK] + 1.0)


@kernel
def dropped(state: Pointer) -> Pointer:
    """The table of the dropped hypotheses, which the kernels of a family read like a state with KEPT rows."""
    return shift(state, HEAD + int(state[COLUMNS]) * int(state[CAP]))


@kernel
def dropped_births(state: Pointer) -> Pointer:
    """The start ticks of the dropped hypotheses, oldest first."""
    return shift(dropped(state), HEAD + BIRTH * KEPT)


@kernel
def _copy_to_dropped(state: Pointer, i: int, j: int) -> None:
    table = dropped(state)
    cap = int(state[CAP])
    for c in range(BIRTH, int(state[COLUMNS])):
        table[HEAD + c * KEPT + j] = state[HEAD + c * cap + i]


@kernel
def _forget_oldest(state: Pointer, kept: int) -> None:
    table = dropped(state)
    for c in range(BIRTH, int(state[COLUMNS])):
        for j in range(kept - 1):
            table[HEAD + c * KEPT + j] = table[HEAD + c * KEPT + j + 1]


@rare
def keep_dropped(state: Pointer, setup: Pointer, weight: Bits, first: int) -> None:
    """Keep what alarms need of the hypotheses before `first`, the oldest that survives.

    `weight` has the bits of the weights before the pruning, which are ordered like the weights.
    """
    old = newest_old_at(state, setup, state[TICK])  # this tick's alarm is still to be decided
    birth = shift(state, HEAD + BIRTH * int(state[CAP]))
    if birth[first] <= old:
        state[DROPPED] = 0.0
        return
    births = dropped_births(state)
    kept = int(state[DROPPED])
    heaviest = 0
    pick = -1
    i = 0
    while i < first and birth[i] <= old:
        if weight[i] >= heaviest:  # of those whose weight was rounded to 0, a large change refutes the newest least
            heaviest = weight[i]
            pick = i
        i += 1
    if pick >= 0:
        _copy_to_dropped(state, pick, 0)
        kept = 1
    while kept > 1 and births[1] <= old:
        _forget_oldest(state, kept)
        kept -= 1
    earlier = kept
    span = math.ceil(setup[WITHIN] / (KEPT - 2.0))
    while i < first:
        same = kept > 0 and births[kept - 1] > old and int(births[kept - 1]) // span == int(birth[i]) // span
        if weight[i] >= heaviest and (not same or kept == earlier):
            if same:  # what was dropped later says more
                kept -= 1
                earlier -= 1
            if kept < KEPT:
                _copy_to_dropped(state, i, kept)
                kept += 1
                heaviest = weight[i]
        i += 1
    state[DROPPED] = kept


@kernel
def forget_dropped(state: Pointer, setup: Pointer) -> None:
    """Forget the dropped hypotheses if one that is alive is older than the window again, as after an alarm."""
    if state[DROPPED] > 0.0 and state[HEAD + BIRTH * int(state[CAP])] <= newest_old(state, setup):
        state[DROPPED] = 0.0


@kernel
def forget(state: Array, setup: Array) -> None:
    """`forget_dropped` for arrays, for models that are not compiled."""
    forget_dropped(pointer(state, 0), pointer(setup, 0))

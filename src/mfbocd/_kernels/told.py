"""What is told and saved of many states: their likely run lengths, and their numbers without the room between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .layout import BIRTH, CAP, COLUMNS, COUNT, HEAD, TICK, TOTAL, WEIGHT
from .pointer import Array, Pointer, pointer, shift
from .weights import column

Numbers = NDArray[np.int64]

SCALE = 1e4  # of a probability that is told


@kernel
def _likely(state: Pointer, least: float, rows: int, length: Numbers, share: Array, first: int) -> int:
    """Fill in run lengths and their probabilities from `first` on, shortest first; returns where they end."""
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    end = first
    for i in range(int(state[COUNT]) - 1, -1, -1):
        if weight[i] < least * state[TOTAL]:
            continue
        p = weight[i] / state[TOTAL]
        if end == first + rows:
            worst = first
            for k in range(first + 1, end):
                if share[k] <= share[worst]:
                    worst = k
            if p <= share[worst]:
                continue
            for k in range(worst, end - 1):
                length[k] = length[k + 1]
                share[k] = share[k + 1]
            end -= 1
        length[end] = int(state[TICK] - birth[i])
        share[end] = p
        end += 1
    for k in range(first, end):
        share[k] = np.rint(share[k] * SCALE)  # divided here, in loose arithmetic, it would not be the nearest number
    return end


@kernel
def likely(states: Array, least: float, rows: int, length: Numbers, share: Array, ends: Numbers) -> None:
    """The run lengths of each state with a probability of at least `least`, the `rows` likeliest if they are more.

    They and their probabilities, in units of 1 / SCALE, follow one another in `length` and `share`, shortest first,
    up to `ends` (n,) of each state.
    """
    end = 0
    for i in range(states.shape[0]):
        end = _likely(pointer(states, i * states.shape[1]), least, rows, length, share, end)
        ends[i] = end


@kernel
def compact(states: Array, out: Array, ends: Numbers) -> None:
    """The header and the live hypotheses of each state, one after another, up to `ends` (n,) of each."""
    end = 0
    for i in range(states.shape[0]):
        state = pointer(states, i * states.shape[1])
        into = pointer(out, end)
        for k in range(HEAD):
            into[k] = state[k]
        into[CAP] = 0.0  # how much room there happens to be is no part of the state
        count = int(state[COUNT])
        columns = int(state[COLUMNS])
        for j in range(columns):
            live = column(state, j)
            to = shift(into, HEAD + j * count)
            for k in range(count):
                to[k] = live[k]
        end += HEAD + columns * count
        ends[i] = end

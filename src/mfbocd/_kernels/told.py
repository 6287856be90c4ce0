"""What is told and saved of many states: their likely run lengths, and their numbers without the room between."""

from __future__ import annotations

from .compile import kernel
from .layout import BIRTH, CAP, COLUMNS, COUNT, HEAD, TICK, TOTAL, WEIGHT
from .pointer import Array, Pointer, pointer, shift
from .weights import column


@kernel
def _likely(state: Pointer, least: float, rows: int, length: Pointer, share: Pointer) -> int:
    """Fill in run lengths and their probabilities, shortest first; returns how many."""
    weight = column(state, WEIGHT)
    birth = column(state, BIRTH)
    found = 0
    for i in range(int(state[COUNT]) - 1, -1, -1):
        if weight[i] < least * state[TOTAL]:
            continue
        p = weight[i] / state[TOTAL]
        if found == rows:
            worst = 0
            for k in range(1, rows):
                if share[k] <= share[worst]:
                    worst = k
            if p <= share[worst]:
                continue
            for k in range(worst, rows - 1):
                length[k] = length[k + 1]
                share[k] = share[k + 1]
            found -= 1
        length[found] = state[TICK] - birth[i]
        share[found] = p
        found += 1
    return found


@kernel
def likely(states: Array, least: float, rows: int, length: Array, share: Array, ends: Array) -> None:
    """The run lengths of each state with a probability of at least `least`, the `rows` likeliest if they are more.

    They and their probabilities follow one another in `length` and `share`, shortest first, up to `ends` (n,) of
    each state.
    """
    end = 0
    for i in range(states.shape[0]):
        end += _likely(pointer(states, i * states.shape[1]), least, rows, pointer(length, end), pointer(share, end))
        ends[i] = end


@kernel
def compact(states: Array, out: Array, ends: Array) -> None:
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

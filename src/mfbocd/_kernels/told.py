"""What is told and saved of many states: their likely run lengths, and their bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel, scalar
from .layout import BIRTH, CAP, COLUMNS, COUNT, HEAD, TICK, TOTAL, WEIGHT
from .pointer import Array, Pointer, pointer, pointer_to
from .scalar import bits_of
from .weights import column

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]
Tables = NDArray[np.uint32]

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
def _seal(state: Pointer, numbers: Array, i: int, check: int, crc: Tables, out: Words, end: int) -> int:
    """Write numbers[i], the state's header and live hypotheses, and the checksum, from `end` on; returns the end."""
    first = end
    for k in range(numbers.shape[1]):
        out[end] = bits_of(numbers[i, k])
        end += 1
    for k in range(HEAD):
        # how much room there happens to be is no part of the state
        out[end] = bits_of(state[k]) if k != CAP else 0
        end += 1
    count = int(state[COUNT])
    for j in range(int(state[COLUMNS])):
        live = column(state, j)
        for k in range(count):
            out[end + k] = bits_of(live[k])
        end += count
    out[end] = _crc(out, first, end, check, crc)
    return end + 1


@kernel
def gather(addresses: Numbers, states: Array) -> None:
    """Copies of the states at these addresses, all of one size; the caller holds them."""
    for i in range(states.shape[0]):
        state = pointer_to(addresses[i])
        into = pointer(states, i * states.shape[1])
        for k in range(states.shape[1]):
            into[k] = state[k]


@kernel
def tell(
    states: Array,
    least: float,
    rows: int,
    length: Numbers,
    share: Array,
    ends: Numbers,
    numbers: Array,
    checks: Words,
    crc: Tables,
    saved: Words,
    stops: Numbers,
    addresses: Numbers,
) -> None:
    """What is told and saved of each state, which then goes back to where it was gathered from.

    Told: the run lengths with a probability of at least `least`, the `rows` likeliest if they are more. They and
    their probabilities, in units of 1 / SCALE, follow one another in `length` and `share`, shortest first, up to
    `ends` (n,) of each state.

    Saved: the bytes that end a saved detector: numbers (n, m), header, live hypotheses and the checksum, which goes
    on from `checks` (n,), that of what stands before. They follow one another in `saved`, words to be written lowest
    byte first, up to `stops` (n,) of each; the checksum is the first half of the last word. `crc` is `crc_tables`.
    """
    end = 0
    stop = 0
    for i in range(states.shape[0]):
        state = pointer(states, i * states.shape[1])
        end = _likely(state, least, rows, length, share, end)
        ends[i] = end
        stop = _seal(state, numbers, i, checks[i], crc, saved, stop)
        stops[i] = stop
        back = pointer_to(addresses[i])
        for k in range(states.shape[1]):
            back[k] = state[k]


@scalar
def _crc(words: Words, first: int, last: int, before: int, table: Tables) -> np.uint64:
    """zlib's crc32 of words[first:last], lowest byte first, going on from `before`.

    zlib itself is no slower, but is called in Python, for one detector at a time, while all other threads wait.
    Two words at a time, by a table for each of their bytes: what of it waits for the checksum so far is short.
    """
    low = np.uint64(0xFF)
    half = np.uint64(0xFFFFFFFF)
    crc = np.uint64(before) ^ half
    k = first
    while k + 1 < last:
        a = np.uint64(words[k]) ^ crc
        b = np.uint64(words[k + 1])
        crc = np.uint64(0)
        for j in range(8):
            shift_by = np.uint64(8 * j)
            crc ^= np.uint64(table[15 - j, (a >> shift_by) & low] ^ table[7 - j, (b >> shift_by) & low])
        k += 2
    if k < last:
        a = np.uint64(words[k]) ^ crc
        crc = np.uint64(0)
        for j in range(8):
            crc ^= np.uint64(table[7 - j, (a >> np.uint64(8 * j)) & low])
    return crc ^ half


def crc_tables() -> Tables:
    """crc32 of each byte with 0 to 15 zero bytes after it, (16, 256), but for the flips at both ends."""
    table = np.zeros((16, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table[0, byte] = value
    for j in range(1, 16):
        table[j] = (table[j - 1] >> np.uint32(8)) ^ table[0][table[j - 1] & np.uint32(0xFF)]
    return table

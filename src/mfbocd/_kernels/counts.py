"""Sums over the counts 0 .. last of functions that are smooth in the count, in some tens of terms at any size.

The range of counts is cut into blocks of 2^k counts. A block is summed by Gaussian quadrature for sums (the nodes are
zeros of a discrete Chebyshev polynomial), which is exact for polynomials of degree 2 NODES - 1. A block spans at most
2.5 standard deviations of the narrowest summand, and at most its distance from either end of the range, where
log-gamma functions have their poles. Short blocks are summed count by count.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel, scalar
from .pointer import Array
from .scalar import exp, log

NODES = 10
_LEAST = 5  # blocks of at least 2^5 counts are summed by quadrature
_SIZES = 49  # up to 2^53
_WIDTHS = 2.5  # standard deviations a block may cover
_MOST = 1 << 16  # nodes; far more than ever needed


def _formula(size: float) -> tuple[Array, Array]:
    """Nodes in [0, size - 1] and weights for the sum over 0, 1, .., size - 1 (Golub and Welsch)."""
    n = np.arange(1.0, NODES)
    off = np.sqrt(n**2 * (size**2 - n**2) / (4.0 * (4.0 * n**2 - 1.0)))
    node, vector = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return node + 0.5 * (size - 1.0), size * vector[0] ** 2


_TABLE = np.array([_formula(2.0 ** (_LEAST + k)) for k in range(_SIZES)])


def quadrature(k: int) -> tuple[Array, Array]:
    """The quadrature for a block of 2^(5 + k) counts: nodes relative to the middle of the block, and weights."""
    node, weight = _TABLE[k]
    return node - 0.5 * (2.0 ** (_LEAST + k) - 1.0), weight


@scalar
def reach(mean: float, sd: float, left: float, right: float, last: float) -> tuple[float, float]:
    """First and last count that matter to a bell-shaped summand: less than 1e-15 of its mass lies outside.

    The summand must fall at least as fast as a normal together with exponentials of scales `left` and `right` on its
    two sides. The additional dozen counts are for bells narrower than one count.
    """
    low = math.floor(mean - 10.0 * sd - 40.0 * left - 12.0)
    high = math.ceil(mean + 10.0 * sd + 40.0 * right + 12.0)
    return max(low, 0.0), min(high, last)


@scalar
def gain_reach(mean: float, low: float, high: float, last: float) -> tuple[float, float]:
    """The part of a `reach` outside of which less than 1e-10 of the mass lies, which is enough for gains.

    A side that ends where the counts do may be much shorter than the bell is wide: it is kept.
    """
    first = math.floor(mean - 0.65 * (mean - low)) if low > 0.0 else low
    final = math.ceil(mean + 0.65 * (high - mean)) if high < last else high
    return first, final


@kernel
def grid(low: Array, high: Array, sd: Array, last: float, stop: float, x: Array, share: Array) -> int:
    """Fill in nodes `x` and weights `share` for sums of any mixture of bells over 0 .. min(last, stop).

    Returns the number of nodes. `low`, `high` (`reach`) and `sd` describe the bells; `x` and `share` must have
    `max_nodes()` elements.
    """
    m = low.size
    start = np.inf
    end = -1.0
    for i in range(m):
        start = min(start, low[i])
        end = max(end, high[i])
    end = min(end, stop)
    n = 0
    at = start
    while at <= end and n < _MOST:
        length = end - at + 1.0
        idle = True
        for i in range(m):
            if at < low[i]:
                length = min(length, low[i] - at)
            elif at <= high[i]:
                idle = False
                length = min(length, _WIDTHS * sd[i])
        if idle:  # between two bells
            at += max(length, 1.0)
            continue
        # the next pole is at -1, and at last + 1
        length = min(length, at)
        length = min(length, (last - at + 1.0) / 2.0)
        k = int(math.log2(max(length, 1.0)) + 1e-12)
        if k < _LEAST:
            x[n] = at
            share[n] = 1.0
            n += 1
            at += 1.0
            continue
        k = min(k - _LEAST, _SIZES - 1)
        for j in range(NODES):
            x[n + j] = at + _TABLE[k, 0, j]
            share[n + j] = _TABLE[k, 1, j]
        n += NODES
        at += 2.0 ** (k + _LEAST)
    return n


@scalar
def block_size(length: float) -> float:
    """Counts in a block of at most `length`: a power of two that has a quadrature, or 1."""
    k = int(math.log2(max(length, 1.0)) + 1e-12)
    return 1.0 if k < _LEAST else 2.0 ** min(k, _SIZES - 1 + _LEAST)


@kernel
def block(at: float, length: float, up: bool, x: Array, share: Array) -> int:
    """Fill in nodes and weights of one block from the count `at` up or down, and return how many."""
    size = block_size(length)
    if size == 1.0:
        x[0] = at
        share[0] = 1.0
        return 1
    k = int(math.log2(size) + 0.5) - _LEAST
    for j in range(NODES):
        x[j] = at + _TABLE[k, 0, j] if up else at - _TABLE[k, 0, j]
        share[j] = _TABLE[k, 1, j]
    return NODES


@scalar
def max_nodes() -> int:
    """The largest number of nodes of a grid."""
    return _MOST + NODES


@kernel
def information(weight: Array, value: Array, share: Array) -> float:
    """I(component; x) in nats from the unnormalized log probabilities value[i, j] of component i at node j."""
    m, n = value.shape
    kept = 0.0
    for i in range(m):
        kept += weight[i]
    mixed = np.zeros(n)
    total = 0.0
    for i in range(m):
        norm = log_sum(value[i], share)
        w = weight[i] / kept
        for j in range(n):
            v = value[i, j] - norm
            p = w * exp(min(v, 690.0))
            mixed[j] += p
            total += share[j] * p * v
    for j in range(n):
        p = mixed[j] + 1e-300
        total -= share[j] * p * log(p)
    return max(total, 0.0)


@kernel
def log_sum(value: Array, share: Array) -> float:
    """log of the sum of e^value over a grid."""
    top = -np.inf
    for j in range(share.size):
        top = max(top, value[j])
    total = 0.0
    for j in range(share.size):
        total += share[j] * exp(value[j] - top)
    return top + math.log(total)

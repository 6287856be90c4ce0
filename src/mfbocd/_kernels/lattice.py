"""Predictives of a location whose posterior is given on a lattice: the posterior convolved with the noise.

The posterior is moved to a coarser lattice, which resolves the noise: each point is distributed over six neighbours
with the weights of Lagrange interpolation, so that sums of smooth functions of the location hardly change.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .pointer import Array
from .scalar import exp

WIDE = 6  # neighbours
_NEVER = -30.0  # log weights below this are left out
_FAINT = 1e-9


def stencil(ratio: int) -> Array:
    """Weights of the points 0 .. ratio - 1 between two coarse points at their six neighbours, (ratio, 6)."""
    at = np.arange(ratio)[:, None] / ratio
    place = np.arange(WIDE) - 2.0
    out = np.ones((ratio, WIDE))
    for j in range(WIDE):
        for k in range(WIDE):
            if k != j:
                out[:, j] *= (at[:, 0] - place[k]) / (place[j] - place[k])
    return out


@kernel
def coarse_weights(logs: Array, weights: Array) -> Array:
    """The weights on the coarse lattice, (hypotheses, coarse points); two points precede the first."""
    size, n = logs.shape
    ratio = weights.shape[0]
    out = np.zeros((n, (size - 1) // ratio + WIDE))
    for g in range(size):
        base = g // ratio
        part = g - base * ratio
        for k in range(n):
            if logs[g, k] > _NEVER:
                p = exp(logs[g, k])
                for j in range(WIDE):
                    out[k, base + j] += weights[part, j] * p
    return out


@kernel
def convolve(coarse: Array, noise: Array, stride: int, pad: int, nodes: int, positive: bool) -> Array:
    """The density at every `stride`-th point of the lattice, from `pad` points before it on, (nodes, hypotheses).

    noise[i] is the density of the noise at i - (noise.size - 1) / 2 steps.
    """
    n, size = coarse.shape
    middle = (noise.size - 1) // 2
    out = np.empty((nodes, n))
    for k in range(n):
        row = coarse[k]
        first = 0
        while first < size - 1 and abs(row[first]) < _FAINT:
            first += 1
        last = size
        while last > first + 1 and abs(row[last - 1]) < _FAINT:
            last -= 1
        for i in range(nodes):
            shift = middle + pad - i * stride
            total = 0.0
            for j in range(first, last):
                total += row[j] * noise[shift + j]
            out[i, k] = max(total, 0.0) if positive else total
    return out

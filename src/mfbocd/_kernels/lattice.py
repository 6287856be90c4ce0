"""Predictives of a location whose posterior is given on a lattice: the posterior convolved with the noise.

The posterior is moved to a coarser lattice, which resolves the noise: each point is distributed over six neighbours
with the weights of Lagrange interpolation, so that sums of smooth functions of the location hardly change.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .pointer import Array, pointer
from .scalar import exp

WIDE = 6  # neighbours
_NEVER = -30.0  # log weights below this are left out
_FAINT = 1e-11
_BLOCK = 16


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
    """The weights on the coarse lattice, (hypotheses, coarse points); two points precede the first.

    Most hypotheses have weight at few points: those without any in a block are skipped.
    """
    size, n = logs.shape
    ratio = weights.shape[0]
    out = np.zeros((n, (size - 1) // ratio + WIDE))
    top = np.empty(n)
    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        for k in range(n):
            top[k] = logs[start, k]
        for g in range(start + 1, end):
            row = logs[g]
            for k in range(n):
                top[k] = max(top[k], row[k])
        for k in range(n):
            if top[k] <= _NEVER:
                continue
            for g in range(start, end):
                if logs[g, k] > _NEVER:
                    base = g // ratio
                    part = g - base * ratio
                    p = exp(logs[g, k])
                    for j in range(WIDE):
                        out[k, base + j] += weights[part, j] * p
    return out


@kernel
def coarse_moments(coarse: Array, place: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the posterior of each hypothesis."""
    n, size = coarse.shape
    mean = np.zeros(n)
    sd = np.zeros(n)
    for k in range(n):
        for j in range(size):
            mean[k] += coarse[k, j] * place[j]
        for j in range(size):
            apart = place[j] - mean[k]
            sd[k] += coarse[k, j] * apart * apart
        sd[k] = math.sqrt(max(sd[k], 0.0))
    return mean, sd


@kernel
def convolve(
    coarse: Array, place: Array, centre: Array, noise: Array, start: int, nodes: int, density: Array, moved: Array
) -> None:
    """Fill in the density at every stride-th point of the lattice, (nodes, hypotheses).

    noise[r, q] is the density of the noise at q stride + r steps from the first difference, and `start` is the place
    of the difference of node 0 and point 0. Fill in also the density times E(theta | x) - centre, if `moved` is not
    empty.
    """
    n, size = coarse.shape
    stride = noise.shape[0]
    total = np.empty(nodes)
    other = np.empty(nodes)
    for k in range(n):
        for i in range(nodes):
            total[i] = 0.0
            other[i] = 0.0
        for j in range(size):
            w = coarse[k, j]
            if abs(w) < _FAINT:
                continue
            # point j is j steps nearer to the start of the noise than point 0
            at = start - j
            near = pointer(noise, (at % stride) * noise.shape[1] + at // stride)
            for i in range(nodes):
                total[i] += w * near[i]
            if moved.shape[0] > 0:
                v = w * (place[j] - centre[k])
                for i in range(nodes):
                    other[i] += v * near[i]
        for i in range(nodes):
            density[i, k] = max(total[i], 0.0)
        if moved.shape[0] > 0:
            for i in range(nodes):
                moved[i, k] = other[i]

"""Cholesky factors of many hypotheses at once: packed row by row, hypotheses along the last axis.

Every inner loop runs over the hypotheses, which are contiguous in memory, so that it vectorizes.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .pointer import Array

FAR = 1e50  # units of the noise from the prior mean; products of squares of readings further off would overflow


@kernel
def rank_one_update(factor: Array, vector: Array) -> None:
    """Replace L by the factor of L L^T + v v^T for each hypothesis, in place.

    `factor` has shape (d (d + 1) / 2, K); `vector` has shape (d, K) and is overwritten. One Givens rotation per
    column: unlike the form that divides by L_jj, it stays accurate where v is much larger than L.
    """
    d, n = vector.shape
    cosine = np.empty(n)
    sine = np.empty(n)
    for j in range(d):
        diagonal = factor[j * (j + 1) // 2 + j]
        v = vector[j]
        for k in range(n):
            r = math.sqrt(diagonal[k] * diagonal[k] + v[k] * v[k])
            cosine[k] = diagonal[k] / r
            sine[k] = v[k] / r
            diagonal[k] = r
        for i in range(j + 1, d):
            below = factor[i * (i + 1) // 2 + j]
            w = vector[i]
            for k in range(n):
                old = below[k]
                below[k] = cosine[k] * old + sine[k] * w[k]
                w[k] = cosine[k] * w[k] - sine[k] * old


@kernel
def solve_squared(factor: Array, vector: Array) -> Array:
    """|L^-1 v|^2 of each hypothesis, shape (K,); `vector` is overwritten by L^-1 v."""
    d, n = vector.shape
    out = np.zeros(n)
    for j in range(d):
        v = vector[j]
        diagonal = factor[j * (j + 1) // 2 + j]
        for k in range(n):
            v[k] /= diagonal[k]
            out[k] += v[k] * v[k]
        for i in range(j + 1, d):
            below = factor[i * (i + 1) // 2 + j]
            w = vector[i]
            for k in range(n):
                w[k] -= below[k] * v[k]
    return out


@kernel
def log_determinant(factor: Array, d: int) -> Array:
    """log det L of each hypothesis, shape (K,)."""
    out = np.zeros(factor.shape[1])
    for j in range(d):
        diagonal = factor[j * (j + 1) // 2 + j]
        for k in range(out.size):
            out[k] += math.log(diagonal[k])
    return out


@kernel
def unpack(factor: Array, d: int) -> Array:
    """The lower triangular matrices, shape (K, d, d)."""
    out = np.zeros((factor.shape[1], d, d))
    for i in range(d):
        for j in range(i + 1):
            row = factor[i * (i + 1) // 2 + j]
            for k in range(row.size):
                out[k, i, j] = row[k]
    return out

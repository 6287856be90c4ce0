"""Predictives of several numbers: mixtures of normals or Student's t, and their densities at sample points."""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .gamma_ratio import log1p
from .pointer import Array, pointer
from .scalar import exp

STEPS = 512
MERGED = 1e-4  # nats that may be lost by merging neighbours


@kernel
def _factor(matrix: Array, root: Array) -> bool:
    """Fill in the lower Cholesky factor; False, and nothing of use, if rounding made the matrix singular."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i + 1):
            value = matrix[i, j]
            for b in range(j):
                value -= root[i, b] * root[j, b]
            if i > j:
                root[i, j] = value / root[j, j]
            elif value > 0.0:
                root[i, i] = math.sqrt(value)
            else:
                return False
    return True


@kernel
def _solve(root: Array, vector: Array) -> float:
    """Replace v by L^-1 v, and return its square."""
    square = 0.0
    for a in range(vector.size):
        value = vector[a]
        for b in range(a):
            value -= root[a, b] * vector[b]
        value /= root[a, a]
        vector[a] = value
        square += value * value
    return square


@kernel
def _apart(root: Array, away: Array, change: Array, tail: float, end: float) -> float:
    """Squared distance of two components in Fisher's metric, approximately; overwrites `away` and `change`.

    The centre moves by `away`, the symmetric scale matrix, L L^T, by `change`, the degrees from `tail` to `end`.
    """
    d = away.size
    apart = _solve(root, away)
    for i in range(d):
        _solve(root, change[i])  # rows of change L^-T
    column = np.empty(d)
    for j in range(d):
        for i in range(d):
            column[i] = change[i, j]
        apart += 0.5 * _solve(root, column)
    if tail < np.inf:
        heavier = (end - tail) / (tail * (tail + 1.0))
        apart += 1.5 * d * heavier * heavier
    return apart


@kernel
def merge_components(weight: Array, centre: Array, shape: Array, root: Array, degrees: Array) -> int:
    """Merge neighbouring hypotheses, in place; returns the number left.

    `centre` (K, d), `shape` (K, d, d) with the Cholesky factors `root`, `degrees` (K,). See `bells.merge_bells`.
    """
    n, d = centre.shape
    away = np.empty(d)
    change = np.empty((d, d))
    joined = np.empty((d, d))
    m = 1
    for i in range(1, n):
        last = m - 1
        w = weight[i]
        total = weight[last] + w
        part = w / total
        for a in range(d):
            away[a] = centre[i, a] - centre[last, a]
            for b in range(d):
                change[a, b] = shape[i, a, b] - shape[last, a, b]
        apart = _apart(root[last], away, change, degrees[last], degrees[i])
        if 0.5 * weight[last] * part * apart * n < MERGED:
            for a in range(d):
                away[a] = centre[i, a] - centre[last, a]
            for a in range(d):
                for b in range(d):
                    moved = part * (shape[i, a, b] - shape[last, a, b])
                    shape[last, a, b] += moved + part * (1.0 - part) * away[a] * away[b]
            for a in range(d):
                centre[last, a] += part * away[a]
            if degrees[last] < np.inf:
                degrees[last] += part * (degrees[i] - degrees[last])
            if _factor(shape[last], joined):
                for a in range(d):
                    for b in range(a + 1):
                        root[last, a, b] = joined[a, b]
            weight[last] = total
            continue
        weight[m] = w
        degrees[m] = degrees[i]
        for a in range(d):
            centre[m, a] = centre[i, a]
            for b in range(d):
                shape[m, a, b] = shape[i, a, b]
                root[m, a, b] = root[i, a, b]
        m += 1
    return m


@kernel
def component_logs(centre: Array, root: Array, degrees: Array, x: Array) -> Array:
    """log density of each component at n points, (K, n), up to a constant; `x` has shape (d, n)."""
    m, d = centre.shape
    n = x.shape[1]
    out = np.empty((m, n))
    solved = np.empty((d, n))
    for k in range(m):
        base = 0.0
        for a in range(d):
            base -= math.log(root[k, a, a])
        square = pointer(out, k * n)
        for j in range(n):
            square[j] = 0.0
        for a in range(d):
            y = pointer(solved, a * n)
            at = pointer(x, a * n)
            c = centre[k, a]
            for j in range(n):
                y[j] = at[j] - c
            for b in range(a):
                before = pointer(solved, b * n)
                r = root[k, a, b]
                for j in range(n):
                    y[j] -= r * before[j]
            r = 1.0 / root[k, a, a]
            for j in range(n):
                y[j] *= r
                square[j] += y[j] * y[j]
        v = degrees[k]
        if v == np.inf:
            for j in range(n):
                square[j] = base - 0.5 * square[j]
            continue
        base += math.lgamma(0.5 * (v + d)) - math.lgamma(0.5 * v) - 0.5 * d * math.log(v)
        power = 0.5 * (v + d)
        r = 1.0 / v
        for j in range(n):
            square[j] = base - power * log1p(r * square[j])
    return out


@kernel
def chi_square_quantiles(u: Array, degrees: Array) -> Array:
    """Quantiles of chi-square, from sums over steps of log x that get finer towards the upper end.

    The sums are computed again where the degrees change from one point to the next.
    """
    out = np.empty(u.size)
    at = np.empty(STEPS + 1)
    density = np.empty(STEPS + 1)
    below = np.empty(STEPS + 1)
    for i in range(u.size):
        df = degrees[i]
        if i == 0 or df != degrees[i - 1]:
            low = math.log(df) - 40.0 / df - 9.2 / math.sqrt(df)
            high = math.log(df + 40.0 + 9.0 * math.sqrt(df))
            level = math.log(df)
            for j in range(STEPS + 1):
                back = 1.0 - j / STEPS
                s = high - (high - low) * back * back
                at[j] = s
                density[j] = exp(0.5 * df * (s - level) - 0.5 * (exp(s) - df))
            below[0] = 0.0
            for j in range(STEPS):
                below[j + 1] = below[j] + (density[j + 1] + density[j]) * (at[j + 1] - at[j])
        wanted = u[i] * below[STEPS]
        j = min(max(np.searchsorted(below, wanted), 1), STEPS)
        step = below[j] - below[j - 1]
        part = (wanted - below[j - 1]) / step if step > 0.0 else 1.0
        out[i] = exp(at[j - 1] + part * (at[j] - at[j - 1]))
    return out

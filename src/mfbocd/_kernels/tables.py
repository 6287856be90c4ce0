"""Information from tables: the probability of each value of a reading, or its density at nodes, per hypothesis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .pointer import Array, pointer
from .scalar import exp, log

LIGHT = 1e-9  # lighter hypotheses are left out: a thousand of them are worth 2e-5 nats
MERGED = 2e-5  # nats that may be lost by merging neighbours


@kernel
def table_information(weight: Array, share: Array, density: Array) -> float:
    """I(r; x) in nats, never negative; `share` (N,) are the weights of the nodes, `density` has shape (N, K)."""
    n, size = density.shape
    w = np.empty(size)
    kept = 0.0
    for k in range(size):
        w[k] = weight[k] if weight[k] >= LIGHT else 0.0
        kept += w[k]
    for k in range(size):
        w[k] /= kept
    total = 0.0
    for i in range(n):
        mixed = 0.0
        inner = 0.0
        for k in range(size):
            p = density[i, k] + 1e-300
            mixed += w[k] * p
            inner += w[k] * p * log(p)
        total += share[i] * (inner - mixed * log(mixed))
    return max(total, 0.0)


@kernel
def table_entropies(share: Array, density: Array) -> Array:
    """Entropy of the reading under each hypothesis, (K,)."""
    n, size = density.shape
    out = np.zeros(size)
    for i in range(n):
        for k in range(size):
            p = density[i, k] + 1e-300
            out[k] -= share[i] * p * log(p)
    return out


@kernel
def table_family_information(probability: Array, density: Array) -> Array:
    """I(k; x | r) of the family k with probability[k, r], from the probabilities density[k, x, r] of values."""
    families, n, size = density.shape
    out = np.zeros(size)
    mixed = np.empty(size)
    for i in range(n):
        for r in range(size):
            mixed[r] = 1e-300
        for k in range(families):
            row, share = density[k, i], probability[k]
            for r in range(size):
                p = row[r] + 1e-300
                mixed[r] += share[r] * p
                out[r] += share[r] * p * log(p)
        for r in range(size):
            out[r] -= mixed[r] * log(mixed[r])
    return np.maximum(out, 0.0)


@kernel
def _merge_columns(weight: Array, share: Array, density: Array) -> int:
    """Leave out and merge neighbouring hypotheses, in place; returns the number left.

    Merging two of them loses w1 w2 / (w1 + w2) times half their chi-square distance, to second order.
    """
    n, size = density.shape
    kept = 0.0
    heavy = 0
    for k in range(size):
        if weight[k] >= LIGHT:
            kept += weight[k]
            heavy += 1
    m = 0
    for k in range(size):
        if weight[k] < LIGHT:
            continue
        w = weight[k] / kept
        if m > 0:
            last = m - 1
            part = w / (weight[last] + w)
            apart = 0.0
            for i in range(n):
                d = density[i, k] - density[i, last]
                both = density[i, last] + part * d + 1e-300
                apart += share[i] * d * d / both
            if 0.5 * weight[last] * part * apart * heavy < MERGED:
                for i in range(n):
                    density[i, last] += part * (density[i, k] - density[i, last])
                weight[last] += w
                continue
        weight[m] = w
        for i in range(n):
            density[i, m] = density[i, k]
        m += 1
    return m


@kernel
def _known_part(weight: Array, ends: Array, share: Array, density: Array) -> float:
    """E log p(x | k), averaged over k: the readings are independent given k, so that it is a sum over them.

    A table may hold less than all probability: then the product has that of all tables.
    """
    parts = ends.size - 1
    total = 0.0
    for k in range(weight.size):
        mass = 1.0
        logs = 0.0
        for j in range(parts):
            part = 0.0
            inner = 0.0
            for i in range(int(ends[j]), int(ends[j + 1])):
                p = density[i, k] + 1e-300
                part += share[i] * p
                inner += share[i] * p * log(p)
            mass *= part
            logs += inner / part
        total += weight[k] * mass * logs
    return total


@kernel
def product_information(weight: Array, ends: Array, share: Array, density: Array) -> float:
    """I(r; x) of independent readings, whose tables are the rows ends[j] to ends[j + 1]; overwrites the arrays.

    The cells of the product are visited like the numbers of a counter, which counts all readings but the last.
    `partial` has the product of the weights and densities of the readings so far.
    """
    m = _merge_columns(weight, share, density)
    if m < 2:
        return 0.0
    parts = ends.size - 1
    start = int(ends[parts - 1])
    many = int(ends[parts]) - start
    partial = np.empty((parts, m))
    length = np.ones(parts)
    at = np.zeros(parts, dtype=np.int64)
    last = np.empty((m, many))
    for k in range(m):
        partial[0, k] = weight[k]
        for i in range(many):
            last[k, i] = density[start + i, k]
    mixed = np.empty(many)
    total = _known_part(weight[:m], ends, share, density)
    depth = 0
    while depth >= 0:
        if depth == parts - 1:
            for i in range(many):
                mixed[i] = 1e-300
            for k in range(m):
                p = partial[depth, k]
                row = pointer(last, k * many)
                for i in range(many):
                    mixed[i] += p * row[i]
            inner = 0.0
            for i in range(many):
                inner += share[start + i] * mixed[i] * log(mixed[i])
            total -= length[depth] * inner
        elif at[depth] < ends[depth + 1] - ends[depth]:
            place = int(ends[depth]) + at[depth]
            at[depth] += 1
            for k in range(m):
                partial[depth + 1, k] = partial[depth, k] * density[place, k]
            length[depth + 1] = length[depth] * share[place]
            depth += 1
            at[depth] = 0
            continue
        depth -= 1
    return max(total, 0.0)


@kernel
def drawn_rows(share: Array, density: Array, u: Array, source: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of a table at the quantile of each point, under the hypothesis that the point is drawn from."""
    n = share.size
    out = np.empty(source.size, dtype=np.int64)
    below = np.empty(n)
    for i in range(source.size):
        k = source[i]
        if i == 0 or k != source[i - 1]:
            total = 0.0
            for j in range(n):
                total += share[j] * density[j, k]
                below[j] = total
        out[i] = min(np.searchsorted(below, u[i] * below[n - 1]), n - 1)
    return out


@kernel
def sampled_information(weight: Array, drawn: Array, logs: Array) -> float:
    """I(r; x) from the log density of points, (K, points), of which drawn[k] are from hypothesis k.

    A point has weight p(x) / sum_l n_l p_l(x): it counts for every hypothesis that could have produced it.
    """
    size, points = logs.shape
    top = np.full(points, -1e308)
    mixed = np.zeros(points)
    inner = np.zeros(points)
    other = np.zeros(points)
    for k in range(size):
        row = logs[k]
        for i in range(points):
            top[i] = max(top[i], row[i])
    for k in range(size):
        row, w, many = logs[k], weight[k], drawn[k]
        for i in range(points):
            d = max(row[i] - top[i], -700.0)
            p = exp(d)
            mixed[i] += w * p
            inner[i] += w * p * d
            other[i] += many * p
    total = 0.0
    mass = 0.0
    for i in range(points):
        share = mixed[i] / other[i]
        mass += share
        total += share * (inner[i] / mixed[i] - log(mixed[i]))
    return max(total / mass, 0.0)

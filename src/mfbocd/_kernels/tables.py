"""Information from tables: the probability of each value of a reading, or its density at nodes, per hypothesis."""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .pointer import Array
from .scalar import exp, log

LIGHT = 1e-9  # lighter hypotheses are left out: a thousand of them are worth 2e-5 nats
MERGED = 2e-5  # nats that may be lost by merging neighbours
FAINT = 1e-4  # probability of all cells of a product together that may be left out


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
    for i in range(n):
        for r in range(size):
            mixed = 1e-300
            inner = 0.0
            for k in range(families):
                p = density[k, i, r] + 1e-300
                mixed += probability[k, r] * p
                inner += probability[k, r] * p * log(p)
            out[r] += inner - mixed * log(mixed)
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
def product_information(weight: Array, ends: Array, share: Array, density: Array) -> float:
    """I(r; x) of independent readings, whose tables are the rows ends[j] to ends[j + 1]; overwrites the arrays.

    The cells of the product are visited like the numbers of a counter. `partial` has the product of the shares and
    densities of the readings so far.
    """
    m = _merge_columns(weight, share, density)
    if m < 2:
        return 0.0
    parts = ends.size - 1
    partial = np.ones((parts + 1, m))
    length = np.ones(parts + 1)
    at = np.zeros(parts, dtype=np.int64)
    for k in range(m):
        partial[0, k] = weight[k]
    least = np.empty(parts)
    cells = 1.0
    for j in range(parts):
        cells *= ends[j + 1] - ends[j]
        least[j] = FAINT / cells
    total = 0.0
    depth = 0
    while depth >= 0:
        if at[depth] >= ends[depth + 1] - ends[depth]:
            at[depth] = 0
            depth -= 1
            if depth >= 0:
                at[depth] += 1
            continue
        row = int(ends[depth]) + at[depth]
        reached = 0.0
        step = length[depth] * share[row]
        for k in range(m):
            p = partial[depth, k] * density[row, k]
            partial[depth + 1, k] = p
            reached += p
        length[depth + 1] = step
        if reached * step < least[depth]:
            at[depth] += 1
            continue
        if depth < parts - 1:
            depth += 1
            continue
        inner = 0.0
        for k in range(m):
            p = partial[depth + 1, k] + 1e-300
            inner += p * log(p / weight[k])
        total += step * (inner - reached * log(reached))
        at[depth] += 1
    return max(total, 0.0)


@kernel
def sampled_information(weight: Array, drawn: Array, logs: Array) -> float:
    """I(r; x) from the log density of points, (points, K), of which drawn[k] are from hypothesis k.

    A point has weight p(x) / sum_l n_l p_l(x): it counts for every hypothesis that could have produced it.
    """
    points, size = logs.shape
    total = 0.0
    mass = 0.0
    for i in range(points):
        top = logs[i, 0]
        for k in range(size):
            top = max(top, logs[i, k])
        mixed = 0.0
        inner = 0.0
        other = 0.0
        for k in range(size):
            d = logs[i, k] - top
            p = exp(max(d, -700.0))
            mixed += weight[k] * p
            inner += weight[k] * p * d
            other += drawn[k] * p
        share = mixed / other
        mass += share
        total += share * (inner / mixed - log(mixed))
    return max(total / mass, 0.0)

"""Predictives that are mixtures of bells: their densities on common nodes, and the information about the run length.

A bell is a component of `heavy_tails`: a normal or Student's t (STUDENT), or the logarithm of a beta prime
(LOGISTIC). Hypothesis r is the mixture of the bells j with the shares share[j, r]; the arrays have shape
(bells, hypotheses).

Hypotheses of negligible weight are left out, and neighbours that hardly differ are merged. Merging loses the
information that tells them apart, w1 w2 / (w1 + w2) times half their squared distance in Fisher's metric: so much may
be lost in all of them together (MERGED). The rest is integrated by the panels of `heavy_tails`.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel, scalar
from .gamma_ratio import half_gamma_ratio, log1p
from .heavy_tails import MOST, NODES, STUDENT, panels, place_nodes, reaches
from .pointer import Array, pointer
from .scalar import exp, log

LIGHT = 1e-9  # lighter hypotheses are left out: a thousand of them are worth 2e-5 nats
FAINT = 1e-8  # the same for a bell, times the weight of its hypothesis
MERGED = 3e-5  # nats
LOST = 18.0  # as in `heavy_tails`, where it is 30
COARSE = 1.5  # panels are longer than those of `heavy_tails` by this factor
TABLE = 2.5  # the same for tables, of which products are formed
RESOLVED = 1e-3  # share of the lightest bell whose width decides about panels
NORMAL = 1e12  # degrees of freedom of a Student's t that stands for a normal


@scalar
def _apart(kind: int, d: float, width: float, other: float, tail: float, end: float) -> float:
    """Squared distance of two bells in Fisher's metric, approximately: their centres are d apart."""
    if kind == STUDENT:
        stretch = (other - width) / width
        heavier = (end - tail) / (tail * (tail + 1.0))
        return d * d / (width * width) + 2.0 * stretch * stretch + 1.5 * heavier * heavier
    near = (other - width) * (other - width) * (1.0 + 1.0 / width) / width
    far = (end - tail) * (end - tail) * (1.0 + 1.0 / tail) / tail
    return d * d * width * tail / (width + tail) + near + far


@kernel
def merge_bells(kind: int, weight: Array, share: Array, centre: Array, width: Array, tail: Array) -> int:
    """Leave out and merge hypotheses, in place; returns the number left, whose weights then sum to 1."""
    size = share.shape[0]
    kept = 0.0
    heavy = 0
    for i in range(weight.size):
        if weight[i] >= LIGHT:
            kept += weight[i]
            heavy += 1
    m = 0
    for i in range(weight.size):
        if weight[i] < LIGHT:
            continue
        w = weight[i] / kept
        if m > 0:
            last = m - 1
            total = weight[last] + w
            part = w / total
            apart = 0.0
            for j in range(size):
                both = share[j, last] + part * (share[j, i] - share[j, last])
                if both > 0.0:
                    more = share[j, i] - share[j, last]
                    d = centre[j, i] - centre[j, last]
                    apart += both * _apart(kind, d, width[j, last], width[j, i], tail[j, last], tail[j, i])
                    apart += more * more / both
            if 0.5 * weight[last] * part * apart * heavy < MERGED:
                for j in range(size):
                    both = share[j, last] + part * (share[j, i] - share[j, last])
                    # the share of i in this bell; its own share may be 0
                    mix = part * share[j, i] / both if both > 0.0 else part
                    d = centre[j, i] - centre[j, last]
                    if kind == STUDENT:
                        square = width[j, last] * width[j, last]
                        square += mix * (width[j, i] * width[j, i] - square)
                        width[j, last] = math.sqrt(square + mix * (1.0 - mix) * d * d)
                    else:
                        width[j, last] += mix * (width[j, i] - width[j, last])
                    centre[j, last] += mix * d
                    tail[j, last] += mix * (tail[j, i] - tail[j, last])
                    share[j, last] = both
                weight[last] = total
                continue
        weight[m] = w
        for j in range(size):
            share[j, m] = share[j, i]
            centre[j, m] = centre[j, i]
            width[j, m] = width[j, i]
            tail[j, m] = tail[j, i]
        m += 1
    return m


@kernel
def _add_bell(
    kind: int, x: Array, first: int, many: int, height: float, c: float, s: float, q: float, out: Array
) -> None:
    """Add height times a bell's density at `many` nodes from `first` on."""
    # pointers: an index that might be negative would prevent vectorization
    at = pointer(x, first)
    density = pointer(out, first)
    if kind == STUDENT:
        f, e = half_gamma_ratio(0.5 * q)
        front = height * math.sqrt(f / (math.pi * q)) * math.exp(e) / s
        r = 1.0 / s
        power = 0.5 * (q + 1.0)
        inverse = 1.0 / q
        for j in range(many):
            z = (at[j] - c) * r
            density[j] += front * exp(-power * log1p(z * z * inverse))
    else:
        base = math.log(height) + math.lgamma(s + q) - math.lgamma(s) - math.lgamma(q)
        for j in range(many):
            t = at[j] - c
            far = max(t, 0.0)
            density[j] += exp(base + s * (t - far) - q * far - (s + q) * log1p(exp(-abs(t))))


@scalar
def _shared(kind: int, d: float, width: float, other: float, tail: float, end: float) -> bool:
    """Whether two bells of a hypothesis, whose centres are d apart, can share their panels."""
    return kind == STUDENT and abs(d) < 0.1 * min(width, other) and 0.5 < tail / end < 2.0


@kernel
def bell_nodes(
    kind: int,
    m: int,
    weight: Array,
    share: Array,
    centre: Array,
    width: Array,
    tail: Array,
    factor: float,
    edge: Array,
    low: Array,
    high: Array,
) -> int:
    """Fill in the ends of the panels, and the panels that each bell reaches; returns the number of panels.

    A bell that does not matter reaches none. Bells of a hypothesis about the same centre share the panels of the
    narrowest that has some weight: further out their sum is as smooth as it is wide.
    """
    size = share.shape[0]
    w = np.empty(size * m)
    c = np.empty(size * m)
    s = np.empty(size * m)
    q = np.empty(size * m)
    n = 0
    for j in range(size):
        for i in range(m):
            part = weight[i] * share[j, i]
            if part >= FAINT:
                w[n], c[n], s[n], q[n] = part, centre[j, i], width[j, i], tail[j, i]
                n += 1
    left = np.empty(n)
    right = np.empty(n)
    reaches(kind, n, w, c, s, q, LOST, left, right)
    # the outlines: those of row k are at k * m, one per hypothesis or none (first > last)
    first = np.full(size * m, np.inf)
    last = np.full(size * m, -np.inf)
    used = np.zeros(m, dtype=np.int64)
    n = 0
    for j in range(size):
        for i in range(m):
            if weight[i] * share[j, i] < FAINT:
                continue
            k = 0
            while k < used[i] and not _shared(
                kind, centre[j, i] - c[k * m + i], width[j, i], s[k * m + i], tail[j, i], q[k * m + i]
            ):
                k += 1
            at = k * m + i
            if k == used[i]:
                used[i] += 1
                c[at], s[at], q[at] = centre[j, i], width[j, i], tail[j, i]
            elif width[j, i] < s[at] and share[j, i] > RESOLVED:
                s[at], q[at] = width[j, i], tail[j, i]
            first[at] = min(first[at], left[n])
            last[at] = max(last[at], right[n])
            n += 1
    groups = 0
    for at in range(size * m):
        if first[at] <= last[at]:
            c[groups], s[groups], q[groups] = c[at], s[at], q[at]
            first[groups], last[groups] = first[at], last[at]
            groups += 1
    count = panels(kind, groups, c, s, q, first, last, factor, edge)
    n = 0
    for j in range(size):
        for i in range(m):
            low[j, i] = 0.0
            high[j, i] = 0.0
            if weight[i] * share[j, i] >= FAINT:
                low[j, i] = np.searchsorted(edge[:count], left[n])
                high[j, i] = min(np.searchsorted(edge[: count + 1], right[n]), count)
                n += 1
    return count


@kernel
def _constant(values: Array, j: int, m: int) -> bool:
    """Whether the first m values of a row are equal."""
    for i in range(1, m):  # noqa: SIM110 (a generator cannot be compiled)
        if values[j, i] != values[j, 0]:
            return False
    return True


@kernel
def _information(
    kind: int, m: int, weight: Array, share: Array, centre: Array, width: Array, tail: Array, edge: Array
) -> float:
    """I(hypothesis; x) of m hypotheses whose weights sum to 1."""
    size = share.shape[0]
    low = np.empty((size, m))
    high = np.empty((size, m))
    count = bell_nodes(kind, m, weight, share, centre, width, tail, COARSE, edge, low, high)
    n = count * NODES
    x = np.empty(n)
    dx = np.empty(n)
    place_nodes(edge, count, x, dx)
    # bells that are the same in all hypotheses, such as those of an outlier, are computed once
    common = np.zeros(n)
    same = np.empty(size, dtype=np.bool_)
    for j in range(size):
        same[j] = _constant(share, j, m) and _constant(centre, j, m) and _constant(width, j, m)
        same[j] = same[j] and _constant(tail, j, m)
        if same[j] and share[j, 0] > 0.0:
            _add_bell(kind, x, 0, n, share[j, 0], centre[j, 0], width[j, 0], tail[j, 0], common)
    mixed = np.zeros(n)
    density = np.empty(n)
    total = 0.0
    for i in range(m):
        first = count
        end = 0
        for j in range(size):
            if high[j, i] > low[j, i]:
                first = min(first, int(low[j, i]))
                end = max(end, int(high[j, i]))
        many = (end - first) * NODES
        if many <= 0:
            continue
        start = first * NODES
        own = pointer(density, start)
        sum_of = pointer(mixed, start)
        length = pointer(dx, start)
        shared = pointer(common, start)
        for k in range(many):
            own[k] = shared[k]
        for j in range(size):
            if high[j, i] > low[j, i] and not same[j]:
                begin = int(low[j, i])
                _add_bell(
                    kind,
                    x,
                    begin * NODES,
                    (int(high[j, i]) - begin) * NODES,
                    share[j, i],
                    centre[j, i],
                    width[j, i],
                    tail[j, i],
                    density,
                )
        w = weight[i]
        each = 0.0
        for k in range(many):
            p = own[k] + 1e-300
            each += length[k] * p * log(p)
            sum_of[k] += w * p
        total += w * each
    for k in range(n):
        p = mixed[k] + 1e-300
        total -= dx[k] * p * log(p)
    return max(total, 0.0)


@kernel
def bell_information(kind: int, weight: Array, share: Array, centre: Array, width: Array, tail: Array) -> float:
    """I(r; x) in nats, never negative; overwrites the arrays."""
    m = merge_bells(kind, weight, share, centre, width, tail)
    if m < 2:
        return 0.0
    return _information(kind, m, weight, share, centre, width, tail, np.empty(MOST + 1))


@kernel
def family_information(
    kind: int, probability: Array, ends: Array, share: Array, centre: Array, width: Array, tail: Array
) -> Array:
    """I(k; x | r) of the family k with probability[k, r], whose bells are the rows from ends[k] to ends[k + 1]."""
    families, n = probability.shape
    out = np.zeros(n)
    edge = np.empty(MOST + 1)
    most = 0
    for k in range(families):
        most = max(most, int(ends[k + 1] - ends[k]))
    for i in range(n):
        weight = np.empty(families)
        parts = np.zeros((4, most, families))
        m = 0
        kept = 0.0
        for k in range(families):
            if probability[k, i] < LIGHT:
                continue
            start = int(ends[k])
            many = int(ends[k + 1]) - start
            for j in range(many):
                parts[0, j, m] = share[start + j, i]
                parts[1, j, m] = centre[start + j, i]
                parts[2, j, m] = width[start + j, i]
                parts[3, j, m] = tail[start + j, i]
            weight[m] = probability[k, i]
            kept += weight[m]
            m += 1
        if m < 2:
            continue
        for k in range(m):
            weight[k] /= kept
        out[i] = _information(kind, m, weight, parts[0], parts[1], parts[2], parts[3], edge)
    return out


@kernel
def bell_densities(
    kind: int, weight: Array, share: Array, centre: Array, width: Array, tail: Array
) -> tuple[Array, Array, Array]:
    """Nodes, their weights in an integral, and the density of each hypothesis there, (nodes, hypotheses)."""
    size, m = share.shape
    edge = np.empty(MOST + 1)
    low = np.empty((size, m))
    high = np.empty((size, m))
    count = bell_nodes(kind, m, weight, share, centre, width, tail, TABLE, edge, low, high)
    n = count * NODES
    x = np.empty(n)
    dx = np.empty(n)
    place_nodes(edge, count, x, dx)
    out = np.zeros((n, m))
    density = np.empty(n)
    for i in range(m):
        for k in range(n):
            density[k] = 0.0
        for j in range(size):
            if share[j, i] > 0.0:
                _add_bell(kind, x, 0, n, share[j, i], centre[j, i], width[j, i], tail[j, i], density)
        for k in range(n):
            out[k, i] = density[k]
    return x, dx, out

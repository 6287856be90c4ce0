"""The information of a mixture whose components have heavy tails, to 1e-7 nats at any scale and offset.

Two kinds of component, selected by `kind`, with one array each for weight, centre, width and `tail`:

- STUDENT: Student's t at `centre` of scale `width` with `tail` degrees of freedom;
- LOGISTIC: the logarithm of a beta prime (Gamma, exponential readings): t = log x - centre has the density
  e^(width t) / (1 + e^t)^(width + tail) / B(width, tail), exponential on both sides.

I = sum_l w_l int p_l log(p_l / p) is integrated by Gauss-Legendre quadrature over panels. The length of a panel is
limited by the nearest component: a fraction of the distance to its complex poles (at width sqrt(tail) above the
centre for a Student's t, at pi for a logistic), of its width, and of the length over which it falls by e^5. So panels
grow with the distance from every centre, and a tail of a million widths costs a dozen of them. p_l and p are
integrated on the same nodes, so that the errors of equal components cancel.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel, scalar
from .gamma_ratio import log1p
from .pointer import Array, pointer
from .scalar import exp, log

STUDENT, LOGISTIC = 0, 1
LIGHT = 1e-12  # lighter components are left out: a thousand of them are worth 3e-8 nats
LOST = 30.0  # -log of the tail (times the weight) left out on either side; a thousand of them: 3e-9 nats
FINE = 1.0  # factor of the length of panels
TOWARDS, AWAY = 0.67, 1.5  # length of a panel as a fraction of the distance to a pole, before it and after it
STEEP = 5.0  # a component falls by at most e^STEEP over a panel
NODES = 8
_NODE, _SHARE = np.polynomial.legendre.leggauss(NODES)
MOST = 1 << 15  # panels; far more than ever needed


@scalar
def _steepness(kind: int, r: float, width: float, tail: float) -> float:
    """|d log p / dx| at r from the centre."""
    if kind == STUDENT:
        return (tail + 1.0) * abs(r) / (tail * width * width + r * r)
    return abs(width - (width + tail) / (1.0 + math.exp(min(-r, 700.0))))


@scalar
def _mode(kind: int, width: float, tail: float) -> float:
    return 0.0 if kind == STUDENT else math.log(width / tail)


@scalar
def _core(kind: int, width: float, tail: float) -> float:
    """Distance from the mode to the nearest pole, or three widths if that is less."""
    if kind == STUDENT:
        return width * min(math.sqrt(tail), 3.0)
    return min(math.pi, 3.0 * math.sqrt(1.0 / width + 1.0 / tail))


@scalar
def _reach(kind: int, weight: float, width: float, tail: float, side: float, lost: float) -> float:
    """Distance from the mode beyond which (side -1: left, 1: right) the component is negligible."""
    lost = max(lost + math.log(weight), 1.0)
    if kind == STUDENT:
        # the tail is about (1 + r^2 / (tail width^2))^(-tail / 2); 1e130 widths are as good as infinity
        return width * math.sqrt(tail * math.expm1(min(2.0 * lost / tail, 600.0)))
    near, rate = (tail, width) if side < 0.0 else (width, tail)
    # Falls like a normal near the mode and like e^(-rate r) further out, never slower than both together, but much
    # faster, like e^-(e^r), where `near` is small and `rate` large. Newton's method: the log density is concave.
    most = math.sqrt(2.0 * lost * (1.0 / width + 1.0 / tail)) + lost / rate
    r = min(most, math.log1p(lost / near + 8.0))
    share = near / (near + rate)
    for _ in range(20):
        e = math.expm1(min(r, 600.0))
        fallen = (near + rate) * math.log1p(share * e) - near * r
        slope = near * (1.0 + e) / (1.0 + share * e) - near
        step = (fallen - lost) / max(slope, 1e-300)
        r = min(r - step, most) if r - step > 0.0 else 0.5 * r
        if fallen >= lost and step < 0.02 * r:
            break
    return r


@kernel
def reaches(
    kind: int,
    m: int,
    weight: Array,
    centre: Array,
    width: Array,
    tail: Array,
    lost: float,
    left: Array,
    right: Array,
) -> None:
    """Fill in the ends of the interval that matters to each component."""
    for i in range(m):
        mode = centre[i] + _mode(kind, width[i], tail[i])
        left[i] = mode - _reach(kind, weight[i], width[i], tail[i], -1.0, lost)
        right[i] = mode + _reach(kind, weight[i], width[i], tail[i], 1.0, lost)


@kernel
def panels(
    kind: int,
    m: int,
    centre: Array,
    width: Array,
    tail: Array,
    left: Array,
    right: Array,
    factor: float,
    edge: Array,
) -> int:
    """Fill in the ends of the panels, ascending, and return how many there are."""
    # Similar neighbours need the same panels: `like` holds one component per group, and the group's reach.
    like = np.empty((m, 6))
    groups = 0
    for i in range(m):
        mode = centre[i] + _mode(kind, width[i], tail[i])
        core = _core(kind, width[i], tail[i])
        if groups > 0:
            last = like[groups - 1]
            near = abs(mode - last[0]) < 0.2 * last[1] and abs(core - last[1]) < 0.2 * last[1]
            if near and abs(tail[i] - last[3]) < 0.2 * last[3]:
                last[4] = min(last[4], left[i])
                last[5] = max(last[5], right[i])
                continue
        like[groups, 0], like[groups, 1], like[groups, 2] = mode, core, width[i]
        like[groups, 3], like[groups, 4], like[groups, 5] = tail[i], left[i], right[i]
        groups += 1
    x = float(np.min(like[:groups, 4]))
    end = float(np.max(like[:groups, 5]))
    n = 0
    edge[0] = x
    while x < end and n < MOST:
        length = end - x
        for i in range(groups):
            mode, core, wide, heavy, first, final = like[i]
            if x >= final:
                continue
            if x < first:
                length = min(length, first - x)
                continue
            d = x - mode
            if d < 0.0:
                length = min(length, TOWARDS * math.sqrt(d * d + factor * factor * core * core))
            else:
                length = min(length, factor * TOWARDS * core + AWAY * d)
            away = d + _mode(kind, wide, heavy)
            steep = _steepness(kind, away, wide, heavy)
            if steep * length > STEEP:
                length = STEEP / steep
            if kind == LOGISTIC:
                # its slope may grow like e^r over the panel
                while _steepness(kind, away + length, wide, heavy) * length > 1.5 * STEEP:
                    length *= 0.8
        x = x + max(length, 1e-15 * abs(x))  # at an offset of 1e15 widths nothing finer is representable
        n += 1
        edge[n] = x
    return n


@kernel
def place_nodes(edge: Array, n: int, x: Array, dx: Array) -> None:
    """Nodes and weights of n panels."""
    for j in range(n):
        half = 0.5 * (edge[j + 1] - edge[j])
        middle = 0.5 * (edge[j + 1] + edge[j])
        for k in range(NODES):
            x[j * NODES + k] = middle + half * _NODE[k]
            dx[j * NODES + k] = half * _SHARE[k]


@kernel
def tail_information(kind: int, weight: Array, centre: Array, width: Array, tail: Array) -> float:
    """I(component; x) in nats, never negative; overwrites the arrays."""
    m = 0
    kept = 0.0
    for i in range(weight.size):
        if weight[i] >= LIGHT:
            weight[m], centre[m], width[m], tail[m] = weight[i], centre[i], width[i], tail[i]
            kept += weight[i]
            m += 1
    if m < 2:
        return 0.0
    edge = np.empty(MOST + 1)
    left = np.empty(m)
    right = np.empty(m)
    reaches(kind, m, weight, centre, width, tail, LOST, left, right)
    count = panels(kind, m, centre, width, tail, left, right, FINE, edge)
    n = count * NODES
    x = np.empty(n)
    dx = np.empty(n)
    place_nodes(edge, count, x, dx)
    mixed = np.zeros(n)
    total = 0.0
    for i in range(m):
        w, c, s, q = weight[i] / kept, centre[i], width[i], tail[i]
        # a reach ends at the end of a panel; `min` is for a reach that rounding puts beyond the last
        low = np.searchsorted(edge[:count], left[i]) * NODES
        many = min(np.searchsorted(edge[: count + 1], right[i]), count) * NODES - low
        # pointers: an index that might be negative would prevent vectorization
        at = pointer(x, low)
        share = pointer(dx, low)
        density = pointer(mixed, low)
        if kind == STUDENT:
            r = 1.0 / s
            power = 0.5 * (q + 1.0)
            base = math.lgamma(power) - math.lgamma(0.5 * q) - 0.5 * math.log(math.pi * q) - math.log(s)
            inverse = 1.0 / q
            for j in range(many):
                z = (at[j] - c) * r
                value = base - power * log1p(z * z * inverse)
                p = w * exp(value)
                density[j] += p
                total += share[j] * p * value
        else:
            base = math.lgamma(s + q) - math.lgamma(s) - math.lgamma(q)
            for j in range(many):
                t = at[j] - c
                far = max(t, 0.0)
                value = base + s * (t - far) - q * far - (s + q) * log1p(exp(-abs(t)))
                p = w * exp(value)
                density[j] += p
                total += share[j] * p * value
    for j in range(n):
        p = mixed[j] + 1e-300
        total -= dx[j] * p * log(p)
    return max(total, 0.0)

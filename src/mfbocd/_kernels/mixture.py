"""The entropy of a mixture of normals in one dimension, to 1e-7 nats at any scale.

Neighbouring components that hardly differ are merged by their moments. The rest are sorted by width and added class
by class, widest first: with g the density so far and p the density including the next class, f(p) - f(g), where
f(p) = p log p, vanishes away from the class and is smooth on its scale. So each class is integrated by the
trapezoidal rule with its own step over the union of its components' ranges, and a component a thousand times wider
than the others (a vague prior) adds no cost. For a smooth function that vanishes at both ends the trapezoidal rule
converges faster than any power of the step.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel, scalar
from .pointer import Array
from .scalar import exp, log

LIGHT = 1e-12  # lighter components are left out: a thousand of them are worth 3e-8 nats
NEAR = 0.015  # in standard deviations: the error of merging closer components is some 1e-7 nats
SLIGHT = 0.01  # lighter pairs may be further apart: the error of merging is proportional to their weight
REACH = 7.0  # standard deviations integrated on either side
STEP = 0.4  # of the narrowest standard deviation in the class
LOG_2PI_E = math.log(2.0 * math.pi * math.e)
_ROOT_2PI = math.sqrt(2.0 * math.pi)


@scalar
def _mergeable(pair: float, distance: float, difference: float) -> bool:
    """Whether two components may be merged, by their squared distance and the difference of their variances.

    The error of merging is of third order in the distance and of second order in the difference, times
    `pair` = w1 w2 / (w1 + w2).
    """
    near = distance < NEAR * NEAR or (
        distance < 1.0 and pair * pair * distance * distance * distance < SLIGHT * SLIGHT * NEAR**6
    )
    same = difference < NEAR or (difference < 0.5 and pair * difference * difference < SLIGHT * NEAR * NEAR)
    return near and same


@kernel
def merge(weight: Array, mean: Array, variance: Array) -> int:
    """Merge neighbours that hardly differ, in place, keeping weight, mean and variance; returns the number left."""
    m = 0
    inverse = 0.0  # 1 / variance of the last component when it was added; dividing for each would double the time
    for i in range(weight.size):
        w = weight[i]
        if w < LIGHT:
            continue
        if m > 0:
            d = mean[i] - mean[m - 1]
            v = variance[m - 1]
            total = weight[m - 1] + w
            share = w / total
            if _mergeable(weight[m - 1] * share, d * d * inverse, abs(variance[i] - v) * inverse):
                mean[m - 1] += share * d
                variance[m - 1] = v + share * (variance[i] - v) + share * (1.0 - share) * d * d
                weight[m - 1] = total
                continue
        weight[m] = w
        mean[m] = mean[i]
        variance[m] = variance[i]
        inverse = 1.0 / variance[i]
        m += 1
    return m


@kernel
def _sort(key: Array, a: Array, b: Array, low: int, high: int) -> None:
    """Sort three columns by the first, ascending, between two rows; insertion sort, since they are few."""
    for i in range(low + 1, high):
        k, x, y = key[i], a[i], b[i]
        j = i - 1
        while j >= low and key[j] > k:
            key[j + 1], a[j + 1], b[j + 1] = key[j], a[j], b[j]
            j -= 1
        key[j + 1], a[j + 1], b[j + 1] = k, x, y


@kernel
def _integral(weight: Array, mean: Array, width: Array, old: int, new: int, left: float, right: float) -> float:
    """The integral of f(p) - f(g) from left to right: g has the first `old` components, p the first `new`."""
    narrowest = width[old]
    for i in range(old, new):
        narrowest = min(narrowest, width[i])
    points = int((right - left) / (STEP * narrowest)) + 2
    step = (right - left) / (points - 1)
    padded = (points + 7) // 8 * 8  # whole vectors; the points past the right end are not summed
    g = np.zeros(padded)
    p = np.zeros(padded)
    for i in range(new):
        scale = 1.0 / width[i]
        # distant components are negligible here: skip them before they cost an exponential per point
        gap = max(left - mean[i], mean[i] - right) * scale
        if gap > 40.0:
            continue
        height = weight[i] * scale / _ROOT_2PI
        start = (left - mean[i]) * scale
        slope = step * scale
        if i < old:
            for j in range(padded):
                z = start + slope * j
                g[j] += height * exp(-0.5 * z * z)
        else:
            for j in range(padded):
                z = start + slope * j
                p[j] += height * exp(-0.5 * z * z)
    total = 0.0
    for j in range(points):
        a = g[j] + 1e-300
        b = a + p[j]
        total += b * log(b) - a * log(a)
    return step * total


@kernel
def mixture_entropy(weight: Array, mean: Array, variance: Array) -> float:
    """-int p log p of the mixture; overwrites the arrays."""
    m = merge(weight, mean, variance)
    for i in range(m):
        variance[i] = -math.sqrt(variance[i])  # the width, negated so that ascending is widest first
    _sort(variance, weight, mean, 0, m)
    for i in range(m):
        variance[i] = -variance[i]
    width = variance
    total = 0.0
    old = 0
    while old < m:
        new = old + 1
        while new < m and width[new] > 0.5 * width[old]:
            new += 1
        # within the class by position, so that overlapping ranges join into one interval
        _sort(mean, weight, width, old, new)
        i = old
        while i < new:
            left = mean[i] - REACH * width[i]
            right = mean[i] + REACH * width[i]
            j = i + 1
            while j < new and mean[j] - REACH * width[j] < right:
                left = min(left, mean[j] - REACH * width[j])
                right = max(right, mean[j] + REACH * width[j])
                j += 1
            total += _integral(weight, mean, width, old, new, left, right)
            i = j
        old = new
    return -total


@kernel
def kept_weight(weight: Array) -> float:
    """The weight of the components that are not LIGHT."""
    total = 0.0
    for i in range(weight.size):
        total += weight[i] if weight[i] >= LIGHT else 0.0
    return total


@kernel
def information(weight: Array, mean: Array, variance: Array) -> float:
    """I(component; x) = h(mixture) - sum_l w_l h(N_l), in nats, never negative; overwrites the arrays."""
    within = 0.0
    for i in range(weight.size):
        w = weight[i] if weight[i] >= LIGHT else 0.0
        within += w * 0.5 * (LOG_2PI_E + log(variance[i]))
    total = kept_weight(weight)
    # the components left out are missing from both terms: the rest are a mixture of their own
    return max((mixture_entropy(weight, mean, variance) - within) / total + math.log(total), 0.0)

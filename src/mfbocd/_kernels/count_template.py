"""Templates for the families of counts 0 .. last with two statistics, a and b, to which each reading adds.

`count_kernels` compiles them for a family (`compile.bind`): in the copies the names below `TYPE_CHECKING` stand for
that family's formulas. The setup of such a family holds last, the prior's a and b, and whether the predictive is the
paper's (1), which has no normalizer, or normalized (0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .compile import bind
from .counts import block, block_size, gain_reach, grid, information, log_sum, max_nodes
from .layout import (
    CHANGE,
    COUNT,
    EVIDENCE,
    FIRST,
    HAZARDS,
    JOINT,
    MAP_INDEX,
    MEAN,
    RUN_LENGTH,
    STATS,
    TINY,
    VARIANCE,
    WEIGHT,
)
from .pointer import Array, Pointer
from .scalar import bits_of, exp
from .tails import log_complement
from .weights import begin, column, expect, finish_tick, hazards, padded_count, predict, reweigh, scratch, skip_tick

_LIGHT = 1e-9  # hypotheses below this weight are left out of gains in nats

Four = tuple[float, float, float, float]

if TYPE_CHECKING:

    def value(a: float, b: float, x: float, last: float, zeta: float) -> float:
        """log predictive of x without the normalizer and `constant`."""

    def constant(x: float, last: float, zeta: float) -> float:
        """The term of the log predictive that is the same for all hypotheses."""

    def grid_constant(x: float, last: float, zeta: float) -> float:
        """`constant` in a form that vectorizes."""

    def full_value(a: float, b: float, x: float, last: float, zeta: float) -> float:
        """`value` + `constant`, accurate also where a and x are large and their terms cancel."""

    def is_large(x: float) -> bool:
        """Whether a reading x needs `full_value`."""

    def needs_full(x: float, last: float) -> bool:
        """Whether a sum over counts up to x needs `full_value`."""

    def steps(x: float, last: float, zeta: float) -> tuple[float, float]:
        """The amounts that a reading adds to a and b."""

    def mean(a: float, b: float) -> float:
        """The mean of the parameter."""

    def unit(last: float) -> float:
        """The mean of a reading for a parameter of 1."""

    def bell(a: float, b: float, last: float, zeta: float) -> Four:
        """Mean and width of the tempered predictive, both approximate, and the first and last count that matter."""

    def node_logs(a: Array, b: Array, last: float, zeta: float) -> tuple[Array, Array, Array]:
        """`count_logs` of the family."""

    def divergence(a: float, b: float, x: float, last: float, zeta: float) -> float:
        """KL of the parameter after x from the parameter before."""

    def quick_parameter_gain(a: float, b: float, last: float, zeta: float) -> float:
        """`Model.quick_parameter_gain`."""

    def variance_gain(a: float, b: float, last: float, zeta: float, x: Array, share: Array) -> float:
        """Expected reduction of the parameter's variance; the arrays are work space of `max_nodes()` numbers."""


def sums(a: float, b: float, last: float, zeta: float, stop: float, with_kl: bool, x: Array, share: Array) -> Four:
    """log of the tempered predictive's sum over 0 .. stop, E x, Var x, and E_x KL if `with_kl`.

    `x` and `share` are work arrays of `max_nodes()` numbers.
    """
    centre, sd, low, high = bell(a, b, last, zeta)
    if with_kl:
        low, high = gain_reach(centre, low, high, last)
    n = grid(np.array([low]), np.array([high]), np.array([sd]), last, stop, x, share)
    if n == 0:
        return -np.inf, 0.0, 0.0, 0.0
    logs = np.empty(n)
    if with_kl and not needs_full(x[n - 1], last):
        for j in range(n):
            logs[j] = grid_constant(x[j], last, zeta) + value(a, b, x[j], last, zeta)
    else:
        for j in range(n):
            logs[j] = full_value(a, b, x[j], last, zeta)
    norm = log_sum(logs, share[:n])
    first = 0.0
    second = 0.0
    learned = 0.0
    for j in range(n):
        p = share[j] * exp(logs[j] - norm)
        d = x[j] - centre
        first += p * d
        second += p * d * d
        if with_kl and p > 1e-12:
            learned += p * divergence(a, b, x[j], last, zeta)
    return norm, centre + first, second - first * first, learned


def all_sums(a: Array, b: Array, last: float, zeta: float, stop: float, with_kl: bool) -> Array:
    """`sums` of each element of two one-dimensional arrays, shape (4, K)."""
    out = np.empty((4, a.size))
    x = np.empty(max_nodes())
    share = np.empty(max_nodes())
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = sums(a[i], b[i], last, zeta, stop, with_kl, x, share)
    return out


def all_values(a: Array, b: Array, x: float, last: float, zeta: float) -> Array:
    """log of the tempered predictive of x for each hypothesis, without its normalizer."""
    out = np.empty(a.size)
    for i in range(a.size):
        if is_large(x):
            out[i] = full_value(a[i], b[i], x, last, zeta)
        else:
            out[i] = constant(x, last, zeta) + value(a[i], b[i], x, last, zeta)
    return out


def count_logs(a: Array, b: Array, last: float, zeta: float) -> tuple[Array, Array, Array]:
    """Nodes and weights for sums over the counts that matter, and the log predictives there, (m, nodes).

    They are not normalized.
    """
    m = a.size
    low = np.empty(m)
    high = np.empty(m)
    sd = np.empty(m)
    for i in range(m):
        centre, sd[i], start, end = bell(a[i], b[i], last, zeta)
        low[i], high[i] = gain_reach(centre, start, end, last)
    x = np.empty(max_nodes())
    share = np.empty(max_nodes())
    n = grid(low, high, sd, last, last, x, share)
    logs = np.empty((m, n))
    if needs_full(x[n - 1], last):
        for i in range(m):
            for j in range(n):
                logs[i, j] = full_value(a[i], b[i], x[j], last, zeta)
    else:
        base = np.empty(n)
        for j in range(n):
            base[j] = grid_constant(x[j], last, zeta)
        for i in range(m):
            for j in range(n):
                logs[i, j] = base[j] + value(a[i], b[i], x[j], last, zeta)
    return x[:n].copy(), share[:n].copy(), logs


def count_table(a: Array, b: Array, last: float, zeta: float) -> tuple[Array, Array, Array]:
    """`count_logs` as normalized probabilities, shape (nodes, m)."""
    x, share, logs = node_logs(a, b, last, zeta)
    density = np.empty((x.size, a.size))
    for i in range(a.size):
        norm = log_sum(logs[i], share)
        for j in range(x.size):
            density[j, i] = exp(min(logs[i, j] - norm, 690.0))
    return x, share, density


def tail_sum(a: float, b: float, last: float, zeta: float, start: float, up: bool, x: Array, share: Array) -> float:
    """log of the tempered predictive's sum over start .. last, or over 0 .. start if not `up`, however far out.

    Unlike the bell of `sums`, the summand may fall by any factor per count: a block of the quadrature spans at most
    two e-foldings of it.
    """
    sd = bell(a, b, last, zeta)[1]
    way = 1.0 if up else -1.0
    left = last - start + 1.0 if up else start + 1.0  # counts that remain
    at = start
    top = -np.inf
    total = 0.0
    while left >= 1.0:
        here = full_value(a, b, at, last, zeta)
        fall = here - full_value(a, b, at + way, last, zeta) if left > 1.0 else 0.0
        if fall > 0.0 and here < top - 50.0 and here - math.log(fall) < top - 45.0:
            break
        length = min(left, 2.0 * sd)
        if fall != 0.0:
            length = min(length, 2.0 / abs(fall))
        # the poles of the log-gamma functions are at -1 and at last + 1
        length = min(length, at if up else (at + 1.0) / 2.0)
        length = min(length, (last - at + 1.0) / 2.0 if up else last - at)
        n = block(at, length, up, x, share)
        for j in range(n):
            v = full_value(a, b, x[j], last, zeta)
            if v > top:
                total *= exp(top - v) if top > -np.inf else 0.0
                top = v
            total += share[j] * exp(v - top)
        covered = block_size(length)
        at += way * covered
        left -= covered
    return top + math.log(total) if total > 0.0 else -np.inf


def all_tails(a: Array, b: Array, x: float, last: float, zeta: float) -> tuple[Array, Array]:
    """log P(X <= x) and log P(X >= x) of the normalized predictive, for each hypothesis.

    The tail away from the mean is summed; the other is the complement of the sum beyond x.
    """
    lower = np.zeros(a.size)
    upper = np.zeros(a.size)
    node = np.empty(max_nodes())
    share = np.empty(max_nodes())
    for i in range(a.size):
        norm, centre, _, _ = sums(a[i], b[i], last, zeta, last, False, node, share)
        if x > centre:
            upper[i] = min(tail_sum(a[i], b[i], last, zeta, x, True, node, share) - norm, 0.0)
            lower[i] = log_complement(tail_sum(a[i], b[i], last, zeta, x + 1.0, True, node, share) - norm)
        else:
            lower[i] = min(tail_sum(a[i], b[i], last, zeta, x, False, node, share) - norm, 0.0)
            upper[i] = log_complement(tail_sum(a[i], b[i], last, zeta, x - 1.0, False, node, share) - norm)
    return lower, upper


def norms(state: Pointer, n: int, last: float, zeta: float, norm: Array) -> None:
    """log of the sum over x of the tempered predictive, for each of n hypotheses."""
    first = column(state, STATS)
    second = column(state, STATS + 1)
    x = np.empty(max_nodes())
    share = np.empty(max_nodes())
    for i in range(n):
        norm[i] = sums(first[i], second[i], last, zeta, last, False, x, share)[0]


def tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: the model's `log_predictive` and `update` for every hypothesis."""
    last = setup[FIRST]
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    first = column(state, STATS)
    second = column(state, STATS + 1)
    first[n - 1] = setup[FIRST + 1]
    second[n - 1] = setup[FIRST + 2]
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(padded_count(state)):
            moment += weight[i] * mean(first[i], second[i])
    else:
        same = constant(x, last, zeta)
        norm = np.zeros(padded_count(state))
        if zeta < 1.0 and setup[FIRST + 3] == 0.0:
            norms(state, n, last, zeta, norm)
        more_a, more_b = steps(x, last, zeta)
        # If one term of the sum is representable the sum is, and logarithms are not needed.
        large = is_large(x)
        plain = False
        for i in (n - 1, int(state[MAP_INDEX])):
            log_p = same + value(first[i], second[i], x, last, zeta) - norm[i]
            plain = plain or (weight[i] * scale > 1e-25 and abs(log_p) < 400.0 and not large)
        factor = 0.0
        if plain:
            total = 0.0
            top = 0
            for i in range(padded_count(state)):
                a = first[i]
                b = second[i]
                w = scale * weight[i] * exp(min(same + value(a, b, x, last, zeta) - norm[i], 690.0))
                w = w if w > TINY else 0.0
                weight[i] = w
                a1 = a + more_a
                b1 = b + more_b
                first[i] = a1
                second[i] = b1
                total += w
                moment += w * mean(a1, b1)
                top = max(top, bits_of(w))
        else:
            logs = np.empty(n)
            for i in range(n):
                if large:
                    logs[i] = full_value(first[i], second[i], x, last, zeta) - norm[i]
                else:
                    logs[i] = same + value(first[i], second[i], x, last, zeta) - norm[i]
                first[i] += more_a
                second[i] += more_b
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * mean(first[i], second[i])
        state[EVIDENCE] += factor + math.log(total)
    pruned = finish_tick(state, setup, total, top)
    prior = mean(setup[FIRST + 1], setup[FIRST + 2])
    if pruned or setup[HAZARDS] > 1.0:
        values = np.empty(int(state[COUNT]))
        for i in range(values.size):
            values[i] = mean(first[i], second[i])
        moment = expect(state, setup, values, prior)
    else:
        h = hazards(setup)[0]
        moment = (1.0 - h) * moment / total + h * prior
    state[MEAN] = unit(last) * moment


def absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """The model's `update` of one row."""
    more_a, more_b = steps(x, setup[FIRST], zeta)
    column(table, STATS)[i] += more_a
    column(table, STATS + 1)[i] += more_b


def mixture_information(weight: Array, a: Array, b: Array, last: float, zeta: float) -> float:
    """I(r; x): the sum over counts, where hypothesis i has probability weight[i]; overwrites the arrays."""
    m = 0
    for i in range(weight.size):
        if weight[i] >= _LIGHT:
            weight[m], a[m], b[m] = weight[i], a[i], b[i]
            m += 1
    _, share, logs = node_logs(a[:m], b[:m], last, zeta)
    return information(weight[:m], logs, share)


def gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """The model's gain about the parameter, averaged over r, and I(r; x) as the sum over counts (`mi_xr`)."""
    if zeta == 0.0:
        return 0.0
    last = setup[FIRST]
    n = int(state[COUNT]) + 1
    first = column(state, STATS)
    second = column(state, STATS + 1)
    weight = scratch(n)
    a = scratch(n)
    b = scratch(n)
    predict(state, setup, weight)
    for i in range(n):
        a[i] = first[i] if i < n - 1 else setup[FIRST + 1]
        b[i] = second[i] if i < n - 1 else setup[FIRST + 2]
    inner = 0.0
    if kind == CHANGE:
        for i in range(n):
            inner += weight[i] * quick_parameter_gain(a[i], b[i], last, zeta)
        return inner
    x = np.empty(max_nodes())
    share = np.empty(max_nodes())
    for i in range(n):
        if kind == RUN_LENGTH or weight[i] < (1e-15 if kind == VARIANCE else _LIGHT):
            continue
        if kind == JOINT:
            inner += weight[i] * sums(a[i], b[i], last, zeta, last, True, x, share)[3]
        else:
            inner += weight[i] * variance_gain(a[i], b[i], last, zeta, x, share)
    if kind == VARIANCE:
        return max(inner, 0.0)  # see `expected_gains`
    return inner + mixture_information(weight, a, b, last, zeta)


# --- bound to a family ---------------------------------------------------------------------------------------


class CountKernels(NamedTuple):
    """The templates of the same names, compiled for one family."""

    tick: Callable[[Pointer, Pointer, float, float], None]
    absorb: Callable[[Pointer, Pointer, int, float, float], None]
    gain: Callable[[Pointer, Pointer, float, int], float]
    all_sums: Callable[[Array, Array, float, float, float, bool], Array]
    all_values: Callable[[Array, Array, float, float, float], Array]
    count_table: Callable[[Array, Array, float, float], tuple[Array, Array, Array]]
    mixture_information: Callable[[Array, Array, Array, float, float], float]
    all_tails: Callable[[Array, Array, float, float, float], tuple[Array, Array]]


def count_kernels(**formulas: Callable[..., Any]) -> CountKernels:
    """Compile the templates for one family.

    Parameters
    ----------
    **formulas : kernels
        Every function declared at the top of this file, and `sums` bound to them. `norms` may be replaced by a
        faster one.
    """
    formulas.setdefault("norms", bind(norms, **formulas))
    node_logs = bind(count_logs, **formulas)
    mixed = bind(mixture_information, **(formulas | {"node_logs": node_logs}))
    return CountKernels(
        tick=bind(tick, **formulas),
        absorb=bind(absorb, steps=formulas["steps"]),
        gain=bind(gain, **(formulas | {"mixture_information": mixed})),
        all_sums=bind(all_sums, **formulas),
        all_values=bind(all_values, **formulas),
        count_table=bind(count_table, **(formulas | {"node_logs": node_logs})),
        mixture_information=mixed,
        all_tails=bind(all_tails, **(formulas | {"tail_sum": bind(tail_sum, **formulas)})),
    )

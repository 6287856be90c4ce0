"""One tick of `GaussianUnknown` and its gains: Student's t of every hypothesis, in units of the prior scale."""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel, scalar
from .gamma import rising_ten
from .gamma_ratio import half_gamma_ratio, half_series, log1p, log_gamma_ratio, scale_gain
from .heavy_tails import STUDENT, tail_information
from .layout import (
    CHANGE,
    COUNT,
    EVIDENCE,
    FIRST,
    HAZARDS,
    JOINT,
    LANES,
    MAP_INDEX,
    MEAN,
    STATS,
    TINY,
    VARIANCE,
    WEIGHT,
)
from .pointer import Array, Pointer
from .scalar import bits_of, exp, log
from .weights import (
    begin,
    column,
    expect,
    finish_tick,
    hazards,
    padded_count,
    predict,
    reweigh,
    scratch,
    skip_tick,
)

FAR = 1e100
"""Prior scales from the prior mean; squares of larger distances would overflow."""
_LOG_2PI = math.log(2.0 * math.pi)


@scalar
def _standard(x: float, mean: float, unit: float) -> float:
    return min(max((x - mean) / unit, -FAR), FAR)


@scalar
def _normalized(lift: float, pull: float, shape: float, scale: float, deviations: float) -> float:
    """log of Student's t: `lift` is the amount the reading adds to the scale, `pull` zeta count / (count + zeta)."""
    f, e = half_gamma_ratio(shape + 0.5 * (deviations - 1.0))
    return 0.5 * (log(f * pull / scale) - _LOG_2PI) + e - (shape + 0.5 * deviations) * log1p(lift / scale)


@scalar
def _deviations(setup: Pointer, zeta: float) -> float:
    """As how many squared deviations a reading at zeta > 0 counts (`UnknownNoise._deviations`)."""
    return zeta if setup[FIRST + 5] == 1.0 else 1.0


@scalar
def _tempered(lift: float, pull: float, shape: float, scale: float, zeta: float) -> float:
    """log of the paper's predictive: the integral of the likelihood to the power of zeta."""
    rise = log_gamma_ratio(shape, 0.5 * zeta) - 0.5 * zeta * (_LOG_2PI + log(scale))
    return rise + 0.5 * log(pull / zeta) - (shape + 0.5 * zeta) * log1p(lift / scale)


@kernel
def tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `GaussianUnknown.log_predictive` and `update` for every hypothesis, in one pass."""
    prior_mean, unit = setup[FIRST], setup[FIRST + 1]
    paper = setup[FIRST + 4] == 1.0 and zeta < 1.0  # at zeta = 1 they are equal
    deviations = _deviations(setup, zeta)
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    counts = column(state, STATS)
    means = column(state, STATS + 1)
    shapes = column(state, STATS + 2)
    scales = column(state, STATS + 3)
    counts[n - 1] = setup[FIRST + 2]
    means[n - 1] = 0.0
    shapes[n - 1] = setup[FIRST + 3]
    scales[n - 1] = 1.0
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(padded_count(state)):
            moment += weight[i] * means[i]
    else:
        y = _standard(x, prior_mean, unit)
        # If one term of the sum is representable the sum is, and logarithms are not needed.
        plain = False
        for i in (n - 1, int(state[MAP_INDEX])):
            pull = zeta * counts[i] / (counts[i] + zeta)
            lift = 0.5 * pull * (y - means[i]) * (y - means[i])
            if paper:
                value = _tempered(lift, pull, shapes[i], scales[i], zeta)
            else:
                value = _normalized(lift, pull, shapes[i], scales[i], deviations)
            plain = plain or (weight[i] * scale > 1e-25 and value > -400.0)
        if plain and not paper:
            total = 0.0
            top = 0
            shift = 0.5 * (deviations - 1.0)
            rest = scale / math.sqrt(2.0 * math.pi)
            # Older hypotheses have larger shapes: before `old` no gamma function needs its argument shifted.
            old = 0
            while old + LANES <= n and shapes[old + LANES - 1] + shift >= 10.0:
                old += LANES
            for i in range(old):
                k = counts[i]
                b = scales[i]
                k1 = k + zeta
                kb = k1 * b
                s = shapes[i] + shift
                ss = s - 0.25
                inverse = 1.0 / (kb * ss * ss)
                q = inverse * ss * ss
                step = zeta * b * q
                d = y - means[i]
                lift = 0.5 * k * step * d * d
                e = half_series(inverse * kb) - (s + 0.5) * log1p(lift * k1 * q)
                w = math.sqrt(ss * zeta * k * q) * exp(e) * (rest * weight[i])
                w = w if w > TINY else 0.0
                weight[i] = w
                m = means[i] + step * d
                means[i] = m
                counts[i] = k1
                shapes[i] += 0.5 * deviations
                scales[i] = b + lift
                total += w
                moment += w * m
                top = max(top, bits_of(w))
            for i in range(old, padded_count(state)):
                k = counts[i]
                b = scales[i]
                k1 = k + zeta
                kb = k1 * b
                s = shapes[i] + shift
                ss = s + 9.75
                ratio = rising_ten(s) / rising_ten(s + 0.5)
                inverse = 1.0 / (kb * ss * ss)
                q = inverse * ss * ss
                step = zeta * b * q
                d = y - means[i]
                lift = 0.5 * k * step * d * d
                e = half_series(inverse * kb) - (s + 0.5) * log1p(lift * k1 * q)
                w = math.sqrt(ss * zeta * k * q) * exp(e) * (rest * ratio * weight[i])
                w = w if w > TINY else 0.0
                weight[i] = w
                m = means[i] + step * d
                means[i] = m
                counts[i] = k1
                shapes[i] += 0.5 * deviations
                scales[i] = b + lift
                total += w
                moment += w * m
                top = max(top, bits_of(w))
            factor = 0.0
        else:
            logs = np.empty(n)
            for i in range(n):
                pull = zeta * counts[i] / (counts[i] + zeta)
                d = y - means[i]
                lift = 0.5 * pull * d * d
                if paper:
                    logs[i] = _tempered(lift, pull, shapes[i], scales[i], zeta)
                else:
                    logs[i] = _normalized(lift, pull, shapes[i], scales[i], deviations)
                means[i] += pull / counts[i] * d
                counts[i] += zeta
                shapes[i] += 0.5 * deviations
                scales[i] += lift
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * means[i]
        state[EVIDENCE] += factor + math.log(total) - (zeta if paper else 1.0) * math.log(unit)
    pruned = finish_tick(state, setup, total, top)
    if pruned or setup[HAZARDS] > 1.0:
        n = int(state[COUNT])
        values = np.empty(n)
        for i in range(n):
            values[i] = means[i]
        moment = expect(state, setup, values, 0.0)
    else:
        moment *= (1.0 - hazards(setup)[0]) / total
    state[MEAN] = prior_mean + unit * moment


@kernel
def absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """`GaussianUnknown.update` of one row."""
    if zeta == 0.0:
        return
    counts = column(table, STATS)
    means = column(table, STATS + 1)
    d = _standard(x, setup[FIRST], setup[FIRST + 1]) - means[i]
    share = zeta / (counts[i] + zeta)
    column(table, STATS + 2)[i] += 0.5 * _deviations(setup, zeta)
    column(table, STATS + 3)[i] += 0.5 * share * counts[i] * d * d
    means[i] += share * d
    counts[i] += zeta


@scalar
def _parameter_gain(count: float, shape: float, zeta: float, deviations: float) -> float:
    """Information about the mean given the variance, plus that about the variance (see the method)."""
    return 0.5 * log1p(zeta / count) + scale_gain(shape, 0.5 * deviations)


@kernel
def gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`parameter_gain` or `variance_gain` averaged over r, and I(r; x) of the mixture of Student's t."""
    if zeta == 0.0:
        return 0.0
    deviations = _deviations(setup, zeta)
    n = int(state[COUNT]) + 1
    counts = column(state, STATS)
    means = column(state, STATS + 1)
    shapes = column(state, STATS + 2)
    scales = column(state, STATS + 3)
    weight = scratch(n)
    mean = scratch(n)
    width = scratch(n)
    df = scratch(n)
    predict(state, setup, weight)
    inner = 0.0
    for i in range(n):
        alive = i < n - 1
        count = counts[i] if alive else setup[FIRST + 2]
        shape = shapes[i] if alive else setup[FIRST + 3]
        mean[i] = means[i] if alive else 0.0
        df[i] = 2.0 * shape + deviations - 1.0
        pull = zeta * count / (count + zeta)
        width[i] = math.sqrt(2.0 * (scales[i] if alive else 1.0) / (pull * df[i]))
        if kind in (JOINT, CHANGE):
            inner += weight[i] * _parameter_gain(count, shape, zeta, deviations)
        elif kind == VARIANCE:
            inner += weight[i] * zeta / (count * (count + zeta))
    if kind in (VARIANCE, CHANGE):
        return inner
    return inner + tail_information(STUDENT, weight, mean, width, df)


@kernel
def moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`GaussianUnknown.predictive` of a full reading, in units of the prior scale."""
    if i == int(state[COUNT]):
        count, mean, shape, scale = setup[FIRST + 2], 0.0, setup[FIRST + 3], 1.0
    else:
        count, mean = column(state, STATS)[i], column(state, STATS + 1)[i]
        shape, scale = column(state, STATS + 2)[i], column(state, STATS + 3)[i]
    return mean, scale * (count + 1.0) / (count * (shape - 1.0)) if shape > 1.0 else math.inf


@kernel
def parameter_gains(count: Array, shape: Array, zeta: float, deviations: float) -> Array:
    """`GaussianUnknown.parameter_gain` of every hypothesis."""
    out = np.empty(count.size)
    for i in range(count.size):
        out[i] = _parameter_gain(count[i], shape[i], zeta, deviations)
    return out

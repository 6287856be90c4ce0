"""One tick of `RobustTrend`: two nested regressions with autocorrelated noise, outliers and forgetting.

The functions with a `stride` work on one hypothesis, whose statistics are that far apart. Those in the last section
work on arrays of shape (columns, K), for the methods of the model.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .cholesky import FAR
from .compile import kernel, scalar
from .gamma_ratio import half_gamma_ratio, log1p
from .layout import CAP, COUNT, EVIDENCE, FIRST, MEAN, STATS
from .pointer import Array, Pointer, pointer, shift
from .scalar import exp, log
from .weights import begin, column, expect, finish_tick, reweigh, scratch, skip_tick

_LOG_2PI = math.log(2.0 * math.pi)
_LEAST = 1e-12  # least probability of the level and of the line, so that either can return

# The statistics of a hypothesis: the Cholesky factor of the coefficients' precision and, rotated with it, the
# readings; the shape of the noise; its scale given a level and given a line; P(line); ticks; number of lags; P(the
# last reading was an outlier); lags; and, unless tempered, the variances of the lags in units of the noise variance.
L00, L10, L11, Z0, Z1, SHAPE, LEVEL, LINE, SLOPED, AGE, SEEN, OUTLIER, LAGS = range(13)
# The parameters in the setup: prior, then the predictors of order 0 to p and their variances (`partial_predictors`).
P_MEAN, P_UNIT, P_COUNT0, P_COUNT1, P_SHAPE, P_SLOPED, P_RATE, P_FORGET, P_ORDER, P_TEMPERED, P_TABLE = range(11)


class Forecast(NamedTuple):
    """What one hypothesis expects of the coming reading, in units of the prior noise."""

    level: float
    """Regressor of the level, after the autoregression."""
    slope: float
    """Regressor of the slope."""
    lagged: float
    """The part of the reading that its lags predict."""
    variance: float
    """Variance of the rest, in units of the noise variance."""
    flat: float
    """Center of the rest, if the regime is a level."""
    line: float
    """Center of the rest, if the regime is a line."""
    flat_spread: float
    """Variance of `flat`, in units of the noise variance."""
    line_spread: float
    """Variance of `line`."""


@scalar
def _student(d: float, q: float, shape: float, scale: float, deviations: float) -> float:
    """log density of the normalized predictive: Student's t of the residual d, with variance q s2."""
    f, e = half_gamma_ratio(shape + 0.5 * (deviations - 1.0))
    lift = 0.5 * d * d / (q * scale)
    return 0.5 * (log(f / (q * scale)) - _LOG_2PI) + e - (shape + 0.5 * deviations) * log1p(lift)


@scalar
def _forecast(stats: Pointer, stride: int, table: Pointer, p: int, tempered: bool) -> Forecast:
    """Forecast the reading of one hypothesis, whose statistics are `stride` apart."""
    k = int(stats[SEEN * stride])
    age = stats[AGE * stride]
    level = 1.0
    slope = age
    lagged = 0.0
    doubt = 0.0
    for m in range(k):
        a = table[k * p + m]
        level -= a
        slope -= a * (age - 1.0 - m)
        lagged += a * stats[(LAGS + m) * stride]
        if not tempered:
            doubt += a * a * stats[(LAGS + p + m) * stride]
    u = level / stats[L00 * stride]
    v = (slope - stats[L10 * stride] * u) / stats[L11 * stride]
    flat = stats[Z0 * stride] * u
    line = flat + stats[Z1 * stride] * v
    return Forecast(level, slope, lagged, table[(p + 1) * p + k] + doubt, flat, line, u * u, u * u + v * v)


@scalar
def _absorb(
    stats: Pointer,
    stride: int,
    p: int,
    tempered: bool,
    seen: Forecast,
    y: float,
    zeta: float,
    deviations: float,
    rho: float,
) -> None:
    """Add the reading y to one hypothesis with weight zeta * rho."""
    weight = zeta * rho
    noise = 0.0 if tempered else max(deviations / zeta - 1.0, 0.0)  # of the reading beyond that of a full one
    rest = y - seen.lagged
    if weight > 0.0:
        q = 1.0 / weight - 1.0 + seen.variance
        stats[LEVEL * stride] += 0.5 * (rest - seen.flat) ** 2 / (q + seen.flat_spread)
        stats[LINE * stride] += 0.5 * (rest - seen.line) ** 2 / (q + seen.line_spread)
        stats[SHAPE * stride] += 0.5 * deviations * rho
        # Two rotations add the row (level, slope, rest) / sqrt(q) to the factor.
        root = 1.0 / math.sqrt(q)
        u = seen.level * root
        v = seen.slope * root
        z = rest * root
        a = stats[L00 * stride]
        r = math.sqrt(a * a + u * u)
        c = a / r
        s = u / r
        stats[L00 * stride] = r
        b = stats[L10 * stride]
        stats[L10 * stride] = c * b + s * v
        v = c * v - s * b
        b = stats[Z0 * stride]
        stats[Z0 * stride] = c * b + s * z
        z = c * z - s * b
        a = stats[L11 * stride]
        r = math.sqrt(a * a + v * v)
        stats[L11 * stride] = r
        stats[Z1 * stride] = (a * stats[Z1 * stride] + v * z) / r
    if p > 0:
        for m in range(p - 1, 0, -1):
            stats[(LAGS + m) * stride] = stats[(LAGS + m - 1) * stride]
        sloped = stats[SLOPED * stride]
        off = rest - seen.flat - sloped * (seen.line - seen.flat)
        expected = seen.variance + seen.flat_spread + sloped * (seen.line_spread - seen.flat_spread)
        gain = expected / (expected + noise)
        # Where later readings are predicted from it, a noisy reading is replaced by what forecast and reading give
        # together, and an outlier by its forecast.
        stats[LAGS * stride] = y - (1.0 - rho * gain) * off
        if not tempered:
            for m in range(p - 1, 0, -1):
                stats[(LAGS + p + m) * stride] = stats[(LAGS + p + m - 1) * stride]
            stats[(LAGS + p) * stride] = rho * gain * noise
    stats[SEEN * stride] = min(stats[SEEN * stride] + 1.0, float(p))
    stats[OUTLIER * stride] = 1.0 - rho
    stats[AGE * stride] += 1.0


@scalar
def _discount(stats: Pointer, stride: int, shape: float, forget: float) -> None:
    """Discount the evidence about the noise variance, down to the prior's shape."""
    if forget < 1.0:
        factor = max(forget, min(shape / stats[SHAPE * stride], 1.0))
        stats[SHAPE * stride] *= factor
        stats[LEVEL * stride] *= factor
        stats[LINE * stride] *= factor


@scalar
def _weigh(
    stats: Pointer,
    stride: int,
    seen: Forecast,
    y: float,
    zeta: float,
    deviations: float,
    outlier: float,
    rate: float,
) -> tuple[float, float, float]:
    """Return the log predictive of y, P(y is no outlier) and P(line); `outlier` is an outlier's log density."""
    shape = stats[SHAPE * stride]
    q = 1.0 / zeta - 1.0 + seen.variance
    rest = y - seen.lagged
    level = _student(rest - seen.flat, q + seen.flat_spread, shape, stats[LEVEL * stride], deviations)
    line = _student(rest - seen.line, q + seen.line_spread, shape, stats[LINE * stride], deviations)
    most = max(level, line)
    if rate > 0.0:
        most = max(most, outlier)
    odd = rate * exp(outlier - most) if rate > 0.0 else 0.0
    sloped = stats[SLOPED * stride]
    f0 = (1.0 - rate) * (1.0 - sloped) * exp(level - most)
    f1 = (1.0 - rate) * sloped * exp(line - most)
    total = f0 + f1 + odd
    return most + log(total), (f0 + f1) / total, min(max((f1 + sloped * odd) / total, _LEAST), 1.0 - _LEAST)


@scalar
def _begin(stats: Pointer, stride: int, params: Pointer) -> None:
    """Write the prior of one hypothesis."""
    for j in range(LAGS + int(params[P_ORDER]) * (1 if params[P_TEMPERED] == 1.0 else 2)):
        stats[j * stride] = 0.0
    stats[L00 * stride] = math.sqrt(params[P_COUNT0])
    stats[L11 * stride] = math.sqrt(params[P_COUNT1])
    stats[SHAPE * stride] = params[P_SHAPE]
    stats[LEVEL * stride] = 1.0
    stats[LINE * stride] = 1.0
    stats[SLOPED * stride] = params[P_SLOPED]


@kernel
def tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `RobustTrend.log_predictive` and `update` for every hypothesis, in one pass."""
    params = shift(setup, FIRST)
    p = int(params[P_ORDER])
    tempered = params[P_TEMPERED] == 1.0
    table = shift(params, P_TABLE)
    scale = begin(state, setup)
    n = int(state[COUNT])
    stats = column(state, STATS)
    stride = int(state[CAP])
    _begin(shift(stats, n - 1), stride, params)
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(n):
            stats[AGE * stride + i] += 1.0
            stats[SEEN * stride + i] = 0.0
            stats[OUTLIER * stride + i] = 0.0
    else:
        deviations = zeta if tempered else 1.0
        unit = params[P_UNIT]
        y = min(max((x - params[P_MEAN]) / unit, -FAR), FAR)
        logs = scratch(n)
        new = shift(stats, n - 1)
        outlier, _, _ = _weigh(new, stride, _forecast(new, stride, table, p, tempered), y, zeta, deviations, 0.0, 0.0)
        for i in range(n):
            one = shift(stats, i)
            seen = _forecast(one, stride, table, p, tempered)
            logs[i], rho, sloped = _weigh(one, stride, seen, y, zeta, deviations, outlier, params[P_RATE])
            _absorb(one, stride, p, tempered, seen, y, zeta, deviations, rho)
            one[SLOPED * stride] = sloped
            _discount(one, stride, params[P_SHAPE], params[P_FORGET])
        total, factor, top = reweigh(state, scale, logs)
        state[EVIDENCE] += factor + math.log(total) - math.log(unit)
    finish_tick(state, setup, total, top)
    n = int(state[COUNT])
    values = scratch(n)
    for i in range(n):
        seen = _forecast(shift(stats, i), stride, table, p, tempered)
        center = seen.lagged + seen.flat + stats[SLOPED * stride + i] * (seen.line - seen.flat)
        values[i] = (1.0 - params[P_RATE]) * center
    state[MEAN] = params[P_MEAN] + params[P_UNIT] * expect(state, setup, values, 0.0)


@kernel
def absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """The update of one row."""
    params = shift(setup, FIRST)
    p = int(params[P_ORDER])
    stride = int(table[CAP])
    one = shift(column(table, STATS), i)
    if zeta == 0.0:
        one[AGE * stride] += 1.0
        one[SEEN * stride] = 0.0
        one[OUTLIER * stride] = 0.0
        return
    tempered = params[P_TEMPERED] == 1.0
    deviations = zeta if tempered else 1.0
    forecast_table = shift(params, P_TABLE)
    y = min(max((x - params[P_MEAN]) / params[P_UNIT], -FAR), FAR)
    start = np.empty(LAGS + 2 * p)
    new = pointer(start, 0)
    _begin(new, 1, params)
    seen = _forecast(one, stride, forecast_table, p, tempered)
    fresh = _forecast(new, 1, forecast_table, p, tempered)
    outlier, _, _ = _weigh(new, 1, fresh, y, zeta, deviations, 0.0, 0.0)
    _, rho, sloped = _weigh(one, stride, seen, y, zeta, deviations, outlier, params[P_RATE])
    _absorb(one, stride, p, tempered, seen, y, zeta, deviations, rho)
    one[SLOPED * stride] = sloped
    _discount(one, stride, params[P_SHAPE], params[P_FORGET])
    start[0] = 0.0  # the array must live as long as its pointer


# --- the same for the methods: statistics of shape (columns, K) -------------------------------------------------


@kernel
def forecasts(stats: Array, table: Array, p: int, tempered: bool) -> Array:
    """`_forecast` of every hypothesis, shape (8, K)."""
    n = stats.shape[1]
    out = np.empty((8, n))
    for i in range(n):
        seen = _forecast(pointer(stats, i), n, pointer(table, 0), p, tempered)
        out[0, i], out[1, i], out[2, i], out[3, i] = seen.level, seen.slope, seen.lagged, seen.variance
        out[4, i], out[5, i], out[6, i], out[7, i] = seen.flat, seen.line, seen.flat_spread, seen.line_spread
    return out


@kernel
def weighed(stats: Array, params: Array, y: float, zeta: float, deviations: float) -> Array:
    """`_weigh` of every hypothesis, shape (3, K)."""
    n = stats.shape[1]
    setup = pointer(params, 0)
    p = int(setup[P_ORDER])
    tempered = setup[P_TEMPERED] == 1.0
    table = shift(setup, P_TABLE)
    new = np.empty(LAGS + 2 * p)
    first = pointer(new, 0)
    _begin(first, 1, setup)
    outlier, _, _ = _weigh(first, 1, _forecast(first, 1, table, p, tempered), y, zeta, deviations, 0.0, 0.0)
    out = np.empty((3, n))
    for i in range(n):
        one = pointer(stats, i)
        seen = _forecast(one, n, table, p, tempered)
        out[0, i], out[1, i], out[2, i] = _weigh(one, n, seen, y, zeta, deviations, outlier, setup[P_RATE])
    new[0] = 0.0  # the array must live as long as its pointer
    return out


@kernel
def updated(stats: Array, params: Array, y: float, zeta: float, deviations: float) -> None:
    """`_absorb` and `_discount` of every hypothesis, in place."""
    n = stats.shape[1]
    setup = pointer(params, 0)
    p = int(setup[P_ORDER])
    tempered = setup[P_TEMPERED] == 1.0
    found = weighed(stats, params, y, zeta, deviations)
    for i in range(n):
        one = pointer(stats, i)
        seen = _forecast(one, n, shift(setup, P_TABLE), p, tempered)
        _absorb(one, n, p, tempered, seen, y, zeta, deviations, found[1, i])
        stats[SLOPED, i] = found[2, i]
        _discount(one, n, setup[P_SHAPE], setup[P_FORGET])

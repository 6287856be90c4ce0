"""A level or a line in every regime, with autocorrelated noise, outliers and a noise variance that may drift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.compile import kernel, scalar
from .._kernels.gamma_ratio import half_gamma_ratio, log1p
from .._kernels.layout import CAP, COUNT, EVIDENCE, FIRST, MEAN, STATS
from .._kernels.pointer import Pointer, pointer, shift
from .._kernels.scalar import exp, log
from .._kernels.template import tick_kernels
from .._kernels.weights import begin, column, expect, finish_tick, reweigh, scratch, skip_tick
from .._kernels.wishart import covariance_gain
from ..inputs.arguments import finite, positive, probability
from .base import Array, Model
from .cost import CostBound
from .regression import FAR, counts_of, ratio
from .sampling import heavy, summed_information
from .table import table_of
from .tails import mixed_tails, student_tails

_LOG_2PI = math.log(2.0 * math.pi)
_LEAST = 1e-12  # least probability of the level and of the line, so that either can return
_LONGEST = 32  # most coefficients of the autoregression

# The statistics of a hypothesis: the Cholesky factor of the coefficients' precision and, rotated with it, the
# readings; the shape of the noise; its scale given a level and given a line; P(line); ticks; number of lags; P(the
# last reading was an outlier); lags.
_L00, _L10, _L11, _Z0, _Z1, _SHAPE, _LEVEL, _LINE, _SLOPED, _AGE, _SEEN, _ODD, _LAGS = range(13)
# The parameters in the setup: prior, then the predictors of order 0 to p and their variances (`partial_predictors`).
_P_MEAN, _P_UNIT, _P_COUNT0, _P_COUNT1, _P_SHAPE, _P_SLOPED, _P_RATE, _P_FORGET, _P_ORDER, _P_TABLE = range(10)


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
def _student(d: float, q: float, shape: float, scale: float, zeta: float) -> float:
    """log density of the normalized predictive: Student's t of the residual d, with variance q s2."""
    f, e = half_gamma_ratio(shape + 0.5 * (zeta - 1.0))
    lift = 0.5 * d * d / (q * scale)
    return 0.5 * (log(f / (q * scale)) - _LOG_2PI) + e - (shape + 0.5 * zeta) * log1p(lift)


@scalar
def _forecast(stats: Pointer, stride: int, table: Pointer, p: int) -> Forecast:
    """Forecast the reading of one hypothesis, whose statistics are `stride` apart."""
    k = int(stats[_SEEN * stride])
    age = stats[_AGE * stride]
    level = 1.0
    slope = age
    lagged = 0.0
    for m in range(k):
        a = table[k * p + m]
        level -= a
        slope -= a * (age - 1.0 - m)
        lagged += a * stats[(_LAGS + m) * stride]
    u = level / stats[_L00 * stride]
    v = (slope - stats[_L10 * stride] * u) / stats[_L11 * stride]
    flat = stats[_Z0 * stride] * u
    line = flat + stats[_Z1 * stride] * v
    return Forecast(level, slope, lagged, table[(p + 1) * p + k], flat, line, u * u, u * u + v * v)


@scalar
def _absorb(stats: Pointer, stride: int, p: int, seen: Forecast, y: float, zeta: float, rho: float) -> None:
    """Add the reading y to one hypothesis with weight zeta * rho."""
    weight = zeta * rho
    rest = y - seen.lagged
    if weight > 0.0:
        q = 1.0 / weight - 1.0 + seen.variance
        stats[_LEVEL * stride] += 0.5 * (rest - seen.flat) ** 2 / (q + seen.flat_spread)
        stats[_LINE * stride] += 0.5 * (rest - seen.line) ** 2 / (q + seen.line_spread)
        stats[_SHAPE * stride] += 0.5 * weight
        # Two rotations add the row (level, slope, rest) / sqrt(q) to the factor.
        root = 1.0 / math.sqrt(q)
        u = seen.level * root
        v = seen.slope * root
        z = rest * root
        a = stats[_L00 * stride]
        r = math.sqrt(a * a + u * u)
        c = a / r
        s = u / r
        stats[_L00 * stride] = r
        b = stats[_L10 * stride]
        stats[_L10 * stride] = c * b + s * v
        v = c * v - s * b
        b = stats[_Z0 * stride]
        stats[_Z0 * stride] = c * b + s * z
        z = c * z - s * b
        a = stats[_L11 * stride]
        r = math.sqrt(a * a + v * v)
        stats[_L11 * stride] = r
        stats[_Z1 * stride] = (a * stats[_Z1 * stride] + v * z) / r
    if p > 0:
        for m in range(p - 1, 0, -1):
            stats[(_LAGS + m) * stride] = stats[(_LAGS + m - 1) * stride]
        # An outlier is replaced by its forecast where later readings are predicted from it.
        off = rest - seen.flat - stats[_SLOPED * stride] * (seen.line - seen.flat)
        stats[_LAGS * stride] = y - (1.0 - rho) * off
    stats[_SEEN * stride] = min(stats[_SEEN * stride] + 1.0, float(p))
    stats[_ODD * stride] = 1.0 - rho
    stats[_AGE * stride] += 1.0


@scalar
def _discount(stats: Pointer, stride: int, shape: float, forget: float) -> None:
    """Forget a share of what is known about the noise variance, down to the prior's shape."""
    if forget < 1.0:
        factor = max(forget, min(shape / stats[_SHAPE * stride], 1.0))
        stats[_SHAPE * stride] *= factor
        stats[_LEVEL * stride] *= factor
        stats[_LINE * stride] *= factor


@scalar
def _weigh(
    stats: Pointer, stride: int, seen: Forecast, y: float, zeta: float, outlier: float, rate: float
) -> tuple[float, float, float]:
    """Return the log predictive of y, P(y is no outlier) and P(line); `outlier` is an outlier's log density."""
    shape = stats[_SHAPE * stride]
    q = 1.0 / zeta - 1.0 + seen.variance
    rest = y - seen.lagged
    level = _student(rest - seen.flat, q + seen.flat_spread, shape, stats[_LEVEL * stride], zeta)
    line = _student(rest - seen.line, q + seen.line_spread, shape, stats[_LINE * stride], zeta)
    most = max(level, line)
    if rate > 0.0:
        most = max(most, outlier)
    odd = rate * exp(outlier - most) if rate > 0.0 else 0.0
    sloped = stats[_SLOPED * stride]
    f0 = (1.0 - rate) * (1.0 - sloped) * exp(level - most)
    f1 = (1.0 - rate) * sloped * exp(line - most)
    total = f0 + f1 + odd
    return most + log(total), (f0 + f1) / total, min(max((f1 + sloped * odd) / total, _LEAST), 1.0 - _LEAST)


@scalar
def _begin(stats: Pointer, stride: int, params: Pointer) -> None:
    """Write the prior of one hypothesis."""
    for j in range(_LAGS + int(params[_P_ORDER])):
        stats[j * stride] = 0.0
    stats[_L00 * stride] = math.sqrt(params[_P_COUNT0])
    stats[_L11 * stride] = math.sqrt(params[_P_COUNT1])
    stats[_SHAPE * stride] = params[_P_SHAPE]
    stats[_LEVEL * stride] = 1.0
    stats[_LINE * stride] = 1.0
    stats[_SLOPED * stride] = params[_P_SLOPED]


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `RobustTrend.log_predictive` and `update` for every hypothesis, in one pass."""
    params = shift(setup, FIRST)
    p = int(params[_P_ORDER])
    table = shift(params, _P_TABLE)
    scale = begin(state, setup)
    n = int(state[COUNT])
    stats = column(state, STATS)
    stride = int(state[CAP])
    _begin(shift(stats, n - 1), stride, params)
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(n):
            stats[_AGE * stride + i] += 1.0
            stats[_SEEN * stride + i] = 0.0
            stats[_ODD * stride + i] = 0.0
    else:
        unit = params[_P_UNIT]
        y = min(max((x - params[_P_MEAN]) / unit, -FAR), FAR)
        logs = scratch(n)
        new = shift(stats, n - 1)
        outlier, _, _ = _weigh(new, stride, _forecast(new, stride, table, p), y, zeta, 0.0, 0.0)
        for i in range(n):
            one = shift(stats, i)
            seen = _forecast(one, stride, table, p)
            logs[i], rho, sloped = _weigh(one, stride, seen, y, zeta, outlier, params[_P_RATE])
            _absorb(one, stride, p, seen, y, zeta, rho)
            one[_SLOPED * stride] = sloped
            _discount(one, stride, params[_P_SHAPE], params[_P_FORGET])
        total, factor, top = reweigh(state, scale, logs)
        state[EVIDENCE] += factor + math.log(total) - math.log(unit)
    finish_tick(state, setup, total, top)
    n = int(state[COUNT])
    values = scratch(n)
    for i in range(n):
        seen = _forecast(shift(stats, i), stride, table, p)
        center = seen.lagged + seen.flat + stats[_SLOPED * stride + i] * (seen.line - seen.flat)
        values[i] = (1.0 - params[_P_RATE]) * center
    state[MEAN] = params[_P_MEAN] + params[_P_UNIT] * expect(state, setup, values, 0.0)


# --- the same for the methods: statistics of shape (columns, K) -------------------------------------------------


@kernel
def _forecasts(stats: Array, table: Array, p: int) -> Array:
    """`_forecast` of every hypothesis, shape (8, K)."""
    n = stats.shape[1]
    out = np.empty((8, n))
    for i in range(n):
        seen = _forecast(pointer(stats, i), n, pointer(table, 0), p)
        out[0, i], out[1, i], out[2, i], out[3, i] = seen.level, seen.slope, seen.lagged, seen.variance
        out[4, i], out[5, i], out[6, i], out[7, i] = seen.flat, seen.line, seen.flat_spread, seen.line_spread
    return out


@kernel
def _weighed(stats: Array, params: Array, y: float, zeta: float) -> Array:
    """`_weigh` of every hypothesis, shape (3, K)."""
    n = stats.shape[1]
    setup = pointer(params, 0)
    p = int(setup[_P_ORDER])
    table = shift(setup, _P_TABLE)
    new = np.empty(_LAGS + p)
    first = pointer(new, 0)
    _begin(first, 1, setup)
    outlier, _, _ = _weigh(first, 1, _forecast(first, 1, table, p), y, zeta, 0.0, 0.0)
    out = np.empty((3, n))
    for i in range(n):
        one = pointer(stats, i)
        seen = _forecast(one, n, table, p)
        out[0, i], out[1, i], out[2, i] = _weigh(one, n, seen, y, zeta, outlier, setup[_P_RATE])
    new[0] = 0.0  # the array must live as long as its pointer
    return out


@kernel
def _updated(stats: Array, params: Array, y: float, zeta: float) -> None:
    """`_absorb` and `_discount` of every hypothesis, in place."""
    n = stats.shape[1]
    setup = pointer(params, 0)
    p = int(setup[_P_ORDER])
    found = _weighed(stats, params, y, zeta)
    for i in range(n):
        one = pointer(stats, i)
        _absorb(one, n, p, _forecast(one, n, shift(setup, _P_TABLE), p), y, zeta, found[1, i])
        stats[_SLOPED, i] = found[2, i]
        _discount(one, n, setup[_P_SHAPE], setup[_P_FORGET])


_KERNELS = tick_kernels(_tick)


def partial_predictors(ar: Sequence[float] | Array) -> tuple[Array, Array]:
    """Return the best linear predictors of a stationary autoregression from its last 0, 1, ..., p values.

    Parameters
    ----------
    ar : sequence of float
        The p coefficients, that of the last value first.

    Returns
    -------
    predictors : ndarray
        Shape (p + 1, p); row k holds the k coefficients of order k, then zeros.
    variances : ndarray
        Variance of the error of each, in units of that of order p; shape (p + 1,).

    Raises
    ------
    ValueError
        If the autoregression is not stationary.

    Notes
    -----
    The Durbin-Levinson recursion, run downwards: with k the last coefficient of order j, the coefficients of order
    j - 1 are (a_i + k a_{j-i}) / (1 - k^2), and the variance is divided by 1 - k^2.

    Examples
    --------
    >>> predictors, variances = partial_predictors([0.5])
    >>> predictors.ravel(), variances.round(4)
    (array([0. , 0.5]), array([1.3333, 1.    ]))
    """
    p = len(ar)
    predictors, variances = np.zeros((p + 1, p)), np.ones(p + 1)
    predictors[p] = ar
    for j in range(p, 0, -1):
        last = predictors[j, j - 1]
        left = 1.0 - last * last
        if not left > 0.0:
            raise ValueError(f"RobustTrend.ar = {list(ar)!r} is not stationary: its noise would grow without bound")
        variances[j - 1] = variances[j] / left
        predictors[j - 1, : j - 1] = (predictors[j, : j - 1] + last * predictors[j, j - 2 :: -1][: j - 1]) / left
    return predictors, variances


class RobustTrend(Model):
    """Readings about a level or along a line, with autocorrelated noise, outliers and a drifting noise variance.

        x_t = level + slope * age + e_t,  e_t = a_1 e_{t-1} + ... + a_p e_{t-p} + noise

    Every regime is a level (slope 0) or a line; each hypothesis weighs the two by their evidence. The noise variance
    is unknown. The automatic detector uses this family and chooses its arguments by their evidence.

    Parameters
    ----------
    level : float, default 0.0
        Prior mean of the first reading of a regime.
    count : tuple of (float, float), default (1.0, 100.0)
        Number of readings that the priors of level and slope are worth: given the noise variance s2, they have
        variances s2 / count.
    shape : float, default 1.0
        Shape of the InverseGamma prior of the noise variance. Must exceed 1/2.
    scale : float, default 1.0
        Scale of that prior, in squared units of the readings.
    line : float, default 0.5
        Prior probability that a regime is a line.
    ar : sequence of float, default ()
        Coefficients of the autocorrelated noise, that of the last reading first. They are known and the same in every
        regime, so that they cannot absorb a change. They must be stationary.
    outliers : float, default 0.0
        Probability that a reading is an outlier.
    forget : float, default 1.0
        Share of the knowledge about the noise variance that is kept per reading. Below 1 the variance may drift:
        1 / (1 - forget) readings are remembered.

    Notes
    -----
    Level and line are nested regressions, which share the Cholesky factor of their coefficients' precision. With u
    the regressors after the autoregression (of order k while only k readings of the regime are available, by
    `partial_predictors`), y the reading after it, v its variance in units of s2, and q = 1 / zeta - 1 + v, the rest
    is as in `Regression`: a reading is Student's t about u . m with variance (q + u . P^-1 u) s2.

    An outlier has the density g of the first reading of a new regime: it looks like a reading of another regime, and
    then the regime continues. A reading has the density (1 - outliers) f + outliers g, and is learned with weight
    zeta P(no outlier | x). The exact posterior would be a mixture of 2^n terms after n readings. Where later readings
    are predicted from an outlier, its forecast takes its place.

    With forget = 1, ar = () and outliers = 0 the family is exactly the mixture of a `Trend` of slope 0 and a `Trend`.

    Statistics of a hypothesis: the factor and the rotated readings (5), shape, the scale given a level and given a
    line, P(line), ticks, number of lags, P(the last reading was an outlier), lags; relative to `level` and in units
    of sqrt(scale).

    Examples
    --------
    >>> model = RobustTrend(count=(0.01, 0.01), outliers=0.01)
    >>> stats = model.prior()
    >>> for x in (5.0, 7.1, 8.9, 11.0, 13.1, 40.0, 17.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.parameter(stats)[0]), 1)  # the level of the next reading: 40 was an outlier
    19.0
    """

    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    operations = (300.0, 200_000.0)

    def __init__(
        self,
        level: float = 0.0,
        count: Sequence[float] = (1.0, 100.0),
        shape: float = 1.0,
        scale: float = 1.0,
        line: float = 0.5,
        ar: Sequence[float] | Array = (),
        outliers: float = 0.0,
        forget: float = 1.0,
    ) -> None:
        self.level = finite("RobustTrend", "level", level)
        self.count = tuple(counts_of("RobustTrend", count, 2, "for level and slope").tolist())
        self.shape = positive("RobustTrend", "shape", shape, 1e9)
        if self.shape <= 0.5:
            raise ValueError(f"RobustTrend.shape must exceed 1/2, not {shape!r}: readings would have no mean")
        self.scale = positive("RobustTrend", "scale", scale)
        self.line = probability("RobustTrend", "line", line)
        if len(ar) > _LONGEST:
            raise ValueError(f"RobustTrend.ar must have at most {_LONGEST} coefficients, not {len(ar)}")
        self.ar = tuple(finite("RobustTrend", "ar", a) for a in ar)
        self.outliers = probability("RobustTrend", "outliers", outliers, "[0, 1)")
        self.forget = probability("RobustTrend", "forget", forget, "(0, 1]")
        self._unit = math.sqrt(self.scale)
        predictors, variances = partial_predictors(self.ar)
        head = [self.level, self._unit, *self.count, self.shape, self.line, self.outliers, self.forget, len(self.ar)]
        self._params = np.concatenate([head, predictors.ravel(), variances])
        self._table = self._params[_P_TABLE:].copy()
        self.columns = _LAGS + len(self.ar)
        self.has_outliers = self.outliers > 0.0

    def __repr__(self) -> str:
        return f"RobustTrend({', '.join(f'{k}={v}' for k, v in self.spec().items())})"

    def params(self) -> Array:
        """Return the prior, then the predictors of order 0 to p and their variances."""
        return self._params

    def prior(self) -> Array:
        """Return the square roots of the counts, no reading, the shape, scale 1 and P(line)."""
        out = np.zeros(self.columns)
        out[_L00], out[_L11] = np.sqrt(self.count)
        out[_SHAPE], out[_LEVEL], out[_LINE], out[_SLOPED] = self.shape, 1.0, 1.0, self.line
        return out

    def check(self, x: float) -> float:
        """Accept every finite number."""
        return x

    def _standard(self, x: float) -> float:
        return min(max((x - self.level) / self._unit, -FAR), FAR)

    def _columns(self, stats: Array) -> Array:
        return np.ascontiguousarray(stats.reshape(self.columns, -1))

    def skip(self, stats: Array) -> Array:
        """Advance the age; the lags before the gap are not used again."""
        out = np.array(stats)
        out[_AGE] += 1.0
        out[_SEEN] = 0.0
        out[_ODD] = 0.0
        return out

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Add the reading with weight zeta P(no outlier | x), then forget."""
        if zeta == 0.0:
            return self.skip(stats)
        rows = self._columns(stats).copy()
        _updated(rows, self._params, self._standard(x), zeta)
        return rows.reshape(stats.shape)

    def _weighed(self, stats: Array, x: float, zeta: float) -> Array:
        return np.asarray(_weighed(self._columns(stats), self._params, self._standard(x), zeta))

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log density of the mixture of level, line and outlier."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return (self._weighed(stats, x, zeta)[0] - math.log(self._unit)).reshape(stats.shape[1:])

    def last_outlier(self, stats: Array) -> Array:
        """Return P(the last reading was an outlier) given each hypothesis."""
        return np.asarray(stats[_ODD])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return mean and variance of the level at the coming tick; the variance is infinite while shape <= 1."""
        rows = self._columns(stats)
        slope = rows[_Z1] / rows[_L11]
        flat = rows[_Z0] / rows[_L00]
        line = (rows[_Z0] - rows[_L10] * slope) / rows[_L00] + slope * rows[_AGE]
        u = 1.0 / rows[_L00]
        v = (rows[_AGE] - rows[_L10] * u) / rows[_L11]
        beyond = rows[_SHAPE] - 1.0
        spreads = ratio(rows[_LEVEL], beyond) * u**2, ratio(rows[_LINE], beyond) * (u**2 + v**2)
        mean, var = self._mixed(rows, (flat, line), spreads)
        return (self.level + self._unit * mean).reshape(stats.shape[1:]), (self.scale * var).reshape(stats.shape[1:])

    def slope(self, stats: Array) -> tuple[Array, Array]:
        """Return P(the regime is a line), and the mean of its slope if it is one.

        Parameters
        ----------
        stats : ndarray
            Statistics, shape (columns,) or (columns, K).

        Returns
        -------
        p, slope : ndarray
            Shape () or (K,); the slope is per tick, in units of the readings.
        """
        rows = self._columns(stats)
        slope = self._unit * rows[_Z1] / rows[_L11]
        return rows[_SLOPED].reshape(stats.shape[1:]), slope.reshape(stats.shape[1:])

    def _mixed(self, rows: Array, means: tuple[Array, Array], variances: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return mean and variance of the mixture of level and line."""
        p = rows[_SLOPED]
        mean = means[0] + p * (means[1] - means[0])
        return mean, (1.0 - p) * variances[0] + p * variances[1] + p * (1.0 - p) * (means[1] - means[0]) ** 2

    def _components(self, stats: Array, zeta: float) -> tuple[Array, Array, Array, Array]:
        """Return weights, centers, squared scales and degrees of freedom of the three Student's t, each (3, K)."""
        rows = self._columns(stats)
        seen = _forecasts(rows, self._table, len(self.ar))
        k, p = rows.shape[1], rows[_SLOPED]
        noise = 1.0 / zeta - 1.0
        weights = np.stack([(1.0 - self.outliers) * (1.0 - p), (1.0 - self.outliers) * p, np.full(k, self.outliers)])
        centers = np.stack([seen[2] + seen[4], seen[2] + seen[5], np.zeros(k)])
        df = 2.0 * np.stack([rows[_SHAPE], rows[_SHAPE], np.full(k, self.shape)]) + zeta - 1.0
        first = noise + self._table[-len(self.ar) - 1] + 1.0 / self.count[0]
        squares = [rows[_LEVEL] * (noise + seen[3] + seen[6]), rows[_LINE] * (noise + seen[3] + seen[7])]
        return weights, centers, 2.0 * np.stack([*squares, np.full(k, first)]) / df, df

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the mixture of level, line and outlier; the variance may be infinite."""
        weights, centers, squares, df = self._components(stats, zeta if zeta > 0.0 else 1.0)
        mean = (weights * centers).sum(axis=0)
        var = np.where(df > 2.0, squares * df / np.where(df > 2.0, df - 2.0, 1.0), np.inf)
        if zeta == 0.0:
            spread = np.full_like(mean, np.inf)
        else:
            spread = (weights * np.where(weights > 0.0, var, 0.0) + weights * (centers - mean) ** 2).sum(axis=0)
        shape = stats.shape[1:]
        return (self.level + self._unit * mean).reshape(shape), (self.scale * spread).reshape(shape)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the distribution function of the mixture of Student's t."""
        weights, centers, squares, df = self._components(stats, zeta)
        d = self._standard(x) - centers
        t = d * d / (squares * df)
        half = 0.5 * df.ravel()
        tails = 0.5 * beta_cdfs(half, np.full_like(half, 0.5), (1.0 / (1.0 + t)).ravel(), (t / (1.0 + t)).ravel())
        below = np.where(d > 0.0, 1.0 - tails.reshape(d.shape), tails.reshape(d.shape))
        return np.asarray((weights * below).sum(axis=0)).reshape(stats.shape[1:])

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the mixture of Student's t."""
        weights, centers, squares, df = self._components(stats, zeta)
        d = self._standard(x) - centers
        with np.errstate(divide="ignore"):  # without outliers the third weight is 0
            logs = np.log(weights)
        lower, upper = mixed_tails(logs, zip(*student_tails(d, d * d / (squares * df), df), strict=True))
        return lower.reshape(stats.shape[1:]), upper.reshape(stats.shape[1:])

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return I(r; x), summed over a grid of readings."""
        if zeta == 0.0:
            return 0.0
        w, kept = heavy(weight, stats)
        return 0.0 if w.size == 1 else summed_information(w, table_of(self, kept, zeta))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return the information about coefficients and noise of a reading that is no outlier, times P(no outlier).

        The two explanations, level and line, are averaged; the information about which of them holds is left out.
        """
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        level, line, rows = self._spreads(stats, zeta)
        p = rows[_SLOPED]
        gain = 0.5 * ((1.0 - p) * np.log1p(level) + p * np.log1p(line)) + covariance_gain(2.0 * rows[_SHAPE], zeta, 1)
        return np.asarray((1.0 - self.outliers) * gain).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of the variance of the coming level, in units of the noise variance.

        As for `parameter_gain`, the explanations are averaged and an outlier teaches nothing.
        """
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        level, line, rows = self._spreads(stats, zeta)
        seen = _forecasts(rows, self._table, len(self.ar))
        p = rows[_SLOPED]
        gain = (1.0 - p) * seen[6] * level / (1.0 + level) + p * seen[7] * line / (1.0 + line)
        return np.asarray((1.0 - self.outliers) * gain).reshape(stats.shape[1:])

    def _spreads(self, stats: Array, zeta: float) -> tuple[Array, Array, Array]:
        """Return the variance of the forecast by a level and by a line, over that of the reading, and the rows."""
        rows = self._columns(stats)
        seen = _forecasts(rows, self._table, len(self.ar))
        q = 1.0 / zeta - 1.0 + seen[3]
        return seen[6] / q, seen[7] / q, rows

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw noise variance, level or line and autocorrelated noise, then replace some readings by outliers.

        The noise variance of a regime is constant, whatever `forget` is.
        """
        s2 = 1.0 / rng.gamma(self.shape)
        level, slope = rng.normal(size=2) * np.sqrt(s2 / np.array(self.count))
        p = len(self.ar)
        noise = np.zeros(ticks)
        for t in range(ticks):
            k = min(t, p)
            past = self._table[k * p : k * p + k] @ noise[t - k : t][::-1]
            noise[t] = past + math.sqrt(s2 * self._table[(p + 1) * p + k]) * rng.normal()
        x = level + noise + (slope * np.arange(ticks) if rng.random() < self.line else 0.0)
        odd = rng.random(ticks) < self.outliers
        other = 1.0 / rng.gamma(self.shape, size=ticks)
        first = np.sqrt(other * (self._table[(p + 1) * p] + 1.0 / self.count[0])) * rng.normal(size=ticks)
        return np.asarray(self.level + self._unit * np.where(odd, first, x))

    def sound(self, stats: Array) -> bool:
        """Check signs and ranges, and that the number of lags is possible."""
        if not np.isfinite(stats).all():
            return False
        rows = stats.reshape(self.columns, -1)
        positive = rows[[_L00, _L11, _SHAPE, _LEVEL, _LINE]]
        counters = rows[[_AGE, _SEEN]]
        return bool(
            (positive > 0.0).all()
            and (positive < 1e300).all()
            and (rows[_SHAPE] >= 0.5 + 1e-12).all()
            and ((rows[_SLOPED] > 0.0) & (rows[_SLOPED] < 1.0)).all()
            and (counters == np.floor(counters)).all()
            and (counters >= 0.0).all()
            and (rows[_SEEN] <= len(self.ar)).all()
            and ((rows[_ODD] >= 0.0) & (rows[_ODD] <= 1.0)).all()
        )

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Grows with the number of coefficients in `ar`."""
        order = len(arguments.get("ar", ()))
        return CostBound(_LAGS + order, cls.operations[0] + 5.0 * order, cls.operations[1], "ar")

    def rescaled(self, offset: float, scale: float) -> RobustTrend:
        """As for any model; coefficients of lags have no unit."""
        moved = {"level": offset + scale * self.level, "scale": scale * scale * self.scale}
        return type(self)(**(self.spec() | moved))

    def spec(self) -> dict[str, Any]:
        """Return the eight arguments."""
        prior = {"level": self.level, "count": list(self.count), "shape": self.shape, "scale": self.scale}
        noise = {"ar": list(self.ar), "outliers": self.outliers, "forget": self.forget}
        return {**prior, "line": self.line, **noise}

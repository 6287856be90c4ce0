"""A level or a line in every regime, with autocorrelated noise, outliers and a noise variance that may drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.cholesky import FAR
from .._kernels.robust_trend import (
    AGE,
    L00,
    L10,
    L11,
    LAGS,
    LEVEL,
    LINE,
    OUTLIER,
    P_TABLE,
    SEEN,
    SHAPE,
    SLOPED,
    Z0,
    Z1,
    absorb,
    forecasts,
    tick,
    updated,
    weighed,
)
from .._kernels.template import tick_kernels
from .._kernels.wishart import covariance_gain
from ..inputs.arguments import finite, positive, probability
from .base import Array
from .bells import Bells
from .noise_prior import noise_shape
from .regression import counts_of, ratio
from .stationary import partial_predictors
from .tails import mixed_tails, student_tails
from .unknown_noise import UnknownNoise, Weighting, weighting_of

_LONGEST = 32  # most coefficients of the autoregression

_KERNELS = tick_kernels(tick, absorb)


class RobustTrend(UnknownNoise):
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
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `ar` has too many coefficients.

    Notes
    -----
    Level and line are nested regressions, which share the Cholesky factor of their coefficients' precision. With u
    the regressors after the autoregression (of order k while only k readings of the regime are available, by
    `partial_predictors`), y the reading after it, v its variance in units of s2, and q = 1 / zeta - 1 + v, the rest
    is as in `Regression`: a reading is Student's t about u . m with variance (q + u . P^-1 u) s2.

    A reading at zeta is a full reading with noise of variance s2 (1 / zeta - 1). Where later readings are predicted
    from it, what the full reading is expected to have been takes its place, given forecast and reading (a Kalman
    filter). The variance that remains, times a_k^2, adds to v; the errors of different lags are taken as independent
    of each other and of those of level and slope. Tempered, lags enter as they were read.

    An outlier has the density g of the first reading of a new regime: it looks like a reading of another regime, and
    then the regime continues. A reading has the density (1 - outliers) f + outliers g, and is learned with weight
    zeta P(no outlier | x). The exact posterior would be a mixture of 2^n terms after n readings. Where later readings
    are predicted from an outlier, its forecast takes its place.

    With forget = 1, ar = () and outliers = 0 the family is exactly the mixture of a `Trend` of slope 0 and a `Trend`.

    Statistics of a hypothesis: the factor and the rotated readings (5), shape, the scale given a level and given a
    line, P(line), ticks, number of lags, P(the last reading was an outlier), lags; relative to `level` and in units
    of sqrt(scale); and unless tempered the variances of the lags in units of s2.

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
        weighting: Weighting = "precision",
    ) -> None:
        self.level = finite("RobustTrend", "level", level)
        self.count = tuple(counts_of("RobustTrend", count, 2, "for level and slope").tolist())
        self.shape = noise_shape("RobustTrend", shape)
        self.scale = positive("RobustTrend", "scale", scale)
        self.line = probability("RobustTrend", "line", line)
        if len(ar) > _LONGEST:
            raise ValueError(f"RobustTrend.ar must have at most {_LONGEST} coefficients, not {len(ar)}")
        self.ar = tuple(finite("RobustTrend", "ar", a) for a in ar)
        self.outliers = probability("RobustTrend", "outliers", outliers, "[0, 1)")
        self.forget = probability("RobustTrend", "forget", forget, "(0, 1]")
        self.weighting = weighting_of("RobustTrend", weighting)
        self._tempered = self.weighting == "tempered"
        self._unit = math.sqrt(self.scale)
        predictors, variances = partial_predictors(self.ar)
        prior = [self.level, self._unit, *self.count, self.shape, self.line]
        rest = [self.outliers, self.forget, len(self.ar), float(self._tempered)]
        self._params = np.concatenate([prior, rest, predictors.ravel(), variances])
        self._table = self._params[P_TABLE:].copy()
        self.columns = LAGS + len(self.ar) * (1 if self._tempered else 2)
        self.has_outliers = self.outliers > 0.0

    def __repr__(self) -> str:
        return f"RobustTrend({', '.join(f'{k}={v}' for k, v in self.spec().items())})"

    def params(self) -> Array:
        """Return the prior, then the predictors of order 0 to p and their variances."""
        return self._params

    def prior(self) -> Array:
        """Return the square roots of the counts, no reading, the shape, scale 1 and P(line)."""
        out = np.zeros(self.columns)
        out[L00], out[L11] = np.sqrt(self.count)
        out[SHAPE], out[LEVEL], out[LINE], out[SLOPED] = self.shape, 1.0, 1.0, self.line
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
        out[AGE] += 1.0
        out[SEEN] = 0.0
        out[OUTLIER] = 0.0
        return out

    def _learned(self, stats: Array, x: float, zeta: float, deviations: float) -> Array:
        """Add the reading with weight zeta P(no outlier | x), then forget."""
        rows = self._columns(stats).copy()
        updated(rows, self._params, self._standard(x), zeta, deviations)
        return rows.reshape(stats.shape)

    def _forecasts(self, rows: Array) -> Array:
        """Return the fields of `Forecast` of every hypothesis, shape (8, K)."""
        return np.asarray(forecasts(rows, self._table, len(self.ar), self._tempered))

    def _weighed(self, stats: Array, x: float, zeta: float) -> Array:
        return np.asarray(
            weighed(self._columns(stats), self._params, self._standard(x), zeta, self._deviations(zeta))
        )

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log density of the mixture of level, line and outlier."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return (self._weighed(stats, x, zeta)[0] - math.log(self._unit)).reshape(stats.shape[1:])

    def last_outlier(self, stats: Array) -> Array:
        """Return P(the last reading was an outlier) given each hypothesis."""
        return np.asarray(stats[OUTLIER])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return mean and variance of the level at the coming tick; the variance is infinite while shape <= 1."""
        rows = self._columns(stats)
        slope = rows[Z1] / rows[L11]
        flat = rows[Z0] / rows[L00]
        line = (rows[Z0] - rows[L10] * slope) / rows[L00] + slope * rows[AGE]
        u = 1.0 / rows[L00]
        v = (rows[AGE] - rows[L10] * u) / rows[L11]
        beyond = rows[SHAPE] - 1.0
        spreads = ratio(rows[LEVEL], beyond) * u**2, ratio(rows[LINE], beyond) * (u**2 + v**2)
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
        slope = self._unit * rows[Z1] / rows[L11]
        return rows[SLOPED].reshape(stats.shape[1:]), slope.reshape(stats.shape[1:])

    def _mixed(self, rows: Array, means: tuple[Array, Array], variances: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return mean and variance of the mixture of level and line."""
        p = rows[SLOPED]
        mean = means[0] + p * (means[1] - means[0])
        return mean, (1.0 - p) * variances[0] + p * variances[1] + p * (1.0 - p) * (means[1] - means[0]) ** 2

    def _components(self, stats: Array, zeta: float) -> tuple[Array, Array, Array, Array]:
        """Return weights, centers, squared scales and degrees of freedom of the three Student's t, each (3, K)."""
        rows = self._columns(stats)
        seen = self._forecasts(rows)
        k, p = rows.shape[1], rows[SLOPED]
        noise = 1.0 / zeta - 1.0
        weights = np.stack([(1.0 - self.outliers) * (1.0 - p), (1.0 - self.outliers) * p, np.full(k, self.outliers)])
        centers = np.stack([seen[2] + seen[4], seen[2] + seen[5], np.zeros(k)])
        df = 2.0 * np.stack([rows[SHAPE], rows[SHAPE], np.full(k, self.shape)]) + self._deviations(zeta) - 1.0
        first = noise + self._table[-len(self.ar) - 1] + 1.0 / self.count[0]
        squares = [rows[LEVEL] * (noise + seen[3] + seen[6]), rows[LINE] * (noise + seen[3] + seen[7])]
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

    def bells(self, stats: Array, zeta: float) -> Bells:
        """Return three Student's t for each hypothesis: level, line and outlier."""
        weights, centers, squares, df = self._components(stats, zeta)
        return Bells(weights, centers, np.sqrt(squares), df, self.level, self._unit)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return I(r; x), where each hypothesis is a mixture of level, line and outlier."""
        return 0.0 if zeta == 0.0 else self.bells(stats, zeta).information(weight)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return the information about coefficients and noise of a reading that is no outlier, times P(no outlier).

        The two explanations, level and line, are averaged; the information about which of them holds is left out.
        """
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        level, line, rows = self._spreads(stats, zeta)
        p = rows[SLOPED]
        gain = 0.5 * ((1.0 - p) * np.log1p(level) + p * np.log1p(line)) + covariance_gain(
            2.0 * rows[SHAPE], self._deviations(zeta), 1
        )
        return np.asarray((1.0 - self.outliers) * gain).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of the variance of the coming level, in units of the noise variance.

        As for `parameter_gain`, the explanations are averaged and an outlier teaches nothing.
        """
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        level, line, rows = self._spreads(stats, zeta)
        seen = self._forecasts(rows)
        p = rows[SLOPED]
        gain = (1.0 - p) * seen[6] * level / (1.0 + level) + p * seen[7] * line / (1.0 + line)
        return np.asarray((1.0 - self.outliers) * gain).reshape(stats.shape[1:])

    def _spreads(self, stats: Array, zeta: float) -> tuple[Array, Array, Array]:
        """Return the variance of the forecast by a level and by a line, over that of the reading, and the rows."""
        rows = self._columns(stats)
        seen = self._forecasts(rows)
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
        positive = rows[[L00, L11, SHAPE, LEVEL, LINE]]
        counters = rows[[AGE, SEEN]]
        return bool(
            (positive > 0.0).all()
            and (positive < 1e300).all()
            and (rows[SHAPE] >= 0.5 + 1e-12).all()
            and ((rows[SLOPED] > 0.0) & (rows[SLOPED] < 1.0)).all()
            and (counters == np.floor(counters)).all()
            and (counters >= 0.0).all()
            and (rows[SEEN] <= len(self.ar)).all()
            and ((rows[OUTLIER] >= 0.0) & (rows[OUTLIER] <= 1.0)).all()
        )

    def rescaled(self, offset: float, scale: float) -> RobustTrend:
        """As for any model; coefficients of lags have no unit."""
        moved = {"level": offset + scale * self.level, "scale": scale * scale * self.scale}
        return type(self)(**(self.spec() | moved))

    def spec(self) -> dict[str, Any]:
        """Return the nine arguments."""
        prior = {"level": self.level, "count": list(self.count), "shape": self.shape, "scale": self.scale}
        noise = {"ar": list(self.ar), "outliers": self.outliers, "forget": self.forget}
        return {**prior, "line": self.line, **noise, "weighting": self.weighting}

"""Bayesian regression: the part shared by linear regression, trend, autoregression and Gaussian process."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.cholesky import FAR, rank_one_update, unpack
from .._kernels.compile import kernel
from .._kernels.gamma_ratio import half_gamma_ratios
from .._kernels.heavy_tails import STUDENT, tail_information
from .._kernels.mixture import information
from .._kernels.wishart import covariance_gain
from ..inputs.arguments import positive
from .base import Array
from .bells import Bells
from .noise_prior import noise_shape
from .tails import normal_tails, student_tails
from .unknown_noise import UnknownNoise, weighting_of

MOST = 100_000
"""Upper limit for the number of lags, covariates or grid points; far more than can be computed."""
_LOG_2PI = math.log(2.0 * math.pi)
_erfc = np.vectorize(math.erfc, otypes=[float])


@kernel
def _forecast(factor: Array, u: Array) -> tuple[Array, Array]:
    """u . coefficients and u . precision^-1 u of each hypothesis; `u`, shape (p, K), is overwritten."""
    p, n = u.shape
    last = p * (p + 1) // 2
    centre = np.zeros(n)
    spread = np.zeros(n)
    for j in range(p):
        v = u[j]
        diagonal = factor[j * (j + 1) // 2 + j]
        z = factor[last + j]
        for k in range(n):
            v[k] /= diagonal[k]
            centre[k] += z[k] * v[k]
            spread[k] += v[k] * v[k]
        for i in range(j + 1, p):
            below = factor[i * (i + 1) // 2 + j]
            w = u[i]
            for k in range(n):
                w[k] -= below[k] * v[k]
    return centre, spread


def counts_of(owner: str, value: Any, size: int, which: str = "one per coefficient") -> Array:
    """Return `size` positive numbers from one number or from all of them, or raise an error that names the field."""
    given = np.atleast_1d(np.asarray(value, dtype=object)).tolist()
    if len(given) not in (1, size):
        raise ValueError(f"{owner}.count must be one number or {size}, {which}, not {value!r}")
    numbers = [positive(owner, "count", v, 1e18) for v in given]
    return np.broadcast_to(np.array(numbers), (size,)).copy()


class Regression(UnknownNoise):
    """Base class of the models whose readings are linear in known regressors, with normal noise.

        x = u . coefficients + noise,  noise ~ N(0, s2)

    Given s2, a coefficient is N(its prior mean, s2 / count): its prior is worth `count` readings whose regressor is
    1. The noise variance s2 is known (`noise_var`) or InverseGamma(shape, scale).

    Notes
    -----
    With u the regressors, P the precision of the coefficients in units of 1 / s2, m their mean, d = x - u . m and
    q = 1 / zeta + u . P^-1 u, a reading at fidelity zeta changes

        m += P^-1 u d / q,  P += zeta u u^T
        shape += 1 / 2,  scale += d^2 / (2 q)

    The next reading is N(u . m, s2 q) if s2 is known. Otherwise it is Student's t about u . m with df = 2 shape and
    squared scale 2 scale q / df, as for `GaussianUnknown`. With ``weighting="tempered"`` (equation `mf_posterior`)
    the shape grows by zeta / 2, and df = 2 shape + zeta - 1. A reading whose regressors are uncertain has a smaller
    weight than zeta (`_weight`) everywhere except in shape and df.

    Statistics of a hypothesis, relative to the prior means and in units of the prior noise: the Cholesky factor of
    [P, P m; m P, m P m + 2 scale], packed row by row, which a reading changes by rotations only; the number of
    readings, tempered the sum of zeta; and what a subclass adds.
    """

    elementwise = True

    def _set(
        self,
        mean: Array,
        count: Any,
        shape: float | None,
        scale: float | None,
        noise_var: float | None,
        weighting: str,
    ) -> None:
        owner = type(self).__name__
        self.weighting = weighting_of(owner, weighting)
        self._size = mean.size
        self._mean = mean
        self._count = counts_of(owner, count, self._size)
        self._rows = (self._size + 1) * (self._size + 2) // 2
        self.noise_var = None if noise_var is None else positive(owner, "noise_var", noise_var)
        if self.noise_var is not None and not (shape is None and scale is None):
            raise ValueError(
                f"{owner}: noise_var = {noise_var!r} is known: shape and scale are for noise that is not"
            )
        self.shape = noise_shape(owner, 1.0 if shape is None else shape)
        self.scale = positive(owner, "scale", 1.0 if scale is None else scale)
        self._unit = math.sqrt(self.scale if self.noise_var is None else self.noise_var)
        self._units = np.full(self._size, self._unit)
        self.columns = self._rows + 1

    def _noise(self) -> dict[str, Any]:
        """Return the arguments of the noise, for `spec`."""
        prior = (
            {"shape": self.shape, "scale": self.scale} if self.noise_var is None else {"noise_var": self.noise_var}
        )
        return {**prior, "weighting": self.weighting}

    def _rescaled_noise(self, scale: float) -> dict[str, float]:
        """The arguments in `_noise` that change with the unit of the readings."""
        name = "scale" if self.noise_var is None else "noise_var"
        return {name: scale * scale * getattr(self, name)}

    def _counts(self) -> float | list[float]:
        """Return the argument `count`, for `spec`."""
        same = bool((self._count == self._count[0]).all())
        return float(self._count[0]) if same else self._count.tolist()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self.spec().items())})"

    def _regime(self, rng: np.random.Generator) -> tuple[Array, float]:
        """Draw coefficients relative to their prior means, and the standard deviation of the noise, in prior noise
        units.
        """
        s2 = 1.0 if self.noise_var is not None else 1.0 / rng.gamma(self.shape)
        return rng.normal(size=self._size) * np.sqrt(s2 / self._count), math.sqrt(s2)

    @abstractmethod
    def _next_regressors(self, rows: Array) -> tuple[Array, Array]:
        """Return the regressors (p, K) of the coming tick and the prior mean of its reading (K,)."""

    def _weight(self, rows: Array, zeta: float) -> Array | float:
        """Return the weight of a reading at zeta: 1 over its variance about the line, in units of 1 / s2."""
        return zeta

    def _standard(self, x: Any, offset: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.clip((x - offset) / self._unit, -FAR, FAR)

    def _at(self, rows: Array, x: Any) -> tuple[Array, Array]:
        """Return the regressors (p, K) of the reading x, and the standardized reading (K,)."""
        u, offset = self._next_regressors(rows)
        return u, self._standard(x, offset)

    def _advance_extra(self, rows: Array, x: Any, zeta: Any) -> None:
        """Advance, in place, what a subclass adds to the statistics; x is None if nothing was read.

        The rest of the statistics is as before the reading.
        """

    def prior(self) -> Array:
        """Return the square roots of the counts, no reading, and scale 1."""
        out = np.zeros(self.columns)
        for j in range(self._size):
            out[j * (j + 1) // 2 + j] = math.sqrt(self._count[j])
        out[self._rows - 1] = math.sqrt(2.0)
        return out

    def check(self, x: Any) -> Any:
        """Accept every finite number."""
        return x

    def skip(self, stats: Array) -> Array:
        """Advance what depends on time; nothing else changes."""
        rows = np.array(stats.reshape(self.columns, -1))
        self._advance_extra(rows, None, 0.0)
        return rows.reshape(stats.shape)

    def _learned(self, stats: Array, x: Any, zeta: Any, deviations: Any) -> Array:
        """Rotate sqrt(zeta) (u, x) into the factor, which adds zeta u u^T, zeta u x and zeta x^2 (`mf_posterior`)."""
        rows = np.array(stats.reshape(self.columns, -1))
        u, y = self._at(rows, x)
        factor = rows[: self._rows].copy()
        rank_one_update(factor, np.sqrt(self._weight(rows, zeta)) * np.concatenate([u, y[None]]))
        # The fidelity of a doubtful reading is that of the reading, not what is left of its weight.
        self._advance_extra(rows, x, zeta / deviations if self.weighting == "precision" else zeta)
        rows[: self._rows] = factor
        rows[self._rows] += deviations
        return rows.reshape(stats.shape)

    def _forecast(self, rows: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        """Return u . m, u . P^-1 u, shape and scale of each hypothesis, standardized."""
        centre, spread = _forecast(np.ascontiguousarray(rows[: self._rows]), np.array(u))
        return centre, spread, self.shape + 0.5 * rows[self._rows], 0.5 * rows[self._rows - 1] ** 2

    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return the log of the normal density, or of Student's t."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return self._log_density(stats.reshape(self.columns, -1), x, zeta).reshape(stats.shape[1:])

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model, in one pass where a reading is one number."""
        return super().log_predictives(stats, x, zeta) if x.ndim > 1 else self._log_density(stats, x[:, None], zeta)

    def _log_density(self, rows: Array, x: Any, zeta: float) -> Array:
        u, y = self._at(rows, x)
        centre, spread, shape, scale = self._forecast(rows, u)
        q = 1.0 / self._weight(rows, zeta) + spread
        lift = 0.5 * (y - centre) ** 2 / q
        if self.noise_var is None:
            deviations = self._deviations(zeta)
            rise = half_gamma_ratios(shape + 0.5 * (deviations - 1.0)) - 0.5 * np.log(scale)
            value = rise - (shape + 0.5 * deviations) * np.log1p(lift / scale)
        else:
            value = -lift
        return np.asarray(value - 0.5 * (_LOG_2PI + np.log(q)) - math.log(self._unit))

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of each coefficient, shape (p, K).

        With unknown noise the variances are infinite while shape <= 1.
        """
        rows = stats.reshape(self.columns, -1)
        inner = np.linalg.inv(unpack(np.ascontiguousarray(rows[: self._rows]), self._size))
        z = rows[self._rows - 1 - self._size : self._rows - 1]
        mean = np.einsum("kji,jk->ik", inner, z)
        var = np.einsum("kji,kji->ik", inner, inner)
        if self.noise_var is None:
            _, _, shape, scale = self._forecast(rows, self._next_regressors(rows)[0])
            var = var * ratio(scale, shape - 1.0)
        units = self._units[:, None]
        ends = (self._size, *stats.shape[1:])
        return (self._mean[:, None] + units * mean).reshape(ends), (units**2 * var).reshape(ends)

    def _expected(self, rows: Array, zeta: float) -> tuple[Array, Array]:
        """Return the mean and variance of the coming reading, each (K,)."""
        u, offset = self._next_regressors(rows)
        centre, spread, shape, scale = self._forecast(rows, u)
        mean = offset + self._unit * centre
        if zeta == 0.0:
            return mean, np.full_like(mean, np.inf)
        var = self._unit**2 * (1.0 / self._weight(rows, zeta) + spread)
        if self.noise_var is None:
            var = 2.0 * var * ratio(scale, 2.0 * shape + self._deviations(zeta) - 3.0)
        return mean, var

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the coming reading; the variance is infinite up to two degrees of freedom."""
        mean, var = self._expected(stats.reshape(self.columns, -1), zeta)
        return mean.reshape(stats.shape[1:]), var.reshape(stats.shape[1:])

    def _residual(self, rows: Array, x: Any, zeta: float) -> tuple[Array, Array, Array, Array]:
        """Return x - u . m and q at the regressors of the reading x, and shape and scale, standardized."""
        u, y = self._at(rows, x)
        centre, spread, shape, scale = self._forecast(rows, u)
        return y - centre, 1.0 / self._weight(rows, zeta) + spread, shape, scale

    def _below(self, rows: Array, x: Any, zeta: float) -> Array:
        """Return P(reading <= x) at the regressors of the reading x, shape (K,)."""
        d, q, shape, scale = self._residual(rows, x, zeta)
        if self.noise_var is not None:
            return np.asarray(0.5 * _erfc(-d / np.sqrt(2.0 * q)))
        t = 0.5 * d * d / (q * scale)
        df = 2.0 * shape + self._deviations(zeta) - 1.0
        tail = 0.5 * beta_cdfs(0.5 * df, np.full_like(df, 0.5), 1.0 / (1.0 + t), t / (1.0 + t))
        return np.where(d > 0.0, 1.0 - tail, tail)

    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the normal distribution function, or Student's."""
        return self._below(stats.reshape(self.columns, -1), x, zeta).reshape(stats.shape[1:])

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the normal, or of Student's t, at the regressors of the reading x."""
        lower, upper = self._tails(stats.reshape(self.columns, -1), x, zeta)
        return lower.reshape(stats.shape[1:]), upper.reshape(stats.shape[1:])

    def _tails(self, rows: Array, x: Any, zeta: float) -> tuple[Array, Array]:
        """Return log P(reading <= x) and log P(reading >= x), shape (K,) each."""
        d, q, shape, scale = self._residual(rows, x, zeta)
        if self.noise_var is not None:
            return normal_tails(d / np.sqrt(q))
        return student_tails(d, 0.5 * d * d / (q * scale), 2.0 * shape + self._deviations(zeta) - 1.0)

    def bells(self, stats: Array, zeta: float) -> Bells | None:
        """Return a normal or Student's t for each hypothesis; no covariates are predicted."""
        if self.dimension > 1:
            return None
        u, offset = self._next_regressors(stats)
        centre, spread, shape, scale = self._forecast(stats, u)
        # relative to a regime that begins now: large offsets would lose digits
        centre = centre + (offset - offset[-1]) / self._unit
        q = 1.0 / self._weight(stats, zeta) + spread
        origin = float(offset[-1])
        if self.noise_var is not None:
            return Bells.single(centre, np.sqrt(q), None, origin, self._unit)
        df = 2.0 * shape + self._deviations(zeta) - 1.0
        return Bells.single(centre, np.sqrt(2.0 * scale * q / df), df, origin, self._unit)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return sum_l w_l KL(p_l || mixture) of normals or Student's t, to 1e-6 nats at any scale."""
        if zeta == 0.0:
            return 0.0
        u, offset = self._next_regressors(stats)
        centre, spread, shape, scale = self._forecast(stats, u)
        # relative to a regime that begins now: large offsets would lose digits
        centre = centre + (offset - offset[-1]) / self._unit
        q = 1.0 / self._weight(stats, zeta) + spread
        if self.noise_var is not None:
            return float(information(np.array(weight), centre, q))
        df = 2.0 * shape + self._deviations(zeta) - 1.0
        return float(tail_information(STUDENT, np.array(weight), centre, np.sqrt(2.0 * scale * q / df), df))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return log(1 + zeta u . P^-1 u) / 2, plus the information about unknown noise.

        The latter is f(a) - f(a + 1 / 2), tempered f(a) - f(a + zeta / 2), with a = shape, f(a) = log Gamma(a) + a -
        a psi(a) and psi the digamma function; see `GaussianUnknown`.
        """
        rows = stats.reshape(self.columns, -1)
        _, spread, shape, _ = self._forecast(rows, self._next_regressors(rows)[0])
        gain = 0.5 * np.log1p(self._weight(rows, zeta) * spread)
        if self.noise_var is None:
            gain = gain + covariance_gain(2.0 * shape, self._deviations(zeta), 1)
        return np.asarray(gain).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of the variance of u . coefficients, the level of the coming tick, in units of s2.

        With s = u . P^-1 u it is s - s / (1 + zeta s). It depends neither on x nor on the units of the regressors.
        """
        rows = stats.reshape(self.columns, -1)
        _, spread, _, _ = self._forecast(rows, self._next_regressors(rows)[0])
        weight = self._weight(rows, zeta)
        return np.asarray(weight * spread**2 / (1.0 + weight * spread)).reshape(stats.shape[1:])


def ratio(top: Array, bottom: Array) -> Array:
    """Return top / bottom, infinite where bottom is not positive."""
    some = bottom > 0.0
    return np.where(some, top / np.where(some, bottom, 1.0), np.inf)

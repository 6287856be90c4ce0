"""A level with heavy-tailed noise of unknown scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.compile import kernel, scalar
from .._kernels.gamma_ratio import digamma_remainder, half_gamma_ratio, log1p, scale_gains
from .._kernels.scalar import exp, log
from ..inputs.arguments import positive
from .base import Array
from .bells import Bells
from .noise_prior import level_and_noise
from .regression import ratio
from .tails import mixed_tails, student_tails
from .unknown_noise import UnknownNoise, Weighting, weighting_of

_FAR = 1e100  # prior scales from the prior mean; squares of larger distances would overflow
_LOG_2PI = math.log(2.0 * math.pi)
_FALL = 40.0  # nats below its largest value at which the density of log precision is cut off
_STEP = 0.35  # of the trapezoid rule in log precision, for 4 degrees of freedom or fewer
_LEAST = 0.5 + 1e-6  # shape; at 1/2 readings would have no mean


@scalar
def _trigamma(y: float) -> float:
    total = 0.0
    while y < 10.0:
        total += 1.0 / (y * y)
        y += 1.0
    r = 1.0 / y
    v = r * r
    return total + r * (1.0 + 0.5 * r + v * (1 / 6 - v * (1 / 30 - v * (1 / 42 - v * (1 / 30 - v * 5 / 66)))))


@scalar
def _shape_of(s: float) -> float:
    """The shape a with log(a) - psi(a) = s, where psi is the digamma function."""
    a = (3.0 - s + math.sqrt((s - 3.0) * (s - 3.0) + 24.0 * s)) / (12.0 * s)  # to 1.5 %
    for _ in range(4):
        wrong = 0.5 / a + digamma_remainder(a) - s
        a = max(a - wrong / (1.0 / a - _trigamma(a)), 0.1 * a)
    return a


@kernel
def _terms(
    stats: Array, y: float, zeta: Array, deviations: Array, node: Array, log_share: Array
) -> tuple[Array, Array]:
    """log p(x, precision of the noise) at each node, (nodes, K), and its log sum over the nodes, (K,)."""
    n = stats.shape[1]
    count, mean, shape, scale = stats[0], stats[1], stats[2], stats[3]
    terms = np.empty((node.size, n))
    high = np.full(n, -1e308)
    total = np.zeros(n)
    for j in range(node.size):
        row = terms[j]
        for k in range(n):
            worth = zeta[k] * node[j]
            pull = worth * count[k] / (count[k] + worth)
            d = y - mean[k]
            lift = 0.5 * pull * d * d
            row[k] = log_share[j] + 0.5 * log(pull) - (shape[k] + 0.5 * deviations[k]) * log1p(lift / scale[k])
            high[k] = max(high[k], row[k])
    for j in range(node.size):
        row = terms[j]
        for k in range(n):
            total[k] += exp(row[k] - high[k])
    for k in range(n):
        total[k] = high[k] + math.log(total[k])
    return terms, total


@kernel
def _log_predictives(stats: Array, y: float, zeta: Array, deviations: Array, node: Array, log_share: Array) -> Array:
    _, total = _terms(stats, y, zeta, deviations, node, log_share)
    for k in range(total.size):
        f, e = half_gamma_ratio(stats[2, k] + 0.5 * (deviations[k] - 1.0))
        total[k] += 0.5 * (math.log(f / stats[3, k]) - _LOG_2PI) + e
    return total


@kernel
def _projected(stats: Array, y: float, zeta: Array, deviations: Array, node: Array, log_share: Array) -> Array:
    """The Normal-inverse-gamma closest to the mixture over the nodes: that with the same expected statistics."""
    terms, total = _terms(stats, y, zeta, deviations, node, log_share)
    out = np.empty_like(stats)
    for k in range(stats.shape[1]):
        count, mean, scale = stats[0, k], stats[1, k], stats[3, k]
        shape = stats[2, k] + 0.5 * deviations[k]
        d = y - mean
        inverse = 0.0  # E scale / scale_j
        logs = 0.0  # E log(scale_j / scale)
        step = 0.0
        for j in range(node.size):
            worth = zeta[k] * node[j]
            pull = worth * count / (count + worth)
            r = 1.0 + 0.5 * pull * d * d / scale
            w = exp(terms[j, k] - total[k])
            inverse += w / r
            logs += w * log(r)
            step += w / r * worth / (count + worth)
        step /= inverse
        spread = 0.0
        for j in range(node.size):
            worth = zeta[k] * node[j]
            pull = worth * count / (count + worth)
            away = (worth / (count + worth) - step) * d
            w = exp(terms[j, k] - total[k])
            spread += w / (count + worth) + w * shape * away * away / (scale + 0.5 * pull * d * d)
        jensen = max(logs + math.log(inverse), 0.0)
        new = max(_shape_of(0.5 / shape + digamma_remainder(shape) + jensen), _LEAST)
        out[0, k] = 1.0 / spread
        out[1, k] = mean + step * d
        out[2, k] = new
        out[3, k] = new / shape * scale / inverse
    return out


class StudentTUnknown(UnknownNoise):
    """Readings with heavy-tailed noise of unknown scale, Student's t, about an unknown level.

        s2 ~ InverseGamma(shape, scale)
        theta | s2 ~ N(mean, s2 / count)
        x = theta + sqrt(s2) t,  t ~ Student(degrees)

    One outlier is attributed to the noise, as in `StudentT`, but the scale of the noise is learned, as in
    `GaussianUnknown`, which is the limit of many degrees of freedom.

    Parameters
    ----------
    mean : float, default 0.0
        Prior mean of the level theta, in units of the readings.
    count : float, default 1.0
        Number of readings that the prior mean is worth.
    shape : float, default 1.0
        Shape of the prior of the squared scale s2: half the number of readings that it is worth. Must exceed 1/2.
    scale : float, default 1.0
        Scale of the prior of s2, in squared units of the readings; scale / shape is a typical s2.
    degrees : float, default 4.0
        Degrees of freedom, above 1. Fewer degrees mean heavier tails.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `degrees` is at most 1.

    Notes
    -----
    Student's t is a normal whose precision varies from reading to reading:

        x | w ~ N(theta, s2 / w),  w ~ Gamma(degrees / 2, degrees / 2)

    Given w, a reading is one of `GaussianUnknown` with the weight w: count += zeta w, shape += 1 / 2,
    scale += zeta w count d^2 / (2 (count + zeta w)), and its predictive is Student's t with 2 shape degrees of
    freedom (tempered, shape += zeta / 2 and 2 shape + zeta - 1 degrees). The predictive is the integral of these over
    w, by a trapezoid rule in log w (relative error about 1e-9).

    The posterior after n readings is an integral over n precisions. It is approximated in fixed memory, by
    assumed-density filtering: after each reading the mixture over w is replaced by the Normal-inverse-gamma with the
    same expectations of 1 / s2, log s2, theta / s2 and theta^2 / s2, which is the closest one in relative entropy.
    This is the only approximation. The predictive of the first reading is exact. Compared with numerical integration,
    the log evidence of a regime with a prior worth a few readings was right to 0.1 nats after five readings, to 0.3
    with an outlier among them, and mostly to 0.4 after 20 or 60; three equal outliers among 60 readings cost up to 2
    nats with 4 degrees of freedom and up to 5 with 10.

    The trapezoid rule ends where the density of log w is e^-40 of its peak, so that a reading beyond some 10^4 scales
    looks less likely than it is.

    Statistics of a hypothesis: count, mean, shape and scale, relative to the prior mean and in units of sqrt(scale).

    The information of a reading about theta and s2 is computed as if its precision were known, which is an upper
    bound.

    Examples
    --------
    >>> model = StudentTUnknown(mean=0, count=0.1, shape=2, scale=2)
    >>> stats = model.prior()
    >>> for x in (1.0, 1.2, 0.8, 1.1, 20.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.parameter(stats)[0]), 1)
    1.1
    """

    columns = 4
    elementwise = True

    def __init__(
        self,
        mean: float = 0.0,
        count: float = 1.0,
        shape: float = 1.0,
        scale: float = 1.0,
        degrees: float = 4.0,
        weighting: Weighting = "precision",
    ) -> None:
        prior = level_and_noise("StudentTUnknown", mean, count, shape, scale)
        self.mean, self.count, self.shape, self.scale = prior
        self.degrees = positive("StudentTUnknown", "degrees", degrees, 1e6)
        if self.degrees <= 1.0:
            raise ValueError(f"StudentTUnknown.degrees must exceed 1, not {degrees!r}: readings would have no mean")
        self.weighting = weighting_of("StudentTUnknown", weighting)
        self._unit = math.sqrt(self.scale)
        self._node, self._log_share = _precisions(self.degrees, _STEP, _FALL)
        self._coarse_node, logs = _precisions(self.degrees, 2.0 * _STEP, 0.35 * _FALL)
        self._coarse_share = np.exp(logs)

    def __repr__(self) -> str:
        prior = f"mean={self.mean:g}, count={self.count:g}, shape={self.shape:g}, scale={self.scale:g}"
        tempered = ", weighting='tempered'" if self.weighting == "tempered" else ""
        return f"StudentTUnknown({prior}, degrees={self.degrees:g}{tempered})"

    def prior(self) -> Array:
        """Return the prior count, the standardized mean 0, the shape and the standardized scale 1."""
        return np.array([self.count, 0.0, self.shape, 1.0])

    def check(self, x: float) -> float:
        """Accept every finite number."""
        return x

    def _arguments(
        self, stats: Array, x: float, zeta: Any, deviations: Any
    ) -> tuple[Array, float, Array, Array, Array, Array]:
        rows = np.ascontiguousarray(stats.reshape(4, -1))
        y = min(max((x - self.mean) / self._unit, -_FAR), _FAR)
        k = rows.shape[1]
        return rows, y, np.full(k, zeta), np.full(k, deviations), self._node, self._log_share

    def _learned(self, stats: Array, x: float, zeta: Any, deviations: Any) -> Array:
        """Update by a reading of each precision, and project the mixture onto one Normal-inverse-gamma."""
        return _projected(*self._arguments(stats, x, zeta, deviations)).reshape(stats.shape)

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of the mixture of Student's t over the precision of the noise."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        value = _log_predictives(*self._arguments(stats, x, zeta, self._deviations(zeta))) - math.log(self._unit)
        return value.reshape(stats.shape[1:])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean of theta and its variance scale / (count (shape - 1)), infinite while shape <= 1."""
        count, mean, shape, scale = stats
        return self.mean + self._unit * mean, self.scale * ratio(scale / count, shape - 1.0)

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments; the variance is infinite up to two degrees of freedom, and for degrees <= 2."""
        count, mean, shape, scale = stats
        centre = self.mean + self._unit * mean
        if zeta == 0.0 or self.degrees <= 2.0:
            return centre, np.full(stats.shape[1:], np.inf)
        noise = self.degrees / (self.degrees - 2.0) / zeta  # E 1 / (zeta w)
        return centre, self.scale * ratio(
            2.0 * scale * (1.0 / count + noise), 2.0 * shape + self._deviations(zeta) - 3.0
        )

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the mixture of Student's distribution functions over the precision of the noise."""
        d, square, df = self._components(stats, x, zeta)
        t, df = square.ravel(), np.tile(df, len(square))
        tail = 0.5 * beta_cdfs(0.5 * df, np.full_like(df, 0.5), 1.0 / (1.0 + t), t / (1.0 + t))
        below = np.exp(self._log_share) @ tail.reshape(square.shape)
        return np.where(d > 0.0, 1.0 - below, below).reshape(stats.shape[1:])

    def _components(self, stats: Array, x: float, zeta: float) -> tuple[Array, Array, Array]:
        """Return the deviation of x, (K,), t^2 / df given each precision, (nodes, K), and df, (K,)."""
        deviations = self._deviations(zeta)
        rows, y, _, _, node, _ = self._arguments(stats, x, zeta, deviations)
        count, mean, shape, scale = rows
        worth = zeta * node[:, None]
        d = y - mean
        return d, 0.5 * worth * count / (count + worth) * d * d / scale, 2.0 * shape + deviations - 1.0

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the mixture of Student's t over the precision of the noise."""
        d, square, df = self._components(stats, x, zeta)
        each = student_tails(d, square, df)
        lower, upper = mixed_tails(self._log_share, zip(*each, strict=True))
        return lower.reshape(stats.shape[1:]), upper.reshape(stats.shape[1:])

    def bells(self, stats: Array, zeta: float) -> Bells:
        """Return Student's t for each of a few precisions of the noise."""
        count, mean, shape, scale = stats
        worth = zeta * self._coarse_node[:, None]
        df = 2.0 * shape + self._deviations(zeta) - 1.0
        width = np.sqrt(2.0 * scale * (count + worth) / (worth * count * df))
        rows = [np.broadcast_to(v, width.shape) for v in (self._coarse_share[:, None], mean, df)]
        return Bells(rows[0], rows[1], width, rows[2], self.mean, self._unit)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return I(r; x), where each hypothesis is a mixture over a few precisions."""
        return 0.0 if zeta == 0.0 else self.bells(stats, zeta).information(weight)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_w log(1 + zeta w / count) / 2 + f(a) - f(a + 1 / 2), with a = shape and f of `GaussianUnknown`.

        Tempered, the last is f(a + zeta / 2). It is the information of a reading whose precision w is known.
        """
        rows = stats.reshape(4, -1)
        level = 0.5 * np.exp(self._log_share) @ np.log1p(zeta * self._node[:, None] / rows[0])
        return np.asarray(level + scale_gains(np.ascontiguousarray(rows[2]), 0.5 * self._deviations(zeta))).reshape(
            stats.shape[1:]
        )

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_w [1 / count - 1 / (count + zeta w)]: the reduction of Var(theta | s2) in units of s2."""
        rows = stats.reshape(4, -1)
        worth = zeta * self._node[:, None]
        gain = np.exp(self._log_share) @ (worth / (rows[0] * (rows[0] + worth)))
        return np.asarray(gain).reshape(stats.shape[1:])

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw s2 ~ InverseGamma(shape, scale), theta ~ N(mean, s2 / count), then add Student's t noise."""
        s2 = self.scale / rng.gamma(self.shape)
        level = rng.normal(self.mean, math.sqrt(s2 / self.count))
        return np.asarray(level + math.sqrt(s2) * rng.standard_t(self.degrees, ticks))

    def rescaled(self, offset: float, scale: float) -> StudentTUnknown:
        """As for any model."""
        prior = offset + scale * self.mean, self.count, self.shape, scale * scale * self.scale
        return type(self)(*prior, self.degrees, self.weighting)

    def spec(self) -> dict[str, Any]:
        """Return the six arguments."""
        prior = {"mean": self.mean, "count": self.count, "shape": self.shape, "scale": self.scale}
        return {**prior, "degrees": self.degrees, "weighting": self.weighting}


def _precisions(degrees: float, step: float, fall: float) -> tuple[Array, Array]:
    """Return nodes w and log shares of a trapezoid rule in u = log w for w ~ Gamma(degrees / 2, degrees / 2).

    The log density of u is (degrees / 2) (u - e^u) up to a constant, with its peak at 0.
    """
    half = 0.5 * min(max(degrees, 1.0), 1e6)
    step *= min(1.0, math.sqrt(2.0 / half))
    low, high = 0.0, 0.0
    while half * (math.exp(low) - low - 1.0) < fall:
        low -= step
    while half * (math.exp(high) - high - 1.0) < fall:
        high += step
    u = step * np.arange(round(low / step), round(high / step) + 1)
    log_share = half * (u - np.expm1(u))
    return np.exp(u), log_share - np.logaddexp.reduce(log_share)

"""The Gaussian with unknown mean and variance and a Normal-inverse-gamma prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.gamma_ratio import half_gamma_ratios, log_gamma_ratios
from .._kernels.gaussian_unknown import FAR, gain, moments, parameter_gains, tick
from .._kernels.heavy_tails import STUDENT, tail_information
from .._kernels.template import family_kernels
from .base import Array, Model, Predictive, predictive_of
from .noise_prior import level_and_noise
from .optional import LEVEL_WEIGHT
from .tails import student_tails

_LOG_2PI = math.log(2.0 * math.pi)

_KERNELS = family_kernels(tick, gain, moments=moments)


class GaussianUnknown(Model):
    """Normal readings with unknown mean and variance, and a Normal-inverse-gamma prior.

        s2 ~ InverseGamma(shape, scale)
        theta | s2 ~ N(mean, s2 / count)
        x | theta, s2 ~ N(theta, s2)

    A reading at fidelity zeta counts as zeta readings (equation `mf_posterior`).

    Parameters
    ----------
    mean : float, default 0.0
        Prior mean of the level theta, in units of the readings.
    count : float, default 1.0
        Number of readings that the prior mean is worth.
    shape : float, default 1.0
        Shape of the prior of the noise variance s2: half the number of readings that it is worth. Must exceed 1/2.
    scale : float, default 1.0
        Scale of the prior of s2, in squared units of the readings; scale / shape is a typical noise variance.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which density a reading at zeta < 1 has; see Notes.

    Notes
    -----
    Statistics of a hypothesis: count, mean, shape and scale, relative to the prior mean and in units of sqrt(scale),
    so that they are exact for any offset and unit of the data. A reading x with d = x - mean changes them by

        mean += zeta d / (count + zeta)
        scale += zeta count d^2 / (2 (count + zeta))
        count += zeta,  shape += zeta / 2

    in this order.

    At zeta < 1 there are two predictives; at zeta = 1 both are Student's t with 2 shape degrees of freedom.

    - ``"paper"``: the integral of N(x | theta, s2)^zeta over the posterior (`mf_posterior_predictive`), which is not
      a density in x.
    - ``"normalized"``: the same divided by its integral over x, for each run length. It is Student's t about the mean
      with df = 2 shape + zeta - 1 degrees of freedom and squared scale 2 scale (count + zeta) / (zeta count df).

    A reading at zeta is spread like one of variance s2 / zeta, but it counts as zeta squared deviations in what is
    learned about s2.

    The variances of theta and of the next full reading are infinite while shape <= 1. A reading more than
    1e100 sqrt(scale) from the prior mean counts as exactly that far.

    Examples
    --------
    >>> model = GaussianUnknown(mean=0, count=1, shape=2, scale=2)
    >>> stats = model.update(model.prior(), x=3.0, zeta=0.5)
    >>> theta, var = model.parameter(stats)
    >>> round(float(theta), 4), round(float(var), 4)
    (1.0, 1.8667)
    >>> mean, variance = model.predictive(stats)
    >>> round(float(variance), 4)
    4.6667
    """

    columns = 4
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(
        self,
        mean: float = 0.0,
        count: float = 1.0,
        shape: float = 1.0,
        scale: float = 1.0,
        predictive: Predictive = "normalized",
    ) -> None:
        prior = level_and_noise("GaussianUnknown", mean, count, shape, scale)
        self.mean, self.count, self.shape, self.scale = prior
        self.kind = predictive_of("GaussianUnknown", predictive)
        self._unit = math.sqrt(self.scale)

    def __repr__(self) -> str:
        prior = f"mean={self.mean:g}, count={self.count:g}, shape={self.shape:g}, scale={self.scale:g}"
        return f"GaussianUnknown({prior}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """Return the prior count, the standardized mean 0, the shape and the standardized scale 1."""
        return np.array([self.count, 0.0, self.shape, 1.0])

    def check(self, x: float) -> float:
        """Accept every finite number."""
        return x

    def _lift(self, stats: Array, x: Any, zeta: float) -> tuple[Array, Array]:
        """How far x is from the mean, and what it adds to the scale; x is a number or a column of them."""
        y = (x - self.mean) / self._unit
        d = (np.clip(y, -FAR, FAR) if np.ndim(y) else min(max(y, -FAR), FAR)) - stats[1]
        return d, 0.5 * zeta * stats[0] / (stats[0] + zeta) * d * d

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Update the Normal-inverse-gamma posterior with a reading of weight zeta, equation `mf_posterior`."""
        count, mean, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        return np.stack([count + zeta, mean + zeta / (count + zeta) * d, shape + 0.5 * zeta, scale + lift])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of Student's t, or of the paper's tempered integral."""
        return np.zeros_like(stats[0]) if zeta == 0.0 else self._log_density(stats, x, zeta)

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model, in one pass."""
        return self._log_density(stats, x[:, None], zeta)

    def _log_density(self, stats: Array, x: Any, zeta: float) -> Array:
        count, _, shape, scale = stats
        _, lift = self._lift(stats, x, zeta)
        fall = (shape + 0.5 * zeta) * np.log1p(lift / scale)
        if self.kind == "paper":
            rise = log_gamma_ratios(np.ravel(shape), 0.5 * zeta).reshape(shape.shape)
            base = 0.5 * np.log(count / (count + zeta)) - zeta * (0.5 * _LOG_2PI + math.log(self._unit))
            return np.asarray(base + rise - 0.5 * zeta * np.log(scale) - fall)
        rise = half_gamma_ratios(np.ravel(shape + 0.5 * (zeta - 1.0))).reshape(shape.shape)
        base = 0.5 * (np.log(zeta * count / (count + zeta) / scale) - _LOG_2PI) - math.log(self._unit)
        return np.asarray(base + rise - fall)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean of theta and its variance scale / (count (shape - 1)), infinite while shape <= 1."""
        count, mean, shape, scale = stats
        known = shape > 1.0
        var = np.where(known, self.scale * scale / (count * np.where(known, shape - 1.0, 1.0)), np.inf)
        return self.mean + self._unit * mean, var

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of Student's t; the variance is infinite while df = 2 shape + zeta - 1 <= 2."""
        count, mean, shape, scale = stats
        centre = self.mean + self._unit * mean
        if zeta == 0.0:
            return centre, np.full_like(count, np.inf)
        beyond = 2.0 * shape + zeta - 3.0
        spread = 2.0 * self.scale * scale * (count + zeta) / (zeta * count)
        return centre, np.where(beyond > 0.0, spread / np.where(beyond > 0.0, beyond, 1.0), np.inf)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return Student's distribution function, by the incomplete beta function."""
        _, _, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        u = np.ravel(lift / scale)
        df = np.ravel(2.0 * shape + zeta - 1.0)
        tail = 0.5 * beta_cdfs(0.5 * df, np.full_like(df, 0.5), 1.0 / (1.0 + u), u / (1.0 + u))
        return np.where(d > 0.0, 1.0 - tail.reshape(shape.shape), tail.reshape(shape.shape))

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of Student's t."""
        _, _, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        return student_tails(d, lift / scale, 2.0 * shape + zeta - 1.0)

    @property
    def units(self) -> tuple[float, float]:
        """Statistics are standardized by the prior mean and the prior scale."""
        return self.mean, self._unit

    def known_level(self, level: float) -> Array:
        """Return the prior with a known mean; the variance remains unknown."""
        count, _, shape, scale = self.prior()
        return np.array([count + LEVEL_WEIGHT, (level - self.mean) / self._unit, shape, scale])

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return sum_l w_l KL(t_l || mixture) of the normalized predictives, to 1e-6 nats at any scale."""
        if zeta == 0.0:
            return 0.0
        count, mean, shape, scale = stats
        df = 2.0 * shape + zeta - 1.0
        width = np.sqrt(2.0 * scale * (count + zeta) / (zeta * count * df))
        return float(tail_information(STUDENT, np.array(weight), np.array(mean), width, df))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return log(1 + zeta / count) / 2 + f(a) - f(a + zeta / 2), with a = shape.

        Here f(a) = log Gamma(a) + a - a psi(a), and psi is the digamma function. The first term is the information
        about theta given s2, the second that of zeta squared deviations about s2. At zeta = 1 the sum is I(theta, s2;
        x). Below, no reading of one number has this update (a fraction of a squared deviation), and the sum is the
        information in as much scatter as the update counts.
        """
        gain = parameter_gains(np.ravel(stats[0]), np.ravel(stats[2]), zeta)
        return gain.reshape(np.shape(stats[0]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of Var(theta | s2) in units of s2.

        It is 1 / count - 1 / (count + zeta) and does not depend on x. In these units it is finite for every shape,
        and equal to that of `Gaussian`, whose noise is known.
        """
        return zeta / (stats[0] * (stats[0] + zeta))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw s2 ~ InverseGamma(shape, scale), theta ~ N(mean, s2 / count), then x ~ N(theta, s2)."""
        s2 = self.scale / rng.gamma(self.shape)
        return rng.normal(rng.normal(self.mean, math.sqrt(s2 / self.count)), math.sqrt(s2), ticks)

    def params(self) -> Array:
        """Return the prior mean, the unit, count and shape, and 1 if the predictive is the paper's, else 0."""
        return np.array([self.mean, self._unit, self.count, self.shape, float(self.kind == "paper")])

    def rescaled(self, offset: float, scale: float) -> GaussianUnknown:
        """As for any model; the paper's predictive is no density, so that its evidence has no unit to change."""
        if self.kind == "paper":
            raise ValueError("GaussianUnknown with predictive='paper' has no offset and scale: it is no density")
        return type(self)(offset + scale * self.mean, self.count, self.shape, scale * scale * self.scale)

    def spec(self) -> dict[str, Any]:
        """Return `mean`, `count`, `shape`, `scale` and `predictive`."""
        prior = {"mean": self.mean, "count": self.count, "shape": self.shape, "scale": self.scale}
        return {**prior, "predictive": self.kind}

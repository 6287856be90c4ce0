"""The Gaussian with unknown mean and variance and a Normal-inverse-gamma prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.gamma_ratio import half_gamma_ratios, log_gamma_ratios
from .._kernels.gaussian_unknown import FAR, absorb, gain, moments, parameter_gains, tick
from .._kernels.heavy_tails import STUDENT, tail_information
from .._kernels.template import family_kernels
from .base import Array, Predictive, predictive_of
from .bells import Bells
from .noise_prior import level_and_noise
from .optional import LEVEL_WEIGHT
from .tails import student_tails
from .unknown_noise import UnknownNoise, Weighting, weighting_of

_LOG_2PI = math.log(2.0 * math.pi)

_KERNELS = family_kernels(tick, gain, absorb=absorb, moments=moments)


class GaussianUnknown(UnknownNoise):
    """Normal readings with unknown mean and variance, and a Normal-inverse-gamma prior.

        s2 ~ InverseGamma(shape, scale)
        theta | s2 ~ N(mean, s2 / count)
        x | theta, s2 ~ N(theta, s2)

    A reading at fidelity zeta has the noise variance s2 / zeta.

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
        Which density a reading at zeta < 1 has if its likelihood is tempered; see Notes.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Notes
    -----
    Statistics of a hypothesis: count, mean, shape and scale, relative to the prior mean and in units of sqrt(scale),
    so that they are exact for any offset and unit of the data. A reading x with d = x - mean changes them by

        mean += zeta d / (count + zeta)
        scale += zeta count d^2 / (2 (count + zeta))
        count += zeta,  shape += 1 / 2

    in this order. The next reading is Student's t about the mean with df = 2 shape degrees of freedom and squared
    scale 2 scale (count + zeta) / (zeta count df).

    With ``weighting="tempered"`` the likelihood is N(x | theta, s2)^zeta instead (equation `mf_posterior`): the shape
    grows by zeta / 2 only. As the squared deviation of a noisier reading is 1 / zeta times larger, the variance that
    is learned from noisier readings is then s2 / zeta. There are two predictives, equal to the above at zeta = 1:

    - ``"paper"``: the integral of N(x | theta, s2)^zeta over the posterior (`mf_posterior_predictive`), which is not
      a density in x.
    - ``"normalized"``: the same divided by its integral over x, for each run length. It is the Student's t above with
      df = 2 shape + zeta - 1.

    The variances of theta and of the next full reading are infinite while shape <= 1. A reading more than
    1e100 sqrt(scale) from the prior mean counts as exactly that far.

    Examples
    --------
    >>> model = GaussianUnknown(mean=0, count=1, shape=2, scale=2)
    >>> stats = model.update(model.prior(), x=3.0, zeta=0.5)
    >>> theta, var = model.parameter(stats)
    >>> round(float(theta), 4), round(float(var), 4)
    (1.0, 1.5556)
    >>> mean, variance = model.predictive(stats)
    >>> round(float(variance), 4)
    3.8889
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
        weighting: Weighting = "precision",
    ) -> None:
        prior = level_and_noise("GaussianUnknown", mean, count, shape, scale)
        self.mean, self.count, self.shape, self.scale = prior
        self.kind = predictive_of("GaussianUnknown", predictive)
        self.weighting = weighting_of("GaussianUnknown", weighting, self.kind)
        self._unit = math.sqrt(self.scale)

    def __repr__(self) -> str:
        prior = f"mean={self.mean:g}, count={self.count:g}, shape={self.shape:g}, scale={self.scale:g}"
        tempered = ", weighting='tempered'" if self.weighting == "tempered" else ""
        return f"GaussianUnknown({prior}, predictive={self.kind!r}{tempered})"

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

    def _learned(self, stats: Array, x: float, zeta: Any, deviations: Any) -> Array:
        """Update the Normal-inverse-gamma posterior with a reading, equation `mf_posterior` if tempered."""
        count, mean, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        return np.stack([count + zeta, mean + zeta / (count + zeta) * d, shape + 0.5 * deviations, scale + lift])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of Student's t, or of the paper's tempered integral."""
        return np.zeros_like(stats[0]) if zeta == 0.0 else self._log_density(stats, x, zeta)

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model, in one pass."""
        return self._log_density(stats, x[:, None], zeta)

    def _degrees(self, shape: Array, zeta: float) -> Array:
        """Return the degrees of freedom of the next reading."""
        return np.asarray(2.0 * shape + self._deviations(zeta) - 1.0)

    def _log_density(self, stats: Array, x: Any, zeta: float) -> Array:
        count, _, shape, scale = stats
        _, lift = self._lift(stats, x, zeta)
        deviations = self._deviations(zeta)
        fall = (shape + 0.5 * deviations) * np.log1p(lift / scale)
        if self.kind == "paper":
            rise = log_gamma_ratios(np.ravel(shape), 0.5 * zeta).reshape(shape.shape)
            base = 0.5 * np.log(count / (count + zeta)) - zeta * (0.5 * _LOG_2PI + math.log(self._unit))
            return np.asarray(base + rise - 0.5 * zeta * np.log(scale) - fall)
        rise = half_gamma_ratios(np.ravel(shape + 0.5 * (deviations - 1.0))).reshape(shape.shape)
        base = 0.5 * (np.log(zeta * count / (count + zeta) / scale) - _LOG_2PI) - math.log(self._unit)
        return np.asarray(base + rise - fall)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean of theta and its variance scale / (count (shape - 1)), infinite while shape <= 1."""
        count, mean, shape, scale = stats
        known = shape > 1.0
        var = np.where(known, self.scale * scale / (count * np.where(known, shape - 1.0, 1.0)), np.inf)
        return self.mean + self._unit * mean, var

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of Student's t; the variance is infinite up to two degrees of freedom."""
        count, mean, shape, scale = stats
        centre = self.mean + self._unit * mean
        if zeta == 0.0:
            return centre, np.full_like(count, np.inf)
        beyond = self._degrees(shape, zeta) - 2.0
        spread = 2.0 * self.scale * scale * (count + zeta) / (zeta * count)
        return centre, np.where(beyond > 0.0, spread / np.where(beyond > 0.0, beyond, 1.0), np.inf)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return Student's distribution function, by the incomplete beta function."""
        _, _, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        u = np.ravel(lift / scale)
        df = np.ravel(self._degrees(shape, zeta))
        tail = 0.5 * beta_cdfs(0.5 * df, np.full_like(df, 0.5), 1.0 / (1.0 + u), u / (1.0 + u))
        return np.where(d > 0.0, 1.0 - tail.reshape(shape.shape), tail.reshape(shape.shape))

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of Student's t."""
        _, _, shape, scale = stats
        d, lift = self._lift(stats, x, zeta)
        return student_tails(d, lift / scale, self._degrees(shape, zeta))

    @property
    def units(self) -> tuple[float, float]:
        """Statistics are standardized by the prior mean and the prior scale."""
        return self.mean, self._unit

    def known_level(self, level: float) -> Array:
        """Return the prior with a known mean; the variance remains unknown."""
        count, _, shape, scale = self.prior()
        return np.array([count + LEVEL_WEIGHT, (level - self.mean) / self._unit, shape, scale])

    def bells(self, stats: Array, zeta: float) -> Bells:
        """Return Student's t for each hypothesis."""
        count, mean, shape, scale = stats
        df = self._degrees(shape, zeta)
        width = np.sqrt(2.0 * scale * (count + zeta) / (zeta * count * df))
        return Bells.single(mean, width, df, self.mean, self._unit)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return sum_l w_l KL(t_l || mixture) of the normalized predictives, to 1e-6 nats at any scale."""
        if zeta == 0.0:
            return 0.0
        each = self.bells(stats, zeta)
        rows = (np.array(v[0]) for v in (each.centre, each.width, each.tail))
        return float(tail_information(STUDENT, np.array(weight), *rows))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta, s2; x) = log(1 + zeta / count) / 2 + f(a) - f(a + 1 / 2), with a = shape.

        Here f(a) = log Gamma(a) + a - a psi(a), and psi is the digamma function. The first term is the information
        about theta given s2, the second that of one squared deviation about s2, whatever its known factor 1 / zeta.
        Tempered, it is f(a) - f(a + zeta / 2), the information in as much scatter as the update counts: no reading of
        one number has that update (a fraction of a squared deviation).
        """
        gain = parameter_gains(np.ravel(stats[0]), np.ravel(stats[2]), zeta, self._deviations(zeta))
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
        """Return the prior mean, the unit, count, shape, and whether the predictive is the paper's, and tempered."""
        flags = [float(self.kind == "paper"), float(self.weighting == "tempered")]
        return np.array([self.mean, self._unit, self.count, self.shape, *flags])

    def rescaled(self, offset: float, scale: float) -> GaussianUnknown:
        """As for any model; the paper's predictive is no density, so that its evidence has no unit to change."""
        if self.kind == "paper":
            raise ValueError("GaussianUnknown with predictive='paper' has no offset and scale: it is no density")
        prior = offset + scale * self.mean, self.count, self.shape, scale * scale * self.scale
        return type(self)(*prior, weighting=self.weighting)

    def spec(self) -> dict[str, Any]:
        """Return the six arguments."""
        prior = {"mean": self.mean, "count": self.count, "shape": self.shape, "scale": self.scale}
        return {**prior, "predictive": self.kind, "weighting": self.weighting}

"""The Gaussian with unknown mean and variance and a Normal-inverse-gamma prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.compile import kernel, scalar
from .._kernels.gamma import rising_ten
from .._kernels.gamma_ratio import (
    half_gamma_ratio,
    half_gamma_ratios,
    half_series,
    log1p,
    log_gamma_ratio,
    log_gamma_ratios,
    scale_gain,
)
from .._kernels.heavy_tails import STUDENT, tail_information
from .._kernels.layout import (
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
from .._kernels.pointer import Pointer
from .._kernels.scalar import bits_of, exp, log
from .._kernels.template import family_kernels
from .._kernels.weights import (
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
from .base import Array, Model, Predictive, predictive_of
from .noise_prior import level_and_noise
from .optional import LEVEL_WEIGHT
from .tails import student_tails

_FAR = 1e100  # prior scales from the prior mean; squares of larger distances would overflow
_LOG_2PI = math.log(2.0 * math.pi)


@scalar
def _standard(x: float, mean: float, unit: float) -> float:
    return min(max((x - mean) / unit, -_FAR), _FAR)


@scalar
def _normalized(lift: float, pull: float, shape: float, scale: float, zeta: float) -> float:
    """log of Student's t: `lift` is the amount the reading adds to the scale, `pull` zeta count / (count + zeta)."""
    f, e = half_gamma_ratio(shape + 0.5 * (zeta - 1.0))
    return 0.5 * (log(f * pull / scale) - _LOG_2PI) + e - (shape + 0.5 * zeta) * log1p(lift / scale)


@scalar
def _tempered(lift: float, pull: float, shape: float, scale: float, zeta: float) -> float:
    """log of the paper's predictive: the integral of the likelihood to the power of zeta."""
    rise = log_gamma_ratio(shape, 0.5 * zeta) - 0.5 * zeta * (_LOG_2PI + log(scale))
    return rise + 0.5 * log(pull / zeta) - (shape + 0.5 * zeta) * log1p(lift / scale)


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `GaussianUnknown.log_predictive` and `update` for every hypothesis, in one pass."""
    prior_mean, unit = setup[FIRST], setup[FIRST + 1]
    paper = setup[FIRST + 4] == 1.0 and zeta < 1.0  # at zeta = 1 they are equal
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
                value = _normalized(lift, pull, shapes[i], scales[i], zeta)
            plain = plain or (weight[i] * scale > 1e-25 and value > -400.0)
        if plain and not paper:
            total = 0.0
            top = 0
            shift = 0.5 * (zeta - 1.0)
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
                shapes[i] += 0.5 * zeta
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
                shapes[i] += 0.5 * zeta
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
                    logs[i] = _normalized(lift, pull, shapes[i], scales[i], zeta)
                means[i] += pull / counts[i] * d
                counts[i] += zeta
                shapes[i] += 0.5 * zeta
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


@scalar
def _parameter_gain(count: float, shape: float, zeta: float) -> float:
    """Information about the mean given the variance, plus that about the variance (see the method)."""
    return 0.5 * log1p(zeta / count) + scale_gain(shape, 0.5 * zeta)


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`parameter_gain` or `variance_gain` averaged over r, and I(r; x) of the mixture of Student's t."""
    if zeta == 0.0:
        return 0.0
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
        df[i] = 2.0 * shape + zeta - 1.0
        pull = zeta * count / (count + zeta)
        width[i] = math.sqrt(2.0 * (scales[i] if alive else 1.0) / (pull * df[i]))
        if kind in (JOINT, CHANGE):
            inner += weight[i] * _parameter_gain(count, shape, zeta)
        elif kind == VARIANCE:
            inner += weight[i] * zeta / (count * (count + zeta))
    if kind in (VARIANCE, CHANGE):
        return inner
    return inner + tail_information(STUDENT, weight, mean, width, df)


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`GaussianUnknown.predictive` of a full reading, in units of the prior scale."""
    if i == int(state[COUNT]):
        count, mean, shape, scale = setup[FIRST + 2], 0.0, setup[FIRST + 3], 1.0
    else:
        count, mean = column(state, STATS)[i], column(state, STATS + 1)[i]
        shape, scale = column(state, STATS + 2)[i], column(state, STATS + 3)[i]
    return mean, scale * (count + 1.0) / (count * (shape - 1.0)) if shape > 1.0 else math.inf


_KERNELS = family_kernels(_tick, _gain, moments=_moments)


@kernel
def _parameter_gains(count: Array, shape: Array, zeta: float) -> Array:
    out = np.empty(count.size)
    for i in range(count.size):
        out[i] = _parameter_gain(count[i], shape[i], zeta)
    return out


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
    operations = (500.0, 5000.0)

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
        d = (np.clip(y, -_FAR, _FAR) if np.ndim(y) else min(max(y, -_FAR), _FAR)) - stats[1]
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
        gain = _parameter_gains(np.ravel(stats[0]), np.ravel(stats[2]), zeta)
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

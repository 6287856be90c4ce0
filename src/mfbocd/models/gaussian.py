"""The Gaussian with known variance and a Normal prior on its mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kernels.compile import kernel, scalar
from .._kernels.gamma_ratio import log1p
from .._kernels.layout import (
    CHANGE,
    COUNT,
    EVIDENCE,
    FIRST,
    HAZARDS,
    JOINT,
    MAP_INDEX,
    MEAN,
    STATS,
    TINY,
    VARIANCE,
    WEIGHT,
)
from .._kernels.mixture import LOG_2PI_E, information, kept_weight, merge, mixture_entropy
from .._kernels.pointer import Pointer
from .._kernels.scalar import bits_of, exp
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
from ..inputs.arguments import finite, positive
from .base import Array, Model
from .bells import Bells
from .tails import normal_tails

_FAR = 1e140  # standard deviations from the prior mean; squares of larger distances would overflow
_LOG_2PI = math.log(2.0 * math.pi)
_ROOT_2PI = math.sqrt(2.0 * math.pi)


@scalar
def _standard(x: float, mean: float, sd: float) -> float:
    return min(max((x - mean) / sd, -_FAR), _FAR)


@scalar
def _representable(weight: float, count: float, mean: float, y: float, zeta: float) -> bool:
    """Whether weight * N(y | mean, 1/k) is certainly above TINY, as 1e-25 e^-400 is."""
    k = zeta * count / (count + zeta)
    return weight * k > 1e-25 and k * (y - mean) * (y - mean) < 800.0


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `Gaussian.log_predictive` and `Gaussian.update` for every hypothesis, in one pass."""
    prior_mean, sd, prior_count = setup[FIRST], setup[FIRST + 1], setup[FIRST + 2]
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    counts = column(state, STATS)
    means = column(state, STATS + 1)
    counts[n - 1] = prior_count
    means[n - 1] = 0.0
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(padded_count(state)):
            moment += weight[i] * means[i]
    else:
        y = _standard(x, prior_mean, sd)
        # If one term of the sum is representable the sum is, and logarithms are not needed.
        plain = _representable(scale * weight[n - 1], prior_count, 0.0, y, zeta)
        if not plain:
            i = int(state[MAP_INDEX])
            plain = _representable(scale * weight[i], counts[i], means[i], y, zeta)
        if plain:
            total = 0.0
            top = 0
            scale /= _ROOT_2PI
            for i in range(padded_count(state)):
                r = 1.0 / (counts[i] + zeta)
                k = zeta * counts[i] * r
                d = y - means[i]
                w = scale * weight[i] * math.sqrt(k) * exp(-0.5 * k * d * d)
                w = w if w > TINY else 0.0
                weight[i] = w
                m = means[i] + zeta * r * d
                means[i] = m
                counts[i] += zeta
                total += w
                moment += w * m
                top = max(top, bits_of(w))
            state[EVIDENCE] += math.log(total / sd)
        else:
            logs = np.empty(n)
            for i in range(n):
                k = zeta * counts[i] / (counts[i] + zeta)
                d = y - means[i]
                logs[i] = 0.5 * (math.log(k) - _LOG_2PI - k * d * d)
                means[i] += zeta / (counts[i] + zeta) * d
                counts[i] += zeta
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * means[i]
            state[EVIDENCE] += factor + math.log(total / sd)
    pruned = finish_tick(state, setup, total, top)
    if pruned or setup[HAZARDS] > 1.0:
        n = int(state[COUNT])
        values = np.empty(n)
        for i in range(n):
            values[i] = means[i]
        moment = expect(state, setup, values, 0.0)
    else:
        moment *= (1.0 - hazards(setup)[0]) / total
    state[MEAN] = prior_mean + sd * moment


@kernel
def _absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """`Gaussian.update` of one row."""
    counts = column(table, STATS)
    means = column(table, STATS + 1)
    counts[i] += zeta
    means[i] += zeta / counts[i] * (_standard(x, setup[FIRST], setup[FIRST + 1]) - means[i])


@kernel
def _mixture(state: Pointer, setup: Pointer, zeta: float, weight: Array, mean: Array, variance: Array) -> None:
    """The predictive of a reading at zeta: a normal for each hypothesis and for a regime that starts then."""
    n = int(state[COUNT])
    counts = column(state, STATS)
    means = column(state, STATS + 1)
    predict(state, setup, weight)
    for i in range(n):
        mean[i] = means[i]
        variance[i] = 1.0 / zeta + 1.0 / counts[i]
    mean[n] = 0.0
    variance[n] = 1.0 / zeta + 1.0 / setup[FIRST + 2]


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`Gaussian.variance_gain` or `parameter_gain` averaged over r, or I(r; x) from the mixture's entropy."""
    if zeta == 0.0:
        return 0.0
    n = int(state[COUNT]) + 1
    weight = scratch(n)
    if kind in (VARIANCE, CHANGE):
        counts = column(state, STATS)
        predict(state, setup, weight)
        count = setup[FIRST + 2]
        if kind == CHANGE:
            inner = 0.5 * weight[n - 1] * log1p(zeta / count)
            for i in range(n - 1):
                inner += 0.5 * weight[i] * log1p(zeta / counts[i])
        else:
            inner = weight[n - 1] * zeta / (count * (count + zeta))
            for i in range(n - 1):
                inner += weight[i] * zeta / (counts[i] * (counts[i] + zeta))
        return inner
    mean = scratch(n)
    variance = scratch(n)
    _mixture(state, setup, zeta, weight, mean, variance)
    return information(weight, mean, variance)


@kernel
def _joint(state: Pointer, setup: Pointer, zeta: Array, out: Pointer) -> None:
    """I(r, theta; x) = h(x) - h(x | theta) at each zeta; the noise does not depend on r and theta.

    Components that cannot be distinguished at the highest zeta cannot be at any: they are merged once.
    """
    best = 0.0
    for j in range(zeta.size):
        out[j] = 0.0
        best = max(best, zeta[j])
    if best == 0.0:
        return
    n = int(state[COUNT]) + 1
    weight = scratch(n)
    mean = scratch(n)
    variance = scratch(n)
    _mixture(state, setup, best, weight, mean, variance)
    kept = kept_weight(weight)
    m = merge(weight, mean, variance)
    w = scratch(m)
    centre = scratch(m)
    wide = scratch(m)
    for j in range(zeta.size):
        if zeta[j] > 0.0:
            more = 1.0 / zeta[j] - 1.0 / best
            for i in range(m):
                w[i] = weight[i]
                centre[i] = mean[i]
                wide[i] = variance[i] + more
            entropy = mixture_entropy(w, centre, wide) / kept + math.log(kept)
            out[j] = max(entropy - 0.5 * (LOG_2PI_E - math.log(zeta[j])), 0.0)


@kernel
def _gain_of_each(state: Pointer, setup: Pointer, zeta: Array, kind: int, out: Pointer) -> None:
    if kind == JOINT:
        _joint(state, setup, zeta, out)
    else:
        for j in range(zeta.size):
            out[j] = _gain(state, setup, zeta[j], kind)


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`Gaussian.predictive` of a full reading, standardized."""
    if i == int(state[COUNT]):
        return 0.0, 1.0 + 1.0 / setup[FIRST + 2]
    return column(state, STATS + 1)[i], 1.0 + 1.0 / column(state, STATS)[i]


@scalar
def _log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """`Gaussian.log_ratio`, standardized."""
    return zeta * (after - before) * (y - 0.5 * (before + after))


_KERNELS = family_kernels(_tick, gain_of_each=_gain_of_each, absorb=_absorb, moments=_moments, log_ratio=_log_ratio)


class Gaussian(Model):
    """Normal readings with known variance and a normal prior on their mean.

    A reading at fidelity zeta has variance noise_var / zeta (equation `mf_gaussian`):

        theta ~ N(mean, var),  x | theta ~ N(theta, noise_var / zeta)

    The predictive is N(x | mu, noise_var / zeta + var_theta), with mu and var_theta the posterior mean and variance
    of theta.

    Parameters
    ----------
    mean : float, default 0.0
        Prior mean of a regime's level, in units of the readings.
    var : float, default 1.0
        Prior variance of the level: how far the levels of different regimes lie apart.
    noise_var : float, default 1.0
        Variance (not standard deviation) of a reading at zeta = 1 about the level.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Statistics of a hypothesis, relative to the prior mean and in units of the noise, so that they are exact for any
    offset and scale of the data:

    - count = noise_var / var + sum of zeta, so that var_theta = noise_var / count;
    - the standardized posterior mean, which moves zeta / (count + zeta) of the way to each reading.

    A reading more than 1e140 standard deviations from the prior mean counts as exactly that far.

    Examples
    --------
    >>> model = Gaussian(mean=0, var=9, noise_var=1)
    >>> stats = model.update(model.prior(), x=2.0, zeta=0.5)
    >>> theta, var = model.parameter(stats)
    >>> round(float(theta), 4), round(float(var), 4)
    (1.6364, 1.6364)
    >>> mean, variance = model.predictive(stats, zeta=0.5)
    >>> round(float(variance), 4)
    3.6364
    """

    columns = 2
    one_parameter = True
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(self, mean: float = 0.0, var: float = 1.0, noise_var: float = 1.0) -> None:
        self.mean = finite("Gaussian", "mean", mean)
        self.var = positive("Gaussian", "var", var)
        self.noise_var = positive("Gaussian", "noise_var", noise_var)

    def __repr__(self) -> str:
        return f"Gaussian(mean={self.mean:g}, var={self.var:g}, noise_var={self.noise_var:g})"

    def prior(self) -> Array:
        """Return the count noise_var / var and the standardized mean 0."""
        return np.array([self.noise_var / self.var, 0.0])

    def check(self, x: float) -> float:
        """Accept every finite number."""
        return x

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the precision-weighted mean and 1/var' = 1/var + zeta/noise_var, equation `mf_gaussian`."""
        count, mean = stats
        y = min(max((x - self.mean) / math.sqrt(self.noise_var), -_FAR), _FAR)
        return np.stack([count + zeta, mean + zeta / (count + zeta) * (y - mean)])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return log N(x | mu, noise_var / zeta + var_theta)."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        return self._log_density(stats, min(max((x - self.mean) / math.sqrt(self.noise_var), -_FAR), _FAR), zeta)

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model, in one pass."""
        return self._log_density(
            stats, np.clip((x[:, None] - self.mean) / math.sqrt(self.noise_var), -_FAR, _FAR), zeta
        )

    def _log_density(self, stats: Array, y: Any, zeta: float) -> Array:
        count, mean = stats
        k = zeta * count / (count + zeta)
        return np.asarray(0.5 * (np.log(k / self.noise_var) - _LOG_2PI - k * (y - mean) ** 2))

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean mu and the variance noise_var / count."""
        count, mean = stats
        return self.mean + math.sqrt(self.noise_var) * mean, self.noise_var / count

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the mean mu and the variance noise_var / zeta + var_theta."""
        mean, var = self.parameter(stats)
        return mean, var + (self.noise_var / zeta if zeta > 0.0 else math.inf)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the normal distribution function."""
        mean, variance = self.predictive(stats, zeta)
        z = (x - mean) / np.sqrt(2.0 * variance)
        return 0.5 * np.vectorize(math.erfc, otypes=[float])(-z)

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the normal."""
        mean, variance = self.predictive(stats, zeta)
        return normal_tails((x - mean) / np.sqrt(variance))

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """As for any model, with the variance of the noise, which is known."""
        return super().log_ratio(x, zeta, before, after, self.noise_var)

    @property
    def units(self) -> tuple[float, float]:
        """Statistics are standardized by the prior mean and the noise."""
        return self.mean, math.sqrt(self.noise_var)

    def bells(self, stats: Array, zeta: float) -> Bells:
        """Return a normal for each hypothesis."""
        width = np.sqrt(1.0 / zeta + 1.0 / stats[0])
        return Bells.single(stats[1], width, None, self.mean, math.sqrt(self.noise_var))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return h(mixture) - sum_l w_l h(N_l).

        Only the entropy of the mixture is computed numerically, to 1e-6 nats at any scale.
        """
        if zeta == 0.0:
            return 0.0
        return float(information(np.array(weight), np.array(stats[1]), 1.0 / zeta + 1.0 / stats[0]))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta; x) = log(1 + zeta var_theta / noise_var) / 2."""
        return 0.5 * np.log1p(zeta / stats[0])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - Var(theta | x) in units of noise_var.

        It is 1 / count - 1 / (count + zeta) and does not depend on x.
        """
        return zeta / (stats[0] * (stats[0] + zeta))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ N(mean, var), then x ~ N(theta, noise_var)."""
        return rng.normal(rng.normal(self.mean, math.sqrt(self.var)), math.sqrt(self.noise_var), ticks)

    def params(self) -> Array:
        """Return the prior mean, the standard deviation of the noise and the prior count."""
        return np.array([self.mean, math.sqrt(self.noise_var), self.noise_var / self.var])

    def rescaled(self, offset: float, scale: float) -> Gaussian:
        """As for any model; variances grow with the square of the scale."""
        square = scale * scale
        return type(self)(offset + scale * self.mean, square * self.var, square * self.noise_var)

    def spec(self) -> dict[str, Any]:
        """Return `mean`, `var` and `noise_var`."""
        return {"mean": self.mean, "var": self.var, "noise_var": self.noise_var}

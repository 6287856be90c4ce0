"""The Gamma with known shape and a Gamma prior on its rate; `Exponential` is the case of shape one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.beta import beta_cdfs
from .._kernels.compile import kernel, scalar
from .._kernels.gamma_ratio import log1p, log_gamma_ratio, log_gamma_ratios, scale_gain, scale_gains
from .._kernels.heavy_tails import LOGISTIC, tail_information
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
from ..inputs.arguments import positive
from .base import Array, Model, Predictive, predictive_of
from .bells import Bells
from .tails import beta_tails

_LEAST = 1e-12  # least level where two levels are compared, in prior rates
_FAR = 1e100  # in prior rates; larger readings count as this large, those below _NEAR as _NEAR
_NEAR = 1e-100


@scalar
def _power(known: float, zeta: float) -> float:
    """With p this power the predictive is Gamma(a + p) / Gamma(a) b^-p (1 + zeta x / b)^-(a + p) and `_constant`."""
    return zeta * known if zeta < 1.0 else (known - 1.0) + 1.0


@scalar
def _constant(y: float, known: float, zeta: float, paper: bool) -> float:
    """The part of the log predictive of y, a reading in prior rates, that is the same for all hypotheses."""
    if paper:
        return zeta * (known - 1.0) * math.log(y) - zeta * math.lgamma(known)
    power = _power(known, zeta)
    bend = power - 1.0 if zeta < 1.0 else known - 1.0
    return bend * math.log(y) + power * math.log(zeta) - math.lgamma(power)


@scalar
def _value(a: float, b: float, y: float, zeta: float, power: float) -> float:
    """The rest of the log predictive."""
    return log_gamma_ratio(a, power) - power * log(b) - (a + power) * log1p(zeta * y / b)


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `Gamma.log_predictive` and `Gamma.update` for every hypothesis, in one pass."""
    known, prior_shape, rate = setup[FIRST], setup[FIRST + 1], setup[FIRST + 2]
    paper = setup[FIRST + 3] == 1.0 and zeta < 1.0  # at zeta = 1 they are equal
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    shapes[n - 1] = prior_shape
    rates[n - 1] = 1.0
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(padded_count(state)):
            moment += weight[i] * (rates[i] / (shapes[i] - 1.0))
    else:
        y = min(max(x / rate, _NEAR), _FAR)
        lift = zeta * y
        count = zeta * known
        power = _power(known, zeta)
        same = _constant(y, known, zeta, paper)
        # If one term of the sum is representable the sum is, and logarithms are not needed.
        plain = False
        for i in (n - 1, int(state[MAP_INDEX])):
            value = same + _value(shapes[i], rates[i], y, zeta, power)
            plain = plain or (weight[i] * scale > 1e-25 and abs(value) < 400.0)
        factor = 0.0
        if plain:
            total = 0.0
            top = 0
            if power == 1.0:
                scale *= math.exp(same)
                for i in range(padded_count(state)):
                    a = shapes[i]
                    b = rates[i]
                    r = 1.0 / b
                    w = scale * weight[i] * (a * r) * exp(-(a + 1.0) * log1p(lift * r))
                    w = w if w > TINY else 0.0
                    weight[i] = w
                    a1 = a + count
                    b1 = b + lift
                    shapes[i] = a1
                    rates[i] = b1
                    total += w
                    moment += w * (b1 / (a1 - 1.0))
                    top = max(top, bits_of(w))
            else:
                for i in range(padded_count(state)):
                    a = shapes[i]
                    b = rates[i]
                    w = scale * weight[i] * exp(min(same + _value(a, b, y, zeta, power), 690.0))
                    w = w if w > TINY else 0.0
                    weight[i] = w
                    a1 = a + count
                    b1 = b + lift
                    shapes[i] = a1
                    rates[i] = b1
                    total += w
                    moment += w * (b1 / (a1 - 1.0))
                    top = max(top, bits_of(w))
        else:
            logs = np.empty(n)
            for i in range(n):
                logs[i] = same + _value(shapes[i], rates[i], y, zeta, power)
                shapes[i] += count
                rates[i] += lift
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * (rates[i] / (shapes[i] - 1.0))
        state[EVIDENCE] += factor + math.log(total) - (zeta if paper else 1.0) * math.log(rate)
    pruned = finish_tick(state, setup, total, top)
    prior = 1.0 / (prior_shape - 1.0)
    if pruned or setup[HAZARDS] > 1.0:
        n = int(state[COUNT])
        values = np.empty(n)
        for i in range(n):
            values[i] = rates[i] / (shapes[i] - 1.0)
        moment = expect(state, setup, values, prior)
    else:
        h = hazards(setup)[0]
        moment = (1.0 - h) * moment / total + h * prior
    state[MEAN] = known * rate * moment


@kernel
def _absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """`Gamma.update` of one row."""
    column(table, STATS)[i] += zeta * setup[FIRST]
    column(table, STATS + 1)[i] += zeta * min(max(x / setup[FIRST + 2], _NEAR), _FAR)


@scalar
def _variance_gain(a: float, b: float, count: float) -> float:
    return a / (b * b) * (count / (a + count + 1.0))


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`parameter_gain` or `variance_gain` averaged over r, and I(r; x) of the mixture of log x."""
    if zeta == 0.0:
        return 0.0
    count = zeta * setup[FIRST]
    n = int(state[COUNT]) + 1
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    weight = scratch(n)
    centre = scratch(n)
    left = scratch(n)
    right = scratch(n)
    predict(state, setup, weight)
    inner = 0.0
    for i in range(n):
        a = shapes[i] if i < n - 1 else setup[FIRST + 1]
        b = rates[i] if i < n - 1 else 1.0
        centre[i] = math.log(b / zeta)
        left[i] = count
        right[i] = a
        if kind in (JOINT, CHANGE):
            inner += weight[i] * scale_gain(a, count)
        elif kind == VARIANCE:
            inner += weight[i] * _variance_gain(a, b, count)
    if kind in (VARIANCE, CHANGE):
        return inner
    return inner + tail_information(LOGISTIC, weight, centre, left, right)


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`Gamma.predictive` of a full reading, in units of the prior rate."""
    known = setup[FIRST]
    if i == int(state[COUNT]):
        a, b = setup[FIRST + 1], 1.0
    else:
        a, b = column(state, STATS)[i], column(state, STATS + 1)[i]
    mean = known * b / (a - 1.0)
    if a <= 2.0:
        return mean, math.inf
    return mean, b * b * known * (known + a - 1.0) / ((a - 2.0) * (a - 1.0) * (a - 1.0))


@scalar
def _log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """`Gamma.log_ratio`, in units of the prior rate."""
    p = max(before, _LEAST)
    q = max(after, _LEAST)
    return zeta * setup[FIRST] * (log(p / q) - y * (1.0 / q - 1.0 / p))


_KERNELS = family_kernels(_tick, _gain, absorb=_absorb, moments=_moments, log_ratio=_log_ratio)


class Gamma(Model):
    """Positive readings, Gamma distributed with known shape and a Gamma prior on their rate.

        theta ~ Gamma(shape, rate),  x | theta ~ Gamma(known * zeta, zeta * theta)

    A reading at fidelity zeta has the same mean known / theta as a full one and 1 / zeta times its variance (an
    exponential dispersion model of weight zeta). The mean of n full readings is a reading of weight n.

    Parameters
    ----------
    known : float
        Known shape of the readings; 1 is `Exponential`.
    shape : float, default 2.0
        Shape of the Gamma prior of theta; must exceed 1, or the next reading would have no mean.
    rate : float, default 1.0
        Rate of the Gamma prior of theta, in units of the readings.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which density a reading at zeta < 1 has; see Notes.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `shape` is at most 1.

    Notes
    -----
    Statistics of a hypothesis, in units of the prior rate, so that they are exact in any unit of the data: a = shape
    + known * sum of zeta and b = rate + sum of zeta x, so that theta is Gamma(a, b) (equation `mf_posterior`).

    At zeta < 1 there are two predictives. They update the statistics in the same way and are equal at zeta = 1: beta
    prime with known and a. Gains always use the first.

    - ``"normalized"``: the density of the reading above; zeta x / b is beta prime with known * zeta and a.
    - ``"paper"``: the integral of p(x | theta)^zeta over the posterior (`mf_posterior_predictive`), which is not a
      density in x. Divided by its integral it would be one, but of readings whose mean grows like 1 / zeta. Those are
      as informative about theta however small zeta is, so they are not readings of a lower fidelity.

    The variance of the next reading is infinite while a <= 2. A reading outside 1e-100 to 1e100 prior rates counts as
    that small or large. Where known * zeta < 1 the density is unbounded at 0: a reading of 0 then adds
    (1 - known * zeta) * 230 to the log evidence of every hypothesis.

    Examples
    --------
    >>> model = Gamma(known=3, shape=2, rate=1)
    >>> stats = model.update(model.prior(), x=4.0, zeta=0.5)
    >>> theta, var = model.parameter(stats)
    >>> round(float(theta), 4), round(float(var), 4)
    (1.1667, 0.3889)
    >>> mean, variance = model.predictive(stats)
    >>> round(float(mean), 4), round(float(variance), 4)
    (3.6, 15.84)
    """

    columns = 2
    one_parameter = True
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(
        self, known: float, shape: float = 2.0, rate: float = 1.0, predictive: Predictive = "normalized"
    ) -> None:
        owner = type(self).__name__
        self.known = positive(owner, "known", known, 1e9, 1e-12)
        self.shape = positive(owner, "shape", shape, 1e9)
        if self.shape <= 1.0:
            raise ValueError(f"{owner}.shape must exceed 1, not {shape!r}: readings would have no mean")
        self.rate = positive(owner, "rate", rate)
        self.kind = predictive_of(owner, predictive)

    def __repr__(self) -> str:
        arguments = f"known={self.known:g}, shape={self.shape:g}, rate={self.rate:g}, predictive={self.kind!r}"
        return f"Gamma({arguments})"

    def prior(self) -> Array:
        """Return the prior shape, and 1: the prior rate in units of itself."""
        return np.array([self.shape, 1.0])

    def check(self, x: float) -> float:
        """Accept every positive number."""
        if x <= 0.0:
            raise self.outside(x, "positive numbers")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept every positive number."""
        return np.isfinite(x) & (x > 0.0)

    def _standard(self, x: float) -> float:
        return min(max(x / self.rate, _NEAR), _FAR)

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return a' = a + zeta known and b' = b + zeta x."""
        return np.stack([stats[0] + zeta * self.known, stats[1] + zeta * self._standard(x)])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of the beta prime density, or of the paper's tempered integral."""
        a, b = stats
        if zeta == 0.0:
            return np.zeros_like(a)
        y = self._standard(x)
        paper = self.kind == "paper" and zeta < 1.0
        power = _power(self.known, zeta)
        rise = log_gamma_ratios(np.ravel(a), power).reshape(a.shape)
        value = rise - power * np.log(b) - (a + power) * np.log1p(zeta * y / b)
        same = _constant(y, self.known, zeta, paper) - (zeta if paper else 1.0) * math.log(self.rate)
        return np.asarray(same + value)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean a / b and the variance a / b^2 of the rate theta."""
        a, b = stats[0], stats[1] * self.rate
        return a / b, a / b**2

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the beta prime: the same mean at every zeta, infinite variance if a <= 2."""
        a, b = stats
        unit = b * self.rate
        mean = self.known * unit / (a - 1.0)
        if zeta == 0.0:
            return mean, np.full_like(a, np.inf)
        p = zeta * self.known
        spread = (unit / zeta) ** 2 * p * (p + a - 1.0) / (np.where(a > 2.0, a - 2.0, 1.0) * (a - 1.0) ** 2)
        return mean, np.where(a > 2.0, spread, np.inf)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the incomplete beta function I_s(known * zeta, a) at s = zeta x / (b + zeta x)."""
        a, b = stats
        if x <= 0.0:
            return np.zeros_like(a)
        u = np.ravel(zeta * self._standard(x) / b)
        q = np.ravel(a)
        p = np.full_like(q, zeta * self.known)
        return beta_cdfs(p, q, u / (1.0 + u), 1.0 / (1.0 + u)).reshape(a.shape)

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of I_s(known * zeta, a) and of its complement at s = zeta x / (b + zeta x)."""
        a, b = stats
        return beta_tails(zeta * self.known, a, max(zeta * self._standard(x), 0.0) / b)

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """Return zeta known (log(before / after) - x (1 / after - 1 / before)), with the means of a reading."""
        before, after = max(before, _LEAST * self.rate), max(after, _LEAST * self.rate)
        return zeta * self.known * (math.log(before / after) - x * (1.0 / after - 1.0 / before))

    @property
    def units(self) -> tuple[float, float]:
        """Statistics are in units of the prior rate."""
        return 0.0, self.rate

    def bells(self, stats: Array, zeta: float) -> Bells:
        """Return the logarithm of a beta prime for each hypothesis."""
        a, b = stats
        left = np.full_like(a, zeta * self.known)
        return Bells.single(np.log(b / zeta), left, a, math.log(self.rate), 1.0, LOGISTIC)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return sum_l w_l KL(p_l || mixture) of the predictives of log x, to 1e-6 nats at any scale."""
        if zeta == 0.0:
            return 0.0
        each = self.bells(stats, zeta)
        rows = (np.array(v[0]) for v in (each.centre, each.width, each.tail))
        return float(tail_information(LOGISTIC, np.array(weight), *rows))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta; x) = f(a) - f(a + known * zeta) in closed form.

        Here f(a) = log Gamma(a) + a - a psi(a), and psi is the digamma function.
        """
        return scale_gains(np.ravel(stats[0]), zeta * self.known).reshape(np.shape(stats[0]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x) in units of 1 / rate^2.

        With d = known * zeta it is Var(theta) d / (a + d + 1).
        """
        a, b = stats
        count = zeta * self.known
        return np.asarray(a / (b * b) * (count / (a + count + 1.0)))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ Gamma(shape, rate), then x ~ Gamma(known, theta)."""
        return rng.gamma(self.known, self.rate / rng.gamma(self.shape), ticks)

    def params(self) -> Array:
        """Return the known shape, the prior shape and rate, and 1 if the predictive is the paper's, else 0."""
        return np.array([self.known, self.shape, self.rate, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """Return `known`, `shape`, `rate` and `predictive`."""
        return {"known": self.known, "shape": self.shape, "rate": self.rate, "predictive": self.kind}

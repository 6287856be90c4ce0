"""The Poisson with a Gamma prior on its rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.beta import beta_shares
from .._kernels.compile import kernel, scalar
from .._kernels.counts import grid, information, log_sum, reach, room
from .._kernels.gamma import digamma
from .._kernels.gamma_ratio import digamma_rest, excess, log1p, log_rise, stirling_rest
from .._kernels.layout import (
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
from .._kernels.pointer import Pointer, pointer
from .._kernels.scalar import bits_of, exp, log
from .._kernels.template import family_kernels
from .._kernels.weights import (
    begin,
    column,
    expect,
    finish_tick,
    hazards,
    lanes,
    predict,
    reweigh,
    scratch,
    skip_tick,
)
from .base import Array, Model, Predictive, positive, predictive_of

_LAST = 2.0**53  # counts beyond are no longer told apart
_END = 2.0**54  # sums go beyond the largest reading, so that a mean near it has both its tails
_ONE_BY_ONE = 512  # counts up to here are cheaper to add than to interpolate
_LARGE = 1e5  # beyond, terms of x log x are made to cancel before they are rounded
_HUGE = 1e7  # a reading beyond goes that way too: below, the error of its log probability stays under 1e-7
_LOG_2PI = math.log(2.0 * math.pi)
_LIGHT = 1e-11  # hypotheses below this are left out of gains in nats


@scalar
def _value(a: float, b: float, x: float, zeta: float) -> float:
    """log of Gamma(a + zeta x) / Gamma(a) b^a / (b + zeta)^(a + zeta x): the predictive but for x!^-zeta."""
    step = zeta * x
    return log_rise(a, step) - step * log(b + zeta) - a * log1p(zeta / b)


@scalar
def _full_value(a: float, b: float, x: float, zeta: float) -> float:
    """log of the predictive, x!^-zeta included, to 1e-13 however large a and x are.

    Terms of x log x cancel: with m = a / b and c = (a + zeta x) / (b + zeta), the means before and after, they leave
    -b D(m, c) - zeta D(x, c), D(u, v) = u log(u / v) - u + v, and what Stirling's formula lacks of three gammas.
    """
    if a + zeta * x < _LARGE or x < 1.0:
        return _value(a, b, x, zeta) - zeta * log_rise(1.0, x)
    mean = a / b
    moved = zeta * (x - mean) / (b + zeta)
    apart = a * excess(moved / mean) + zeta * x * excess(-b * (x - mean) / (b + zeta) / x)
    later = a + zeta * x
    rest = stirling_rest(later) - stirling_rest(a) - zeta * stirling_rest(x)
    return rest - apart + 0.5 * math.log(a / later) - 0.5 * zeta * (math.log(x) + _LOG_2PI)


@scalar
def _bell(a: float, b: float, zeta: float) -> tuple[float, float, float, float]:
    """About where the tempered predictive lies: its mean, the length over which it bends, and its reach."""
    mean = (a + 0.5 * (1.0 - zeta)) / b
    sd = math.sqrt(mean * (1.0 / b + 1.0 / zeta))
    tail = 1.0 / (zeta * math.log1p(b / zeta))
    low, high = reach(mean, sd, 0.0, tail, _END)
    return mean, max(sd, tail), low, high  # the tail is the longer where nearly all of it lies at 0


@scalar
def _divergence(a: float, b: float, x: float, zeta: float) -> float:
    """KL of theta after x from theta before: Gamma(a + zeta x, b + zeta) from Gamma(a, b)."""
    step = zeta * x
    later = a + step
    if later < 10.0:
        return step * digamma(later) - log_rise(a, step) - zeta * later / (b + zeta) + a * log1p(zeta / b)
    # As it stands terms of x log x cancel. With t - log(1 + t) of the means' quotient they are gone.
    moved = a * excess((step * b - zeta * a) / (a * (b + zeta))) + 0.5 * excess(-step / later)
    return moved + stirling_rest(a) - stirling_rest(later) - step * digamma_rest(later)


@kernel
def _sums(
    a: float, b: float, zeta: float, stop: float, deep: bool, x: Array, share: Array
) -> tuple[float, float, float, float]:
    """log of the tempered predictive's sum over 0 .. stop, E x, Var x, and E_x KL if `deep`; two arrays are lent."""
    mean, sd, low, high = _bell(a, b, zeta)
    n = grid(np.array([low]), np.array([high]), np.array([sd]), _END, stop, x, share)
    if n == 0:
        return -np.inf, 0.0, 0.0, 0.0
    value = np.empty(n)
    for j in range(n):
        value[j] = _full_value(a, b, x[j], zeta)
    norm = log_sum(value, share[:n])
    first = 0.0
    second = 0.0
    told = 0.0
    for j in range(n):
        p = share[j] * exp(value[j] - norm)
        d = x[j] - mean
        first += p * d
        second += p * d * d
        if deep and p > 1e-18:
            told += p * _divergence(a, b, x[j], zeta)
    return norm, mean + first, second - first * first, told


@kernel
def _norms(state: Pointer, n: int, zeta: float, norm: Array) -> None:
    """log of the sum over x of the tempered predictive, of n hypotheses."""
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    x = np.empty(room())
    share = np.empty(room())
    # zeta log x! of the counts that are added one by one
    factorial = np.empty(_ONE_BY_ONE)
    for j in range(_ONE_BY_ONE):
        factorial[j] = zeta * log_rise(1.0, float(j))
    for i in range(n):
        a, b = shapes[i], rates[i]
        mean, sd, low, high = _bell(a, b, zeta)
        if high >= _ONE_BY_ONE:
            norm[i] = _sums(a, b, zeta, _END, False, x, share)[0]
            continue
        slope = zeta * math.log(b + zeta)
        centre = math.floor(mean)
        top = log_rise(a, zeta * centre) - slope * centre - factorial[int(centre)]  # near enough the largest
        total = 0.0
        start = int(low)
        while start <= int(high):
            known = pointer(factorial, start)
            part = 0.0
            for j in range(min(32, int(high) - start + 1)):
                count = float(start + j)
                part += exp(min(log_rise(a, zeta * count) - slope * count - known[j] - top, 600.0))
            total += part
            start += 32
            if start > mean + sd and part < 1e-16 * total:
                break
        norm[i] = top + math.log(total) - a * math.log1p(zeta / b)


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `Poisson.log_predictive` and `Poisson.update` for every hypothesis."""
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    shapes[n - 1] = setup[FIRST]
    rates[n - 1] = setup[FIRST + 1]
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(lanes(state)):
            moment += weight[i] * (shapes[i] / rates[i])
    else:
        same = -zeta * math.lgamma(x + 1.0)
        norm = np.zeros(lanes(state))
        if zeta < 1.0 and setup[FIRST + 2] == 0.0:
            _norms(state, n, zeta, norm)
        step = zeta * x
        # If one term of the sum is representable the sum is: no need to go through logarithms.
        large = x > _HUGE
        plain = False
        for i in (n - 1, int(state[MAP_INDEX])):
            value = same + _value(shapes[i], rates[i], x, zeta) - norm[i]
            plain = plain or (weight[i] * scale > 1e-25 and abs(value) < 400.0 and not large)
        factor = 0.0
        if plain:
            total = 0.0
            top = 0
            for i in range(lanes(state)):
                a = shapes[i]
                b = rates[i]
                w = scale * weight[i] * exp(min(same + _value(a, b, x, zeta) - norm[i], 690.0))
                w = w if w > TINY else 0.0
                weight[i] = w
                a1 = a + step
                b1 = b + zeta
                shapes[i] = a1
                rates[i] = b1
                total += w
                moment += w * (a1 / b1)
                top = max(top, bits_of(w))
        else:
            logs = np.empty(n)
            for i in range(n):
                if large:
                    logs[i] = _full_value(shapes[i], rates[i], x, zeta) - norm[i]
                else:
                    logs[i] = same + _value(shapes[i], rates[i], x, zeta) - norm[i]
                shapes[i] += step
                rates[i] += zeta
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * (shapes[i] / rates[i])
        state[EVIDENCE] += factor + math.log(total)
    pruned = finish_tick(state, setup, total, top)
    prior = setup[FIRST] / setup[FIRST + 1]
    if pruned or setup[HAZARDS] > 1.0:
        values = np.empty(int(state[COUNT]))
        for i in range(values.size):
            values[i] = shapes[i] / rates[i]
        state[MEAN] = expect(state, setup, values, prior)
    else:
        h = hazards(setup)[0]
        state[MEAN] = (1.0 - h) * moment / total + h * prior


@kernel
def _information(weight: Array, a: Array, b: Array, zeta: float) -> float:
    """I(r; x): the sum over counts, hypothesis i having probability weight[i]; the arrays are used up."""
    m = 0
    for i in range(weight.size):
        if weight[i] >= _LIGHT:
            weight[m], a[m], b[m] = weight[i], a[i], b[i]
            m += 1
    low = np.empty(m)
    high = np.empty(m)
    sd = np.empty(m)
    for i in range(m):
        _, sd[i], low[i], high[i] = _bell(a[i], b[i], zeta)
    x = np.empty(room())
    share = np.empty(room())
    n = grid(low, high, sd, _END, _END, x, share)
    value = np.empty((m, n))
    if x[n - 1] > _LARGE:
        for i in range(m):
            for j in range(n):
                value[i, j] = _full_value(a[i], b[i], x[j], zeta)
    else:
        base = np.empty(n)
        for j in range(n):
            base[j] = -zeta * log_rise(1.0, x[j])
        for i in range(m):
            for j in range(n):
                value[i, j] = base[j] + _value(a[i], b[i], x[j], zeta)
    return information(weight[:m], value, share[:n])


@scalar
def _variance_gain(a: float, b: float, zeta: float, x: Array, share: Array) -> float:
    if zeta == 1.0:
        return a / (b * b * (b + 1.0))
    after = (a + zeta * _sums(a, b, zeta, _END, False, x, share)[1]) / ((b + zeta) * (b + zeta))
    return a / (b * b) - after


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`parameter_gain` or `variance_gain` averaged over r, and I(r; x) as the sum over counts (`mi_xr`)."""
    if zeta == 0.0:
        return 0.0
    n = int(state[COUNT]) + 1
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    weight = scratch(n)
    a = scratch(n)
    b = scratch(n)
    x = np.empty(room())
    share = np.empty(room())
    predict(state, setup, weight)
    inner = 0.0
    for i in range(n):
        a[i] = shapes[i] if i < n - 1 else setup[FIRST]
        b[i] = rates[i] if i < n - 1 else setup[FIRST + 1]
        if weight[i] < (_LIGHT if kind == JOINT else 1e-15):
            continue
        if kind == JOINT:
            inner += weight[i] * _sums(a[i], b[i], zeta, _END, True, x, share)[3]
        elif kind == VARIANCE:
            inner += weight[i] * _variance_gain(a[i], b[i], zeta, x, share)
    if kind == VARIANCE:
        return max(inner, 0.0)  # see `expected_gains`
    return inner + _information(weight, a, b, zeta)


_KERNELS = family_kernels(_tick, _gain)


@kernel
def _all_sums(a: Array, b: Array, zeta: float, stop: float, deep: bool) -> Array:
    """`_sums` of each element of two one-dimensional arrays, shape (4, K)."""
    out = np.empty((4, a.size))
    x = np.empty(room())
    share = np.empty(room())
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = _sums(a[i], b[i], zeta, stop, deep, x, share)
    return out


@kernel
def _values(a: Array, b: Array, x: float, zeta: float) -> Array:
    out = np.empty(a.size)
    for i in range(a.size):
        if x > _HUGE:
            out[i] = _full_value(a[i], b[i], x, zeta)
        else:
            out[i] = _value(a[i], b[i], x, zeta) - zeta * math.lgamma(x + 1.0)
    return out


class Poisson(Model):
    """Counts 0, 1, 2, ..., Poisson with unknown rate theta, and a Gamma(shape, rate) prior.

    Statistics: a = shape + sum of zeta x and b = rate + sum of zeta, so theta is Gamma(a, b) (`mf_posterior`). Two
    predictives are on offer:

    - ``"paper"``: x!^-zeta Gamma(a + zeta x) / Gamma(a) b^a / (b + zeta)^(a + zeta x) (`mf_posterior_predictive`),
      which sums to more than one at zeta < 1, by an excess that differs between run lengths (see `Bernoulli`);
    - ``"normalized"`` (the default): the same divided by its sum over x, for each run length. The sum has no closed
      form: it is taken to a relative 1e-10, in some microseconds a hypothesis however large the counts.

    At zeta = 1 both are the negative binomial. Counts may be as large as 2^53.

    >>> model = Poisson(shape=2, rate=1)
    >>> stats = model.update(model.prior(), x=4, zeta=0.5)
    >>> [round(float(v), 6) for v in model.parameter(stats)]  # Gamma(4, 1.5)
    [2.666667, 1.777778]
    >>> [round(float(v), 6) for v in model.predictive(stats)]
    [2.666667, 4.444444]
    """

    columns = 2
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(self, shape: float = 1.0, rate: float = 1.0, predictive: Predictive = "normalized") -> None:
        self.shape = positive("Poisson", "shape", shape, 1e9)
        self.rate = positive("Poisson", "rate", rate, 1e9)
        self.kind = predictive_of("Poisson", predictive)

    def __repr__(self) -> str:
        return f"Poisson(shape={self.shape:g}, rate={self.rate:g}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """The shape and the rate."""
        return np.array([self.shape, self.rate])

    def check(self, x: float) -> float:
        """Whole numbers of at least zero."""
        if not (0.0 <= x <= _LAST and x == math.floor(x)):
            raise self.outside(x, "0, 1, 2, ... up to 2^53")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Whole numbers of at least zero."""
        return (x >= 0.0) & (x <= _LAST) & (x == np.floor(x))

    def sound(self, stats: Array) -> bool:
        """No count was above 2^53: sums over the counts that larger ones expect would never end."""
        return super().sound(stats) and bool((stats[0] - self.shape <= 1.001 * _LAST * (stats[1] - self.rate)).all())

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """a' = a + zeta x, b' = b + zeta."""
        return np.stack([stats[0] + zeta * x, stats[1] + zeta])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """log of the tempered predictive, divided by its sum over x if normalized."""
        a, b = np.ravel(stats[0]), np.ravel(stats[1])
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        value = _values(a, b, x, zeta)
        if self.kind == "normalized" and zeta < 1.0:
            value = value - self._sums(stats, zeta)[0]
        return value.reshape(np.shape(stats[0]))

    def _sums(self, stats: Array, zeta: float, stop: float = _END, deep: bool = False) -> Array:
        return _all_sums(np.ravel(stats[0]), np.ravel(stats[1]), zeta, stop, deep)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Mean a / b and variance a / b^2 of the rate theta."""
        return stats[0] / stats[1], stats[0] / stats[1] ** 2

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Mean and variance of the negative binomial; at zeta < 1 of the normalised predictive, summed."""
        a, b = stats
        if zeta == 0.0:
            return a / b, np.full_like(a, np.inf)
        if zeta == 1.0:
            return a / b, a / b * (1.0 + 1.0 / b)
        _, mean, var, _ = self._sums(stats, zeta)
        return mean.reshape(np.shape(a)), var.reshape(np.shape(a))

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """P(next x <= x): an incomplete beta function at zeta = 1, a sum below."""
        a, b = np.ravel(stats[0]), np.ravel(stats[1])
        stop = min(math.floor(x), _LAST)
        if stop < 0.0:
            return np.zeros_like(stats[0])
        if zeta == 1.0:
            below = beta_shares(a, np.full_like(a, stop + 1.0), b / (b + 1.0), 1.0 / (b + 1.0))
        else:
            below = np.exp(np.minimum(self._sums(stats, zeta, stop)[0] - self._sums(stats, zeta)[0], 0.0))
        return below.reshape(np.shape(stats[0]))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """H[x] - E_r H[x | r] of the normalised predictives, a sum over counts (`mi_xr`)."""
        if zeta == 0.0:
            return 0.0
        a, b = np.array(stats[0]), np.array(stats[1])
        return float(_information(np.array(weight), a, b, zeta))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """I(theta; x) = E_x KL(Gamma(a + zeta x, b + zeta) || Gamma(a, b)), x from the normalised predictive.

        KL = zeta x psi(a + zeta x) - log(Gamma(a + zeta x) / Gamma(a)) - zeta (a + zeta x) / (b + zeta)
        + a log(1 + zeta / b).
        """
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        return self._sums(stats, zeta, deep=True)[3].reshape(np.shape(stats[0]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Var(theta) - E_x Var(theta | x), x from the normalised predictive."""
        a, b = stats
        if zeta == 0.0:
            return np.zeros_like(a)
        return a / b**2 - (a + zeta * self.predictive(stats, zeta)[0]) / (b + zeta) ** 2

    def nearest(self, x: float) -> float:
        """x rounded, at least 0."""
        return max(float(round(x)), 0.0)

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """theta ~ Gamma(shape, rate), then counts."""
        return rng.poisson(rng.gamma(self.shape) / self.rate, ticks).astype(np.float64)

    def params(self) -> Array:
        """Shape, rate, and whether the predictive is the paper's."""
        return np.array([self.shape, self.rate, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """The three arguments."""
        return {"shape": self.shape, "rate": self.rate, "predictive": self.kind}

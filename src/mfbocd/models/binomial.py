"""The binomial with a Beta prior on its probability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.compile import kernel, scalar
from .._kernels.counts import grid, information, log_sum, reach, room
from .._kernels.gamma import digamma
from .._kernels.gamma_ratio import digamma_rest, excess, log_rise, stirling_rest
from .._kernels.layout import (
    COUNT,
    EVIDENCE,
    FIRST,
    HAZARDS,
    JOINT,
    MAP_INDEX,
    MEAN,
    RUN_LENGTH,
    STATS,
    TINY,
    VARIANCE,
    WEIGHT,
)
from .._kernels.pointer import Pointer
from .._kernels.scalar import bits_of, exp
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

_LARGE = 1e6  # trials, the prior's and those of all readings: beyond, terms of x log x cancel before they are rounded
_LIGHT = 1e-11  # hypotheses below this are left out of gains in nats


@scalar
def _value(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """log of B(a + zeta x, b + zeta (trials - x)) / B(a, b): the predictive but for the binomial coefficient."""
    return log_rise(a, zeta * x) + log_rise(b, zeta * (trials - x)) - log_rise(a + b, zeta * trials)


@scalar
def _ways(x: float, trials: float) -> float:
    """log of the binomial coefficient, at real x."""
    return log_rise(1.0, trials) - log_rise(1.0, x) - log_rise(1.0, trials - x)


@scalar
def _full_value(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """log of the predictive, binomial coefficient included, also where terms of x log x would cancel.

    They leave what the means before, after and of the reading lie apart (see `Poisson`).
    """
    y = trials - x
    if a + b + zeta * trials <= _LARGE or x < 1.0 or y < 1.0:
        return _value(a, b, x, trials, zeta) + zeta * _ways(x, trials)
    s, t, n = zeta * x, zeta * y, a + b
    later = n + zeta * trials
    moved = (s * b - t * a) / later
    away = (a * y - b * x) / later
    apart = a * excess(moved / a) + b * excess(-moved / b) + zeta * (x * excess(away / x) + y * excess(-away / y))
    half = math.log(a / (a + s)) + math.log(b / (b + t)) - math.log(n / later)
    half += zeta * (math.log(trials / x / y) - math.log(2.0 * math.pi))
    rest = stirling_rest(a + s) - stirling_rest(a) + stirling_rest(b + t) - stirling_rest(b)
    rest += stirling_rest(n) - stirling_rest(later)
    rest += zeta * (stirling_rest(trials) - stirling_rest(x) - stirling_rest(y))
    return rest - apart + 0.5 * half


@scalar
def _rest(a: float, step: float) -> float:
    """Of step psi(a + step) - log(Gamma(a + step) / Gamma(a)): all but a excess(step / a)."""
    later = a + step
    return 0.5 * excess(-step / later) + stirling_rest(a) - stirling_rest(later) - step * digamma_rest(later)


@scalar
def _bell(a: float, b: float, trials: float, zeta: float) -> tuple[float, float, float, float]:
    """About where the tempered predictive lies: its mean, the length over which it bends, and its reach."""
    extra = 0.5 * (1.0 - zeta)
    n = a + b + 2.0 * extra
    p = (a + extra) / n
    mean = trials * p
    var = mean * (1.0 - p) * (n + zeta * trials) / (zeta * n)
    sd = math.sqrt(var)
    left, right = var / (trials - mean), var / mean
    low, high = reach(mean, sd, left, right, trials)
    return mean, max(sd, left, right), low, high  # a tail is the longer where nearly all of it lies at an end


@scalar
def _divergence(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """KL of theta after x from theta before: Beta(a + zeta x, b + zeta (trials - x)) from Beta(a, b)."""
    y = trials - x
    if a + b + zeta * trials > _LARGE:
        s, t, n = zeta * x, zeta * y, a + b
        moved = (s * b - t * a) / (n + zeta * trials)
        means = a * excess(moved / a) + b * excess(-moved / b)
        return means + _rest(a, s) + _rest(b, t) - _rest(n, zeta * trials)
    slope = x * digamma(a + zeta * x) + y * digamma(b + zeta * y) - trials * digamma(a + b + zeta * trials)
    return zeta * slope - _value(a, b, x, trials, zeta)


@kernel
def _sums(
    a: float, b: float, trials: float, zeta: float, stop: float, deep: bool, x: Array, share: Array
) -> tuple[float, float, float, float]:
    """log of the tempered predictive's sum over 0 .. stop, E x, Var x, and E_x KL if `deep`; two arrays are lent."""
    mean, sd, low, high = _bell(a, b, trials, zeta)
    n = grid(np.array([low]), np.array([high]), np.array([sd]), trials, stop, x, share)
    if n == 0:
        return -np.inf, 0.0, 0.0, 0.0
    value = np.empty(n)
    for j in range(n):
        value[j] = _full_value(a, b, x[j], trials, zeta)
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
            told += p * _divergence(a, b, x[j], trials, zeta)
    return norm, mean + first, second - first * first, told


@kernel
def _norms(state: Pointer, n: int, trials: float, zeta: float, norm: Array) -> None:
    """log of the sum over x of the tempered predictive, of n hypotheses."""
    alphas = column(state, STATS)
    betas = column(state, STATS + 1)
    x = np.empty(room())
    share = np.empty(room())
    for i in range(n):
        norm[i] = _sums(alphas[i], betas[i], trials, zeta, trials, False, x, share)[0]


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `Binomial.log_predictive` and `Binomial.update` for every hypothesis."""
    trials = setup[FIRST]
    scale = begin(state, setup)
    n = int(state[COUNT])
    weight = column(state, WEIGHT)
    alphas = column(state, STATS)
    betas = column(state, STATS + 1)
    alphas[n - 1] = setup[FIRST + 1]
    betas[n - 1] = setup[FIRST + 2]
    moment = 0.0
    if zeta == 0.0:
        total, top = skip_tick(state, scale)
        for i in range(lanes(state)):
            moment += weight[i] * (alphas[i] / (alphas[i] + betas[i]))
    else:
        same = zeta * _ways(x, trials)
        norm = np.zeros(lanes(state))
        if zeta < 1.0 and setup[FIRST + 3] == 0.0:
            _norms(state, n, trials, zeta, norm)
        hits = zeta * x
        misses = zeta * (trials - x)
        # If one term of the sum is representable the sum is: no need to go through logarithms.
        plain = False
        for i in (n - 1, int(state[MAP_INDEX])):
            value = same + _value(alphas[i], betas[i], x, trials, zeta) - norm[i]
            plain = plain or (weight[i] * scale > 1e-25 and abs(value) < 400.0)
        factor = 0.0
        if plain:
            total = 0.0
            top = 0
            for i in range(lanes(state)):
                a = alphas[i]
                b = betas[i]
                w = scale * weight[i] * exp(min(same + _value(a, b, x, trials, zeta) - norm[i], 690.0))
                w = w if w > TINY else 0.0
                weight[i] = w
                a1 = a + hits
                b1 = b + misses
                alphas[i] = a1
                betas[i] = b1
                total += w
                moment += w * (a1 / (a1 + b1))
                top = max(top, bits_of(w))
        else:
            logs = np.empty(n)
            for i in range(n):
                logs[i] = same + _value(alphas[i], betas[i], x, trials, zeta) - norm[i]
                alphas[i] += hits
                betas[i] += misses
            total, factor, top = reweigh(state, scale, logs)
            for i in range(n):
                moment += weight[i] * (alphas[i] / (alphas[i] + betas[i]))
        state[EVIDENCE] += factor + math.log(total)
    pruned = finish_tick(state, setup, total, top)
    prior = setup[FIRST + 1] / (setup[FIRST + 1] + setup[FIRST + 2])
    if pruned or setup[HAZARDS] > 1.0:
        values = np.empty(int(state[COUNT]))
        for i in range(values.size):
            values[i] = alphas[i] / (alphas[i] + betas[i])
        moment = expect(state, setup, values, prior)
    else:
        h = hazards(setup)[0]
        moment = (1.0 - h) * moment / total + h * prior
    state[MEAN] = trials * moment


@kernel
def _information(weight: Array, a: Array, b: Array, trials: float, zeta: float) -> float:
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
        _, sd[i], low[i], high[i] = _bell(a[i], b[i], trials, zeta)
    x = np.empty(room())
    share = np.empty(room())
    n = grid(low, high, sd, trials, trials, x, share)
    value = np.empty((m, n))
    if trials > _LARGE:
        for i in range(m):
            for j in range(n):
                value[i, j] = _full_value(a[i], b[i], x[j], trials, zeta)
    else:
        base = np.empty(n)
        for j in range(n):
            base[j] = zeta * _ways(x[j], trials)
        for i in range(m):
            for j in range(n):
                value[i, j] = base[j] + _value(a[i], b[i], x[j], trials, zeta)
    return information(weight[:m], value, share[:n])


@scalar
def _variance_gain(a: float, b: float, trials: float, zeta: float, mean: float, var: float) -> float:
    """Var(theta) less its expectation after a count with this mean and variance."""
    n = a + b
    m = n + zeta * trials
    after = (a + zeta * mean) * (b + zeta * (trials - mean)) - zeta * zeta * var  # of the product of the new two
    return a * b / (n * n * (n + 1.0)) - after / (m * m * (m + 1.0))


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """`parameter_gain` or `variance_gain` averaged over r, and I(r; x) as the sum over counts (`mi_xr`)."""
    if zeta == 0.0:
        return 0.0
    trials = setup[FIRST]
    n = int(state[COUNT]) + 1
    alphas = column(state, STATS)
    betas = column(state, STATS + 1)
    weight = scratch(n)
    a = scratch(n)
    b = scratch(n)
    x = np.empty(room())
    share = np.empty(room())
    predict(state, setup, weight)
    inner = 0.0
    for i in range(n):
        a[i] = alphas[i] if i < n - 1 else setup[FIRST + 1]
        b[i] = betas[i] if i < n - 1 else setup[FIRST + 2]
        if kind == RUN_LENGTH or weight[i] < (_LIGHT if kind == JOINT else 1e-15):
            continue
        _, mean, var, told = _sums(a[i], b[i], trials, zeta, trials, kind == JOINT, x, share)
        if kind == JOINT:
            inner += weight[i] * told
        else:
            inner += weight[i] * _variance_gain(a[i], b[i], trials, zeta, mean, var)
    if kind == VARIANCE:
        return max(inner, 0.0)  # see `expected_gains`
    return inner + _information(weight, a, b, trials, zeta)


_KERNELS = family_kernels(_tick, _gain)


@kernel
def _all_sums(a: Array, b: Array, trials: float, zeta: float, stop: float, deep: bool) -> Array:
    """`_sums` of each element of two one-dimensional arrays, shape (4, K)."""
    out = np.empty((4, a.size))
    x = np.empty(room())
    share = np.empty(room())
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = _sums(a[i], b[i], trials, zeta, stop, deep, x, share)
    return out


@kernel
def _values(a: Array, b: Array, x: float, trials: float, zeta: float) -> Array:
    out = np.empty(a.size)
    for i in range(a.size):
        out[i] = zeta * _ways(x, trials) + _value(a[i], b[i], x, trials, zeta)
    return out


class Binomial(Model):
    """Successes among `trials`, binomial with unknown probability theta, and a Beta(alpha, beta) prior.

    Statistics: a = alpha + sum of zeta x and b = beta + sum of zeta (trials - x), so theta is Beta(a, b)
    (`mf_posterior`). Two predictives are on offer:

    - ``"paper"``: C(trials, x)^zeta B(a + zeta x, b + zeta (trials - x)) / B(a, b) (`mf_posterior_predictive`), which
      sums to more than one at zeta < 1, by an excess that differs between run lengths (see `Bernoulli`);
    - ``"normalized"`` (the default): the same divided by its sum over x, for each run length.

    At zeta = 1 both are the beta-binomial, and with one trial this is `Bernoulli`.

    >>> model = Binomial(trials=10, alpha=2, beta=3)
    >>> stats = model.update(model.prior(), x=6, zeta=0.5)
    >>> [round(float(v), 6) for v in model.parameter(stats)]  # Beta(5, 5)
    [0.5, 0.022727]
    >>> [round(float(v), 6) for v in model.predictive(stats)]
    [5.0, 4.545455]
    """

    columns = 2
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(
        self, trials: int, alpha: float = 1.0, beta: float = 1.0, predictive: Predictive = "normalized"
    ) -> None:
        if positive("Binomial", "trials", trials, 1e9) != int(trials):
            raise ValueError(f"Binomial.trials must be a whole number, not {trials!r}")
        self.trials = int(trials)
        self.alpha = positive("Binomial", "alpha", alpha, 1e9)
        self.beta = positive("Binomial", "beta", beta, 1e9)
        self.kind = predictive_of("Binomial", predictive)

    def __repr__(self) -> str:
        prior = f"alpha={self.alpha:g}, beta={self.beta:g}"
        return f"Binomial(trials={self.trials}, {prior}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """alpha and beta."""
        return np.array([self.alpha, self.beta])

    def check(self, x: float) -> float:
        """Whole numbers from zero to `trials`."""
        if not (0.0 <= x <= self.trials and x == math.floor(x)):
            raise self.outside(x, f"0, 1, ..., {self.trials}")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Whole numbers from zero to `trials`."""
        return (x >= 0.0) & (x <= self.trials) & (x == np.floor(x))

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """a' = a + zeta x, b' = b + zeta (trials - x)."""
        return np.stack([stats[0] + zeta * x, stats[1] + zeta * (self.trials - x)])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """log of the tempered predictive, divided by its sum over x if normalized."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        value = _values(np.ravel(stats[0]), np.ravel(stats[1]), x, float(self.trials), zeta)
        if self.kind == "normalized" and zeta < 1.0:
            value = value - self._sums(stats, zeta)[0]
        return value.reshape(np.shape(stats[0]))

    def _sums(self, stats: Array, zeta: float, stop: float = math.inf, deep: bool = False) -> Array:
        return _all_sums(np.ravel(stats[0]), np.ravel(stats[1]), float(self.trials), zeta, stop, deep)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Mean and variance of Beta(a, b)."""
        a, b = stats
        n = a + b
        return a / n, a * b / (n * n * (n + 1.0))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Mean and variance of the beta-binomial; at zeta < 1 of the normalised predictive, summed."""
        a, b = stats
        n = a + b
        if zeta == 0.0:
            return self.trials * a / n, np.full_like(a, np.inf)
        if zeta == 1.0:
            return self.trials * a / n, self.trials * a * b * (n + self.trials) / (n * n * (n + 1.0))
        _, mean, var, _ = self._sums(stats, zeta)
        return mean.reshape(np.shape(a)), var.reshape(np.shape(a))

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """P(next x <= x), a sum."""
        if x < 0.0 or x >= self.trials:
            return np.full_like(stats[0], float(x >= 0.0))
        log_share = self._sums(stats, zeta, math.floor(x))[0] - self._sums(stats, zeta)[0]
        return np.exp(np.minimum(log_share, 0.0)).reshape(np.shape(stats[0]))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """H[x] - E_r H[x | r] of the normalised predictives, a sum over counts (`mi_xr`)."""
        if zeta == 0.0:
            return 0.0
        a, b = np.array(stats[0]), np.array(stats[1])
        return float(_information(np.array(weight), a, b, float(self.trials), zeta))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """I(theta; x) = E_x KL, x from the normalised predictive; with y = trials - x and psi the digamma function

        KL = zeta (x psi(a + zeta x) + y psi(b + zeta y) - trials psi(a + b + zeta trials))
        - log(B(a + zeta x, b + zeta y) / B(a, b)).
        """
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        return self._sums(stats, zeta, deep=True)[3].reshape(np.shape(stats[0]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Var(theta) - E_x Var(theta | x), x from the normalised predictive."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        a, b = stats
        mean, var = self.predictive(stats, zeta)
        m = a + b + zeta * self.trials
        after = (a + zeta * mean) * (b + zeta * (self.trials - mean)) - zeta * zeta * var
        return self.parameter(stats)[1] - after / (m * m * (m + 1.0))

    def nearest(self, x: float) -> float:
        """x rounded, between 0 and `trials`."""
        return min(max(float(round(x)), 0.0), float(self.trials))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """theta ~ Beta(alpha, beta), then successes in `trials`."""
        return rng.binomial(self.trials, rng.beta(self.alpha, self.beta), ticks).astype(np.float64)

    def params(self) -> Array:
        """trials, alpha, beta, and whether the predictive is the paper's."""
        return np.array([self.trials, self.alpha, self.beta, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """The four arguments."""
        return {"trials": self.trials, "alpha": self.alpha, "beta": self.beta, "predictive": self.kind}

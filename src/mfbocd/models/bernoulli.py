"""The Bernoulli with a Beta prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.change import bernoulli_divergence
from .._kernels.compile import kernel, scalar
from .._kernels.gamma import Coefficients, coefficients, digamma, quotient, quotients
from .._kernels.layout import (
    CHANGE,
    COUNT,
    EVIDENCE,
    FIRST,
    HAZARDS,
    JOINT,
    MEAN,
    STATS,
    TINY,
    VARIANCE,
    WEIGHT,
)
from .._kernels.pointer import Pointer
from .._kernels.scalar import bits_of, log
from .._kernels.template import family_kernels
from .._kernels.weights import begin, column, expect, finish_tick, hazards, padded_count, predict, scratch
from ..inputs.arguments import positive
from .base import Array, Model, Predictive, predictive_of
from .bells import Table

_LEAST = 1e-3  # a level is at least this far from 0 and 1 where two levels are compared


@kernel
def _tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    """One tick: `Bernoulli.log_predictive` and `Bernoulli.update` for every hypothesis, in one pass or two."""
    alpha, beta, paper = setup[FIRST], setup[FIRST + 1], setup[FIRST + 2] == 1.0
    scale = begin(state, setup)
    newest = int(state[COUNT]) - 1
    n = padded_count(state)
    weight = column(state, WEIGHT)
    a = column(state, STATS)
    b = column(state, STATS + 1)
    inverse = column(state, STATS + 2)
    a[newest] = alpha
    b[newest] = beta
    inverse[newest] = 1.0 / (alpha + beta)
    one = x == 1.0
    da = zeta if one else 0.0
    db = zeta - da
    total = 0.0
    moment = 0.0
    top = 0
    if zeta == 1.0:
        for i in range(n):
            a0 = a[i]
            b0 = b[i]
            w = scale * weight[i] * (a0 * da + b0 * db) * inverse[i]
            w = w if w > TINY else 0.0
            weight[i] = w
            a1 = a0 + da
            b1 = b0 + db
            r = 1.0 / (a1 + b1)
            a[i] = a1
            b[i] = b1
            inverse[i] = r
            total += w
            moment += w * (a1 * r)
            top = max(top, bits_of(w))
    else:
        if zeta == 0.0:
            for i in range(n):
                weight[i] *= scale
        else:
            # `hit` counts outcomes like x, `miss` the others.
            hit = a if one else b
            miss = b if one else a
            c = coefficients(zeta)
            if paper:
                for i in range(n):
                    w = scale * weight[i] * quotient(hit[i], hit[i] + miss[i], zeta, c)
                    weight[i] = w if w > TINY else 0.0
            else:
                for i in range(n):
                    w = scale * weight[i] / (1.0 + quotient(miss[i], hit[i], zeta, c))
                    weight[i] = w if w > TINY else 0.0
        for i in range(n):
            a1 = a[i] + da
            b1 = b[i] + db
            r = 1.0 / (a1 + b1)
            a[i] = a1
            b[i] = b1
            inverse[i] = r
            w = weight[i]
            total += w
            moment += w * (a1 * r)
            top = max(top, bits_of(w))
    if zeta > 0.0:
        state[EVIDENCE] += math.log(total)
    pruned = finish_tick(state, setup, total, top)
    prior = alpha / (alpha + beta)
    if pruned or setup[HAZARDS] > 1.0:
        values = np.empty(int(state[COUNT]))
        for i in range(values.size):
            values[i] = a[i] * inverse[i]
        state[MEAN] = expect(state, setup, values, prior)
    else:
        h = hazards(setup)[0]
        state[MEAN] = (1.0 - h) * moment / total + h * prior


@kernel
def _absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
    """`Bernoulli.update` of one row."""
    a = column(table, STATS)
    b = column(table, STATS + 1)
    a[i] += zeta * x
    b[i] += zeta * (1.0 - x)
    column(table, STATS + 2)[i] = 1.0 / (a[i] + b[i])


@scalar
def _surprise(p: float) -> float:
    """-p log p, 0 at 0."""
    return -p * log(max(p, 1e-300))


@kernel
def _gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
    """I(r; x) as the finite sum over both outcomes (`mi_xr`), with `parameter_gain` or `variance_gain`."""
    if zeta == 0.0:
        return 0.0
    n = int(state[COUNT]) + 1
    alive_a = column(state, STATS)
    alive_b = column(state, STATS + 1)
    weight = scratch(n)
    a = scratch(n)
    b = scratch(n)
    predict(state, setup, weight)
    for i in range(n - 1):
        a[i] = alive_a[i]
        b[i] = alive_b[i]
    a[n - 1] = setup[FIRST]
    b[n - 1] = setup[FIRST + 1]
    c = coefficients(zeta)
    inner = 0.0
    if kind == VARIANCE:
        for i in range(n):
            inner += weight[i] * _variance_gain(a[i], b[i], zeta, c)
        return max(inner, 0.0)  # see `expected_gains`
    paper = setup[FIRST + 2] == 1.0
    one = 0.0  # the mixture's two values
    zero = 0.0
    within = 0.0  # sum_l w_l H[x | l]
    if kind in (JOINT, CHANGE) or paper:
        for i in range(n):
            q1 = quotient(a[i], a[i] + b[i], zeta, c)
            q0 = quotient(b[i], a[i] + b[i], zeta, c)
            p1 = q1 / (q1 + q0)
            v1 = q1 if paper else p1
            v0 = q0 if paper else 1.0 - p1
            one += weight[i] * v1
            zero += weight[i] * v0
            within += weight[i] * (_surprise(v1) + _surprise(v0))
            if kind in (JOINT, CHANGE):
                inner += weight[i] * _parameter_gain(a[i], b[i], zeta, p1, q1, q0)
    else:
        for i in range(n):
            p1 = 1.0 / (1.0 + quotient(b[i], a[i], zeta, c))
            one += weight[i] * p1
            zero += weight[i] * (1.0 - p1)
            within += weight[i] * (_surprise(p1) + _surprise(1.0 - p1))
    if kind == CHANGE:
        return inner
    gain = _surprise(one) + _surprise(zero) - within
    if not paper:
        gain = max(gain, 0.0)  # the paper's own is left as it comes out
    return gain + inner


@scalar
def _parameter_gain(a: float, b: float, zeta: float, p1: float, q1: float, q0: float) -> float:
    """E_x KL, from P(x = 1) and the two unnormalized predictives."""
    shared = digamma(a + b + zeta)
    kl1 = zeta * (digamma(a + zeta) - shared) - log(q1)
    kl0 = zeta * (digamma(b + zeta) - shared) - log(q0)
    return p1 * kl1 + (1.0 - p1) * kl0


@scalar
def _variance_gain(a: float, b: float, zeta: float, c: Coefficients) -> float:
    p1 = 1.0 / (1.0 + quotient(b, a, zeta, c))
    n = a + b
    m = n + zeta
    after = (p1 * (a + zeta) * b + (1.0 - p1) * a * (b + zeta)) / (m * m * (m + 1.0))
    return a * b / (n * n * (n + 1.0)) - after


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`Bernoulli.predictive` of a full reading."""
    if i == int(state[COUNT]):
        p = setup[FIRST] / (setup[FIRST] + setup[FIRST + 1])
    else:
        p = column(state, STATS)[i] * column(state, STATS + 2)[i]
    return p, p * (1.0 - p)


@scalar
def _log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """`Bernoulli.log_ratio`."""
    p = min(max(before, _LEAST), 1.0 - _LEAST)
    q = min(max(after, _LEAST), 1.0 - _LEAST)
    return zeta * (y * log(q / p) + (1.0 - y) * log((1.0 - q) / (1.0 - p)))


_KERNELS = family_kernels(
    _tick, _gain, absorb=_absorb, moments=_moments, divergence=bernoulli_divergence, log_ratio=_log_ratio
)


@kernel
def _parameter_gains(a: Array, b: Array, zeta: float) -> Array:
    c = coefficients(zeta)
    out = np.empty(a.size)
    for i in range(a.size):
        q1 = quotient(a[i], a[i] + b[i], zeta, c)
        q0 = quotient(b[i], a[i] + b[i], zeta, c)
        out[i] = _parameter_gain(a[i], b[i], zeta, q1 / (q1 + q0), q1, q0)
    return out


def bernoulli_divergences(mean: Array, mean_0: Any) -> Array:
    """Return KL(Bern(mean) || Bern(mean_0)) of each; a mean beyond 0 or 1 counts as 0 or 1."""
    p, q = np.clip(mean_0, 1e-300, 1.0 - 1e-16), np.clip(mean, 0.0, 1.0)
    one = q * np.log(np.maximum(q, 1e-300) / p)
    zero = (1.0 - q) * np.log(np.maximum(1.0 - q, 1e-300) / (1.0 - p))
    return np.asarray(np.maximum(one + zero, 0.0))


class Bernoulli(Model):
    """Zeros and ones with a Beta prior on the probability of a one.

        theta ~ Beta(alpha, beta),  P(x = 1 | theta) = theta

    A reading at fidelity zeta counts as zeta readings (equation `mf_posterior`):

        alpha' = alpha + zeta x,  beta' = beta + zeta (1 - x)

    Parameters
    ----------
    alpha : float, default 1.0
        Prior weight of ones, in readings.
    beta : float, default 1.0
        Prior weight of zeros, in readings.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which probability a reading at zeta < 1 has; see Notes.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Statistics of a hypothesis: alpha + sum of zeta x and beta + sum of zeta (1 - x), which are real numbers, not
    counts; and 1 / (their sum), stored to save a division.

    At zeta < 1 there are two predictives. They update the statistics in the same way and are equal at zeta = 1.

    - ``"paper"``: B(alpha + zeta x, beta + zeta (1 - x)) / B(alpha, beta), as published (`mf_posterior_predictive`).
      It is not normalized: its two values sum to more than one (4/3 at alpha = beta = 1 and zeta = 1/2). The excess
      differs between run lengths and distorts their posterior.
    - ``"normalized"``: the same divided by its sum over x, a probability for each run length. With it no information
      gain is negative and the log evidence is a log probability.

    Examples
    --------
    >>> prior = Bernoulli(1, 1, predictive="paper").prior()
    >>> [round(float(np.exp(Bernoulli(1, 1, predictive="paper").log_predictive(prior, x, 0.5))), 4) for x in (0, 1)]
    [0.6667, 0.6667]
    >>> [round(float(np.exp(Bernoulli(1, 1).log_predictive(prior, x, 0.5))), 4) for x in (0, 1)]
    [0.5, 0.5]
    """

    columns = 3
    one_parameter = True
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, predictive: Predictive = "normalized") -> None:
        self.alpha = positive("Bernoulli", "alpha", alpha, 1e9)
        self.beta = positive("Bernoulli", "beta", beta, 1e9)
        self.kind = predictive_of("Bernoulli", predictive)

    def __repr__(self) -> str:
        return f"Bernoulli(alpha={self.alpha:g}, beta={self.beta:g}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """Return alpha, beta and 1 / (alpha + beta)."""
        return np.array([self.alpha, self.beta, 1.0 / (self.alpha + self.beta)])

    def check(self, x: float) -> float:
        """Accept 0 and 1."""
        if x != 0.0 and x != 1.0:
            raise self.outside(x, "0 or 1")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept 0 and 1."""
        return (x == 0.0) | (x == 1.0)

    def sound(self, stats: Array) -> bool:
        """Check also that the third statistic is 1 / (alpha + beta)."""
        grown = (stats[:2] >= self.prior()[:2, None] * (1.0 - 1e-9)) & (stats[:2] <= 1e300)
        return bool(grown.all() and (np.abs(stats[2] * (stats[0] + stats[1]) - 1.0) < 1e-9).all())

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return alpha' = alpha + zeta x and beta' = beta + zeta (1 - x)."""
        a, b = stats[0] + zeta * x, stats[1] + zeta * (1.0 - x)
        return np.stack([a, b, 1.0 / (a + b)])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return log B(alpha + zeta x, beta + zeta (1 - x)) / B(alpha, beta), normalized over x by default."""
        hit, miss = (stats[0], stats[1]) if x == 1.0 else (stats[1], stats[0])
        if zeta == 0.0:
            return np.zeros_like(hit)
        if self.kind == "paper":
            return np.log(_quotient(hit, hit + miss, zeta))
        # Gamma(alpha + beta + zeta) divides both outcomes alike and cancels.
        return -np.log1p(_quotient(miss, hit, zeta))

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of Beta(alpha, beta)."""
        a, b, _ = stats
        n = a + b
        return a / n, a * b / (n * n * (n + 1.0))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the normalized P(x = 1) at fidelity zeta and the variance of that zero or one."""
        one = 1.0 / (1.0 + _quotient(stats[1], stats[0], zeta))
        return one, one * (1.0 - one)

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return 0 below zero, P(x = 0) between zero and one, and 1 from one on."""
        mean, _ = self.predictive(stats, zeta)
        return np.where(x < 0.0, 0.0, np.where(x < 1.0, 1.0 - mean, 1.0))

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of the normalized P(x = 0) and P(x = 1) on the sides where they are the tail."""
        one, other = stats[:2] if x > 0.0 else stats[1::-1]
        here = -np.log1p(_quotient(other, one, zeta))
        return (np.zeros_like(here), here) if x > 0.0 else (here, np.zeros_like(here))

    def divergence(self, mean: Array, variance: Array, mean_0: Any, variance_0: Any) -> Array:
        """Return KL(Bern(mean) || Bern(mean_0)); a level beyond 0 or 1 counts as 0 or 1."""
        return bernoulli_divergences(mean, mean_0)

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """Return zeta (x log(q / p) + (1 - x) log((1 - q) / (1 - p))), with p and q the two levels."""
        p, q = (min(max(level, _LEAST), 1.0 - _LEAST) for level in (before, after))
        return zeta * (x * math.log(q / p) + (1.0 - x) * math.log((1.0 - q) / (1.0 - p)))

    def tabulate(self, stats: Array, zeta: float) -> Table:
        """Return the probabilities of all values."""
        x = np.array([0.0, 1.0])
        p = np.exp([self.log_predictive(stats, v, zeta) for v in (0.0, 1.0)])
        return Table(x, np.ones(2), p / p.sum(axis=0))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return H[x] - E_r H[x | r], a sum over two outcomes (`mi_xr`).

        With ``predictive="paper"`` it is the same sum over the two unnormalized values, as in the paper. That is not
        negative, because p log p is convex, but it is not a mutual information: `mi_rx` of the same values differs
        from it.
        """
        if zeta == 0.0:
            return 0.0
        p = np.exp([self.log_predictive(stats, x, zeta) for x in (0.0, 1.0)])
        mixed = p @ weight
        gain = float((p * np.log(p)).sum(axis=0) @ weight - (mixed * np.log(mixed)).sum())
        return gain if self.kind == "paper" else max(gain, 0.0)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(Beta(alpha', beta') || Beta(alpha, beta)), with x from the normalized predictive.

        The divergence after x = 1 is zeta (psi(alpha + zeta) - psi(alpha + beta + zeta)) minus the log of
        B(alpha + zeta, beta) / B(alpha, beta), where psi is the digamma function.
        """
        a, b = np.ravel(stats[0]), np.ravel(stats[1])
        return _parameter_gains(a, b, zeta).reshape(np.shape(stats[0]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x), with x from the normalized predictive."""
        one, _ = self.predictive(stats, zeta)
        _, before = self.parameter(stats)
        after = [self.parameter(self.update(stats, x, zeta))[1] for x in (1.0, 0.0)]
        return before - one * after[0] - (1.0 - one) * after[1]

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ Beta(alpha, beta), then x = 1 with probability theta."""
        return (rng.random(ticks) < rng.beta(self.alpha, self.beta)).astype(np.float64)

    def nearest(self, x: float) -> float:
        """Return 0 below one half, else 1."""
        return 1.0 if x >= 0.5 else 0.0

    def params(self) -> Array:
        """Return alpha, beta, and 1 if the predictive is the paper's, else 0."""
        return np.array([self.alpha, self.beta, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """Return `alpha`, `beta` and `predictive`."""
        return {"alpha": self.alpha, "beta": self.beta, "predictive": self.kind}


def _quotient(u: Array, v: Array, zeta: float) -> Array:
    """Gamma(u + zeta) Gamma(v) / (Gamma(u) Gamma(v + zeta)), elementwise."""
    return quotients(np.ravel(u), np.ravel(v), zeta).reshape(np.shape(u))

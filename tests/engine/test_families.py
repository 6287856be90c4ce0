"""The scalar families against scipy: closed predictives, integrals, sums, gains, and extreme values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats
from scipy.special import logsumexp

import mfbocd as mf
from mfbocd._kernels.beta import beta_cdfs
from mfbocd._kernels.counts import grid, max_nodes, reach
from mfbocd._kernels.gamma_ratio import half_gamma_ratios, log_gamma_ratios
from mfbocd._kernels.heavy_tails import LOGISTIC, STUDENT, tail_information
from mfbocd.belief.gains import GAINS, expected_gains

from .array_kernels import digamma_differences
from .test_kernels import Twin

Array = np.ndarray
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
LEVELS = [0.05, 0.4, 1.0]

WEIGHTING: dict[str, Any] = {"normalized": "precision", "paper": "tempered"}
CONTINUOUS: dict[str, Callable[..., Any]] = {
    "unknown": lambda kind="normalized": mf.GaussianUnknown(0.7, 1.3, 2.4, 0.9, kind, "tempered"),
    "unknown-precise": lambda kind="normalized": mf.GaussianUnknown(0.7, 1.3, 2.4, 0.9, kind, WEIGHTING[kind]),
    "exponential": lambda kind="normalized": mf.Exponential(2.7, 1.6, predictive=kind),
    "gamma": lambda kind="normalized": mf.Gamma(3.4, 2.2, 1.6, predictive=kind),
    "gamma-spiked": lambda kind="normalized": mf.Gamma(0.6, 3.1, 0.2, predictive=kind),
}
DISCRETE: dict[str, Callable[..., Any]] = {
    "poisson": lambda kind="normalized": mf.Poisson(1.8, 0.6, predictive=kind),
    "poisson-vague": lambda kind="normalized": mf.Poisson(0.3, 0.01, predictive=kind),
    "binomial": lambda kind="normalized": mf.Binomial(12, 1.5, 0.7, predictive=kind),
    "binomial-many": lambda kind="normalized": mf.Binomial(900, 0.4, 2.0, predictive=kind),
}
MODELS = CONTINUOUS | DISCRETE


def after(model: Any, readings: list[tuple[float, float]]) -> Array:
    stats_ = model.prior()
    for x, zeta in readings:
        stats_ = model.update(stats_, x, zeta)
    return np.asarray(stats_)


def some(model: Any) -> Array:
    """Statistics after a few readings."""
    if isinstance(model, mf.GaussianUnknown):
        return after(model, [(0.2, 1.0), (2.4, 0.3), (1.1, 0.8)])
    if isinstance(model, mf.Gamma):
        return after(model, [(0.4, 1.0), (2.9, 0.3), (1.2, 0.8)])
    return after(model, [(3.0, 1.0), (7.0, 0.3), (0.0, 0.8)])


def support(model: Any) -> Array:
    return np.arange(model.trials + 1.0) if isinstance(model, mf.Binomial) else np.arange(20_000.0)


def log_predictives(model: Any, stats_: Array, xs: Array, zeta: float) -> Array:
    return np.array([float(model.log_predictive(stats_, x, zeta)) for x in xs.tolist()])


def integral(model: Any, f: Callable[[float], float]) -> float:
    """Over the support, in pieces that grow away from where the readings are."""
    grow = np.concatenate([[0.0], 2.0 ** np.arange(-8.0, 40.0)])
    ends = np.concatenate([-grow[::-1], grow[1:]]) + 0.9 if isinstance(model, mf.GaussianUnknown) else grow
    pieces = itertools.pairwise(ends.tolist())
    return float(sum(integrate.quad(f, low, high, epsabs=1e-13, epsrel=1e-12)[0] for low, high in pieces))


# --- the special functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [0.0, 0.1, 0.5, 1.0, 3.7, 120.0, 1e6, 1e12])
def test_quotients_of_gamma_functions(d: float) -> None:
    s = 10.0 ** np.linspace(-6, 12, 40)
    with mpmath.workdps(50):
        rise = [mpmath.loggamma(mpmath.mpf(v) + mpmath.mpf(d)) - mpmath.loggamma(mpmath.mpf(v)) for v in s.tolist()]
        slope = [mpmath.digamma(mpmath.mpf(v) + mpmath.mpf(d)) - mpmath.digamma(mpmath.mpf(v)) for v in s.tolist()]
    np.testing.assert_allclose(log_gamma_ratios(s, d), np.array(rise, dtype=float), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(digamma_differences(s, d), np.array(slope, dtype=float), rtol=1e-13, atol=1e-18)
    if d == 0.5:
        np.testing.assert_allclose(half_gamma_ratios(s), np.array(rise, dtype=float), rtol=1e-14, atol=1e-14)


def test_the_incomplete_beta_function() -> None:
    rng = np.random.default_rng(0)
    a, b = 10.0 ** rng.uniform(-2, 4, (2, 2000))
    x = rng.beta(a, b)
    a, b, x = (v[(x > 0) & (x < 1)] for v in (a, b, x))
    np.testing.assert_allclose(beta_cdfs(a, b, x, 1 - x), special.betainc(a, b, x), rtol=1e-9, atol=1e-11)
    ends = beta_cdfs(np.full(2, 2.0), np.full(2, 3.0), np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert ends.tolist() == [0.0, 1.0]
    # a tail that 1 - x of a rounded x would lose
    far = beta_cdfs(np.array([0.5]), np.array([3.0]), np.array([1.0]), np.array([1e-20]))
    assert 1.0 - far[0] < 1e-15


@pytest.mark.parametrize(
    ("a", "rate"), [(1e-6, 1e-4), (0.2, 1e-4), (1.0, 1e-3), (30.0, 0.4), (4000.0, 0.9), (1e5, 1e3), (2.0, 50.0)]
)
def test_a_sum_over_counts_uses_few_terms(a: float, rate: float) -> None:
    x, share = np.empty(max_nodes()), np.empty(max_nodes())
    mean, sd = a / rate, math.sqrt(a / rate * (1 + 1 / rate))
    ends = reach(mean, sd, 0.0, 1 / math.log1p(rate), 2.0**53)
    bend = np.array([max(sd, 1 / math.log1p(rate))])
    n = grid(np.array(ends[:1]), np.array(ends[1:]), bend, 2.0**53, 2.0**53, x, share)
    truth = stats.nbinom(a, rate / (rate + 1))
    with mpmath.workdps(30):
        base = a * mpmath.log(mpmath.mpf(rate) / (1 + mpmath.mpf(rate))) - mpmath.loggamma(a)
        logs = [
            float(
                mpmath.loggamma(a + mpmath.mpf(v))
                - mpmath.loggamma(1 + mpmath.mpf(v))
                - v * mpmath.log1p(rate)
                + base
            )
            for v in x[:n].tolist()
        ]
    p = share[:n] * np.exp(logs)
    assert p.sum() == pytest.approx(1.0, abs=1e-11)
    assert p @ x[:n] == pytest.approx(truth.mean(), rel=1e-10)
    assert p @ (x[:n] - mean) ** 2 == pytest.approx(truth.var(), rel=1e-9)
    assert n < 700


# --- zeta = 1: closed forms -----------------------------------------------------------------------------------------


def closed(model: Any, stats_: Array) -> Any:
    if isinstance(model, mf.GaussianUnknown):
        count, mean, shape, scale = stats_
        centre, spread = model.mean + math.sqrt(model.scale) * mean, scale * model.scale
        return stats.t(2 * shape, centre, math.sqrt(spread * (count + 1) / (shape * count)))
    if isinstance(model, mf.Exponential):
        return stats.lomax(stats_[0], scale=stats_[1] * model.rate)
    if isinstance(model, mf.Gamma):
        return stats.betaprime(model.known, stats_[0], scale=stats_[1] * model.rate)
    if isinstance(model, mf.Poisson):
        return stats.nbinom(stats_[0], stats_[1] / (stats_[1] + 1))
    return stats.betabinom(model.trials, stats_[0], stats_[1])


@pytest.mark.parametrize("kind", ["normalized", "paper"])
@pytest.mark.parametrize("name", MODELS)
def test_a_full_reading_has_the_closed_predictive(name: str, kind: str) -> None:
    model = MODELS[name](kind)
    stats_ = some(model)
    truth = closed(model, stats_)
    log = truth.logpdf if name in CONTINUOUS else truth.logpmf
    for x in (0.0, 1.0, 3.0, 9.0) if name in DISCRETE else (0.03, 1.0, 4.5, 60.0):
        assert float(model.log_predictive(stats_, x, 1.0)) == pytest.approx(float(log(x)), rel=1e-10, abs=1e-10)
        assert float(model.predictive_cdf(stats_, x)) == pytest.approx(float(truth.cdf(x)), rel=1e-9, abs=1e-12)
        assert float(model.predictive_cdf(stats_, x + 0.4)) == pytest.approx(float(truth.cdf(x + 0.4)), rel=1e-9)
    mean, var = model.predictive(stats_)
    assert float(mean) == pytest.approx(truth.mean(), rel=1e-10)
    assert float(var) == pytest.approx(truth.var(), rel=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_parameters(name: str) -> None:
    model = MODELS[name]()
    stats_ = some(model)
    if isinstance(model, mf.GaussianUnknown):
        count, mean, shape, scale = stats_
        spread = model.scale * scale / (shape * count)
        truth = stats.t(2 * shape, model.mean + math.sqrt(model.scale) * mean, math.sqrt(spread))
    elif name in CONTINUOUS:
        truth = stats.gamma(stats_[0], scale=1 / (stats_[1] * model.rate))
    elif name.startswith("poisson"):
        truth = stats.gamma(stats_[0], scale=1 / stats_[1])
    else:
        truth = stats.beta(*stats_)
    assert [float(v) for v in model.parameter(stats_)] == pytest.approx([truth.mean(), truth.var()], rel=1e-12)


# --- zeta < 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeta", LEVELS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_normalized_density_integrates_to_one(name: str, zeta: float) -> None:
    model, paper = CONTINUOUS[name](), CONTINUOUS[name]("paper")
    stats_ = some(model)

    def density(x: float) -> float:
        return math.exp(float(model.log_predictive(stats_, x, zeta)))

    assert integral(model, density) == pytest.approx(1.0, abs=1e-7)
    if name == "unknown-precise":
        return  # the paper's predictive is that of the tempered model
    ratio = [
        float(paper.log_predictive(stats_, x, zeta) - model.log_predictive(stats_, x, zeta)) for x in (0.1, 2.0, 30.0)
    ]
    if isinstance(model, mf.Gamma):  # x^(known zeta - 1) there, x^(zeta (known - 1)) here: the rest is the same
        ratio = [r - (1 - zeta) * math.log(x) for r, x in zip(ratio, (0.1, 2.0, 30.0), strict=True)]
    assert np.ptp(ratio) < 1e-9  # the same function of x
    assert (abs(ratio[0]) > 1e-2) == (zeta < 1)  # but no density


@pytest.mark.parametrize("name", CONTINUOUS)
def test_moments_and_distribution_at_a_low_fidelity(name: str) -> None:
    model, zeta = CONTINUOUS[name](), 0.7
    stats_ = after(model, [(1.0, 1.0), (1.4, 1.0), (0.7, 1.0), (2.0, 1.0)])

    def density(x: float) -> float:
        return math.exp(float(model.log_predictive(stats_, x, zeta)))

    mean, var = (float(v) for v in model.predictive(stats_, zeta))
    assert integral(model, lambda x: x * density(x)) == pytest.approx(mean, rel=1e-5)
    assert integral(model, lambda x: (x - mean) ** 2 * density(x)) == pytest.approx(var, rel=2e-2)  # heavy tails
    for x in (0.3, 1.7, 5.0):
        step = 1e-5 * x
        slope = float(model.predictive_cdf(stats_, x + step, zeta) - model.predictive_cdf(stats_, x - step, zeta))
        assert slope / (2 * step) == pytest.approx(density(x), rel=1e-6)


@pytest.mark.parametrize("zeta", LEVELS)
@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_moments_and_distribution_of_counts(name: str, zeta: float) -> None:
    model, paper = DISCRETE[name](), DISCRETE[name]("paper")
    stats_ = some(model)
    x = support(model)
    if isinstance(model, mf.Poisson):
        a, b = stats_
        logs = special.gammaln(a + zeta * x) - zeta * special.gammaln(x + 1) - zeta * x * math.log(b + zeta)
        logs += a * math.log(b) - special.gammaln(a) - a * math.log(b + zeta)
    else:
        a, b, n = *stats_, model.trials
        logs = zeta * (special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1))
        logs += special.betaln(a + zeta * x, b + zeta * (n - x)) - special.betaln(a, b)
    shown = x[x <= 40]
    np.testing.assert_allclose(log_predictives(paper, stats_, shown, zeta), logs[x <= 40], rtol=1e-9, atol=1e-9)
    total = logsumexp(logs)
    assert (total > 0.01) == (zeta < 1)
    np.testing.assert_allclose(log_predictives(model, stats_, shown, zeta), logs[x <= 40] - total, atol=2e-10)
    p = np.exp(logs - total)
    mean, var = (float(v) for v in model.predictive(stats_, zeta))
    assert mean == pytest.approx(p @ x, rel=1e-9)
    assert var == pytest.approx(p @ (x - p @ x) ** 2, rel=1e-8)
    for stop in (0, 1, 7, 11, 150):
        below = float(model.predictive_cdf(stats_, stop + 0.5, zeta))
        assert below == pytest.approx(p[x <= stop].sum(), abs=1e-9)
    assert float(model.predictive_cdf(stats_, -0.5, zeta)) == 0.0


# --- gains ----------------------------------------------------------------------------------------------------------


def mixture(model: Any, seed: int, k: int = 4) -> tuple[Array, Array]:
    """Weights and statistics of hypotheses with different readings."""
    rng = np.random.default_rng(seed)
    columns = [model.prior()]
    for _ in range(k - 1):
        level, n = float(rng.gamma(2.0, 2.0)), int(rng.integers(1, 30))
        if isinstance(model, mf.GaussianUnknown):
            xs = rng.normal(level, float(rng.gamma(2.0)), n)
        elif isinstance(model, mf.Gamma):
            xs = rng.gamma(model.known, level, n)
        elif isinstance(model, mf.Poisson):
            xs = rng.poisson(level, n)
        else:
            xs = rng.binomial(model.trials, float(rng.random()), n)
        columns.append(after(model, [(float(x), float(rng.choice([0.2, 1.0]))) for x in xs]))
    return rng.dirichlet(np.ones(k)), np.stack(columns, axis=1)


def dense(logs: Callable[[Array], Array], ends: Array, weight: Array) -> float:
    """sum_l w_l KL(p_l || mixture) by Gauss-Legendre on many panels."""
    node, share = np.polynomial.legendre.leggauss(4)  # within 2e-10 of 16 nodes
    ends = np.unique(ends)
    half = 0.5 * np.diff(ends)
    x = (0.5 * (ends[1:] + ends[:-1])[:, None] + half[:, None] * node).ravel()
    value = logs(x)
    mixed = logsumexp(value, axis=1, b=weight)
    return float((half[:, None] * share).ravel() @ ((np.exp(value) * (value - mixed[:, None])) @ weight))


def ladder(centre: Array, width: Array) -> Array:
    rungs = np.concatenate([np.arange(0.0, 8.0, 0.5), 8.0 * 1.5 ** np.arange(90.0)])
    return np.asarray((centre[:, None] + width[:, None] * np.concatenate([-rungs, rungs])).ravel())


@pytest.mark.parametrize("zeta", LEVELS)
@pytest.mark.parametrize(  # truncation errors add up in mixtures of many
    ("seed", "many"), [(0, 4), (1, 4), (2, 4), (3, 50), pytest.param(4, 50, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.slow
def test_the_run_length_gain_of_a_density_equals_dense_integration(
    name: str, seed: int, many: int, zeta: float
) -> None:
    model = CONTINUOUS[name]()
    weight, stats_ = mixture(model, seed, many)
    if isinstance(model, mf.GaussianUnknown):
        count, mean, shape, scale = stats_
        df = 2 * shape + (zeta - 1 if name == "unknown" else 0)
        width = np.sqrt(2 * scale * (count + zeta) / (zeta * count * df))
        expected = dense(lambda x: stats.t.logpdf(x[:, None], df, mean, width), ladder(mean, width), weight)
    else:
        p, q, centre = zeta * model.known, stats_[0], np.log(stats_[1] / zeta)
        mode, width = centre + np.log(p / q), np.sqrt(1 / p + 1 / q)

        def logs(t: Array) -> Array:
            d = t[:, None] - centre
            return np.asarray(p * d - (p + q) * np.logaddexp(0, d) - special.betaln(p, q))

        far = 60.0 / min(p, 0.1)
        ends = np.concatenate([ladder(mode, width)[np.abs(ladder(mode, width)) < far], np.linspace(-far, far, 6000)])
        expected = dense(logs, ends, weight)
    near = 1e-6 if many == 4 else 1e-8  # tails cut at e^-21 were 5e-8 off here, and more in other mixtures
    assert model.run_length_gain(weight, stats_, zeta) == pytest.approx(expected, abs=near)
    assert expected > 0.05 * zeta  # it vanishes with zeta


@pytest.mark.parametrize("kind", ["normalized", "paper"])
@pytest.mark.parametrize("zeta", LEVELS)
@pytest.mark.parametrize("name", DISCRETE)
def test_the_run_length_gain_of_counts_equals_a_plain_sum(name: str, zeta: float, kind: str) -> None:
    model = DISCRETE[name](kind)
    for seed in range(3):
        weight, stats_ = mixture(model, seed)
        x = support(model)[:, None]
        if isinstance(model, mf.Poisson):
            a, b = stats_
            logs = special.gammaln(a + zeta * x) - zeta * special.gammaln(x + 1) - (a + zeta * x) * np.log(b + zeta)
            logs = logs + a * np.log(b) - special.gammaln(a)
        else:
            a, b, n = *stats_, model.trials
            log_binomial = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
            logs = zeta * log_binomial + special.betaln(a + zeta * x, b + zeta * (n - x)) - special.betaln(a, b)
        p = np.exp(logs - logsumexp(logs, axis=0))  # in both cases: gains use probabilities
        expected = special.entr(p @ weight).sum() - special.entr(p).sum(axis=0) @ weight
        assert model.run_length_gain(weight, stats_, zeta) == pytest.approx(expected, rel=1e-8, abs=1e-8)
        assert expected > 1e-3


def test_equal_hypotheses_and_a_single_one_have_no_run_length_gain() -> None:
    w = np.array([0.3, 0.7])
    assert tail_information(STUDENT, w.copy(), np.full(2, 3.0), np.full(2, 2.0), np.full(2, 4.0)) < 1e-7
    assert tail_information(LOGISTIC, w.copy(), np.full(2, 3.0), np.full(2, 2.0), np.full(2, 4.0)) < 1e-7
    apart = tail_information(STUDENT, w.copy(), np.array([0.0, 1e9]), np.array([1.0, 2.0]), np.full(2, 30.0))
    assert apart == pytest.approx(
        special.entr(w).sum(), abs=1e-7
    )  # no overlap: the reading identifies the hypothesis
    for make in MODELS.values():
        model = make()
        assert model.run_length_gain(np.ones(1), model.prior()[:, None], 0.5) < 1e-14


def divergence(model: Any, before: Array, x: float, zeta: float) -> float:
    """KL of the posterior after x from `before`, by the textbook formula of each family."""
    now = model.update(before, x, zeta)
    if isinstance(model, mf.GaussianUnknown):
        (k0, m0, a0, b0), (k1, m1, a1, b1) = before, now
        normal = 0.5 * (math.log(k1 / k0) + k0 / k1 - 1 + k0 * (m1 - m0) ** 2 * a1 / b1)  # averaged over s2
    elif isinstance(model, mf.Binomial):
        (a0, b0), (a1, b1) = before, now
        moved = (a1 - a0) * special.psi(a1) + (b1 - b0) * special.psi(b1) - (a1 + b1 - a0 - b0) * special.psi(a1 + b1)
        return float(special.betaln(a0, b0) - special.betaln(a1, b1) + moved)
    else:
        (a0, b0), (a1, b1), normal = before, now, 0.0
    gamma = (a1 - a0) * special.psi(a1) - special.gammaln(a1) + special.gammaln(a0) + a0 * math.log(b1 / b0)
    return float(normal + gamma + a1 * (b0 / b1 - 1))


@pytest.mark.parametrize("zeta", [0.3, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_the_parameter_and_variance_gains_are_expectations_over_x(name: str, zeta: float) -> None:
    model = MODELS[name]()
    stats_ = some(model)

    def contributions(x: float) -> tuple[float, float]:
        p = math.exp(float(model.log_predictive(stats_, x, zeta)))
        moved = model.update(stats_, x, zeta)
        return p * divergence(model, stats_, x, zeta), p * float(model.parameter(moved)[1])

    if name in CONTINUOUS:
        inner, later = (integral(model, lambda x, i=i: contributions(x)[i]) for i in range(2))
    else:
        many = support(model)[:3000]
        inner, later = np.sum([contributions(x) for x in many.tolist()], axis=0)
    if name == "unknown" and zeta < 1.0:
        # for s2 the gain of zeta squared deviations: a Gamma reading of shape zeta / 2
        scatter = mf.Gamma(0.5, stats_[2], 1.0)
        inner = float(scatter.parameter_gain(scatter.prior(), zeta)) + 0.5 * math.log1p(zeta / stats_[0])
    assert float(model.parameter_gain(stats_, zeta)) == pytest.approx(inner, rel=1e-5)
    fall = float(model.parameter(stats_)[1]) - later
    if isinstance(model, mf.GaussianUnknown):
        fall = 1 / stats_[0] - 1 / (stats_[0] + zeta)  # of Var(theta | s2) / s2
    elif name in CONTINUOUS:
        fall *= model.rate**2
    assert float(model.variance_gain(stats_, zeta)) == pytest.approx(fall, rel=1e-5, abs=1e-9)


def test_the_parameter_gain_keeps_its_digits_after_a_million_readings() -> None:
    """After n readings it is 1 / (2 n) per parameter to first order, a difference of numbers near n log n."""
    n = 1e7
    assert float(mf.Exponential(n, 1.0).parameter_gain(np.array([n, n]), 1.0)) == pytest.approx(0.5 / n, rel=1e-5)
    got = float(mf.GaussianUnknown().parameter_gain(np.array([n, 0.0, n / 2, n]), 1.0))
    assert got == pytest.approx(1.0 / n, rel=1e-5)


# --- families as special cases of others --------------------------------------------------------------------------


def compare(one: Any, other: Any, readings: list[tuple[float, float]], tolerance: float) -> None:
    fidelities = [mf.Fidelity(f"z{z}", z, 1.0) for z in sorted({z for _, z in readings} | {1.0})]
    a, b = (mf.Detector(m, fidelities, 0.05, prune=None) for m in (one, other))
    for x, zeta in readings:
        a.update(x, f"z{zeta}")
        b.update(x, f"z{zeta}")
    np.testing.assert_allclose(a.run_length.weight, b.run_length.weight, atol=tolerance)
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=tolerance, abs=tolerance)
    assert a.mean == pytest.approx(b.mean, rel=tolerance)
    paper = isinstance(other, mf.Bernoulli) and other.kind == "paper"  # its gains use unnormalized values
    for gain in () if paper else ("run_length", "joint"):
        np.testing.assert_allclose(
            expected_gains(a._filter, np.array([0.3, 1.0]), gain),
            expected_gains(b._filter, np.array([0.3, 1.0]), gain),
            rtol=1e-6,
            atol=max(tolerance, 1e-9),
        )


@pytest.mark.parametrize("kind", ["normalized", "paper"])
def test_one_trial_is_a_bernoulli(kind: Any) -> None:
    rng = np.random.default_rng(3)
    readings = [(float(rng.random() < 0.3), float(rng.choice([0.2, 1.0]))) for _ in range(60)]
    compare(mf.Binomial(1, 0.6, 1.7, kind), mf.Bernoulli(0.6, 1.7, kind), readings, 1e-10)


@pytest.mark.parametrize("kind", ["normalized", "paper"])
def test_a_known_shape_of_one_is_exponential(kind: Any) -> None:
    rng = np.random.default_rng(4)
    readings = [(float(rng.exponential(2.0)), float(rng.choice([0.2, 1.0]))) for _ in range(60)]
    compare(mf.Gamma(1.0, 2.5, 1.2, kind), mf.Exponential(2.5, 1.2, kind), readings, 1e-12)


def test_a_known_variance_is_a_gaussian() -> None:
    rng = np.random.default_rng(5)
    readings = [(float(rng.normal(3.0 * (t > 30), 1.0)), float(rng.choice([0.2, 1.0]))) for t in range(60)]
    firm = 1e8
    compare(mf.GaussianUnknown(0.0, 0.25, firm, firm), mf.Gaussian(0.0, 4.0, 1.0), readings, 1e-5)


# --- other units ----------------------------------------------------------------------------------------------------

UNITS = {
    "unknown": (lambda s, m: mf.GaussianUnknown(m, 0.7, 1.6, 2.0 * s * s), 1.0),
    "exponential": (lambda s, m: mf.Exponential(2.3, 1.1 * s), 0.0),
    "gamma": (lambda s, m: mf.Gamma(4.5, 2.3, 1.1 * s), 0.0),
}


@pytest.mark.parametrize("name", UNITS)
@settings(max_examples=15)
@given(shift=st.floats(-1e6, 1e6), log_scale=st.floats(-6, 6), seed=st.integers(0, 1000))
def test_units_and_offsets_change_nothing(name: str, shift: float, log_scale: float, seed: int) -> None:
    """Shift and scale data and prior: posterior, gains and choices stay, the mean changes accordingly."""
    make, shifts = UNITS[name]
    shift, scale = shift * shifts, 10.0**log_scale
    rng = np.random.default_rng(seed)
    xs = np.concatenate([rng.gamma(4, 1, 20), rng.gamma(4, 3, 20)])
    plain = mf.Detector(make(1.0, 0.0), FIDELITIES, 0.05, policy=mf.Net(0.01))
    moved = mf.Detector(make(scale, shift), FIDELITIES, 0.05, policy=mf.Net(0.01))
    for x in xs.tolist():
        there = shift + scale * x
        here = (there - shift) / scale  # the precision that x keeps after adding the shift
        assert plain.choose() == moved.choose()
        plain.update(here)
        moved.update(there)
    assert moved.p_changed(within=10) == pytest.approx(plain.p_changed(within=10), abs=1e-8)
    assert moved.mean == pytest.approx(shift + scale * plain.mean, rel=1e-8, abs=1e-8 * scale)
    for gain in GAINS:
        levels = np.array([0.01, 0.3, 1.0])
        expected, got = (expected_gains(d._filter, levels, gain) for d in (plain, moved))
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


# --- extreme readings ---------------------------------------------------------------------------------------------


def healthy(detector: mf.Detector) -> None:
    length, weight = detector.run_length
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(length) > 0).all()
    assert math.isfinite(detector.log_evidence)
    assert math.isfinite(detector.mean)
    assert not np.isnan(detector._filter.state).any()
    low, high = detector.interval(0.9)
    assert -math.inf < low <= high < math.inf
    for gain in GAINS:
        gains = expected_gains(detector._filter, np.array([0.3, 1.0]), gain)
        assert np.isfinite(gains).all()
        assert (gains >= 0).all()


OUTLIERS: list[tuple[str, Callable[[], Any], list[float], float]] = [
    ("unknown", lambda: mf.GaussianUnknown(), [150.0, -1e8, 1e60, -1e150, 1e308, 5e-324], 1.0),
    ("unknown-firm", lambda: mf.GaussianUnknown(0, 1, 400, 400), [150.0, -1e8, 1e150, 1e308], 1.0),
    ("unknown-small", lambda: mf.GaussianUnknown(0, 1, 1, 1e-200), [150.0, -1e8, 1e200], 1e-100),
    ("exponential", lambda: mf.Exponential(2, 1), [0.0, 5e-324, 1e12, 1e150, 1e308], 1.0),
    ("gamma", lambda: mf.Gamma(200.0, 2, 1), [1e-300, 5e-324, 1e12, 1e308], 1.0),
    ("gamma-thin", lambda: mf.Gamma(1e-3, 2.01, 1e-9), [1e-300, 1e12, 1e308], 1e-9),
    ("poisson", lambda: mf.Poisson(1, 1), [0.0, 1e3, 1e6, 1e12, 2.0**53], 1.0),
    ("poisson-firm", lambda: mf.Poisson(1e6, 1e6), [0.0, 1e3, 1e12], 1.0),
    ("binomial", lambda: mf.Binomial(10**6, 1e-3, 1e3), [0.0, 5e5, 1e6], 1.0),
]


@pytest.mark.parametrize("prune", [None, mf.Resample(16)], ids=str)
@pytest.mark.parametrize(("make", "far", "unit"), [row[1:] for row in OUTLIERS], ids=[row[0] for row in OUTLIERS])
def test_an_outlier(make: Callable[[], Any], far: list[float], unit: float, prune: Any) -> None:
    rng = np.random.default_rng(0)
    model = make()
    for outlier in far:
        detector = mf.Detector(model, FIDELITIES, 0.01, prune=prune)
        for t in range(16):
            x = float(model.nearest(float(rng.gamma(2.0)) * unit))
            detector.update(outlier if t in (0, 9, 10, 13) else x, "low" if t in (5, 13) else "high")
        healthy(detector)


@pytest.mark.parametrize(
    ("make", "levels"),
    [
        (lambda: mf.GaussianUnknown(0, 1, 300, 300), (200.0, -300.0, 0.0)),
        (lambda: mf.Exponential(900, 900), (1e-3, 3e4, 5.0)),
        (lambda: mf.Gamma(300.0, 900, 3.0), (1e-2, 3e3, 1.0)),
        (lambda: mf.Poisson(5e3, 1e2), (4000.0, 2.0, 60.0)),
        (lambda: mf.Binomial(2000, 600.0, 600.0), (2.0, 1990.0, 900.0)),
    ],
    ids=["unknown", "exponential", "gamma", "poisson", "binomial"],
)
def test_the_log_space_path_agrees_with_the_plain_recursion(
    make: Callable[[], Any], levels: tuple[float, ...]
) -> None:
    """Readings so far from prior and past that no predictive is representable."""
    model = make()
    detector, twin = mf.Detector(model, hazard=0.01, prune=None), Twin(model, mf.Hazard(0.01))
    rng = np.random.default_rng(3)
    smallest = 0.0
    for level in levels:
        for _ in range(12):
            x = float(model.nearest(level * float(rng.uniform(0.9, 1.1))))
            before = twin.evidence
            detector.update(x)
            twin.observe(x, 1.0)
            smallest = min(smallest, twin.evidence - before)
            length, weight = detector.run_length
            expected = [math.exp(twin.alive[twin.tick - int(n)][0]) for n in length]
            np.testing.assert_allclose(weight, expected, atol=1e-8)
            assert detector.log_evidence == pytest.approx(twin.evidence, rel=1e-10)
    assert smallest < -470.0  # 1e-200 is e^-460


@pytest.mark.parametrize("value", [0.0, 3.7, -1e6])
def test_a_constant_stream(value: float) -> None:
    detector = mf.Detector(mf.GaussianUnknown(0, 0.1, 1, 1), hazard=1 / 250)
    trace = mf.run(detector, np.full(5000, value))
    healthy(detector)
    assert detector.mean == pytest.approx(value, rel=0.01, abs=1e-9)
    assert np.isfinite(trace.mean).all()


def test_a_change_of_variance_alone_is_found() -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.normal(5, 1, 200), rng.normal(5, 6, 60)])
    trace = mf.run(mf.Detector(mf.GaussianUnknown(5, 1, 1, 1), hazard=1 / 250), x)
    assert len(trace.changes) == 1
    assert abs(trace.changes[0].changed_at - 200) <= 5


@pytest.mark.parametrize(
    ("model", "draw", "low", "high"),
    [
        (mf.Poisson(1, 1), lambda rng, v: rng.poisson(v), 2.0, 9.0),
        (mf.Exponential(2, 1), lambda rng, v: rng.exponential(v), 1.0, 12.0),
        (mf.Gamma(3.0, 2, 1), lambda rng, v: rng.gamma(3.0, v), 1.0, 5.0),
        (mf.Binomial(20, 1, 1), lambda rng, v: rng.binomial(20, v), 0.2, 0.6),
    ],
    ids=["Poisson", "Exponential", "Gamma", "Binomial"],
)
def test_a_change_is_found(model: Any, draw: Callable[..., Any], low: float, high: float) -> None:
    rng = np.random.default_rng(7)
    x = [float(draw(rng, low if t < 150 else high)) for t in range(220)]
    changes = mf.run(mf.Detector(model, hazard=1 / 250), x).changes
    assert abs(changes[0].changed_at - 150) <= 3


def test_infinite_moments_are_reported_as_infinite() -> None:
    vague = mf.GaussianUnknown(1.0, 1.0, 0.8, 1.0)
    assert float(vague.parameter(vague.prior())[1]) == math.inf
    mean, var = vague.predictive(vague.prior())
    assert (float(mean), float(var)) == (1.0, math.inf)
    detector = mf.Detector(vague, FIDELITIES, 0.05)
    for x in (0.1, 0.4, -0.2):
        detector.update(x, "high")
    assert detector.variance == math.inf  # after a possible change nothing is known
    healthy(detector)
    heavy = mf.Exponential(1.5, 1.0)
    assert float(heavy.predictive(heavy.prior())[1]) == math.inf
    assert float(heavy.predictive(heavy.prior())[0]) == pytest.approx(2.0)
    assert [float(v) for v in heavy.predictive(heavy.prior(), 0.3)] == [2.0, math.inf]  # the same mean at any zeta


# --- arguments and readings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.GaussianUnknown(shape=0.5), "GaussianUnknown.shape must exceed 1/2, not 0.5"),
        (lambda: mf.GaussianUnknown(scale=0), "GaussianUnknown.scale must be positive, not 0"),
        (lambda: mf.GaussianUnknown(count=-1), "GaussianUnknown.count must be positive and at most 1e+09, not -1"),
        (lambda: mf.GaussianUnknown(math.nan), "GaussianUnknown.mean must be finite, not nan"),
        (lambda: mf.GaussianUnknown(predictive="x"), "GaussianUnknown.predictive must be 'normalized' or 'paper'"),
        (lambda: mf.Exponential(1.0), "Exponential.shape must exceed 1, not 1.0"),
        (lambda: mf.Exponential(2, -1), "Exponential.rate must be positive, not -1"),
        (lambda: mf.Gamma(0), "Gamma.known must be positive"),
        (lambda: mf.Gamma(2, 0.5), "Gamma.shape must exceed 1, not 0.5"),
        (lambda: mf.Poisson(0, 1), "Poisson.shape must be positive"),
        (lambda: mf.Poisson(1, "a"), "Poisson.rate must be a number, not 'a'"),
        (lambda: mf.Binomial(2.5), "Binomial.trials must be a whole number of at least 1, not 2.5"),
        (lambda: mf.Binomial(0), "Binomial.trials must be a whole number of at least 1, not 0"),
        (lambda: mf.Binomial(3, 1, 1, "x"), "Binomial.predictive must be 'normalized' or 'paper', not 'x'"),
    ],
)
def test_bad_parameters_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("model", "good", "bad"),
    [
        (mf.GaussianUnknown(), [0.0, -1e9], []),
        (mf.Exponential(), [0.0, 3.5], [-1e-9]),
        (mf.Gamma(2.0), [1e-9, 3.5], [0.0, -1.0]),
        (mf.Poisson(), [0.0, 7.0, 2.0**53], [-1.0, 0.5, 2.0**54]),
        (mf.Binomial(5), [0.0, 5.0], [-1.0, 2.5, 6.0]),
    ],
    ids=repr,
)
def test_the_support_of_readings(model: Any, good: list[float], bad: list[float]) -> None:
    detector = mf.Detector(model)
    assert model.possible(np.array([*good, *bad, math.nan])).tolist() == [True] * len(good) + [False] * (len(bad) + 1)
    for x in good:
        assert model.check(x) == x
        assert model.nearest(x) == x
        detector.update(x)
    before = detector.to_bytes()
    for x in bad:
        with pytest.raises(ValueError, match=f"outside the support of {type(model).__name__}: "):
            detector.update(x)
    assert detector.to_bytes() == before


def test_a_quantile_of_counts_is_a_count() -> None:
    assert mf.Poisson().nearest(3.4) == 3.0
    assert mf.Poisson().nearest(-2.0) == 0.0
    assert mf.Binomial(5).nearest(7.9) == 5.0
    detector = mf.Detector(mf.Poisson(3, 1), hazard=0.01)
    for x in (4, 3, 5, 2):
        detector.update(x)
    low, high = detector.interval(0.8)
    assert low == int(low) < high == int(high)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_written_and_read(name: str) -> None:
    model = MODELS[name]("paper")
    twin = type(model)(**model.spec())
    assert repr(twin) == repr(model)
    assert twin.spec() == model.spec()
    assert (twin.params() == model.params()).all()
    assert "predictive='paper'" in repr(model)

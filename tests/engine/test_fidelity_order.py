"""What a reading at a fidelity means: no gain falls as zeta rises, in any family, and the gains keep their digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import mfbocd as mf
from mfbocd._kernels.gamma_ratio import scale_gains
from mfbocd.belief.filter import Filter
from mfbocd.belief.gains import GAINS, expected_gains
from mfbocd.belief.hazard import Hazard
from mfbocd.belief.pruning import Pruning
from mfbocd.models.binomial import _divergence as binomial_divergence
from mfbocd.models.binomial import _full_value as binomial_value
from mfbocd.models.poisson import _divergence as poisson_divergence
from mfbocd.models.poisson import _full_value as poisson_value

from ..registry import ALL, INTEGRATED, Case

Array = np.ndarray
ZETAS = np.array([0.0, 0.1, 0.5, 1.0])
STATES = 80
COHERENT = {
    "gaussian",
    "family-gaussian",
    "exponential",
    "exponential-paper",
    "gamma",
    "gamma-paper",
    "trend-known",
    "season-known",
    "autoregressive-known",
    "process-known",
    "regression-known",
    "student",
    "grid-classifier",
    "grid-sensor",
    "multivariate",
}
"""Families whose readings at any zeta have a probability model with the family's own update."""


def precise(model: Any) -> bool:
    """Return whether a reading at zeta has the noise variance s2 / zeta, where s2 is learned."""
    return getattr(model, "weighting", "") == "precision" and getattr(model, "noise_var", None) is None


def levels(model: Any) -> Array:
    """Return the zetas of the model's fidelities; a grid identifies fidelities by zeta."""
    return np.array([0.0, *sorted(model._ways)]) if getattr(model, "_ways", None) else ZETAS


def states(case: Case, count: int = STATES) -> Any:
    """Filters after random readings at random fidelities, with hazards of all kinds."""
    model = case.model()
    most = 2 if case.name in INTEGRATED else 12
    for seed in range(count):
        rng = np.random.default_rng([seed, len(case.name)])
        belief = Filter(model, Hazard(float(rng.choice([0.3, 0.02, 0.004]))), Pruning.of(None))
        for _ in range(int(rng.integers(0, most))):
            belief.observe(model.check(case.draw(rng)), float(rng.choice(levels(model))))
        yield belief


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_no_gain_falls_as_zeta_rises(case: Case) -> None:
    zeta = levels(case.model())
    largest = dict.fromkeys(GAINS, 0.0)
    # an integrated model has at most one reading and one of three hazards here: 30 states cover those
    few = 6 if case.name.startswith("family-gaussian") else 30  # the slowest
    for belief in states(case, few if case.name in INTEGRATED else STATES):
        for gain in GAINS:
            gains = expected_gains(belief, zeta, gain)
            assert gains[0] == 0.0
            assert (np.diff(gains) >= 0.0).all() or case.name.startswith("grid")
            assert np.diff(gains).min() >= -1e-9 * max(gains.max(), 1.0)
            largest[gain] = max(largest[gain], float(gains[-1]))
    assert min(largest.values()) > 1e-3  # not a row of zeros


@pytest.mark.parametrize("case", [case for case in ALL if case.name in COHERENT], ids=lambda c: c.name)
def test_coherent_readings_have_ordered_gains_by_themselves(case: Case) -> None:
    """The gain of each zeta alone: it rises without the correction, to the accuracy of the integrals."""
    zeta = levels(case.model())
    for belief in states(case, 6 if case.name in INTEGRATED else 20):
        weight, stats_ = belief.predicted()
        for gains in (
            [belief.model.run_length_gain(weight, stats_, float(z)) for z in zeta],
            [float(weight @ belief.model.parameter_gain(stats_, float(z))) for z in zeta],
            [float(weight @ belief.model.variance_gain(stats_, float(z))) for z in zeta],
        ):
            assert gains[0] == 0.0
            assert np.diff(gains).min() >= -1e-6 * max(1.0, max(gains))


@pytest.mark.parametrize("case", [case for case in ALL if precise(case.model())], ids=lambda c: c.name)
def test_gains_of_parameters_rise_by_themselves_where_noise_is_unknown(case: Case) -> None:
    """The run-length gain need not: a noisier reading may say more about the noise, relative to the level."""
    for belief in states(case, 4):
        weight, stats_ = belief.predicted()
        for gain in (belief.model.parameter_gain, belief.model.variance_gain):
            gains = [float(weight @ gain(stats_, float(z))) for z in ZETAS]
            assert gains[0] == 0.0
            assert np.diff(gains).min() > 0.0


PRIORS: dict[str, Any] = {
    "bernoulli": (lambda r: mf.Bernoulli(*10 ** r.uniform(-1.5, 1.5, 2)), lambda r: float(r.random() < 0.2)),
    "categorical": (lambda r: mf.Categorical(10 ** r.uniform(-1, 1, 4)), lambda r: float(r.integers(4))),
    "poisson": (lambda r: mf.Poisson(*10 ** r.uniform(-1, 1, 2)), lambda r: float(r.poisson(r.choice([0.3, 9])))),
    "binomial": (lambda r: mf.Binomial(6, *10 ** r.uniform(-1, 1, 2)), lambda r: float(r.integers(0, 3))),
    "unknown": (
        lambda r: mf.GaussianUnknown(0, 10 ** r.uniform(-2, 2), 0.51 + 10 ** r.uniform(-2, 1), weighting="tempered"),
        lambda r: float(r.normal(0, r.choice([0.3, 5]))),
    ),
    "unknown-precise": (
        lambda r: mf.GaussianUnknown(0, 10 ** r.uniform(-2, 2), 0.51 + 10 ** r.uniform(-2, 1)),
        lambda r: float(r.normal(0, r.choice([0.3, 5]))),
    ),
    "exponential": (lambda r: mf.Exponential(1.01 + r.exponential()), lambda r: float(r.exponential())),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
def test_no_gain_falls_as_zeta_rises_with_any_prior(name: str) -> None:
    make, draw = PRIORS[name]
    raised = 0
    rarely = name == "unknown-precise"
    for seed in range(5 * STATES if rarely else STATES):
        rng = np.random.default_rng([seed, 11])
        belief = Filter(make(rng), Hazard(0.05), Pruning.of(None))
        for _ in range(int(rng.integers(0, 8))):
            belief.observe(belief.model.check(draw(rng)), float(rng.choice(ZETAS)))
        for gain in GAINS:
            gains = expected_gains(belief, ZETAS, gain)
            assert gains[0] == 0.0
            assert (np.diff(gains) >= 0.0).all()
            raised += bool(gains[-1] > expected_gains(belief, ZETAS[-1:], gain)[0] + 1e-9)
    assert (raised > 0) == (name != "exponential")  # the correction raises those of other families


def test_the_expensive_reading_of_a_waiting_time_has_the_larger_gain_and_is_bought() -> None:
    fidelities = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
    detector = mf.Detector(mf.Exponential(2, 1), fidelities)
    rng = np.random.default_rng(1)
    for x in rng.exponential(1.0, 500).tolist():
        detector.update(x, "high")
    low, high = detector.gains()
    for gain in GAINS:
        assert getattr(high, gain) > 3.0 * getattr(low, gain) > 0.0
    names = []
    detector = mf.Detector(mf.Exponential(2, 1), fidelities)
    for _ in range(300):
        chosen = detector.choose()
        names.append(chosen.name)
        detector.update(float(rng.gamma(chosen.zeta) / chosen.zeta), chosen)
    assert 0 < names.count("high") < 300


@pytest.mark.parametrize("known", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("zeta", [0.1, 0.5, 1.0])
def test_a_reading_of_weight_zeta_is_a_gamma_with_the_same_mean(known: float, zeta: float) -> None:
    """Predictive and posterior are those of x ~ Gamma(known zeta, zeta theta) with theta integrated out."""
    model = mf.Gamma(known, 2.5, 1.5)
    stats_ = model.update(model.prior(), 2.0, 0.3)
    a, b = stats_[0], stats_[1] * model.rate
    u = np.linspace(-30.0, 5.0, 4001)  # log theta: trapezoid rule; the integrand vanishes at both ends
    theta = np.exp(u)
    for x in (0.01, 0.7, 5.0):
        reading = stats.gamma.logpdf(x, known * zeta, scale=1 / (zeta * theta))
        joint = np.exp(reading + stats.gamma.logpdf(theta, a, scale=1 / b) + u) * (u[1] - u[0])
        assert math.exp(float(model.log_predictive(stats_, x, zeta))) == pytest.approx(joint.sum(), rel=1e-9)
        after = model.parameter(model.update(stats_, x, zeta))[0]
        assert float(after) == pytest.approx(theta @ joint / joint.sum(), rel=1e-9)
    assert float(model.predictive(stats_, zeta)[0]) == float(model.predictive(stats_)[0])


def test_a_reading_of_zero_is_valid_at_a_low_fidelity() -> None:
    fidelities = [mf.Fidelity("low", 0.2, 1.0), mf.Fidelity("high", 1.0, 5.0)]
    detector = mf.Detector(mf.Exponential(2, 1), fidelities, hazard=0.02)
    rng = np.random.default_rng(2)
    for t in range(200):
        detector.update(0.0 if t % 7 == 0 else float(rng.exponential()), "low" if t % 2 else "high")
    assert 0.5 < detector.mean < 1.5
    assert math.isfinite(detector.log_evidence)
    assert detector.run_length.weight.sum() == pytest.approx(1.0)


def scale_family(predictive: str) -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.gammaln(nu + 1.0) - (nu + 1.0) * np.log(-chi),
        u=lambda x: -np.asarray(x, dtype=float),
        log_h1=lambda x: 0.0 * np.asarray(x),
        chi=-1.0,
        nu=2.0,
        support=(0.0, math.inf),
        predictive=predictive,
    )


@pytest.mark.parametrize("predictive", ["paper", "normalized"])
def test_a_family_that_ranks_fidelities_backwards_refuses_several(predictive: str) -> None:
    fidelities = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
    model = scale_family(predictive)
    for make in (
        lambda: mf.Detector(model, fidelities),
        lambda: mf.Fleet(3, model, fidelities),
        lambda: mf.Detector(mf.Product(model, mf.Gaussian()), fidelities),
    ):
        with pytest.raises(ValueError, match=r"would say more about the parameter.*Exponential or Gamma.*or Grid"):
            make()
    one = mf.Detector(model, [fidelities[1], mf.Fidelity("skip", 0.0, 0.0)])
    one.update(1.5, "high")
    assert one.ticks == 1


# --- digits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1e-3, 0.05, 0.5, 1.0, 120.0, 1e9])
def test_parameter_gain_of_a_scale(d: float) -> None:
    a = 10.0 ** np.linspace(-4, 14, 37)
    with mpmath.workdps(60):

        def f(s: Any) -> Any:
            return mpmath.loggamma(s) + s - s * mpmath.digamma(s)

        truth = [float(f(mpmath.mpf(v)) - f(mpmath.mpf(v) + mpmath.mpf(d))) for v in a.tolist()]
    np.testing.assert_allclose(scale_gains(a, d), truth, rtol=1e-10, atol=1e-15)
    assert (scale_gains(a, 0.0) == 0.0).all()


def poisson_truth(a: Any, b: Any, x: Any, z: Any) -> tuple[Any, Any]:
    a, b, x, z = map(mpmath.mpf, (a, b, x, z))
    rise = mpmath.loggamma(a + z * x) - mpmath.loggamma(a)
    kl = z * x * mpmath.digamma(a + z * x) - rise + a * mpmath.log((b + z) / b) - (a + z * x) * z / (b + z)
    return kl, rise - z * mpmath.loggamma(x + 1) + a * mpmath.log(b) - (a + z * x) * mpmath.log(b + z)


def test_poisson_terms_against_mpmath_up_to_the_largest_count() -> None:
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(300):
            b, z = float(10 ** rng.uniform(-3, 4)), float(rng.choice([0.05, 0.3, 1.0]))
            level = float(10 ** rng.uniform(-2, 15.95))
            a = max(level * b * float(rng.choice([1.0, 1.0001, 1.3])), 1e-3)
            x = math.floor(max(level + rng.normal() * 3 * math.sqrt(level * (1 / z + 1 / b)), 0.0))
            x, last = float(min(x, 2**53)), 2.0**53
            kl, log_p = poisson_truth(a, b, x, z)
            assert poisson_divergence(a, b, x, last, z) == pytest.approx(float(kl), rel=1e-8, abs=1e-8)
            assert poisson_value(a, b, x, last, z) == pytest.approx(float(log_p), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("zeta", [0.3, 1.0])
@pytest.mark.parametrize("count", [1e8, 1e11, 1e14, 2.0**52, 2.0**53])
def test_the_poisson_gains_at_large_counts_are_those_of_a_normal(count: float, zeta: float) -> None:
    """There theta and x are normal: the gain is log(1 + zeta / b) / 2, up to terms of order 1 / count."""
    for b in (0.5, 7.0, 300.0):
        model = mf.Poisson(1.0, 1e-9)
        got = float(model.parameter_gain(np.array([count * b, b]), zeta))
        assert got == pytest.approx(0.5 * math.log1p(zeta / b), abs=1e-8)
        apart = count * (1.0 + np.array([0.0, 3.0]) / math.sqrt(count * b))
        gains = model.run_length_gain(np.array([0.5, 0.5]), np.stack([apart * b, [b, b]]), zeta)
        sd = math.sqrt(count * (1.0 / b + 1.0 / zeta))
        normal = mf.Gaussian().run_length_gain(
            np.array([0.5, 0.5]), np.array([[1e12, 1e12], (apart - count) / sd]), 1.0
        )
        assert gains == pytest.approx(normal, abs=1e-4)


def test_a_poisson_stream_of_the_largest_counts_has_the_evidence_it_should() -> None:
    model = mf.Poisson(1.0, 1e-12)  # the least rate
    rng = np.random.default_rng(0)
    stats_, readings = model.prior(), []
    for _ in range(20):
        x = float(math.floor(2.0**52 * (1.0 + rng.normal() * 2.0**-26)))
        with mpmath.workdps(60):
            truth = float(poisson_truth(stats_[0], stats_[1], x, 1.0)[1])
        assert float(model.log_predictive(stats_, x, 1.0)) == pytest.approx(truth, abs=1e-6)
        stats_ = model.update(stats_, x, 1.0)
        readings.append(x)
    detector = mf.Detector(model, hazard=0.01)
    for x in readings:
        detector.update(x)
    assert all(g.joint >= 0.0 for g in detector.gains())


def test_binomial_terms_against_mpmath_up_to_the_most_trials() -> None:
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(200):
            n, z = float(math.floor(10 ** rng.uniform(0.5, 9))), float(rng.choice([0.05, 0.3, 1.0]))
            p, k = float(rng.choice([1e-6, 0.01, 0.3, 0.9])), float(10 ** rng.uniform(-1, 4))
            a, b = k * n * p + 0.5, k * n * (1 - p) + 0.5
            x = float(rng.binomial(int(n), p))
            A, B, X, Z, N = map(mpmath.mpf, (a, b, x, z, n))
            s, t = Z * X, Z * (N - X)
            value = mpmath.log(mpmath.beta(A + s, B + t) / mpmath.beta(A, B))
            slope = s * mpmath.digamma(A + s) + t * mpmath.digamma(B + t) - (s + t) * mpmath.digamma(A + B + s + t)
            log_binomial = mpmath.loggamma(N + 1) - mpmath.loggamma(X + 1) - mpmath.loggamma(N - X + 1)
            assert binomial_divergence(a, b, x, n, z) == pytest.approx(float(slope - value), rel=1e-8, abs=1e-8)
            assert binomial_value(a, b, x, n, z) == pytest.approx(float(value + Z * log_binomial), rel=1e-8, abs=1e-8)


# --- Confusion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [(0.1, 0.1), (0.01, 3.0), (0.5, 0.5), (1.0, 1.0), (2.0, 7.0), (50.0, 50.0)])
def test_the_prior_of_the_confusion_model_is_its_beta(prior: tuple[float, float]) -> None:
    alpha, beta = prior
    model = mf.Confusion({}, alpha, beta)
    edge = np.linspace(0.0, 1.0, 201)
    truth = np.diff(stats.beta(alpha, beta).cdf(edge))
    np.testing.assert_allclose(np.exp(model.prior()), truth, rtol=1e-6, atol=1e-13)
    assert float(model.parameter(model.prior())[0]) == pytest.approx(alpha / (alpha + beta), rel=1e-9)
    after = model.update(model.prior(), 1.0, 1.0)
    assert float(model.predictive(after)[0]) == pytest.approx((alpha + 1) / (alpha + beta + 1), abs=1e-4)

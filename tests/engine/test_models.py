"""Each model's formulas against scipy: predictives that integrate to one, moments, distribution functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

import mfbocd as mf

from ..registry import ALL, ALPHA, BETA, CASES, MEAN, NOISE, RATE, SHAPE, VAR, Case, bernoulli_family, gaussian_family


def some_stats(case: Case, seed: int = 1, readings: int = 5) -> tuple[object, np.ndarray, list[tuple[float, float]]]:
    rng = np.random.default_rng(seed)
    model = case.model()
    given = [(case.draw(rng), float(rng.uniform(0.1, 1.0))) for _ in range(readings)]
    stats_ = model.prior()
    for x, zeta in given:
        stats_ = model.update(stats_, x, zeta)
    return model, stats_, given


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_the_predictive_is_the_ratio_of_marginals(case: Case) -> None:
    model, stats_, given = some_stats(case)
    for x, zeta in ((case.draw(np.random.default_rng(9)), 0.4), (case.draw(np.random.default_rng(8)), 1.0)):
        expected = case.log_marginal([*given, (x, zeta)]) - case.log_marginal(given)
        assert float(model.log_predictive(stats_, x, zeta)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_predictive_mean_and_cdf(case: Case) -> None:
    model, stats_, given = some_stats(case)
    mean, var = model.predictive(stats_)
    np.testing.assert_allclose(mean, case.mean(given), rtol=1e-6, atol=1e-8)
    predicted = np.ravel(var)[: model.dimension - case.given]
    assert (predicted > 0).all()
    far = 1e9 if model.dimension == 1 else np.full(model.dimension, 1e9)
    low, high = model.predictive_cdf(stats_, -far), model.predictive_cdf(stats_, far)
    if case.given:  # a reading is predicted at its own covariates, so its distribution ends only where they do not
        covariates = case.draw(np.random.default_rng(7))[-case.given :]
        at = [np.append(np.full(model.dimension - case.given, y), covariates) for y in (-1e9, 1e9)]
        low, high = (
            np.append(model.predictive_cdf(stats_, x)[: -case.given], ends[-case.given :])
            for x, ends in zip(at, (low, high), strict=True)
        )
    np.testing.assert_allclose(low, 0.0, atol=1e-20)
    np.testing.assert_allclose(high, 1.0, rtol=1e-6)


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_zeta_zero_changes_nothing_but_time(case: Case) -> None:
    model, stats_, _ = some_stats(case)
    x = case.draw(np.random.default_rng(2))
    assert (model.update(stats_, x, 0.0) == model.skip(stats_)).all()
    assert float(model.log_predictive(stats_, x, 0.0)) == 0.0


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_statistics_vectorize(case: Case) -> None:
    model, one, _ = some_stats(case, seed=1)
    _, two, _ = some_stats(case, seed=2)
    both = np.stack([one, two], axis=1)
    x = case.draw(np.random.default_rng(3))
    for j, single in enumerate((one, two)):
        np.testing.assert_allclose(model.update(both, x, 0.3)[:, j], model.update(single, x, 0.3), rtol=1e-14)
        np.testing.assert_allclose(
            model.log_predictive(both, x, 0.3)[j], model.log_predictive(single, x, 0.3), rtol=1e-9
        )
        for many, alone in zip(model.predictive(both), model.predictive(single), strict=True):
            np.testing.assert_allclose(many[..., j], alone, rtol=1e-9)
        for many, alone in zip(model.parameter(both), model.parameter(single), strict=True):
            np.testing.assert_allclose(many[..., j], alone, rtol=1e-6)


def test_gaussian_against_scipy() -> None:
    model = mf.Gaussian(MEAN, VAR, NOISE)
    stats_ = model.prior()
    for x, zeta in ((0.3, 1.0), (2.0, 0.25)):
        stats_ = model.update(stats_, x, zeta)
    precision = 1 / VAR + 1.25 / NOISE
    mu = (MEAN / VAR + (0.3 + 0.25 * 2.0) / NOISE) / precision
    theta, var = model.parameter(stats_)
    assert float(theta) == pytest.approx(mu, rel=1e-13)
    assert float(var) == pytest.approx(1 / precision, rel=1e-13)
    truth = stats.norm(mu, np.sqrt(NOISE / 0.4 + 1 / precision))
    assert float(model.log_predictive(stats_, 5.0, 0.4)) == pytest.approx(truth.logpdf(5.0), rel=1e-12)
    assert float(model.predictive_cdf(stats_, 1.0, 0.4)) == pytest.approx(truth.cdf(1.0), rel=1e-12)
    assert [float(v) for v in model.predictive(stats_, 0.4)] == pytest.approx([mu, truth.var()], rel=1e-12)


@pytest.mark.parametrize("zeta", [0.2, 0.5, 1.0])
def test_normalized_predictives_sum_to_one_and_the_papers_does_not(zeta: float) -> None:
    normal, paper = mf.Bernoulli(ALPHA, BETA), mf.Bernoulli(ALPHA, BETA, predictive="paper")
    prior = normal.prior()
    sums = [sum(float(np.exp(m.log_predictive(prior, x, zeta))) for x in (0.0, 1.0)) for m in (normal, paper)]
    assert sums[0] == pytest.approx(1.0, abs=1e-14)
    assert sums[1] == pytest.approx(1.0, abs=1e-14) if zeta == 1.0 else sums[1] > 1.01


def test_the_papers_excess_at_a_flat_prior_is_a_third() -> None:
    model = mf.Bernoulli(1, 1, predictive="paper")
    total = sum(float(np.exp(model.log_predictive(model.prior(), x, 0.5))) for x in (0.0, 1.0))
    assert total == pytest.approx(4 / 3, rel=1e-14)


def test_bernoulli_parameter_against_scipy() -> None:
    model = mf.Bernoulli(ALPHA, BETA)
    stats_ = model.update(model.update(model.prior(), 1.0, 0.3), 0.0, 0.8)
    truth = stats.beta(ALPHA + 0.3, BETA + 0.8)
    assert [float(v) for v in model.parameter(stats_)] == pytest.approx([truth.mean(), truth.var()], rel=1e-13)


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_a_continuous_family_is_integrated_right(zeta: float) -> None:
    family, closed = gaussian_family("normalized"), mf.Gaussian(MEAN, VAR, NOISE)
    family.x_moments = None
    ours, theirs = family.prior(), closed.prior()
    for x in (3.0, 2.5, 400.0):  # the last one moves the peak far from the start of the search
        ours, theirs = family.update(ours, x, 0.7), closed.update(theirs, x, 0.7)
        for got, expected in zip(family.predictive(ours, zeta), closed.predictive(theirs, zeta), strict=True):
            assert float(got) == pytest.approx(float(expected), rel=1e-7)
        mean = float(closed.predictive(theirs, zeta)[0])
        assert float(family.predictive_cdf(ours, mean + 1.0, zeta)) == pytest.approx(
            float(closed.predictive_cdf(theirs, mean + 1.0, zeta)), abs=1e-6
        )


def test_a_positive_family_is_integrated_right() -> None:
    """Exponential observations, Gamma prior on the rate: x is Lomax, with a heavy tail."""
    a, b = 6.0, 2.0
    family = mf.ExponentialFamily(
        a2=lambda chi, nu: special.gammaln(nu + 1) - (nu + 1) * np.log(-chi),
        u=lambda x: -x,
        log_h1=lambda x: 0.0 * x,
        chi=-b,
        nu=a - 1,
        support=(0.0, np.inf),
    )
    truth = stats.lomax(a, scale=b)
    mean, var = family.predictive(family.prior())
    assert float(mean) == pytest.approx(truth.mean(), rel=1e-6)
    assert float(var) == pytest.approx(truth.var(), rel=1e-5)
    assert float(family.predictive_cdf(family.prior(), 1.0)) == pytest.approx(truth.cdf(1.0), abs=1e-6)


def test_a_bounded_family_is_integrated_right() -> None:
    """A continuous Bernoulli-like family on (0, 1) with a flat conjugate prior has a known normalizer."""
    family = mf.ExponentialFamily(
        a2=lambda chi, nu: 0.5 * chi**2 / nu - 0.5 * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -0.5 * x**2,
        chi=0.4,
        nu=2.0,
        support=(0.0, 1.0),
        predictive="normalized",
    )
    truth = stats.truncnorm(
        *((np.array([0, 1]) - 0.2) / np.sqrt(1 / 0.5 + 0.5)), loc=0.2, scale=np.sqrt(1 / 0.5 + 0.5)
    )
    assert float(family.log_predictive(family.prior(), 0.7, 0.5)) == pytest.approx(truth.logpdf(0.7), abs=1e-8)


def test_the_natural_parameter_of_a_family() -> None:
    gaussian = gaussian_family("paper")
    closed = mf.Gaussian(MEAN, VAR, NOISE)
    got = gaussian.parameter(gaussian.update(gaussian.prior(), 2.0, 0.5))
    expected = closed.parameter(closed.update(closed.prior(), 2.0, 0.5))
    assert [float(v) for v in got] == pytest.approx([float(v) for v in expected], rel=1e-7)
    # the Bernoulli's natural parameter is logit(p), with digamma moments
    mean, var = bernoulli_family("paper").parameter(bernoulli_family("paper").prior())
    assert float(mean) == pytest.approx(special.digamma(ALPHA) - special.digamma(BETA), rel=1e-6)
    assert float(var) == pytest.approx(special.polygamma(1, ALPHA) + special.polygamma(1, BETA), rel=1e-5)


def test_a_poisson_marginal_by_quadrature() -> None:
    """The registry's closed form is itself checked once against the integral over theta."""
    case = next(c for c in CASES if c.name == "family-poisson")
    readings = [(3.0, 0.4), (0.0, 1.0), (6.0, 0.7)]

    def density(rate: float) -> float:
        logs = sum(z * stats.poisson(rate).logpmf(x) for x, z in readings)
        return float(np.exp(logs + stats.gamma(SHAPE, scale=1 / RATE).logpdf(rate)))

    value, _ = integrate.quad(density, 0, np.inf, epsrel=1e-11)
    assert case.log_marginal(readings) == pytest.approx(np.log(value), abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Gaussian(0, -1, 1), "Gaussian.var must be positive, not -1"),
        (lambda: mf.Gaussian(0, 1, 0), "Gaussian.noise_var must be positive, not 0"),
        (lambda: mf.Gaussian(np.nan, 1, 1), "Gaussian.mean must be finite, not nan"),
        (lambda: mf.Gaussian("a", 1, 1), "Gaussian.mean must be a number, not 'a'"),
        (lambda: mf.Bernoulli(0, 1), "Bernoulli.alpha must be positive"),
        (lambda: mf.Bernoulli(1, 1, predictive="x"), "Bernoulli.predictive must be 'normalized' or 'paper', not 'x'"),
        (lambda: bernoulli_family("x"), "predictive must be 'normalized' or 'paper', not 'x'"),
        (lambda: mf.ExponentialFamily(None, abs, abs, 1, 1), "ExponentialFamily.a2 must be a function, not None"),
        (lambda: mf.ExponentialFamily(lambda c, n: c * np.nan, abs, abs, 1, 1), "a2 must give one finite number"),
        (lambda: mf.ExponentialFamily(lambda c, n: c, abs, abs, 1, 1, support="reals"), "support must be 'counts'"),
        (lambda: mf.ExponentialFamily(lambda c, n: c, abs, abs, 1, 1, support=(2, 1)), "low < high"),
        (lambda: mf.ExponentialFamily(lambda c, n: c, abs, abs, 1, 1, support=[1]), "at least two finite values"),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)

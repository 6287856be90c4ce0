"""Families with vector readings, and the categorical: formulas against scipy, invariance, extremes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import mfbocd as mf
from mfbocd.belief.gains import GAINS, expected_gains

from ..registry import ALPHA, BETA, VECTORS, Case, multivariate, wishart
from . import vectors as v

LEVELS = np.array([0.1, 0.3, 1.0])
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def updated(model, readings):  # type: ignore[no-untyped-def]
    stats_ = model.prior()
    for x, zeta in readings:
        stats_ = model.update(stats_, x, zeta)
    return stats_


def some(case: Case, n: int, seed: int = 4) -> list[tuple[np.ndarray, float]]:
    rng = np.random.default_rng(seed)
    return [(case.draw(rng), float(rng.choice([0.1, 0.4, 1.0]))) for _ in range(n)]


def by_name(name: str) -> Case:
    return next(case for case in VECTORS if case.name == name)


# --- predictives ----------------------------------------------------------------------------------------------------


def test_the_unknown_gaussian_is_scipys_multivariate_t_at_full_fidelity() -> None:
    read = some(by_name("wishart"), 5)
    x = np.array([0.3, 2.0])
    for predictive, weighting in (("normalized", "tempered"), ("paper", "tempered"), ("normalized", "precision")):
        model = wishart(predictive, weighting)
        truth = v.wishart_student(read, 1.0, tempered=weighting == "tempered")
        assert float(model.log_predictive(updated(model, read), x, 1.0)) == pytest.approx(truth.logpdf(x), abs=1e-10)


@pytest.mark.parametrize("zeta", [0.05, 0.4, 1.0])
def test_the_normalized_predictive_integrates_to_one_and_the_papers_does_not(zeta: float) -> None:
    """On a polar grid about the centre, far into the tails: t with few degrees of freedom has long ones."""
    angle = np.arange(24) * math.pi / 12
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    log_r = np.linspace(-9.0, 14.0, 300)
    total = {}
    for predictive in ("normalized", "paper"):
        model = wishart(predictive)
        at = updated(model, some(by_name("wishart"), 3))
        centre = model.predictive(at)[0]

        def ring(s: float, model=model, at=at, centre=centre) -> float:  # type: ignore[no-untyped-def]
            logs = [float(model.log_predictive(at, centre + math.exp(s) * u, zeta)) for u in around]
            return math.exp(2 * s) * float(np.mean(np.exp(logs)))

        total[predictive] = 2 * math.pi * sum(ring(s) for s in log_r.tolist()) * (log_r[1] - log_r[0])
    assert total["normalized"] == pytest.approx(1.0, abs=1e-5)
    assert total["paper"] == pytest.approx(1.0, abs=1e-5) if zeta == 1.0 else abs(total["paper"] - 1.0) > 0.05


@pytest.mark.parametrize("zeta", [0.1, 0.6, 1.0])
def test_in_one_dimension_the_formula_is_the_univariate_one(zeta: float) -> None:
    """The registry's formula at d = 1, against scipy and the univariate family."""
    prior = (np.array([0.4]), 0.8, 2.6, np.array([[1.7]]))
    read = [(np.array([1.0]), 0.3), (np.array([-0.5]), 1.0)]
    precise = mf.GaussianUnknown(mean=0.4, count=0.8, shape=1.3, scale=0.85)
    one = mf.GaussianUnknown(0.4, 0.8, 1.3, 0.85, weighting="tempered")
    paper = mf.GaussianUnknown(0.4, 0.8, 1.3, 0.85, "paper", "tempered")
    at, there = (updated(model, [(float(x[0]), z) for x, z in read]) for model in (one, precise))
    x = np.array([2.2])
    assert float(precise.log_predictive(there, 2.2, zeta)) == pytest.approx(
        float(v.wishart_student(read, zeta, *prior).logpdf(x)), abs=1e-10
    )
    expected = float(v.wishart_student(read, zeta, *prior, tempered=True).logpdf(x))
    assert float(one.log_predictive(at, 2.2, zeta)) == pytest.approx(expected, abs=1e-10)
    rise = v.wishart_paper_marginal([*read, (x, zeta)], *prior) - v.wishart_paper_marginal(read, *prior)
    assert float(paper.log_predictive(at, 2.2, zeta)) == pytest.approx(rise, abs=1e-10)


@pytest.mark.parametrize("zeta", [0.2, 1.0])
def test_moments_and_distribution_functions_against_scipy(zeta: float) -> None:
    read = some(by_name("wishart"), 6)
    model = wishart("normalized")
    at = updated(model, read)
    place, count, degrees, scale = v.wishart_posterior(read)
    df = degrees + zeta - 2
    spread = scale * (count + zeta) / (zeta * count * df)
    mean, var = model.predictive(at, zeta)
    np.testing.assert_allclose(mean, place, rtol=1e-11)
    np.testing.assert_allclose(var, np.diag(spread) * df / (df - 2), rtol=1e-10)
    np.testing.assert_allclose(model.parameter(at)[1], np.diag(scale) / (count * (degrees - 3)), rtol=1e-10)
    np.testing.assert_allclose(model.covariance(at), scale / (degrees - 3), rtol=1e-10)
    x = np.array([0.1, -2.5])
    below = stats.t(df, place, np.sqrt(np.diag(spread))).cdf(x)
    np.testing.assert_allclose(model.predictive_cdf(at, x, zeta), below, rtol=1e-9)
    known = multivariate()
    at = updated(known, some(by_name("multivariate"), 6))
    mean, var = known.predictive(at, zeta)
    x = np.array([0.1, -2.5, 1.0])
    np.testing.assert_allclose(known.predictive_cdf(at, x, zeta), stats.norm(mean, np.sqrt(var)).cdf(x), rtol=1e-9)


def test_few_degrees_have_no_variance() -> None:
    model = mf.MultivariateGaussianUnknown([0, 0], degrees=2)
    assert np.isinf(model.predictive(model.prior())[1]).all()
    assert np.isinf(model.parameter(model.prior())[1]).all()
    assert np.isfinite(model.variance_gain(model.prior(), 0.5))
    detector = mf.Detector(model, hazard=0.1)
    low, high = detector.interval(0.9)
    np.testing.assert_allclose(high, stats.t(1, 0, np.sqrt(2.0)).ppf(0.95), rtol=1e-6)
    np.testing.assert_allclose(low, -high)


# --- special cases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("predictive", ["normalized", "paper"])
def test_two_categories_are_the_bernoulli(predictive) -> None:  # type: ignore[no-untyped-def]
    bernoulli, two = mf.Bernoulli(ALPHA, BETA, predictive), mf.Categorical([BETA, ALPHA], predictive)
    rng = np.random.default_rng(3)
    read = [(float(rng.random() < 0.3), float(rng.choice([0.2, 0.7, 1.0]))) for _ in range(40)]
    a, b = updated(bernoulli, read), updated(two, read)
    np.testing.assert_array_equal(a[:2], b[::-1])
    for x in (0.0, 1.0):
        for zeta in (0.0, 0.3, 1.0):
            assert float(bernoulli.log_predictive(a, x, zeta)) == float(two.log_predictive(b, x, zeta))
            assert float(bernoulli.predictive_cdf(a, x, zeta)) == pytest.approx(float(two.predictive_cdf(b, x, zeta)))
    fidelities = [mf.Fidelity(f"z{z}", z, 1.0) for z in (0.2, 0.7, 1.0)]
    detectors = [mf.Detector(m, fidelities, 0.05, policy=mf.Always(), prune=None) for m in (bernoulli, two)]
    for x, zeta in read:
        one, other = (d.update(x, f"z{zeta}") for d in detectors)
        assert one.mean == pytest.approx(other.mean, abs=1e-13)
    np.testing.assert_allclose(*(d.run_length.weight for d in detectors), atol=1e-13)
    for gain, factor in (("run_length", 1), ("joint", 1), ("variance", 2)):
        if predictive == "paper" and gain != "variance":
            continue  # the Bernoulli's use unnormalized values, as published
        one, other = (expected_gains(d._filter, LEVELS, gain) for d in detectors)
        np.testing.assert_allclose(other, factor * one, rtol=1e-9, atol=1e-13)


def test_uncorrelated_columns_are_a_product_of_gaussians() -> None:
    together = mf.MultivariateGaussian([1.0, -2.0], [4.0, 9.0], [0.5, 2.0])
    apart = mf.Product(mf.Gaussian(1.0, 4.0, 0.5), mf.Gaussian(-2.0, 9.0, 2.0))
    one, two = (mf.Detector(m, FIDELITIES, 0.05, policy=mf.Random(), seed=2, prune=None) for m in (together, apart))
    rng = np.random.default_rng(5)
    for t in range(40):
        x = rng.normal([1.0, -2.0 + 2.0 * (t > 30)], 1.0)
        a, b = one.update(x, one.choose()), two.update(x, two.choose())
        np.testing.assert_allclose(a.mean, b.mean, rtol=1e-10)
    np.testing.assert_allclose(one.run_length.weight, two.run_length.weight, atol=1e-11)
    assert one.log_evidence == pytest.approx(two.log_evidence, rel=1e-11)
    np.testing.assert_allclose(one.variance, two.variance, rtol=1e-10)
    for gain in GAINS:
        a, b = (expected_gains(d._filter, LEVELS, gain) for d in (one, two))
        # sampled in different coordinates; the others are closed
        np.testing.assert_allclose(a, b, rtol=0.04 if gain != "variance" else 1e-10, atol=1e-3)
    np.testing.assert_allclose(one.interval(), two.interval(), rtol=1e-9)


# --- gains ----------------------------------------------------------------------------------------------------------


def planar(model, weight, at, zeta: float) -> float:  # type: ignore[no-untyped-def]
    """I(r; x) of a mixture in the plane, on a dense grid with the density from scipy."""
    parts = model.components(at, zeta)
    u = np.linspace(-1.0, 1.0, 601)
    axis = 14.0 * np.sinh(5.0 * u) / math.sinh(5.0) * math.sqrt(parts.shape.max())
    step = np.gradient(axis)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    logs = np.stack(
        [
            stats.multivariate_normal(c, s).logpdf(grid)
            if np.isinf(df)
            else stats.multivariate_t(c, s, df=df).logpdf(grid)
            for c, s, df in zip(*parts, strict=True)
        ]
    )
    mixed = special.logsumexp(logs + np.log(weight)[:, None, None], axis=0)
    return float(weight @ ((np.exp(logs) * (logs - mixed)) @ step @ step))


PLANE = {
    "known": lambda: mf.MultivariateGaussian([0, 0], [[4.0, 1.0], [1.0, 3.0]], [[1.0, -0.3], [-0.3, 0.6]]),
    "unknown": lambda: mf.MultivariateGaussianUnknown([0, 0], 0.5, 12, [[9.0, 1.0], [1.0, 6.0]]),
}


@pytest.mark.parametrize("kind", PLANE)
def test_the_run_length_gain_in_the_plane_equals_dense_integration(kind: str) -> None:
    model = PLANE[kind]()
    rng = np.random.default_rng(8)
    centres = np.array([[0.0, 0.0], [2.0, -1.0], [-1.5, 0.5]])
    at = np.stack(
        [
            updated(model, [(rng.normal(c, 0.8), 1.0) for _ in range(n)])
            for c, n in zip(centres, (25, 4, 8), strict=True)
        ]
        + [model.prior()],
        axis=1,
    )
    weight = np.array([0.6, 0.1, 0.25, 0.05])
    for zeta in LEVELS.tolist():
        expected = planar(model, weight, at, zeta)
        assert expected > 5e-3
        assert model.run_length_gain(weight, at, zeta) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("name", ["multivariate", "wishart"])
def test_components_that_do_not_overlap_are_identified(name: str) -> None:
    model = by_name(name).model()
    d = model.dimension
    at = np.stack([updated(model, [(np.full(d, c), 1.0)] * 400) for c in (0.0, 1e3, -1e3)], axis=1)
    weight = np.array([0.2, 0.5, 0.3])
    assert model.run_length_gain(weight, at, 1.0) == pytest.approx(float(special.entr(weight).sum()), abs=1e-3)
    same = np.stack([updated(model, [(np.full(d, 1.0), 1.0)] * 4)] * 3, axis=1)
    assert model.run_length_gain(weight, same, 1.0) == pytest.approx(0.0, abs=1e-12)
    assert model.run_length_gain(weight, at, 0.0) == 0.0


def test_a_better_gaussian_reading_has_a_larger_gain() -> None:
    """A reading at zeta is one at a higher zeta with noise added; all fidelities are weighed at the same points."""
    levels = np.array([0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0])
    for seed in range(4):
        detector = mf.Detector(multivariate(), hazard=0.1, prune=None)
        for x, _ in some(by_name("multivariate"), 12, seed):
            detector.update(x)
        for gain in GAINS:
            assert (np.diff(expected_gains(detector._filter, levels, gain)) > 0.0).all()


def test_the_known_gaussians_parameter_gain_is_half_a_log_determinant() -> None:
    model = multivariate()
    read = some(by_name("multivariate"), 5)
    at = updated(model, read)
    total = sum(zeta for _, zeta in read)
    before = np.linalg.inv(np.linalg.inv(v.PRIOR) + total * np.linalg.inv(v.KNOWN))
    after = np.linalg.inv(np.linalg.inv(v.PRIOR) + (total + 0.3) * np.linalg.inv(v.KNOWN))
    expected = 0.5 * (np.linalg.slogdet(before)[1] - np.linalg.slogdet(after)[1])
    assert float(model.parameter_gain(at, 0.3)) == pytest.approx(expected, rel=1e-11)
    trace = np.trace(np.linalg.solve(v.KNOWN, before - after))
    assert float(model.variance_gain(at, 0.3)) == pytest.approx(trace, rel=1e-10)


def wishart_divergence(after, before) -> float:  # type: ignore[no-untyped-def]
    """KL of one Normal-inverse-Wishart from another: that of the covariances and, given them, of the means."""
    m1, k1, n1, s1 = after
    m0, k0, n0, s0 = before
    d = len(m1)
    psi = special.digamma(0.5 * (n1 - np.arange(d))).sum()
    outer = 0.5 * n0 * (np.linalg.slogdet(s1)[1] - np.linalg.slogdet(s0)[1])
    outer += 0.5 * n1 * (np.trace(np.linalg.solve(s1, s0)) - d) + 0.5 * (n1 - n0) * psi
    outer += special.multigammaln(0.5 * n0, d) - special.multigammaln(0.5 * n1, d)
    inner = 0.5 * (d * k0 / k1 - d + d * math.log(k1 / k0) + k0 * n1 * (m1 - m0) @ np.linalg.solve(s1, m1 - m0))
    return float(outer + inner)


@pytest.mark.parametrize("zeta", [0.1, 0.5, 0.9])
def test_the_unknown_gaussians_parameter_gain_counts_the_scatter_of_the_update(zeta: float) -> None:
    """The entropy of an inverse Wishart falls as its degrees rise by zeta, and E log|C| is a martingale."""
    model = wishart("normalized")
    at = updated(model, some(by_name("wishart"), 4))
    _, count, degrees, _ = v.wishart_posterior(some(by_name("wishart"), 4))

    def entropy(nu: float) -> float:
        psi = special.psi(nu / 2) + special.psi(nu / 2 - 0.5)
        return float(special.multigammaln(nu / 2, 2) + nu - 0.5 * nu * psi)

    expected = math.log1p(zeta / count) + entropy(degrees) - entropy(degrees + zeta)
    assert float(model.parameter_gain(at, zeta)) == pytest.approx(expected, rel=1e-9)


def test_the_unknown_gaussians_parameter_gain_is_the_expected_divergence() -> None:
    zeta = 1.0
    read = some(by_name("wishart"), 4)
    before = v.wishart_posterior(read)
    place, count, degrees, scale = before
    df = degrees + zeta - 2
    root = np.linalg.cholesky(scale * (count + zeta) / (zeta * count))

    def divergence(share: float) -> float:
        """At |x| that share / (1 - share) is c q; the direction does not matter."""
        x = place + root @ (math.sqrt(share / (1 - share)) * np.array([0.6, 0.8]))
        return wishart_divergence(v.wishart_posterior([*read, (x, zeta)]), before) * stats.beta(1.0, 0.5 * df).pdf(
            share
        )

    expected, _ = integrate.quad(divergence, 0.0, 1.0, epsrel=1e-10)
    model = wishart("normalized")
    assert float(model.parameter_gain(updated(model, read), zeta)) == pytest.approx(expected, rel=1e-8)
    assert float(model.variance_gain(updated(model, read), zeta)) == pytest.approx(2 / count - 2 / (count + zeta))


def test_the_categorical_gains_are_sums_over_its_outcomes() -> None:
    model = mf.Categorical(v.DIRICHLET)
    at = np.stack([updated(model, [(float(i % 4), 0.7)] * 5) for i in range(3)], axis=1)
    weight = np.array([0.5, 0.2, 0.3])
    for zeta in (0.2, 1.0):
        rise = special.poch(at, zeta)
        p = rise / rise.sum(axis=0)
        mixed = p @ weight
        expected = special.entr(mixed).sum() - weight @ special.entr(p).sum(axis=0)
        assert model.run_length_gain(weight, at, zeta) == pytest.approx(expected, rel=1e-10)
        for k in range(3):
            a = at[:, k]
            kl, left = 0.0, 0.0
            for j in range(4):
                b = a + zeta * np.eye(4)[j]
                lost = (
                    special.gammaln(b.sum())
                    - special.gammaln(a.sum())
                    - (special.gammaln(b) - special.gammaln(a)).sum()
                )
                kl += p[j, k] * (lost + (b - a) @ (special.digamma(b) - special.digamma(b.sum())))
                left += p[j, k] * stats.dirichlet(b).var().sum()
            assert model.parameter_gain(at, zeta)[k] == pytest.approx(kl, rel=1e-9)
            assert model.variance_gain(at, zeta)[k] == pytest.approx(stats.dirichlet(a).var().sum() - left, abs=1e-13)


# --- invariance, saving, extremes -----------------------------------------------------------------------------------


def moved_model(model, matrix, shift):  # type: ignore[no-untyped-def]
    def turned(a: np.ndarray) -> np.ndarray:
        return matrix @ a @ matrix.T

    mean = shift + matrix @ model.mean
    if isinstance(model, mf.MultivariateGaussian):
        return mf.MultivariateGaussian(mean, turned(model.var), turned(model.noise_var))
    return mf.MultivariateGaussianUnknown(mean, model.count, model.degrees, turned(model.scale), model.kind)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["multivariate", "wishart"])
def test_the_gaussians_are_affine_invariant(name: str, seed: int) -> None:
    """x -> A x + b, with prior and noise: the same posterior and gains, and the mean is transformed."""
    case = by_name(name)
    model = case.model()
    rng = np.random.default_rng(seed)
    d = model.dimension
    matrix = rng.normal(size=(d, d)) * 10.0 ** rng.uniform(-4, 4, (d, 1))
    shift = rng.normal(size=d) * 1e3 * np.abs(matrix).max(axis=1)
    plain, moved = (
        mf.Detector(m, FIDELITIES, 0.05, policy=mf.Always(), prune=None)
        for m in (model, moved_model(model, matrix, shift))
    )
    for t in range(30):
        x, fidelity = case.draw(rng) + 3.0 * (t > 20), ("low", "high")[t % 2]
        plain.update(x, fidelity)
        moved.update(shift + matrix @ x, fidelity)
    np.testing.assert_allclose(moved.run_length.weight, plain.run_length.weight, atol=1e-8)
    np.testing.assert_allclose(moved.mean, shift + matrix @ plain.mean, rtol=1e-8)
    for gain in GAINS:
        if gain == "change":
            continue  # its divergence adds up those of the single numbers, which a rotation changes
        expected = expected_gains(plain._filter, LEVELS, gain)
        np.testing.assert_allclose(expected_gains(moved._filter, LEVELS, gain), expected, rtol=1e-5)
        assert expected.max() > 1e-3


@pytest.mark.parametrize("name", ["known", "unknown"])
def test_fifty_columns_with_constant_ones(name: str) -> None:
    d, ticks = 50, 300
    rng = np.random.default_rng(6)
    sd = np.geomspace(1e-3, 1e3, d)
    table = rng.normal(size=(ticks, d)) * sd
    table[:, :5] = 1.5 * sd[:5]
    table[:, 6] = table[:, 5] / sd[5] * sd[6]  # the same column twice
    table[200:, 30:] += 2.0 * sd[30:]
    sizes = sd**2
    model = (
        mf.MultivariateGaussian(np.zeros(d), 4 * sizes, sizes)
        if name == "known"
        else mf.MultivariateGaussianUnknown(np.zeros(d), 0.1, scale=sizes)
    )
    detector = mf.Detector(model, FIDELITIES, 0.01, policy=mf.Always("high"), prune=mf.TopK(64))
    alarms = []
    for x in table:
        step = detector.update(x, "high")
        assert np.isfinite(step.mean).all()
        assert np.isfinite(detector._filter.stats).all()
        alarms += [step.changed_at] if step.alarm else []
    assert math.isfinite(detector.log_evidence)
    assert any(abs(at - 200) <= 2 for at in alarms)
    np.testing.assert_allclose(detector.mean[:5], 1.5 * sd[:5], rtol=0.05)
    gains = detector.gains()
    assert all(g.run_length >= 0.0 and math.isfinite(g.joint) for g in gains)


@pytest.mark.parametrize("name", ["multivariate", "wishart", "wishart-paper", "product"])
def test_extreme_readings_stay_finite(name: str) -> None:
    case = by_name(name)
    detector = mf.Detector(case.model(), hazard=0.05)
    rng = np.random.default_rng(1)
    for size in (1.0, 1e6, 1.0, 1e100, 1e300, 1.0, 1.0):
        x = case.draw(rng)
        x[-1] *= size
        step = detector.update(x)
        assert np.isfinite(detector._filter.stats).all()
        assert math.isfinite(detector.log_evidence)
        assert 0.0 <= step.p_change <= 1.0


@pytest.mark.parametrize("case", VECTORS, ids=lambda c: c.name)
def test_a_spec_has_plain_values_and_makes_the_same_model(case: Case) -> None:
    model = case.model()
    twin = type(model)(**json.loads(json.dumps(model.spec())))
    assert twin.spec() == model.spec()
    read = some(case, 4)
    np.testing.assert_array_equal(updated(twin, read), updated(model, read))


def test_interval_and_parameter_of_a_vector() -> None:
    detector = mf.Detector(mf.MultivariateGaussian([0, 10], 4, [1.0, 2.0]), hazard=0.1, prune=None)
    low, high = detector.interval(0.9)
    half = stats.norm.ppf(0.95) * np.sqrt([5.0, 6.0])
    np.testing.assert_allclose(high, np.array([0, 10]) + half, rtol=1e-9)
    np.testing.assert_allclose(low, np.array([0, 10]) - half, rtol=1e-9)
    step = detector.update([1.0, 12.0])
    assert step.x == (1.0, 12.0)
    assert isinstance(step.mean, tuple)
    theta, var = detector.parameter
    np.testing.assert_allclose(theta, [4 / 5, 10 + 2 * 4 / 6], rtol=1e-12)
    np.testing.assert_allclose(var, [4 / 5, 4 * 2 / 6], rtol=1e-12)
    probabilities, _ = mf.Detector(mf.Categorical([1, 2, 5])).parameter
    np.testing.assert_allclose(probabilities, [1 / 8, 2 / 8, 5 / 8])


def nonsense() -> mf.Model:
    return mf.Product(mf.Gaussian(), "Bernoulli")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.MultivariateGaussian([0.0]), "MultivariateGaussian.mean must be two numbers or more"),
        (lambda: mf.MultivariateGaussian([0, "a"]), "MultivariateGaussian.mean must be numbers, not [0, 'a']"),
        (lambda: mf.MultivariateGaussian([0, np.nan]), "MultivariateGaussian.mean must be finite"),
        (
            lambda: mf.MultivariateGaussian([0, 0], [1, 1, 1]),
            "MultivariateGaussian.var must be a number, 2 of them or",
        ),
        (
            lambda: mf.MultivariateGaussian([0, 0], 1, -1),
            "MultivariateGaussian.noise_var must be positive definite, not -1",
        ),
        (
            lambda: mf.MultivariateGaussian([0, 0], [[1, 2], [2, 1]]),
            "MultivariateGaussian.var must be positive definite",
        ),
        (lambda: mf.MultivariateGaussian([0, 0], [[1, 0.5], [0, 1]]), "MultivariateGaussian.var must be symmetric"),
        (lambda: mf.MultivariateGaussian([0, 0], np.inf), "MultivariateGaussian.var must be finite, not inf"),
        (lambda: mf.MultivariateGaussianUnknown([0, 0], degrees=1.5), "degrees must be at least 2"),
        (
            lambda: mf.MultivariateGaussianUnknown([0, 0], count=0),
            "MultivariateGaussianUnknown.count must be positive",
        ),
        (
            lambda: mf.MultivariateGaussianUnknown([0, 0], predictive="x"),
            "predictive must be 'normalized' or 'paper'",
        ),
        (lambda: mf.Categorical(3), "Categorical.alpha must be two numbers or more, one per category, not 3"),
        (lambda: mf.Categorical([1, 0]), "Categorical.alpha must be positive"),
        (lambda: mf.Categorical([1, 1], predictive="x"), "Categorical.predictive must be 'normalized' or 'paper'"),
        (lambda: mf.Product(mf.Gaussian()), "Product.parts must be two families or more"),
        (nonsense, "Product.parts[1] must be a model or a table that names one, not 'Bernoulli'"),
        (lambda: mf.Product(mf.Gaussian(), parts=[]), "as arguments or as parts, not both"),
        (lambda: mf.Product(parts=[{"kind": "Gaussion"}]), "Product.parts[0].kind must be one of"),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize("x", [-1.0, 4.0, 1.5])
def test_an_unknown_category_is_refused(x: float) -> None:
    model = mf.Categorical(v.DIRICHLET)
    with pytest.raises(ValueError, match="is outside the support of Categorical: a whole number from 0 to 3"):
        mf.Detector(model).update(x)
    assert not model.possible(np.array([x, 0.0])).all()
    assert model.check(3.0) == 3.0


def test_a_scalar_for_a_vector_is_refused_and_changes_nothing() -> None:
    detector = mf.Detector(mf.MultivariateGaussian([0.0, 0.0], 9.0, 1.0))
    detector.update([0.1, 0.2])
    before = detector.to_bytes()
    for bad in (1.5, 2, [1.0, 2.0, 3.0], "ab"):
        with pytest.raises((TypeError, ValueError), match="x must be 2 numbers"):
            detector.update(bad)
    assert detector.to_bytes() == before

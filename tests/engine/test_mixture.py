"""Mixtures of families: evidence, impossible families, gains, names, saving."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special

import mfbocd as mf
from mfbocd.models import cells
from mfbocd.models.lattice import NEVER

from ..registry import ALL, MEAN, NOISE, VAR, Both, Case, gaussian_marginal, gaussian_mean
from . import vectors as v
from .test_truth import mismatch, segments_of

Array = np.ndarray
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 4.0)]


def row(name: str) -> Case:
    return next(case for case in ALL if case.name == name)


def after(model: Any, readings: Any) -> Array:
    """The statistics of one regime."""
    stats = model.prior()
    for x, zeta in readings:
        stats = model.update(stats, x, zeta)
    return stats


def state(model: Any, readings: Any, hazard: float = 0.05) -> tuple[Array, Array]:
    """The prediction of a filter after readings at full fidelity."""
    detector = mf.Detector(model, hazard=hazard, prune=None)
    for x in readings:
        detector.update(x)
    return detector._filter.predicted()


def wide(seed: int = 0, ticks: int = 16, shift: float = 5.0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(rng.normal(shift * (t > ticks - 4), 1.0)) for t in range(ticks)]


# --- evidence -------------------------------------------------------------------------------------------------------


def test_the_probabilities_are_the_products_of_the_predictives() -> None:
    parts = [mf.Gaussian(0, 4, 1), mf.GaussianUnknown(0, 0.5, 2, 2), mf.Trend(count=(0.5, 30)), mf.StudentT(0, 4)]
    prior = np.array([1.0, 2.0, 5.0, 0.5])
    model = mf.Mixture(*parts, weights=prior)
    rng = np.random.default_rng(3)
    readings = [(float(rng.normal(0.1 * t, 1.0)), float(rng.choice([0.1, 0.4, 1.0]))) for t in range(12)]
    logs = np.log(prior)
    for k, part in enumerate(parts):
        stats = part.prior()
        for x, zeta in readings:
            logs[k] += float(part.log_predictive(stats, x, zeta))
            stats = part.update(stats, x, zeta)
    expected = special.softmax(logs)
    assert expected.max() < 0.9
    stats = after(model, readings)
    np.testing.assert_allclose(model.families(stats), expected, rtol=1e-11)
    assert model.families(np.stack([stats, model.prior()], axis=1)).shape == (2, 4)
    total = sum(float(model.log_predictive(after(model, readings[:t]), *readings[t])) for t in range(12))
    assert total == pytest.approx(special.logsumexp(logs) - math.log(prior.sum()), rel=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "trend", "poisson", "wishart"])
def test_one_family_twice_is_that_family(name: str) -> None:
    case = row(name)
    rng = np.random.default_rng(1)
    readings = [case.draw(rng) for _ in range(14)]
    options: dict[str, Any] = {"hazard": 0.1, "prune": None, "policy": mf.Always()}
    alone = mf.Detector(case.model(), FIDELITIES, **options)
    twice = mf.Detector(mf.Mixture(case.model(), case.model(), weights=[1, 4]), FIDELITIES, **options)
    for t, x in enumerate(readings):
        for detector in (alone, twice):
            detector.update(x, FIDELITIES[t % 2])
    np.testing.assert_allclose(twice.run_length.weight, alone.run_length.weight, rtol=1e-9)
    assert twice.log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)
    for found, expected in ((twice.mean, alone.mean), (twice.variance, alone.variance)):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(twice.interval(0.8, "low"), alone.interval(0.8, "low"), rtol=1e-7)
    kind = type(case.model()).__name__
    assert twice.families() == pytest.approx({kind: 0.2, f"{kind} 2": 0.8})
    for found, expected in zip(twice.gains(), alone.gains(), strict=True):
        assert found.run_length == pytest.approx(expected.run_length, rel=2e-3)
        assert found.joint == pytest.approx(expected.joint, rel=2e-3)
        assert found.variance == pytest.approx(expected.variance, rel=1e-9)


def test_a_line_is_a_trend_and_a_level_is_not() -> None:
    rng = np.random.default_rng(2)
    detector = mf.Detector(mf.Mixture(mf.GaussianUnknown(), mf.Trend()), hazard=1 / 500)
    assert detector.families() == {"GaussianUnknown": 0.5, "Trend": 0.5}
    for t in range(200):
        detector.update(0.05 * t + float(rng.normal()))
    assert detector.families()["Trend"] > 0.999
    assert detector.map_run_length == 199
    for _ in range(200):
        detector.update(30.0 + float(rng.normal()))
    assert detector.regime().at == 200
    # a level is also a line of slope 0, so the evidence for it grows only with the logarithm of the readings
    assert detector.families()["GaussianUnknown"] > 0.8
    assert sum(detector.families().values()) == pytest.approx(1.0, abs=1e-12)


def test_the_probabilities_of_a_detector_are_averaged_over_run_lengths() -> None:
    detector = mf.Detector(mf.Mixture(mf.GaussianUnknown(), mf.Trend()), hazard=0.2, prune=None)
    for x in (0.0, 1.1, 1.9, 3.2, 3.8):
        detector.update(x)
    length, weight = detector.run_length
    each = [detector.model.families(detector._filter.stats[:, -1 - n])[1] for n in length]
    assert np.ptp(each) > 0.05
    assert detector.families()["Trend"] == pytest.approx(float(weight @ each), rel=1e-12)


def test_other_models_have_no_families() -> None:
    with pytest.raises(TypeError, match="Gaussian is one family: only a Mixture has several"):
        mf.Detector(mf.Gaussian()).families()


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_moments_and_distribution_function_are_those_of_the_density(zeta: float) -> None:
    model = mf.Mixture(mf.Gaussian(0, 4, 1), mf.GaussianUnknown(3, 0.5, 4, 2), weights=[1, 2])
    stats = after(model, [(1.0, 1.0), (2.5, 0.4)])
    means = [float(part.predictive(own, zeta)[0]) for part, own in model._each(stats)]
    assert abs(means[0] - means[1]) > 0.3
    t = np.linspace(-6.5, 6.5, 4001)  # the trapezoidal rule in t, where x = 2 + sinh t: dense where the density is
    x = 2.0 + np.sinh(t)
    density = np.exp(model.log_predictives(stats[:, None], x, zeta)[:, 0]) * np.cosh(t) * (t[1] - t[0])
    assert density.sum() == pytest.approx(1.0, abs=1e-9)
    mean, variance = model.predictive(stats, zeta)
    assert float(mean) == pytest.approx(x @ density, rel=1e-6)
    assert float(variance) == pytest.approx((x - mean) ** 2 @ density, rel=1e-4)
    at = 2000  # x = 2
    below = density[:at].sum() + 0.5 * density[at]
    assert float(model.predictive_cdf(stats, float(x[at]), zeta)) == pytest.approx(below, abs=1e-6)


# --- families that cannot produce a reading -------------------------------------------------------------------------


def test_an_impossible_family_has_probability_0_until_the_next_change() -> None:
    model = mf.Mixture(mf.Poisson(2, 1), mf.Gaussian(0, 9, 1))
    before = after(model, [(2.0, 1.0), (3.0, 1.0)])
    stats = model.update(before, -1.5, 1.0)
    assert model.families(stats).tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(stats[:2], before[:2])  # the family did not read it
    assert float(model.log_predictive(before, -1.5, 1.0)) == pytest.approx(
        math.log(model.families(before)[1]) + float(mf.Gaussian(0, 9, 1).log_predictive(before[2:4], -1.5, 1.0))
    )
    for x in (2.0, 3.0, 2.0):
        stats = model.update(stats, x, 1.0)
    assert model.families(stats).tolist() == [0.0, 1.0]
    assert np.isfinite(stats).all()
    detector = mf.Detector(model, hazard=0.01)
    for x in (-1.5, 0.5, -0.5, *[40.0] * 6):
        detector.update(x)
    assert detector.regime().at == 3
    assert detector.families()["Poisson"] > 0.1
    assert mf.Detector.from_bytes(detector.to_bytes()).families() == detector.families()
    # the predictive is the Gaussian's
    alone = mf.Gaussian(0, 9, 1).predictive(stats[2:4], 0.5)
    np.testing.assert_allclose(model.predictive(stats, 0.5), alone, rtol=1e-12)


def test_a_hypothesis_without_a_possible_family_dies_and_the_stream_goes_on() -> None:
    """2.5 excludes the Grid and -1 the Exponential: no regime contains both of them."""
    model = mf.Mixture(
        mf.Exponential(3, 3), mf.Grid([0.2, 0.8], lambda x, p, z: p * (x > 0) + (1 - p) * (x < 0), [-1, 1])
    )
    detector = mf.Detector(model, hazard=0.01, prune=None)
    for x in (2.5, 1.0, -1.0, 0.5):
        detector.update(x)
    length, weight = detector.run_length
    assert length.tolist() == [0, 1, 2, 3]
    assert weight.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert math.isfinite(detector.log_evidence)
    assert detector.families() == {"Exponential": 1.0, "Grid": 0.0}
    stats = after(model, [(2.5, 1.0)])
    assert model.families(stats).tolist() == [1.0, 0.0]
    assert float(model.log_predictive(stats, -1.0, 1.0)) <= 0.5 * NEVER
    np.testing.assert_array_equal(model.update(stats, -1.0, 1.0)[-2:], stats[-2:])


def test_an_improbable_family_comes_back_from_below_the_smallest_float() -> None:
    """exp(-1000) is 0, but the logarithm is kept."""
    model = mf.Mixture(mf.Gaussian(0, 1e-6, 1e-2), mf.Gaussian(100, 1e-6, 1e-2))
    stats = model.update(model.prior(), 0.0, 1.0)
    assert model.families(stats).tolist() == [1.0, 0.0]
    assert stats[-1] < -1e5
    stats = after(model, [(0.0, 1.0), (100.0, 1.0), (100.0, 1.0)])
    assert model.families(stats).tolist() == [0.0, 1.0]


def test_what_no_family_accepts_is_refused_and_changes_nothing() -> None:
    detector = mf.Detector(mf.Mixture(mf.Poisson(), mf.Binomial(9)), hazard=0.01)
    detector.update(3.0)
    before = detector.to_bytes()
    with pytest.raises(ValueError, match=r"-1.5.* outside the support of Mixture: none of its families accepts it"):
        detector.update(-1.5)
    assert detector.to_bytes() == before
    detector.update(11.0)  # only the Poisson
    assert detector.model.possible(np.array([-1.5, 2.0, 11.0, 0.5, np.nan])).tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert detector.model.nearest(3.4) == 3.0
    assert mf.Mixture(mf.Poisson(), mf.Gaussian()).nearest(3.4) == 3.4


def test_probabilities_do_not_drift() -> None:
    model = mf.Mixture(mf.Gaussian(0, 9, 1), mf.GaussianUnknown(), mf.Gaussian(0, 4, 1))
    stats = model.prior()
    for x in np.random.default_rng(0).normal(size=3000).tolist():
        stats = model.update(stats, x, 1.0)
    assert model.families(stats).sum() == pytest.approx(1.0, abs=1e-14)
    assert model.sound(stats[:, None])
    for wrong in (0.1, -50.0, -np.inf, np.nan):
        other = stats.copy()
        other[-1] = wrong
        assert not model.sound(other[:, None])


# --- time, lags, vectors --------------------------------------------------------------------------------------------


def test_lags_and_ages_are_those_of_the_families() -> None:
    lagged, trend = mf.Autoregressive(2), mf.Trend()
    model = mf.Mixture(lagged, trend)
    x = np.random.default_rng(1).normal(size=6).tolist()
    live = [np.stack([after(one, [(v_, 1.0) for v_ in x[i:]]) for i in (0, 3)], axis=1) for one in (model, lagged)]
    fresh = model.new_regime(live[0])
    np.testing.assert_array_equal(fresh[: lagged.columns], lagged.new_regime(live[1]))
    assert (fresh[: lagged.columns] != lagged.prior()).any()
    np.testing.assert_allclose(np.exp(fresh[-2:]), 0.5)
    skipped = model.skip(live[0])
    assert (skipped[lagged.columns + trend.columns - 1] == [7.0, 4.0]).all()
    np.testing.assert_array_equal(skipped[-2:], live[0][-2:])


def columns() -> Case:
    return Case(
        "columns",
        lambda: mf.Product(mf.Gaussian(MEAN, VAR, NOISE), mf.Gaussian(MEAN, VAR, NOISE)),
        v.two,
        lambda r: sum(gaussian_marginal(v.column(r, i)) for i in (0, 1)),
        lambda r: np.array([gaussian_mean(v.column(r, i)) for i in (0, 1)]),
    )


def test_a_mixture_of_vectors_equals_enumeration() -> None:
    case = Both(columns(), row("wishart")).case("vectors", v.two)
    assert mismatch(segments_of(case, 3, 6), mf.Hazard(0.15)) < 1e-10
    model = case.model()
    weight, stats = state(model, [v.two(np.random.default_rng(s)) for s in range(8)])
    gains = [model.run_length_gain(weight, stats, z) for z in (0.0, 0.3, 1.0)]
    assert gains[0] == 0.0 < gains[1] < gains[2]
    shares = model.families(stats).T
    own = [part.parameter_gain(rows, 0.3) for part, rows in model._each(stats)]
    np.testing.assert_allclose(model.parameter_gain(stats, 0.3), (shares * own).sum(axis=0), rtol=1e-12)


def test_missing_numbers_of_products() -> None:
    one = mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1))
    model = mf.Mixture(one, mf.Product(mf.Gaussian(0, 1, 4), mf.GaussianUnknown()))
    detector = mf.Detector(model, hazard=0.01, missing="skip")
    detector.update([1.0, np.nan])
    known = [mf.Gaussian(0, 9, 1), mf.Gaussian(0, 1, 4)]
    odds = np.exp([float(part.log_predictive(part.prior(), 1.0, 1.0)) for part in known])
    np.testing.assert_allclose(list(detector.families().values()), odds / odds.sum(), rtol=1e-12)
    whole = mf.Mixture(one, mf.MultivariateGaussian([0, 0], 9, 1))
    with pytest.raises(ValueError, match="takes all of its 2 numbers or none"):
        mf.Detector(whole, missing="skip").update([1.0, np.nan])
    # one family cannot take a part of these numbers, which says nothing about its probability
    pair = mf.Product(mf.MultivariateGaussian([0, 0], 9, 1), mf.Gaussian())
    whole = mf.Mixture(mf.Product(*[mf.Gaussian()] * 3), pair)
    with pytest.raises(ValueError, match="takes all of its numbers or none"):
        mf.Detector(whole, missing="skip").update([1.0, np.nan, 2.0])


# --- gains ----------------------------------------------------------------------------------------------------------


def integrated(model: Any, weight: Array, stats: Array, zeta: float) -> tuple[float, float, Array]:
    """I(r; x), I((r, k); x) and I(k; x | r) by a fine trapezoid rule in asinh x."""
    s = np.linspace(-22.0, 22.0, 12001)
    step = (s[1] - s[0]) * np.cosh(s)
    f = np.exp([[part.log_predictive(own, x, zeta) for part, own in model._each(stats)] for x in np.sinh(s).tolist()])
    p = model.families(stats).T
    each = (f * p).sum(axis=1)
    inner = np.einsum("xkr,kr,x->r", special.entr(f), p, step)
    of_run = step @ special.entr(each)
    whole = float(step @ special.entr(each @ weight))
    return whole - float(weight @ of_run), whole - float(weight @ inner), of_run - inner


@pytest.mark.parametrize("zeta", [0.2, 1.0])
@pytest.mark.parametrize(
    "parts",
    [
        (mf.Gaussian(0, 9, 1), mf.GaussianUnknown(0, 0.5, 1.2, 1.0)),
        (mf.Trend(count=(0.2, 20)), mf.GaussianUnknown(0, 0.2, 0.6, 2.0), mf.Gaussian(4, 0.01, 0.01)),
    ],
    ids=["two", "three"],
)
def test_gains_equal_integration(parts: Any, zeta: float) -> None:
    model = mf.Mixture(*parts, weights=[2.0, *[1.0] * (len(parts) - 1)])
    weight, stats = state(model, wide())
    run_length, flat, family = integrated(model, weight, stats, zeta)
    assert flat > run_length + 0.01  # the family is more than the run length
    assert run_length > 0.01
    assert model.run_length_gain(weight, stats, zeta) == pytest.approx(run_length, rel=2e-3, abs=1e-5)
    own = [part.parameter_gain(rows, zeta) for part, rows in model._each(stats)]
    expected = family + (model.families(stats).T * own).sum(axis=0)
    np.testing.assert_allclose(model.parameter_gain(stats, zeta), expected, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(model.parameter_gain(stats[:, 0], zeta), expected[0], rtol=2e-3, atol=1e-4)
    assert family.max() > 0.01


@pytest.mark.parametrize("zeta", [0.4, 1.0])
def test_the_gains_of_counts_are_exact(zeta: float) -> None:
    model = mf.Mixture(mf.Poisson(2, 1), mf.Binomial(9, 1, 1))
    weight, stats = state(model, [1.0, 2.0, 1.0, 0.0, 2.0, 7.0, 8.0])
    p = model.families(stats).T
    f = np.array([[np.exp(part.log_predictive(own, x, zeta)) if part.possible(np.array([x]))[0] else 0.0 * p[0]
                   for part, own in model._each(stats)] for x in np.arange(300.0)])  # fmt: skip
    each = (f * p).sum(axis=1)
    expected = special.entr(each @ weight).sum() - weight @ special.entr(each).sum(axis=0)
    assert expected > 0.01
    assert model.run_length_gain(weight, stats, zeta) == pytest.approx(
        expected, rel=1e-4
    )  # light weights are dropped
    inner = special.entr(each).sum(axis=0) - (p * special.entr(f).sum(axis=0)).sum(axis=0)
    own = [part.parameter_gain(rows, zeta) for part, rows in model._each(stats)]
    np.testing.assert_allclose(model.parameter_gain(stats, zeta), inner + (p * own).sum(axis=0), rtol=1e-6)


def test_the_gain_next_to_the_end_of_a_support() -> None:
    """A family of positive readings and one of all: the integral has a kink at 0."""
    model = mf.Mixture(mf.Exponential(3, 4), mf.Gaussian(1, 4, 1))
    weight, stats = state(model, [0.5, 1.5, 0.2, 2.0, 6.0, 7.0])
    p = model.families(stats).T

    def integrand(x: float) -> float:
        logs = [part.log_predictive(own, x, 1.0) for part, own in model._each(stats)] if x > 0 else [
            np.full(weight.size, -np.inf),
            model.parts[1].log_predictive(stats[2:4], x, 1.0),
        ]  # fmt: skip
        each = (np.exp(logs) * p).sum(axis=0)
        return float(special.entr(each @ weight) - weight @ special.entr(each))

    expected = sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in ((-40, 0), (0, 8), (8, 60), (60, 1e4)))
    assert expected > 0.01
    assert model.run_length_gain(weight, stats, 1.0) == pytest.approx(expected, rel=2e-3)


def test_the_gains_do_not_depend_on_the_units() -> None:
    model = mf.Mixture(mf.Trend(count=(0.2, 20)), mf.GaussianUnknown(0, 0.5, 1.2, 1.0), weights=[1, 3])
    weight, stats = state(model, wide())
    for offset, scale in ((-40.0, 0.013), (1e3, 300.0)):
        moved = model.rescaled(offset, scale)
        assert moved.weights == model.weights
        again, same = state(moved, [offset + scale * x for x in wide()])
        np.testing.assert_allclose(again, weight, rtol=1e-6)
        for zeta in (0.3, 1.0):
            assert moved.run_length_gain(again, same, zeta) == pytest.approx(
                model.run_length_gain(weight, stats, zeta), rel=1e-6
            )
            np.testing.assert_allclose(moved.parameter_gain(same, zeta), model.parameter_gain(stats, zeta), rtol=1e-6)
    with pytest.raises(ValueError, match="Mixture: Poisson has no offset and scale"):
        mf.Mixture(mf.Gaussian(), mf.Poisson()).rescaled(0.0, 2.0)


def test_the_gains_of_discrete_and_continuous_families_together() -> None:
    """A reading of the Gaussian is no whole number and excludes the Poisson; one of the Poisson leaves both."""
    model = mf.Mixture(mf.Poisson(2, 1), mf.Gaussian(2, 9, 4))
    weight, stats = state(model, [1.0, 2.0, 4.0, 3.0, 9.0])
    (counts, own), (normal, rows) = model._each(stats)
    p = model.families(stats).T
    whole, real = np.arange(400.0), np.linspace(-80.0, 90.0, 20_001)
    count = np.exp(counts.log_predictives(own, whole, 1.0))
    both = p[0] * count + p[1] * np.exp(normal.log_predictives(rows, whole, 1.0))
    density = p[1] * np.exp(normal.log_predictives(rows, real, 1.0))

    def divergence(each: Array) -> Array:
        """KL(P(r | x) || P(r))."""
        after = each * weight / (each @ weight)[:, None]
        return np.asarray(special.rel_entr(after, weight).sum(axis=1))

    expected = (p[0] * count) @ weight @ divergence(both) + (real[1] - real[0]) * (
        density @ weight @ divergence(density)
    )
    assert 0.01 < expected < float(special.entr(weight).sum())
    assert model.run_length_gain(weight, stats, 1.0) == pytest.approx(expected, rel=1e-3)
    family = p[0] * special.rel_entr(count, both).sum(axis=0) + special.entr(p[1])
    inner = p[0] * counts.parameter_gain(own, 1.0) + p[1] * normal.parameter_gain(rows, 1.0)
    np.testing.assert_allclose(model.parameter_gain(stats, 1.0), family + inner, rtol=1e-6)


def test_a_grid_point_is_no_value_of_a_discrete_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it happens to be a whole number."""
    monkeypatch.setattr(cells, "_grid", lambda *_: np.linspace(0.5, 40.0, 80))
    parts = [mf.Poisson(2, 1), mf.Exponential(3, 3)]
    logs, mass = cells.cells_of([(part, part.prior()[:, None]) for part in parts], np.full((2, 1), 0.5), 0.5)
    np.testing.assert_allclose(mass.sum(axis=0), 1.0)
    assert not ((mass[:, 0] > 0.0) & (mass[:, 1] > 0.0)).any()
    assert (logs[mass[:, 1, 0] > 0.0, 0] == -np.inf).all()


def test_a_budget_over_a_mixture() -> None:
    model = mf.Mixture(mf.Gaussian(0, 9, 1), mf.Poisson(2, 1))
    detector = mf.Detector(model, FIDELITIES, 0.05, policy=mf.Budget(2.0))
    rng = np.random.default_rng(4)
    for _ in range(12):
        detector.update(float(rng.normal()), detector.choose())
    twin = mf.Detector.from_bytes(detector.to_bytes())
    assert twin.choose() == detector.choose()
    assert twin.gains() == detector.gains()


# --- arguments ------------------------------------------------------------------------------------------------------


def test_a_mixture_from_tables_nested_and_saved() -> None:
    inner = {"kind": "mixture", "parts": [{"kind": "trend"}, {"kind": "gaussian_unknown"}], "weights": [1, 3]}
    model = mf.Mixture(parts=[{"kind": "gaussian", "var": 4.0}, inner, mf.Trend()], weights=[2.0, 1.0, 1.0])
    assert model.names == ["Gaussian", "Trend", "GaussianUnknown", "Trend 2"]
    np.testing.assert_allclose(model.families(model.prior()), [0.5, 0.0625, 0.1875, 0.25])
    detector = mf.Detector(model, FIDELITIES, 0.05)
    for x in (0.1, 0.4, -0.3):
        detector.update(x, "high")
    twin = mf.Detector.from_bytes(detector.to_bytes())
    assert twin.model.spec() == model.spec()
    assert twin.update(0.2, "low") == detector.update(0.2, "low")
    assert twin.families() == detector.families()
    mean, variance = detector.parameter
    assert mean.shape == variance.shape == (1 + 2 + 1 + 2,)


def test_a_mixture_within_a_product() -> None:
    mixed = mf.Mixture(mf.Gaussian(0, 9, 1), mf.GaussianUnknown())
    detector = mf.Detector(mf.Product(mixed, mf.Bernoulli()), FIDELITIES, 0.05)
    alone = mf.Detector(mixed, FIDELITIES, 0.05)
    for x in (0.3, 0.8, 4.0):
        detector.update([x, 1.0], "high")
        alone.update(x, "high")
    assert detector.mean[0] == pytest.approx(alone.mean, abs=0.5)
    assert all(gain.joint > gain.run_length > 0.0 for gain in detector.gains())
    assert mf.Detector.from_bytes(detector.to_bytes()).mean.tolist() == detector.mean.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Mixture(mf.Gaussian()), "Mixture.parts must be two families or more"),
        (lambda: mf.Mixture(mf.Gaussian(), "Trend"), "Mixture.parts[1] must be a model or a table that names one"),
        (lambda: mf.Mixture(mf.Gaussian(), parts=[]), "as arguments or as parts, not both"),
        (lambda: mf.Mixture(parts=[{"kind": "Gaussion"}]), "Mixture.parts[0].kind must be one of"),
        (
            lambda: mf.Mixture(mf.Gaussian(), mf.MultivariateGaussian([0, 0])),
            "Mixture.parts[1] must have readings of the same length as parts[0], 1, not 2",
        ),
        (
            lambda: mf.Mixture(mf.LinearRegression(1), mf.MultivariateGaussian([0, 0])),
            "Mixture.parts[1] must have the same covariates as parts[0]",
        ),
        (
            lambda: mf.Mixture(mf.Poisson(), mf.Poisson(predictive="paper")),
            "Mixture.parts[1] must have predictive='normalized'",
        ),
        (lambda: mf.Mixture(mf.Gaussian(), mf.Trend(), weights=[1]), "Mixture.weights must be one number per family"),
        (lambda: mf.Mixture(mf.Gaussian(), mf.Trend(), weights=[1, 0]), "Mixture.weights[1] must be positive"),
        (
            lambda: mf.Mixture(mf.Gaussian(), mf.Trend(), weights="ab"),
            "Mixture.weights must be one number per family",
        ),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert message in str(error.value)

"""Student's t and the grid: outliers that are not changes, and likelihoods that are not tempered."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import mfbocd as mf
from mfbocd.belief.gains import GAINS, expected_gains

from . import robust as r

FIDELITIES = [mf.Fidelity("none", 0.0, 0.0), mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
SKEWED = {0.3: [[0.95, 0.05], [0.7, 0.3]], 1.0: [[1.0, 0.0], [0.0, 1.0]]}


def alarms(model: mf.Model, xs) -> list[int]:  # type: ignore[no-untyped-def]
    detector = mf.Detector(model, hazard=1 / 200)
    return [t for t, x in enumerate(xs) if detector.update(float(x), "full").alarm]


# --- outliers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_20_sigma_outlier_is_not_a_change_and_a_shift_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    quiet = rng.normal(size=200)
    one = quiet.copy()
    one[100] = 20.0
    real = quiet.copy()
    real[100:] += 3.0
    robust, plain = mf.StudentT(0, 9, 1), mf.Gaussian(0, 9, 1)
    assert alarms(robust, quiet) == alarms(robust, one) == []
    assert 100 in alarms(plain, one)
    found = alarms(robust, real)
    assert len(found) == 1
    assert 100 <= found[0] <= 110


def test_an_outlier_hardly_moves_the_level() -> None:
    xs = [*np.random.default_rng(0).normal(size=30).tolist(), 20.0]
    levels = []
    for model in (mf.StudentT(0, 9, 1), mf.Gaussian(0, 9, 1)):
        stats_ = model.prior()
        for x in xs[:-1]:
            stats_ = model.update(stats_, x, 1.0)
        moved = model.update(stats_, xs[-1], 1.0)
        levels.append(float(model.parameter(moved)[0]) - float(model.parameter(stats_)[0]))
    assert 0.0 < levels[0] < 0.05
    assert levels[1] > 0.5


# --- how exact the grid is ------------------------------------------------------------------------------------------


def one_regime(model: mf.Model, xs) -> float:  # type: ignore[no-untyped-def]
    total, stats_ = 0.0, model.prior()
    for x in xs:
        total += float(model.log_predictive(stats_, x, 1.0))
        stats_ = model.update(stats_, x, 1.0)
    return total


@pytest.mark.parametrize(("ticks", "error"), [(20, 1e-10), (100, 1e-6), (400, 0.05)])
def test_the_evidence_of_a_regime_is_as_exact_as_documented(ticks: int, error: float) -> None:
    xs = stats.t(4, 0.437).rvs(ticks, random_state=3)
    levels = np.linspace(-3.0, 4.0, 7_001)
    logs = stats.norm(0, 3).logpdf(levels) + stats.t(4).logpdf(xs[:, None] - levels).sum(axis=0)
    truth = logs.max() + math.log(integrate.trapezoid(np.exp(logs - logs.max()), levels))
    assert one_regime(mf.StudentT(0, 9, 1), xs.tolist()) == pytest.approx(truth, abs=error)


@pytest.mark.parametrize("degrees", [1.5, 4.0, 50.0])
@pytest.mark.parametrize("zeta", [0.05, 1.0])
def test_students_predictive_is_a_density_and_its_gains_are_integrals(degrees: float, zeta: float) -> None:
    model = mf.StudentT(0.5, 4.0, 1.5, degrees)
    stats_ = np.stack([model.prior(), model.update(model.prior(), 4.0, 1.0)], axis=1)
    weight = np.array([0.3, 0.7])

    def p(x: float) -> np.ndarray:
        return np.exp(model.log_predictive(stats_, x, zeta))

    def integral(f) -> float:  # type: ignore[no-untyped-def]
        edges = [-np.inf, -1e4, -100.0, -20.0, -5.0, 0.0, 5.0, 20.0, 100.0, 1e4, np.inf]
        spans = itertools.pairwise(edges)
        return sum(integrate.quad(f, a, b, epsabs=1e-10, limit=200)[0] for a, b in spans)

    assert integral(lambda x: p(x)[1]) == pytest.approx(1.0, abs=1e-7)
    mean, var = (float(v[1]) for v in model.predictive(stats_, zeta))
    if degrees > 2.0:
        assert integral(lambda x: (x - mean) ** 2 * p(x)[1]) == pytest.approx(var, rel=1e-4)
    expected = integral(lambda x: float(weight @ (p(x) * np.log(p(x) / (weight @ p(x))))))
    assert model.run_length_gain(weight, stats_, zeta) == pytest.approx(expected, abs=1e-6)
    below = integrate.quad(lambda x: p(x)[1], -np.inf, -20.0)[0] + integrate.quad(lambda x: p(x)[1], -20.0, 3.0)[0]
    assert float(model.predictive_cdf(stats_, 3.0, zeta)[1]) == pytest.approx(below, abs=1e-7)


def test_many_degrees_are_the_gaussian() -> None:
    pair = (mf.StudentT(0.5, 9, 2, degrees=1e6), mf.Gaussian(0.5, 9, 2))
    one, two = (mf.Detector(model, FIDELITIES, 0.05, policy=mf.Always("high")) for model in pair)
    rng = np.random.default_rng(3)
    for t in range(40):
        x, name = float(rng.normal(3.0 * (t > 20))), ("none", "low", "high")[t % 3]
        a, b = one.update(x, name), two.update(x, name)
        assert (a.mean, a.p_change) == pytest.approx((b.mean, b.p_change), abs=1e-4)
    for gain in GAINS:
        a, b = (expected_gains(d._filter, np.array([0.1, 1.0]), gain) for d in (one, two))
        np.testing.assert_allclose(a, b, rtol=1e-3)
    assert one.variance == pytest.approx(two.variance, rel=1e-4)


def test_few_degrees_have_no_variance() -> None:
    model = mf.StudentT(1.0, 4.0, 1.0, degrees=2.0)
    mean, var = model.predictive(model.prior())
    assert float(mean) == pytest.approx(1.0)
    assert var == math.inf
    assert mf.Detector(model).interval(0.9)[1] < 10.0


@given(shift=st.floats(-1e6, 1e6), log_scale=st.floats(-6, 6), seed=st.integers(0, 1000))
def test_shift_and_scale_change_nothing(shift: float, log_scale: float, seed: int) -> None:
    scale = 10.0**log_scale
    rng = np.random.default_rng(seed)
    xs = np.concatenate([rng.normal(0, 1, 8), rng.normal(4, 1, 8)])
    plain, moved = (
        mf.Detector(mf.StudentT(a + 0.5 * b, 4 * b * b, b * b, points=4), FIDELITIES, 0.05, policy=mf.Always("high"))
        for a, b in ((0.0, 1.0), (shift, scale))
    )
    for t, x in enumerate(xs.tolist()):
        name = ("low", "high")[t % 2]
        plain.update(x, name)
        moved.update(shift + scale * x, name)
    lost = 1e-15 * max(1.0, abs(shift) / scale)  # adding the shift to x already loses this much of it
    assert moved.p_changed(within=5) == pytest.approx(plain.p_changed(within=5), abs=1e-9 + 1e3 * lost)
    assert moved.mean == pytest.approx(shift + scale * plain.mean, rel=1e-9, abs=scale * (1e-9 + 1e3 * lost))
    for gain in GAINS:
        a, b = (expected_gains(d._filter, np.array([0.3, 1.0]), gain) for d in (plain, moved))
        np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9 + 1e3 * lost)


def test_the_wildest_readings_stay_finite() -> None:
    detector = mf.Detector(mf.StudentT(0, 9, 1), FIDELITIES, 0.05, policy=mf.Always("high"))
    for x in (0.0, 1e308, -1e308, 1.0, 1e-308):
        step = detector.update(x, "high")
        assert np.isfinite([step.mean, step.p_change, detector.log_evidence]).all()


# --- the grid -------------------------------------------------------------------------------------------------------


def test_a_classifiers_confusion_matrix_is_used() -> None:
    """Bayes by brute force on a grid of 4000 rates; zeta-tempering gives another posterior."""
    labels = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    rate = (np.arange(4000) + 0.5) / 4000
    joint = stats.beta(2, 3).pdf(rate)
    for label in labels:
        one = 0.05 * (1 - rate) + 0.3 * rate
        joint = joint * (one if label else 1 - one)
    truth = joint @ rate / joint.sum()
    model, tempered = mf.Grid.confusion(SKEWED, 2.0, 3.0), mf.Bernoulli(2, 3)
    ours, theirs = model.prior(), tempered.prior()
    for label in labels:
        ours, theirs = model.update(ours, label, 0.3), tempered.update(theirs, label, 0.3)
    assert float(model.parameter(ours)[0]) == pytest.approx(truth, rel=1e-4)
    assert abs(float(tempered.parameter(theirs)[0]) - truth) > 0.1


def test_a_perfect_classifier_is_the_bernoulli() -> None:
    one, two = (
        mf.Detector(model, hazard=0.05) for model in (mf.Confusion({}, 2, 3, points=1000), mf.Bernoulli(2, 3))
    )
    for label in np.random.default_rng(1).integers(0, 2, 40).tolist():
        a, b = one.update(float(label), "full"), two.update(float(label), "full")
        assert (a.mean, a.p_change) == pytest.approx((b.mean, b.p_change), abs=1e-5)
    for gain in GAINS:
        a, b = (expected_gains(d._filter, np.array([1.0]), gain) for d in (one, two))
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_gains_of_labels_are_exact_sums() -> None:
    model = mf.Confusion(SKEWED, 2.0, 3.0, points=50)
    stats_ = np.stack([model.prior(), model.update(model.prior(), 1.0, 1.0)], axis=1)
    weight = np.array([0.4, 0.6])
    w = np.exp(stats_)
    one = 0.05 * (1 - model.theta) + 0.3 * model.theta
    p = np.stack([(1 - one) @ w, one @ w])  # (label, hypothesis)
    run_length = sum(weight[k] * p[x, k] * math.log(p[x, k] / (p[x] @ weight)) for x in (0, 1) for k in (0, 1))
    assert model.run_length_gain(weight, stats_, 0.3) == pytest.approx(run_length, rel=1e-10)
    expected, fall = np.zeros(2), np.zeros(2)
    for k in (0, 1):
        before = model.theta**2 @ w[:, k] - (model.theta @ w[:, k]) ** 2
        for x, like in ((0, 1 - one), (1, one)):
            after = w[:, k] * like / p[x, k]
            expected[k] += p[x, k] * (after @ np.log(after / w[:, k]))
            fall[k] -= p[x, k] * (model.theta**2 @ after - (model.theta @ after) ** 2)
        fall[k] += before
    np.testing.assert_allclose(model.parameter_gain(stats_, 0.3), expected, rtol=1e-9)
    np.testing.assert_allclose(model.variance_gain(stats_, 0.3), fall, rtol=1e-9)


def test_a_reading_at_the_cap_means_at_least_the_cap() -> None:
    """Three readings at the cap: a Gaussian settles there, the grid allows a level far above."""
    theta = np.linspace(-5.0, 15.0, 401)

    def capped(x, level):  # type: ignore[no-untyped-def]
        return np.where(x >= 2.0, stats.norm.sf(2.0 - level), stats.norm.pdf(x - level))

    model = mf.Grid(theta, {1.0: capped}, (-15.0, 2.0), stats.norm(0, 5).pdf(theta), atoms=[2.0])
    stats_ = model.prior()
    for _ in range(3):
        stats_ = model.update(stats_, 2.0, 1.0)
    joint = stats.norm(0, 5).pdf(theta) * stats.norm.sf(2.0 - theta) ** 3
    assert float(model.parameter(stats_)[0]) == pytest.approx(joint @ theta / joint.sum(), rel=1e-10)
    assert float(model.parameter(stats_)[0]) > 4.0
    below = [float(model.predictive_cdf(stats_, x)) for x in (-16.0, 1.999999, 2.0, 3.0)]
    at = float(np.exp(model.log_predictive(stats_, 2.0, 1.0)))
    assert below == pytest.approx([0.0, 1.0 - at, 1.0, 1.0], abs=1e-6)
    assert mf.Detector(model).update(2.0, "full").x == 2.0


@pytest.mark.parametrize("zeta", [0.1, 1.0])
def test_gains_of_a_continuous_reading_are_integrals(zeta: float) -> None:
    model = mf.Grid(r.POSITIONS, r.sensor, (r.LOW, r.CAP), atoms=[r.CAP])
    stats_ = np.stack([model.prior(), model.update(model.prior(), 0.3, 1.0)], axis=1)
    w, weight = np.exp(stats_), np.array([0.4, 0.6])

    def over(f) -> float:  # type: ignore[no-untyped-def]
        inside = integrate.quad(lambda x: f(r.sensor(x, r.POSITIONS, zeta)), r.LOW, r.CAP, epsabs=1e-10, limit=400)[0]
        return inside + f(r.sensor(r.CAP, r.POSITIONS, zeta))

    def information(like: np.ndarray) -> float:
        each = like @ w
        return float(weight @ (each * np.log((each + 1e-300) / (each @ weight + 1e-300))))

    def moved(like: np.ndarray) -> float:
        return float(((like * r.POSITIONS) @ w[:, 1]) ** 2 / (like @ w[:, 1] + 1e-300))

    assert model.run_length_gain(weight, stats_, zeta) == pytest.approx(over(information), rel=1e-6)
    fall = over(moved) - float(r.POSITIONS @ w[:, 1]) ** 2
    assert float(model.variance_gain(stats_, zeta)[1]) == pytest.approx(fall, rel=1e-6)
    mean, var = (float(v[1]) for v in model.predictive(stats_, zeta))
    at = float(r.sensor(r.CAP, r.POSITIONS, zeta) @ w[:, 1])
    first, second = (
        integrate.quad(lambda x, p=p: x**p * (r.sensor(x, r.POSITIONS, zeta) @ w[:, 1]), r.LOW, r.CAP, limit=400)[0]
        for p in (1, 2)
    )
    assert mean == pytest.approx(first + at * r.CAP, rel=1e-7)
    assert var == pytest.approx(second + at * r.CAP**2 - mean**2, rel=1e-6)


def test_an_impossible_reading_is_named_and_changes_nothing() -> None:
    model = mf.Grid([0.0, 1.0, 2.0], {1.0: lambda x, t: (x == t) * 1.0}, [0, 1, 2, 3], prior=[1, 1, 0])
    with pytest.raises(ValueError, match="log predictive"):
        mf.Detector(model).update(3.0, "full")
    detector = mf.Detector(model)
    detector.update(0.0, "full")
    before = detector.to_bytes()
    with pytest.raises(ValueError, match="log predictive"):  # the prior gives it no weight
        detector.update(2.0, "full")
    assert detector.to_bytes() == before
    assert detector.update(1.0, "full").p_change == pytest.approx(1.0)  # the old regime cannot: certainly a change
    assert detector.mean == pytest.approx(1.0 - 0.5 * float(detector.hazard(0)))


def test_labels_are_saved_bought_and_read_by_name() -> None:
    fidelities = [mf.Fidelity("net", 0.3, 1.0), mf.Fidelity("person", 1.0, 8.0)]
    for gain in GAINS:
        detector = mf.Detector(mf.Confusion(SKEWED), fidelities, 1 / 50, policy=mf.Budget(3.0, gain=gain))
        chosen = [detector.update(float(t % 3 == 0), detector.choose()).fidelity for t in range(40)]
        assert set(chosen) == {"net", "person"}
        twin = mf.Detector.from_bytes(detector.to_bytes())
        assert twin.to_bytes() == detector.to_bytes()
        for _ in range(5):
            assert twin.update(1.0, twin.choose()) == detector.update(1.0, detector.choose())


def test_a_grid_is_loaded_with_its_functions() -> None:
    make = lambda: mf.Grid(r.RATES, r.classifier, [0, 1], r.BELIEF)  # noqa: E731
    detector = mf.Detector(make(), FIDELITIES, 0.1, policy=mf.Always("low"))
    for t in range(20):
        detector.update(float(t % 2), "low")
    with pytest.raises(ValueError, match="Grid, which contains functions: pass model="):
        mf.Detector.from_bytes(detector.to_bytes())
    twin = mf.Detector.from_bytes(detector.to_bytes(), model=make())
    assert twin.update(1.0, "low") == detector.update(1.0, "low")


def test_a_fidelity_without_a_confusion_matrix_is_named() -> None:
    fidelities = [mf.Fidelity("net", 0.4, 1.0), mf.Fidelity("person", 1.0, 8.0)]
    with pytest.raises(ValueError, match=r"Confusion.likelihood has no zeta = 0.4, only 1, 0.3"):
        mf.Detector(mf.Confusion(SKEWED), fidelities)  # the policy asks for its gain
    detector = mf.Detector(mf.Confusion(SKEWED), fidelities, policy=mf.Always("person"))
    before = detector.to_bytes()
    with pytest.raises(ValueError, match=r"Confusion.likelihood has no zeta = 0.4, only 1, 0.3"):
        detector.update(1.0, "net")
    assert detector.to_bytes() == before


def half(x, p):  # type: ignore[no-untyped-def]
    return 0.5 + 0.0 * (x + p)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.StudentT(degrees=1), "StudentT.degrees must exceed 1, not 1"),
        (lambda: mf.StudentT(var=1e6), "StudentT.var = 1000000.0 is 1e+06 times noise_var = 1.0: 8 points to each"),
        (lambda: mf.StudentT(points=0), "StudentT.points must be a whole number of at least 1, not 0"),
        (lambda: mf.StudentT(noise_var=-1), "StudentT.noise_var must be positive, not -1"),
        (lambda: mf.Grid([1.0], {1.0: half}, [0, 1]), "Grid.theta must be two values or more, not [1.0]"),
        (lambda: mf.Grid([1, 2], {0.5: half}, [0, 1]), "Grid.likelihood must have zeta = 1"),
        (lambda: mf.Grid([1, 2], {1.0: 3}, [0, 1]), "Grid.likelihood at zeta = 1 must be a function, not 3"),
        (lambda: mf.Grid([1, 2], 3, [0, 1]), "Grid.likelihood must be a function, or one for each zeta, not 3"),
        (
            lambda: mf.Grid([1, 2], {1.0: half}, [0, 1, 2]),
            "at zeta = 1 and theta = 1 must sum to 1 over the support, not to 1.5",
        ),
        (lambda: mf.Grid([1, 2], {1.0: lambda x, p: p}, [0, 1]), "at zeta = 1 must return shape (2, 2), not (2,)"),
        (lambda: mf.Grid([1, 2], {1.0: lambda x, p: half(x, p) - 1}, [0, 1]), "must be finite and not negative"),
        (lambda: mf.Grid([1, 2], {1.0: half}, (1, 0)), "Grid.support must be a list of values or (low, high)"),
        (
            lambda: mf.Grid([1, 2], {1.0: half}, [0, 1], atoms=[1]),
            "Grid.atoms must lie in support = (low, high), not [1]",
        ),
        (lambda: mf.Grid([1, 2], {1.0: half}, [0, 1], prior=[1, -1]), "Grid.prior must be 2 weights"),
        (lambda: mf.Confusion({0.3: [[1, 0]]}), "Confusion.matrices at zeta = 0.3 must be (2, 2) probabilities"),
        (lambda: mf.Confusion({0.3: [[1, 0.1], [0, 1]]}), "at zeta = 0.3 must have rows that sum to 1"),
        (lambda: mf.Confusion({0.3: "ab"}), "Confusion.matrices at zeta = 0.3 must be numbers, not 'ab'"),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(("x", "message"), [(0.5, "0, 1"), (2.0, "0, 1")])
def test_an_unknown_label_is_named(x: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"x = {x} is outside the support of Confusion: {message}"):
        mf.Detector(mf.Confusion({})).update(x, "full")


def test_a_reading_beyond_the_sensor_is_named() -> None:
    model = mf.Grid(r.POSITIONS, r.sensor, (r.LOW, r.CAP), atoms=[r.CAP])
    with pytest.raises(ValueError, match=r"x = 2.5 is outside the support of Grid: \[-50, 2\]"):
        mf.Detector(model).update(2.5, "full")

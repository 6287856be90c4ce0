"""Outliers: readings that do not fit and are not changes, for any family."""

from __future__ import annotations

import io
import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

import mfbocd as mf
from mfbocd.belief.filter import outlier_probability
from mfbocd.belief.gains import expected_gains
from mfbocd.cli.output import StepWriter
from mfbocd.io.config import Config
from mfbocd.models.lattice import Lattice
from mfbocd.models.unknown_noise import UnknownNoise
from mfbocd.service.records import Event, step_record
from mfbocd.service.trace import format_steps

from ..registry import ALL, Case

RATE = 0.02


def after(model: mf.Model, xs: list[float]) -> np.ndarray:
    out = model.prior()
    for x in xs:
        out = model.update(out, x, 1.0)
    return out


# --- what it is for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [mf.Gaussian(0, 9, 1), mf.GaussianUnknown(0, 0.1, 2, 2), mf.Trend(0, 0, (0.1, 100))], ids=str
)
def test_an_odd_reading_is_an_outlier_and_several_are_a_change(model: mf.Model) -> None:
    rng = np.random.default_rng(4)
    one = rng.normal(size=160)
    one[100] = 9.0
    shift = rng.normal(size=160)
    shift[100:] += 9.0
    spiky, shifted = (mf.run(mf.Detector(mf.Outliers(model, RATE), hazard=1 / 200), x.tolist()) for x in (one, shift))
    assert not spiky.alarm.any()
    assert spiky.outlier is not None
    assert shifted.outlier is not None
    assert spiky.outlier[100] > 0.7
    assert np.delete(spiky.outlier, 100).max() < 0.5
    assert [c.changed_at for c in shifted.changes] == [100]
    assert shifted.outlier[100] > 0.7  # at first it was taken for one
    assert shifted.outlier[105:].max() < 0.3
    plain = mf.run(mf.Detector(model, hazard=1 / 200), one.tolist())
    assert plain.alarm.any()
    assert plain.outlier is None


def test_the_probability_of_an_outlier_is_bayes_rule_over_the_run_lengths() -> None:
    """With a tiny hazard only one run length counts."""
    model = mf.Outliers(mf.Gaussian(1.0, 4.0, 0.5), RATE)
    detector = mf.Detector(model, hazard=1e-12, prune=None, alarm=None)
    mean, precision = 1.0, 1 / 4.0
    prior = stats.norm(1.0, math.sqrt(4.5))
    for x in (1.3, 0.2, 6.0, 1.1):
        regime = (1 - RATE) * stats.norm(mean, math.sqrt(0.5 + 1 / precision)).pdf(x)
        other = RATE * prior.pdf(x)
        assert detector.update(x).outlier == pytest.approx(other / (regime + other), rel=1e-6)
        more = regime / (regime + other) / 0.5
        mean, precision = (mean * precision + more * x) / (precision + more), precision + more
    assert detector.wait(1).outlier == 0.0


def test_the_probability_is_averaged_over_the_run_lengths() -> None:
    model = mf.Outliers(mf.Gaussian(0, 9, 1), 0.3)
    detector = mf.Detector(model, hazard=0.4, prune=None, alarm=None)
    for x in (0.1, -0.2, 4.0):
        step = detector.update(x)
    weight = detector.run_length.weight[::-1]  # oldest first, as the statistics
    assert step.outlier == pytest.approx(float(weight @ detector._filter.stats[-1]), rel=1e-12)
    assert np.ptp(detector._filter.stats[-1]) > 0.1  # they differ between run lengths


# --- formulas -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in ALL if not case.model().has_outliers], ids=lambda c: c.name)
def test_a_doubtful_reading_counts_in_part_for_each_hypothesis(case: Case) -> None:
    model = case.model()
    core = model.core
    rng = np.random.default_rng(1)
    columns = [model.prior()]
    for _ in range(3):
        columns.append(model.update(columns[-1], case.draw(rng), 0.5))
    both, x, trust = np.stack(columns, axis=1), case.draw(rng), np.array([0.9, 0.0, 0.3, 1.0])
    got = model.update_doubtful(both, x, 0.5, trust)
    for k, one in enumerate(columns):
        if isinstance(model, Lattice):  # the mixture itself
            read = np.exp(model.update(one, x, 0.5))
            expected = trust[k] * read + (1 - trust[k]) * np.exp(one)
            np.testing.assert_allclose(np.exp(got[:, k]), expected, rtol=1e-12, atol=1e-300)
        elif not isinstance(core, (UnknownNoise, mf.Mixture)) or getattr(core, "weighting", "") == "tempered":
            expected = model.update(one, x, max(0.5 * trust[k], 1e-300))
            np.testing.assert_allclose(got[:, k], expected, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(got[:, k], model.update_doubtful(one, x, 0.5, trust[k]), rtol=1e-13, atol=1e-13)


def weighs_plainly(case: Case) -> bool:
    """Whether it learns a noise variance, with no rule for outliers and no predictive of its own."""
    model = case.model()
    return isinstance(model, UnknownNoise) and not model.has_outliers and model.spec().get("predictive") != "paper"


@pytest.mark.parametrize("case", [case for case in ALL if weighs_plainly(case)], ids=lambda c: c.name)
def test_a_part_of_a_full_reading_is_the_same_in_either_weighting(case: Case) -> None:
    spec = case.model().spec()
    rng = np.random.default_rng(2)
    xs = [case.draw(rng) for _ in range(6)]
    logs = []
    for weighting in ("precision", "tempered"):
        model = type(case.model())(**(spec | {"weighting": weighting}))
        stats_ = model.prior()
        for x, trust in zip(xs, (1.0, 0.3, 0.9, 0.0, 1.0), strict=False):
            stats_ = model.update_doubtful(stats_, x, 1.0, np.float64(trust))
        logs.append(float(model.log_predictive(stats_, xs[-1], 1.0)))
        assert math.isfinite(logs[-1])
    assert logs[0] == logs[1]


def test_on_a_grid_the_posterior_is_exact() -> None:
    """Every set of outliers among five readings, enumerated: 32 terms."""
    inner = mf.StudentT(0.5, 4.0, 0.7, degrees=3.5)
    model = mf.Outliers(inner, 0.1)
    xs = [0.3, 5.0, -0.4, 7.0, 0.9]
    theta, prior = inner.theta, np.exp(inner.prior())
    likelihood = [stats.t(3.5, theta, math.sqrt(0.7)).pdf(x) for x in xs]
    fresh = [float(prior @ each) for each in likelihood]
    posterior = np.zeros_like(theta)
    for flags in np.ndindex(*[2] * len(xs)):
        term = prior.copy()
        for odd, each, g in zip(flags, likelihood, fresh, strict=True):
            term *= 0.1 * g if odd else 0.9 * each
        posterior += term
    got = after(model, xs)
    np.testing.assert_allclose(np.exp(got[:-1]), posterior / posterior.sum(), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_the_predictive_is_a_density_with_its_moments_and_distribution(zeta: float) -> None:
    inner = mf.GaussianUnknown(1.0, 0.5, 3.0, 2.0)
    model = mf.Outliers(inner, 0.2, outlier=mf.GaussianUnknown(3.0, 0.05, 3.0, 9.0))
    state = after(model, [1.0, 1.5, 30.0])

    def density(x: float, power: int = 0) -> float:
        return x**power * math.exp(float(model.log_predictive(state, x, zeta)))

    ends = [-600.0, -20.0, 0.0, 1.5, 4.0, 20.0, 600.0]
    total, first, second = (
        sum(integrate.quad(density, a, b, (k,), limit=400)[0] for a, b in pairwise(ends)) for k in range(3)
    )
    mean, var = (float(v) for v in model.predictive(state, zeta))
    assert total == pytest.approx(1.0, abs=1e-6)
    assert mean == pytest.approx(first, abs=1e-4)
    assert var == pytest.approx(second - first**2, rel=0.02)  # heavy tails beyond the ends
    below = integrate.quad(density, -600.0, 1.0, points=[-20.0, 0.0], limit=400)[0]
    assert float(model.predictive_cdf(state, 1.0, zeta)) == pytest.approx(below, abs=1e-6)


@pytest.mark.parametrize("wide", [None, mf.Gaussian(0.0, 1e4, 1.0)], ids=["prior", "wide"])
@pytest.mark.parametrize("zeta", [0.1, 1.0])
def test_the_run_length_gain_is_that_of_the_contaminated_predictives(zeta: float, wide: Any) -> None:
    inner = mf.Gaussian(0.0, 9.0, 1.0)
    model = mf.Outliers(inner, 0.05, wide)
    detector = mf.Detector(
        model, [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 2.0)], hazard=0.05, prune=None
    )
    for x in (0.3, -0.5, 0.1, 3.0, 3.3):
        detector.update(x, "high")
    weight, state = detector._filter.predicted()
    x = np.linspace(-600.0, 600.0, 12_001)
    logs = np.array([model.log_predictive(state, float(v), zeta) for v in x])
    mixed = logsumexp(logs, axis=1, b=weight)
    truth = float(((np.exp(logs) * (logs - mixed[:, None])) @ weight).sum() * (x[1] - x[0]))
    got = expected_gains(detector._filter, np.array([zeta]), "run_length")[0]
    assert got == pytest.approx(truth, rel=2e-3, abs=1e-6)
    assert got < (1 - 0.05) * inner.run_length_gain(weight, state[:-1], zeta)
    joint = expected_gains(detector._filter, np.array([zeta]), "joint")[0]
    marked = 0.95 * float(weight @ inner.parameter_gain(state[:-1], zeta))
    assert joint - got == pytest.approx(marked, rel=1e-9)


def test_the_discrete_gain_is_the_plain_sum() -> None:
    model = mf.Outliers(mf.Bernoulli(0.6, 1.7), 0.1)
    detector = mf.Detector(model, hazard=0.1, prune=None)
    for x in (1.0, 1.0, 1.0, 0.0):
        detector.update(x)
    weight, state = detector._filter.predicted()
    p = np.exp([model.log_predictive(state, x, 1.0) for x in (0.0, 1.0)])
    assert p.sum(axis=0) == pytest.approx(1.0)
    mixed = p @ weight
    truth = float((p * np.log(p / mixed[:, None])).sum(axis=0) @ weight)
    assert expected_gains(detector._filter, np.ones(1), "run_length")[0] == pytest.approx(truth, rel=1e-9)


def test_readings_of_several_numbers() -> None:
    rng = np.random.default_rng(2)
    for inner in (
        mf.MultivariateGaussianUnknown([0, 0], 0.1, degrees=5, scale=[1, 1]),
        mf.Product(mf.GaussianUnknown(0, 0.1, 2, 2), mf.Gaussian(0, 9, 1)),
        mf.VectorAutoregressive(1, [0, 0]),
    ):
        x = rng.normal(size=(120, 2))
        x[80] = 12.0, -15.0
        trace = mf.run(mf.Detector(mf.Outliers(inner, RATE), hazard=1 / 300), x)
        assert trace.outlier is not None
        assert int(trace.outlier.argmax()) == 80
        assert trace.outlier[80] > 0.7
        if not isinstance(inner, mf.VectorAutoregressive):  # its next reading is predicted from the outlier
            assert not trace.alarm.any()


def test_a_product_with_outliers_in_one_column() -> None:
    model = mf.Product(mf.Outliers(mf.Gaussian(0, 9, 1), RATE), mf.Outliers(mf.Gaussian(0, 9, 1), RATE))
    detector = mf.Detector(model, hazard=1e-12, missing="skip")
    for _ in range(20):
        detector.update([0.1, -0.1])
    detector.update([0.4, 2.9])
    one, two = (float(part[-1, 0]) for part in (detector._filter.stats[:3], detector._filter.stats[3:]))
    assert two > one > 0.0
    assert outlier_probability(model, detector._filter.state) == pytest.approx(1 - (1 - one) * (1 - two), rel=1e-6)


def test_outliers_of_a_wider_prior() -> None:
    narrow, wide = mf.Gaussian(0, 9, 1), mf.Gaussian(0, 900, 1)
    xs = [0.1, -0.4, 0.3, 0.2, 40.0]
    models = [mf.Outliers(narrow, RATE, other) for other in (None, wide)]
    logs = [float(model.log_predictive(after(model, xs[:-1]), xs[-1], 1.0)) for model in models]
    assert logs[0] == pytest.approx(math.log(RATE) + stats.norm(0, math.sqrt(10)).logpdf(40), abs=1e-6)
    assert logs[1] == pytest.approx(math.log(RATE) + stats.norm(0, math.sqrt(901)).logpdf(40), abs=1e-6)


def test_the_update_stays_finite_however_far_an_outlier_is() -> None:
    for inner in (mf.Gaussian(0, 9, 1), mf.GaussianUnknown(0, 0.1, 2, 2), mf.Trend(), mf.Autoregressive(2)):
        detector = mf.Detector(mf.Outliers(inner, RATE), hazard=0.01)
        for x in (0.1, 0.2, 1e150, -0.1, -1e300, 0.3):
            assert 0.0 <= detector.update(x).outlier <= 1.0
        assert np.isfinite(detector._filter.stats).all()
        assert np.isfinite(detector._filter.state).all()


# --- construction and saving ----------------------------------------------------------------------------------------


def test_a_table_names_the_family() -> None:
    table = {"kind": "outliers", "model": {"kind": "gaussian_unknown", "mean": 1, "shape": 2}, "rate": 0.05}
    config = Config.parse({"model": table, "hazard": 0.01})
    model = config.detector().model
    assert repr(model) == repr(mf.Outliers(mf.GaussianUnknown(1, shape=2), 0.05))
    assert type(model)(**model.spec()).spec() == model.spec()
    wide = mf.Outliers(mf.Gaussian(0, 1, 1), outlier=mf.Gaussian(0, 50, 1))
    assert repr(mf.Outliers(**wide.spec())) == repr(wide)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Outliers(mf.Gaussian(), 0.0), "Outliers.rate must lie in (0, 1)"),
        (lambda: mf.Outliers(mf.Gaussian(), 1.0), "Outliers.rate must lie in (0, 1)"),
        (lambda: mf.Outliers(3), "Outliers.model must be a model or a table that names one, not 3"),
        (lambda: mf.Outliers({"kind": "x"}), "Outliers.model.kind must be one of"),
        (lambda: mf.Outliers(mf.Bernoulli(predictive="paper")), "Outliers.model must have a normalized predictive"),
        (lambda: mf.Outliers(mf.Outliers(mf.Gaussian())), "allows for outliers already"),
        (lambda: mf.Outliers(mf.Gaussian(), outlier=mf.Trend()), "must be of the same family"),
        (lambda: mf.Outliers(mf.Autoregressive(1), outlier=mf.Autoregressive(1)), "depends on earlier readings"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


def test_units_and_saved_states() -> None:
    model = mf.Outliers(mf.GaussianUnknown(1, 0.5, 2, 3), RATE, mf.GaussianUnknown(1, 0.01, 2, 3))
    other = model.rescaled(5.0, 10.0)
    xs = np.random.default_rng(0).normal(1, 1, 60)
    xs[30] = 40.0
    one, two = mf.Detector(model, hazard=0.01), mf.Detector(other, hazard=0.01)
    for x in xs.tolist():
        a, b = one.update(x), two.update(5.0 + 10.0 * x)
        assert a.outlier == pytest.approx(b.outlier, rel=1e-6, abs=1e-12)
    restored = mf.Detector.from_bytes(one.to_bytes())
    assert restored.update(1.0) == one.update(1.0)
    live = one._filter.stats
    assert model.sound(live)
    for bad in (-0.1, 1.1, np.nan):
        spoiled = live.copy()
        spoiled[-1, 0] = bad
        assert not model.sound(spoiled)


def test_samples_contain_outliers_at_the_rate() -> None:
    model = mf.Outliers(mf.Gaussian(0, 1, 1e-12), 0.1)
    x = model.sample(np.random.default_rng(0), 4000)
    assert np.mean(np.abs(x - np.median(x)) > 1e-3) == pytest.approx(0.1, abs=0.015)


# --- what reports it ------------------------------------------------------------------------------------------------


def test_fleet_trace_command_line_and_service_report_it() -> None:
    model = mf.Outliers(mf.GaussianUnknown(0, 0.1, 2, 2), RATE)
    xs = np.random.default_rng(1).normal(size=40)
    xs[30] = 15.0
    detector, fleet = mf.Detector(model, hazard=1 / 400), mf.Fleet(2, model, hazard=1 / 400)
    steps = [detector.update(x) for x in xs.tolist()]
    for x, step in zip(xs.tolist(), steps, strict=True):
        both = fleet.update([x, 0.0])
        assert both.outlier is not None
        assert both.steps()[0] == step
        assert both.outlier[0] == step.outlier
    assert steps[30].outlier > 0.8
    trace = mf.Trace.of(steps, detector)
    assert trace.to_frame()["outlier"].tolist() == [s.outlier for s in steps]
    out = io.StringIO()
    StepWriter(out, detector, timed=False, advice="").write(steps[30])
    assert json.loads(out.getvalue())["outlier"] == steps[30].outlier
    record = step_record(steps[30], 1.0, 0.0, [])
    assert record["outlier"] == steps[30].outlier
    text = format_steps([Event("s", 0, 0.0, False, json.dumps(record))], "csv").decode()
    assert text.splitlines()[0].endswith(",at,outlier")


def test_models_without_outliers_do_not_report_any() -> None:
    detector, fleet = mf.Detector(mf.Gaussian()), mf.Fleet(1, mf.Gaussian())
    step = detector.update(0.3)
    assert step.outlier is None
    assert fleet.update([0.3]).outlier is None
    assert float(mf.Gaussian().last_outlier(mf.Gaussian().prior())) == 0.0
    trace = mf.Trace.of([step], detector)
    assert trace.outlier is None
    assert "outlier" not in trace.to_frame()
    out = io.StringIO()
    StepWriter(out, detector, timed=False, advice="").write(step)
    assert "outlier" not in out.getvalue()
    assert "outlier" not in step_record(step, 1.0, 0.0, [])

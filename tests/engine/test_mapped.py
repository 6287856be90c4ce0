"""Models that map a reading first: what holds beyond the tests of every model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf
from mfbocd.detector.late import LateReadings
from mfbocd.trace.tracker import LevelTracker

PLAIN = mf.Gaussian(1.0, 4.0, 0.3)
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def wave(model: mf.Model, **options: Any) -> mf.FixedSeason:
    return mf.FixedSeason(model, 7, [1.0, 0.2], [-0.5, 0.1], **options)


@pytest.mark.parametrize("zeta", [0.2, 1.0])
@pytest.mark.parametrize("function", ["log", "logit"])
def test_a_predictive_integrates_to_one_at_every_zeta(function: str, zeta: float) -> None:
    """The derivative counts once: to the power zeta, the sum would be another one."""
    model = mf.Transformed(mf.Gaussian(0.3, 0.5, 0.2), function)
    stats_ = model.update(model.prior(), 0.4, 0.7)
    edge = np.linspace(-9.0, 9.0, 20_001)  # of the images: the grid is fine where the map is steep
    x = np.exp(edge) if function == "log" else 1.0 / (1.0 + np.exp(-edge))
    density = np.exp(model.log_predictives(stats_[:, None], x, zeta)[:, 0])
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-6)


def test_a_logarithm_of_a_normal_is_lognormal() -> None:
    model = mf.Transformed(PLAIN, "log", offset=2.0)
    truth = stats.lognorm(math.sqrt(4.3), loc=-2.0, scale=math.exp(1.0))
    prior = model.prior()
    assert float(model.log_predictive(prior, 5.0, 1.0)) == pytest.approx(truth.logpdf(5.0), rel=1e-12)
    assert float(model.predictive(prior)[0]) == pytest.approx(truth.median(), rel=1e-12)
    assert float(model.predictive_cdf(prior, 5.0)) == pytest.approx(truth.cdf(5.0), rel=1e-12)
    assert mf.Detector(model).interval(0.8) == pytest.approx((truth.ppf(0.1), truth.ppf(0.9)), rel=1e-6)


@pytest.mark.parametrize("hazard", [0.05, mf.Learned()], ids=["constant", "learned"])
@pytest.mark.parametrize("inner", [PLAIN, mf.Trend()], ids=["compiled", "methods"])
def test_a_detector_is_that_of_the_mapped_readings(inner: mf.Model, hazard: Any) -> None:
    """Weights, choices and gains are those of the images; a mean and an interval are mapped back."""
    model = mf.Rounded(mf.Transformed(wave(inner, start=3), "log", offset=1.0), 0.5)
    options: dict[str, Any] = {"hazard": hazard, "policy": mf.Budget(share=0.4), "prune": mf.Resample(20)}
    options["missing"] = "skip"
    outer, core = mf.Detector(model, FIDELITIES, **options), mf.Detector(inner, FIDELITIES, **options)
    rng = np.random.default_rng(2)
    slopes = 0.0
    for t in range(60):
        assert outer.choose().name == core.choose().name
        fidelity = outer.choose().name
        x = None if t % 9 == 4 else float(0.5 * rng.integers(1, 30 if t < 40 else 90))
        y = None
        if x is not None:
            inward = model.to_inner(x, t)
            slopes -= math.log(inward + 1.0)
            y = math.log(inward + 1.0) - model.model.model.season.at(t + 3)
        one, two = outer.update(x, fidelity), core.update(y, fidelity)
        assert one.p_change == pytest.approx(two.p_change, rel=1e-9)
        np.testing.assert_allclose(outer.run_length.weight, core.run_length.weight, atol=1e-12)
        assert one.mean == pytest.approx(math.exp(two.mean + float(model.model.model.season.at(t + 4))) - 1.0)
    assert outer.log_evidence == pytest.approx(core.log_evidence + slopes, rel=1e-12)
    season = float(model.model.model.season.at(63))
    mapped = [math.exp(end + season) - 1.0 for end in core.interval(0.9)]
    assert outer.interval(0.9) == pytest.approx(mapped, rel=1e-9)
    np.testing.assert_allclose([g[3:7] for g in outer.gains()], [g[3:7] for g in core.gains()], rtol=1e-9)
    for one, two in zip(outer.parameter, core.parameter, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_streams_of_a_fleet_have_their_own_clocks() -> None:
    """A stream that is read half as often, and one that is added later, follow their own season."""
    rng = np.random.default_rng(5)
    options: dict[str, Any] = {"hazard": 0.05, "prune": mf.TopK(12), "missing": "skip", "policy": mf.Net(0.01)}
    fleet = mf.Fleet(2, wave(PLAIN), FIDELITIES, **options, threads=2)
    alone = [mf.Detector(wave(PLAIN), FIDELITIES, **options, seed=i) for i in range(3)]
    for t in range(40):
        if t == 11:
            fleet.add("late")
        rows = [i for i in range(len(fleet)) if i != 1 or t % 2]
        xs = [None if (t + i) % 5 == 0 else float(rng.normal(1.0, 2.0)) for i in rows]
        step = fleet.update(xs, "high", streams=rows)
        wanted = [alone[i].update(x, "high") for i, x in zip(rows, xs, strict=True)]
        assert step.mean.tolist() == [s.mean for s in wanted]
    assert [fleet.to_bytes(i) for i in range(3)] == [detector.to_bytes() for detector in alone]
    assert fleet.ticks.tolist() == [40, 20, 29]


def test_a_gap_moves_the_season_on() -> None:
    detector = mf.Detector(wave(mf.Trend()), hazard=0.05)
    detector.update(1.0)
    detector.wait(6)
    twin = mf.Detector.from_bytes(detector.to_bytes())
    core = mf.Detector(mf.Trend(), hazard=0.05)
    season = detector.model.season
    core.update(1.0 - float(season.at(0)))
    core.wait(6)
    assert detector.mean == twin.mean == pytest.approx(core.mean + float(season.at(7)), rel=1e-12)


@pytest.mark.parametrize("inner", [PLAIN, mf.Trend()], ids=["compiled", "methods"])
def test_a_late_reading_is_that_of_its_own_tick(inner: mf.Model) -> None:
    options: dict[str, Any] = {"hazard": 0.05, "policy": mf.Always("high"), "missing": "skip"}
    late, direct = (mf.Detector(wave(inner), FIDELITIES, **options) for _ in "ab")
    feed = LateReadings(late)
    rng = np.random.default_rng(1)
    for t in range(20):
        x = float(rng.normal(1.0, 2.0))
        feed.apply(None if t == 5 else x, "high", cost=5.0, key="late" if t == 5 else None)
        direct.update(x, "high")
        if t == 5:
            waited = x
    assert feed.replace("late", waited, "high")
    feed.catch_up()
    assert late.mean == direct.mean
    assert late.log_evidence == direct.log_evidence


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (mf.Transformed(PLAIN, "log"), 0.0, r"x = 0\.0 is outside the support of Transformed: numbers above 0$"),
        (mf.Transformed(PLAIN, "log", 2.0), -2.5, r"x = -2\.5 .*: numbers above -2$"),
        (mf.Transformed(PLAIN, "sqrt", 0.6), -1.0, r"x = -1\.0 .*: numbers above -0\.6$"),
        (mf.Transformed(PLAIN, "logit"), 1.0, r"x = 1\.0 .*: numbers between 0 and 1$"),
        (mf.Transformed(mf.Gamma(2), "log"), 0.5, r"x = 0\.5 .*above 0 whose log is possible for Gamma"),
        (mf.Rounded(mf.Transformed(PLAIN, "log"), 1.0), 0.4, r"x = 0\.4 .* Rounded: .* half a step, 0\.5, further"),
        (mf.Scaled(PLAIN, 1e-300), 1e10, r"x = 1(e\+10|0{10}\.0) .* Scaled: "),
    ],
)
def test_a_reading_outside_the_domain_is_refused_by_name(model: mf.Model, x: float, message: str) -> None:
    detector = mf.Detector(model, missing="skip")
    detector.update(None)
    before = detector.to_bytes()
    with pytest.raises(ValueError, match=message):
        detector.update(x)
    with pytest.raises(ValueError, match=f"row 1, column 'full': {message}"):
        mf.run(detector, [None, x])
    with pytest.raises(ValueError, match=f"stream 0: {message}"):
        mf.Fleet(1, model).update([x])
    assert detector.to_bytes() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Transformed(PLAIN, "ln"), r"Transformed\.function must be 'log', 'sqrt' or 'logit', not 'ln'"),
        (lambda: mf.Transformed(PLAIN, "log", math.inf), r"Transformed\.offset must be finite"),
        (lambda: mf.Transformed(3, "log"), r"Transformed\.model must be a model or a table that names one, not 3"),
        (
            lambda: mf.Transformed(mf.Poisson(), "log"),
            r"Transformed\.model must have continuous readings of one number",
        ),
        (
            lambda: mf.Rounded(mf.MultivariateGaussian([0, 0]), 1),
            r"Rounded\.model must have continuous readings of one",
        ),
        (lambda: mf.Rounded(PLAIN, 0), r"Rounded\.step must be positive, not 0"),
        (lambda: mf.Scaled(PLAIN, -1), r"Scaled\.scale must be positive, not -1"),
        (lambda: mf.Scaled({"kind": "gausian"}), r"Scaled\.model\.kind must be one of"),
        (lambda: mf.FixedSeason(PLAIN, 0, [1], [1]), r"FixedSeason\.period must be positive"),
        (lambda: mf.FixedSeason(PLAIN, 4), r"FixedSeason needs a curve"),
        (lambda: mf.FixedSeason(PLAIN, 4, [1], []), r"FixedSeason\.sine must have as many coefficients as cosine, 1"),
        (lambda: mf.FixedSeason(PLAIN, 4, [math.nan], [1]), r"FixedSeason\.cosine must be finite"),
        (lambda: mf.FixedSeason(PLAIN, 4, pieces=[(1, 2)]), r"FixedSeason\.pieces must be triples"),
        (lambda: mf.FixedSeason(PLAIN, 4, pieces=[(3, 2, 0), (1, 0, 0)]), r"at increasing phases in \[0, 4\)"),
        (lambda: mf.FixedSeason(PLAIN, 4, pieces=[(4, 2, 0)]), r"at increasing phases in \[0, 4\), not \[4\.0\]"),
        (lambda: mf.FixedSeason(PLAIN, 4, [1], [1], start=-1), r"FixedSeason\.start must be a whole number"),
        (lambda: mf.FixedSeason(mf.Gamma(2), 4, [1], [1]), r"FixedSeason\.model must accept every number"),
        (lambda: mf.Detector(mf.Scaled(PLAIN), alarm=mf.Alarm(at_least=1)), r"not available for Scaled"),
        (
            lambda: mf.Fleet(2, mf.Rounded(mf.Transformed(PLAIN, "log"), 1), scale=2.0),
            r"^Rounded: Transformed has no",
        ),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_change_of_direction_is_that_of_the_images() -> None:
    up = mf.Detector(mf.Transformed(PLAIN, "log"), hazard=0.05, alarm=mf.Alarm(within=20, direction="up"))
    core = mf.Detector(PLAIN, hazard=0.05, alarm=mf.Alarm(within=20, direction="up"))
    readings = [0.0, 0.3, -0.2] * 5 + [-4.0] * 4 + [5.0] * 3
    alarms = [(up.update(math.exp(y)).alarm, core.update(y).alarm) for y in readings]
    assert all(one == two for one, two in alarms)
    assert [t for t, (one, _) in enumerate(alarms) if one] != []


@pytest.mark.parametrize(
    "model",
    [
        mf.Transformed(mf.Gaussian(-900.0, 1e4, 1.0), "log", 2.0),
        mf.Transformed(mf.Gaussian(-3.0, 1.0, 1.0), "sqrt", 0.6),
        mf.Transformed(mf.Gaussian(-90.0, 1.0, 1.0), "logit", 0.3),
        mf.Transformed(mf.Gaussian(90.0, 1.0, 1.0), "logit", 0.3),
        mf.Rounded(mf.Transformed(mf.RobustTrend(), "sqrt", 0.6), 1.0),
    ],
)
def test_what_is_expected_is_a_possible_reading(model: mf.Model) -> None:
    """A budget asks for the gain after readings as expected, before the first tick."""
    detector = mf.Detector(model, FIDELITIES, policy=mf.Budget(share=0.3, gain="variance"))
    step = detector.update(detector.mean, "high")
    assert detector.update(step.mean, "high").tick == 1
    assert math.isfinite(detector.log_evidence)
    low, high = detector.interval(0.99)
    assert model.possible(np.array([low, high])).all()


def test_levels_are_without_the_season() -> None:
    """A regime of half a season has the level that the season leaves."""
    season = mf.FixedSeason(mf.Gaussian(0.0, 100.0, 0.01), 40, [0.0], [20.0])
    model = mf.Rounded(season, 0.001)
    rng = np.random.default_rng(0)
    ticks = np.arange(60)
    x = season.season.at(ticks) + np.where(ticks < 40, 1.0, 4.0) + 0.1 * rng.normal(size=60)
    traces = [mf.run(mf.Detector(model, hazard=0.01), x, detail=detail) for detail in (False, True)]
    detector = mf.Detector(model, hazard=0.01)
    tracker = LevelTracker.of(detector)
    levels = [(change.before, change.after) for trace in traces for change in trace.changes]
    for step in map(detector.update, x.tolist()):
        tracker.add(step)
        if step.alarm:
            levels.append(tracker.around(step.changed_at))
    assert len(levels) == 3
    for before, after in levels:
        assert before.mean == pytest.approx(1.0, abs=0.1)
        assert after.mean == pytest.approx(4.0, abs=0.2)

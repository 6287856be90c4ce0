"""The levels before and after a change, against closed forms."""

import io
import json
import math

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf
from mfbocd.cli.output import StepWriter
from mfbocd.cli.tasks import steps_of
from mfbocd.trace import Change
from mfbocd.trace.intervals import student_quantile
from mfbocd.trace.levels import Level, arrow, describe_change, show_levels
from mfbocd.trace.recorder import Recorder
from mfbocd.trace.regimes import NEAREST, LevelRule, levels_around
from mfbocd.trace.tracker import LevelTracker

TWO = [mf.Fidelity("cheap", 0.25, 1), mf.Fidelity("good", 1.0, 10)]
X = np.array([1.0, 1.5, 0.7, 1.1, 0.4, 1.9, 6.2, 5.1, 6.9])
ZETA = np.array([0.25, 1.0, 1.0, 0.25, 1.0, 0.25, 1.0, 0.25, 1.0])
CHOICE = (ZETA == 1.0).astype(np.int64)
RULE = LevelRule((0.25, 1.0))


def correlation(rest: np.ndarray) -> float:
    return max(float(rest[1:] @ rest[:-1] / (rest @ rest)), 0.0)


def test_the_first_regime_has_the_interval_of_student() -> None:
    ((before, _),) = levels_around(X, [6], RULE, CHOICE)
    x, w = X[:6], ZETA[:6]
    mean = (w @ x) / w.sum()
    rest = np.sqrt(w) * (x - mean)
    r = correlation(rest)
    f = (1 - r) / (1 + r)
    error = math.sqrt(rest @ rest / 5 / (w.sum() * f)) * stats.t.ppf(0.975, 5 * f)
    assert before == pytest.approx((mean, mean - error, mean + error), rel=1e-4)


def test_a_later_regime_has_the_noise_of_the_one_before_as_a_prior() -> None:
    ((_, after),) = levels_around(X, [6], RULE, CHOICE)
    sums, sizes = [], []
    for rows in (slice(0, 6), slice(6, 9)):
        x, w = X[rows], ZETA[rows]
        mean = (w @ x) / w.sum()
        rest = np.sqrt(w) * (x - mean)
        sums.append(float(rest @ rest))
        sizes.append((correlation(rest), w.sum()))
    r = (4 * sizes[0][0] + 3 * sizes[1][0]) / 7
    f = (1 - r) / (1 + r)
    variance = (4 * sums[0] / 5 + sums[1]) / (4 + 2)
    error = math.sqrt(variance / (sizes[1][1] * f)) * stats.t.ppf(0.975, 4 + 2 * f)
    assert after == pytest.approx((mean, mean - error, mean + error), rel=1e-4)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (mf.Gaussian(0, 1e9, 1), [0.3, -0.5, 0.4, 9.0, 9.4, 8.8]),
        (mf.GaussianUnknown(0, 1e-9, 1, 1), [0.3, -0.5, 0.4, 9.0, 9.4, 8.8]),
        (mf.Poisson(1e-9, 1e-9), [1, 0, 2, 14, 15, 12]),
        (mf.Bernoulli(1e-9, 1e-9), [0, 1, 0, 1, 1, 1]),
    ],
)
def test_the_level_is_the_posterior_mean_without_the_prior(model: mf.Model, x: list[float]) -> None:
    zeta = [1.0, 0.25, 1.0, 0.25, 1.0, 0.25]
    rule = LevelRule.of(model, TWO)
    (levels,) = levels_around(np.array(x, dtype=float), [3], rule, np.array([1, 0, 1, 0, 1, 0]))
    for level, rows in zip(levels, (slice(0, 3), slice(3, 6)), strict=True):
        state = model.prior()
        for value, weight in zip(x[rows], zeta[rows], strict=True):
            state = model.update(state, float(value), weight)
        assert isinstance(level, Level)
        assert level.mean == pytest.approx(float(model.parameter(state)[0]), rel=1e-6)
        assert level.low <= level.mean <= level.high


def test_zeros_and_ones_have_the_interval_of_wilson() -> None:
    x = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    ((before, after),) = levels_around(x, [10])
    for level, ones, n in ((before, 3, 10), (after, 4, 4)):
        exact = stats.binomtest(ones, n).proportion_ci(method="wilson")
        assert level == pytest.approx((ones / n, exact.low, exact.high))


def test_no_count_at_all_has_the_interval_of_poisson() -> None:
    ((before, after),) = levels_around(np.array([0.0] * 20 + [3.0, 5.0, 4.0]), [20])
    assert before == pytest.approx((0.0, 0.0, stats.chi2.ppf(0.975, 2) / 40))
    assert isinstance(after, Level)
    assert after.mean == 4.0


def test_the_level_of_a_line_is_its_value_at_the_change() -> None:
    rng = np.random.default_rng(5)
    t = np.arange(80)
    x = np.where(t < 50, 0.2 * t, 4.0 - 0.1 * (t - 50)) + 0.1 * rng.normal(size=80)
    model = mf.Trend(count=(0.01, 100))
    ((before, after),) = levels_around(x, [50], LevelRule.of(model, TWO[1:]))
    assert isinstance(before, Level)
    assert isinstance(after, Level)
    for level, rows in ((before, slice(0, 50)), (after, slice(50, 80))):
        assert level.mean == pytest.approx(np.polyval(np.polyfit(t[rows] - 50, x[rows], 1), 0.0), abs=1e-9)
    ((flat, _),) = levels_around(x, [50])  # the model has no lines: the mean
    assert isinstance(flat, Level)
    assert flat.mean == pytest.approx(x[:50].mean(), abs=1e-9)
    noise = np.r_[rng.normal(size=50), 9 + rng.normal(size=30)]
    ((before, _),) = levels_around(noise, [50], LevelRule((1.0,), line=True))
    assert isinstance(before, Level)
    assert before.mean == pytest.approx(noise[:50].mean())  # no slope


@pytest.mark.parametrize(("a", "n"), [(0.0, 5), (0.0, 50), (0.6, 200)])
def test_the_interval_covers_the_mean(a: float, n: int) -> None:
    """In 95 % of 1000 series; autocorrelation is estimated, hence the tolerance."""
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        x = rng.normal(size=n + 50)
        for t in range(1, x.size) if a else ():
            x[t] += a * x[t - 1]
        ((before, _),) = levels_around(x[50:], [n])
        assert isinstance(before, Level)
        hits += before.low < 0.0 < before.high
    assert 0.92 < hits / 1000 < 0.975


def test_the_interval_covers_the_end_of_a_line() -> None:
    rng = np.random.default_rng(8)
    t = np.arange(60.0)
    hits = np.zeros(2)
    for _ in range(400):
        x = np.where(t < 40, 0.2 * t, 3.0 - 0.3 * (t - 40)) + 0.3 * rng.normal(size=60)
        ((before, after),) = levels_around(x, [40], LevelRule((1.0,), line=True))
        assert isinstance(before, Level)
        assert isinstance(after, Level)
        hits += (before.low < 8.0 < before.high, after.low < 3.0 < after.high)
    assert ((hits / 400 > 0.92) & (hits / 400 < 0.985)).all()


@pytest.mark.parametrize("degrees", [1.0, 2.0, 3.0, 4.5, 30.0, 1000.0])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.975])
def test_quantiles_of_student(p: float, degrees: float) -> None:
    assert student_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-4)
    assert student_quantile(1.0 - p, degrees) == -student_quantile(p, degrees)


def test_unusual_readings() -> None:
    def first(x: list[float]) -> object:
        return levels_around(np.array(x), [len(x)])[0][0]

    outlier = first([1.0, 1.2, 0.8, np.nan, 1.0, 1.1, 0.9, 100.5])
    assert isinstance(outlier, Level)
    assert outlier.mean < 2.0  # not 15: an outlier does not decide
    assert first([np.nan]) is None
    assert first([4.5, np.nan]) == Level(4.5, -np.inf, np.inf)
    assert first([3.5] * 5) == Level(3.5, 3.5, 3.5)
    huge = first([1.0e308, -1.1e308, 1.2e308, 1.0e308])
    assert isinstance(huge, Level)
    assert math.isfinite(huge.mean)
    assert Level(4.5, -np.inf, np.inf).to_dict() == {"mean": 4.5, "low": None, "high": None}


def test_regimes_share_their_level() -> None:
    """The level after a change is that before the next one, up to the readings that are too far away."""
    x = np.concatenate([np.full(4, 1.5), np.full(5, 5.5), np.full(3, 2.5)]) + 0.1 * np.sin(np.arange(12.0))
    around = levels_around(x, [4, 9])
    assert around[0][1] == around[1][0]
    long = np.concatenate([np.zeros(NEAREST), np.ones(NEAREST), np.full(3, 9.5)])
    ((before, _),) = levels_around(long, [2 * NEAREST])
    assert isinstance(before, Level)
    assert before.mean == 1.0  # the nearest readings only


def test_several_numbers_and_categories() -> None:
    model = mf.Product(mf.Gaussian(0, 9, 1), mf.Poisson(1, 1))
    rows = [[0.1, 3], [-0.2, 4], [0.3, 2], [0.0, 3], [0.2, 3], [9.1, 21], [8.7, 19], [9.0, 20]]
    (change,) = mf.run(mf.Detector(model, hazard=0.01), rows).changes
    assert change.changed_at == 5
    for j in (0, 1):
        assert change.before[j].mean == pytest.approx(np.mean([row[j] for row in rows[:5]]))
        assert change.after[j].mean == pytest.approx(np.mean([row[j] for row in rows[5:]]))
    assert "(0.1, 3) -> (8.9, 20)" in str(change)
    x = [0, 0, 1, 0, 0, 0, 1, 0, 0, 0] + [2] * 8
    changes = mf.run(mf.Detector(mf.Categorical([1, 1, 1]), hazard=0.05), x).changes
    assert [round(level.mean, 3) for level in changes[0].before] == [0.8, 0.2, 0.0]
    assert [round(level.mean, 3) for level in changes[0].after] == [0.0, 0.0, 1.0]


def test_a_likelihood_that_zeta_only_names_uses_the_best_readings() -> None:
    model = mf.Grid([0.2, 0.8], {z: lambda x, p: np.where(x > 0, p, 1 - p) for z in (0.3, 1.0)}, [0.0, 1.0])
    assert LevelRule.of(model, [mf.Fidelity("judge", 1.0, 10), mf.Fidelity("cheap", 0.3, 1)]).weights == (1.0, 0.0)


def test_labels_are_corrected_for_the_confusion_matrix() -> None:
    model = mf.Confusion({0.3: [[0.75, 0.25], [0.25, 0.75]]})
    fidelities = [mf.Fidelity("sleep", 0.0, 0), mf.Fidelity("cheap", 0.3, 1), mf.Fidelity("judge", 1.0, 10)]
    rule = LevelRule.of(model, fidelities)
    assert rule.weights[1:] == (0.25, 1.0)
    x = np.array([1.0, 1, 0, 1, 1, 0, 1, 1] + [0.0] * 4)
    ((before, after),) = levels_around(x, [8], rule, np.array([1] * 8 + [2] * 4))
    assert isinstance(before, Level)
    assert isinstance(after, Level)
    assert before.mean == pytest.approx((6 / 8 - 0.25) / 0.5)  # Rogan and Gladen
    assert 0.0 <= before.low < before.mean <= before.high <= 1.0
    assert after.mean == after.low == 0.0
    assert after.high >= stats.binomtest(0, 4).proportion_ci(method="wilson").high - 1e-12
    tracker = LevelTracker([f.name for f in fidelities], rule)
    detector = mf.Detector(model, fidelities)
    for i, label in enumerate(x):
        tracker.add(detector.update(label, "cheap" if i < 8 else "judge"))
    assert tracker.around(8) == (before, after)
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        true = rng.random(200) < 0.1
        choice = np.where(np.arange(200) % 10, 1, 2)
        ((level, _),) = levels_around(
            np.where(choice == 2, true, true ^ (rng.random(200) < 0.25)).astype(float), [200], rule, choice
        )
        assert isinstance(level, Level)
        hits += level.low <= 0.1 <= level.high
    assert 0.92 < hits / 400 < 0.995


def test_changes_of_a_trace_in_parts() -> None:
    """A trace that begins after the change knows no level before it."""
    x = [0.1, -0.3, 0.2, 0.1, -0.1, 2.9, 3.0, 3.1, 3.0, 2.8]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, alarm=0.9)
    whole = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, alarm=0.9), x)
    (change,) = whole.changes
    assert change.changed_at == 5
    assert change.delay > 0
    mf.run(detector, x[:5])
    (part,) = mf.run(detector, x[5:]).changes
    assert part.before is None
    assert part.after.mean == change.after.mean
    assert change.to_dict()["before"] == change.before.to_dict()
    assert json.loads(json.dumps(change.to_dict(), allow_nan=False))["delay"] == change.delay


def test_the_tracker_agrees_with_the_trace() -> None:
    """At an alarm, the levels are those of a trace that ends there."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(m, 1, 60) for m in (0, 8, -3)])
    table = np.stack([x + 2 * rng.normal(size=x.size), x], axis=1)
    detector = mf.Detector(mf.Gaussian(0, 25, 1), TWO, 0.01, policy=mf.Random([0.5, 0.5]))
    tracker = LevelTracker.of(detector, reach=50)
    steps, seen = [], []
    for row in table:
        f = detector.choose()
        steps.append(detector.update(row[int(f.name == "good")], f))
        tracker.add(steps[-1])
        if steps[-1].alarm:
            here = mf.Trace.of(steps, detector).changes[-1]
            assert tracker.around(here.changed_at) == (here.before, here.after)
            seen.append(here.changed_at)
    assert seen == [60, 120]


@pytest.mark.parametrize("width", [1, 2])
def test_a_restored_tracker_continues(width: int) -> None:
    rng = np.random.default_rng(6)
    means = np.repeat([0.0, 8.0, -3.0], 30)
    rows = [None if t % 7 == 3 else tuple(means[t] + rng.normal(size=width)) for t in range(90)]
    model: mf.Model = (
        mf.Gaussian(0, 25, 1) if width == 1 else mf.Product(mf.Gaussian(0, 25, 1), mf.Gaussian(0, 25, 1))
    )
    detector = mf.Detector(model, TWO, 0.01, missing="skip")
    whole, part = (LevelTracker.of(detector, reach=50) for _ in "ab")
    found = []
    for t, x in enumerate(rows):
        step = detector.update(x[0] if x is not None and width == 1 else x, TWO[t % 2])
        saved = json.loads(json.dumps(part.to_dict(), allow_nan=False))
        part = LevelTracker.of(detector, reach=50)
        part.restore(saved)
        for tracker in (whole, part):
            tracker.add(step)
        if step.alarm:
            assert step.changed_at is not None
            found.append(whole.around(step.changed_at))
            assert part.around(step.changed_at) == found[-1]
    assert len(found) == 2
    for damage in ({"shape": [3]}, {"x": "%"}, {"choice": ""}, {"noise": [[0]]}, {"next": None}):
        with pytest.raises(ValueError, match="cannot be restored"):
            LevelTracker.of(detector).restore(whole.to_dict() | damage)


def test_alarms_in_the_output_of_the_command_have_levels() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01)
    out = io.StringIO()
    writer = StepWriter(out, detector, timed=False, advice="")
    for x in (0.1, -0.3, 0.2, 6.0, 6.1):
        writer.write(detector.update(x))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [("before" in line, "after" in line) for line in lines] == [(line["alarm"],) * 2 for line in lines]
    (alarm,) = [line for line in lines if line["alarm"]]
    assert alarm["before"]["mean"] == pytest.approx(0.0, abs=1e-12)
    assert alarm["after"]["mean"] == 6.0
    assert alarm["after"]["low"] < 6.0 < alarm["after"]["high"]


def test_hindsight_has_levels() -> None:
    x = np.array([0.1, -0.3, 0.2, 0.1, 4.0, 4.3, 3.9])
    back = mf.hindsight.hindsight(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02), x)
    assert repr(back) == "<Hindsight of 7 ticks: exact>"
    (found,) = back.changepoints()
    assert repr(found) == "<Changepoint: 0.0 -> 4.1 at tick 4 (4 to 4), > 99.9 % sure>"
    assert (found.before, found.after) == levels_around(x, [4])[0]


def test_levels_are_without_a_season_that_multiplies() -> None:
    rng = np.random.default_rng(2)
    t = np.arange(400)
    x = np.where(t < 300, 10.0, 30.0) * np.exp(np.sin(2 * np.pi * t / 24) + 0.1 * rng.normal(size=t.size))
    detector = mf.AutoDetector()
    trace = detector.run(x)
    assert detector.structure is not None
    assert detector.structure.transform == "log"
    (change,) = [c for c in trace.changes if abs(c.changed_at - 300) < 5]
    assert change.before.high - change.before.low < 2.0  # with the season: some 4
    assert change.after.mean / change.before.mean == pytest.approx(3.0, rel=0.15)
    recorder = Recorder(detector)
    recorder.after_ticks(steps_of(trace))
    assert recorder.trace().changes == trace.changes


def test_words() -> None:
    low, high = Level(7.1, 7.0, 7.2), Level(7.9, 7.8, 8.0)
    assert arrow(low, high, "V") == "7.10 -> 7.90 V"
    assert arrow(None, high) == "? -> 7.90"
    assert arrow(None, None) == ""
    assert arrow(Level(-0.001, -0.02, 0.02), Level(2.0, 1.9, 2.1)) == "0.0 -> 2.0"
    assert arrow((low, None), None) == "(7.10, ?) -> (?, ?)"
    assert arrow(None, (low, high)) == "(?, ?) -> (7.10, 7.90)"
    assert arrow(Level(1e20, 1e20, 1e20), Level(2e20, 2e20, 2e20)) == "1e+20 -> 2e+20"
    assert describe_change(low, high, "08:20", 0.99, 3, "V") == (
        "7.10 -> 7.90 V at 08:20, 99 % sure, detected 3 ticks later"
    )
    assert str(Change(5, 5, 0.9999)) == "change at tick 5, > 99.9 % sure, detected at once"
    assert Change(6, 5, 0.9, low, high).describe("V", "noon").endswith("at noon, 90 % sure, detected 1 tick later")
    assert show_levels((low, None)) == "7.10 (7.00 to 7.20), ?"

"""The gain "change", and alarms that use what is known about a change, against formulas written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf
from mfbocd.belief.gains import _slow_gains, expected_gains

WAYS = [mf.Fidelity("low", 0.1, 1), mf.Fidelity("high", 1.0, 10)]
TICKS = 80
STEP = np.repeat([0.0, 1.0], TICKS // 2)


def draw(name: str, rng: np.random.Generator) -> np.ndarray:
    """Readings of a family whose mean rises half-way."""
    return {
        "gaussian": lambda: rng.normal(1.5 * STEP, 1.0),
        "unknown": lambda: rng.normal(1.5 * STEP, 1.0),
        "bernoulli": lambda: (rng.random(TICKS) < 0.2 + 0.6 * STEP).astype(float),
        "poisson": lambda: rng.poisson(3 + 4 * STEP).astype(float),
        "binomial": lambda: rng.binomial(20, 0.2 + 0.3 * STEP).astype(float),
        "gamma": lambda: rng.gamma(2.0, 1 + 2 * STEP),
    }[name]()


MODELS = {
    "gaussian": mf.Gaussian(0.3, 4, 1.2),
    "unknown": mf.GaussianUnknown(0.3, 1, 2, 2),
    "bernoulli": mf.Bernoulli(1.1, 1.3),
    "poisson": mf.Poisson(2.1, 0.9),
    "binomial": mf.Binomial(20, 1.1, 1.3),
    "gamma": mf.Gamma(2.0, 2.5, 1.4),
}
LEVELS = {"gaussian": (0.0, 1.0), "unknown": (0.0, 1.0), "bernoulli": (0.2, 0.4), "poisson": (3.0, 2.0),
          "binomial": (4.0, 4.0), "gamma": (2.0, 3.0)}  # fmt: skip
OPTIONS = ("direction", "size", "known", "readings")


def alarm_of(name: str, option: str) -> mf.Alarm:
    before, size = LEVELS[name]
    readings = draw(name, np.random.default_rng(5))[: TICKS // 4].tolist()
    return {
        "direction": mf.Alarm(30, 0.6, direction="up"),
        "size": mf.Alarm(30, 0.6, at_least=size),
        "known": mf.Alarm(30, 0.6, direction="up", before=before, at_least=size),
        "readings": mf.Alarm(30, 0.6, direction="down", before=readings),
    }[option]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_the_compiled_alarm_equals_the_plain_one(name: str, option: str) -> None:
    alarm = alarm_of(name, option)
    compiled, plain = (mf.Detector(MODELS[name], WAYS, 1 / 50, alarm=alarm) for _ in range(2))
    plain._filter._compiled = None
    zeta = np.array([0.0, 0.1, 1.0])
    fired = 0
    for t, x in enumerate(draw(name, np.random.default_rng(3)).tolist()):
        way = WAYS[t % 3 > 0].name
        one, two = compiled.update(x, way), plain.update(x, way)
        assert one.p_change == pytest.approx(two.p_change, abs=1e-9)
        assert (one.alarm, one.changed_at) == (two.alarm, two.changed_at)
        fired += one.alarm
        gains = _slow_gains(compiled._filter, zeta, "change")
        assert expected_gains(compiled._filter, zeta, "change") == pytest.approx(gains, abs=1e-9)
    assert fired or option == "readings"


def recent(detector: mf.Detector, alarm: mf.Alarm, fired: int) -> np.ndarray:
    """Which hypotheses count towards an alarm at the coming tick, youngest first, with the coming one in front."""
    tick = detector.ticks
    births = tick - 1 - detector.run_length.length
    return np.append(True, births > max(tick - alarm.within, 0, fired))


def test_the_gain_is_the_formula() -> None:
    """Gaussian: every term from the run-length posterior and the readings, none from the statistics of the filter."""
    alarm, hazard, rng = mf.Alarm(12, 0.9), 0.03, np.random.default_rng(1)
    model = mf.Gaussian(0.5, 4.0, 1.5)
    detector = mf.Detector(model, WAYS, hazard, alarm=alarm, prune=None)
    x = np.r_[rng.normal(0, 1.2, 25), rng.normal(3, 1.2, 4)]
    zeta = np.where(np.arange(x.size) % 2, 1.0, 0.1)
    fired = -1
    for value, z in zip(x.tolist(), zeta.tolist(), strict=True):
        step = detector.update(value, "high" if z == 1.0 else "low")
        fired = step.tick if step.alarm else fired
    length = detector.run_length.length
    weight = np.append(hazard, (1 - hazard) * detector.run_length.weight)
    precision = np.array([1 / 4.0 + zeta[x.size - n :].sum() / 1.5 for n in [0, *(length + 1)]])
    total = np.array([0.5 / 4.0 + (zeta * x)[x.size - n :].sum() / 1.5 for n in [0, *(length + 1)]])
    mean, var = total / precision, 1.5 + 1 / precision
    counts = recent(detector, alarm, fired)
    old = weight[~counts] / weight[~counts].sum()
    m0 = old @ mean[~counts]
    v0 = old @ (var[~counts] + (mean[~counts] - m0) ** 2)
    divergence = ((var + (mean - m0) ** 2) / v0 - 1 - np.log(var / v0)) / 2
    q = (weight * divergence / (divergence + 0.1))[counts].sum()
    for z in (0.1, 1.0):
        information = weight @ (0.5 * np.log1p(z / (1.5 * precision)))
        gain = expected_gains(detector._filter, np.array([z]), "change")[0]
        assert gain == pytest.approx(z * q + information, rel=1e-9)
    assert q > 0.2


def test_a_reported_change_in_doubt_counts_as_well() -> None:
    """Until the alarm is refuted or certain: written out as in the test before."""
    alarm, hazard = mf.Alarm(12, 0.5), 0.03
    detector = mf.Detector(mf.Gaussian(0.5, 4.0, 1.5), WAYS, hazard, alarm=alarm, prune=None)
    steps = [detector.update(x, "high") for x in [0.0] * 25 + [3.4, 3.4, 1.2, 1.6]]
    fired = [step.tick for step in steps if step.alarm]
    assert fired == [26]
    x = np.array([step.x for step in steps])
    length = detector.run_length.length
    weight = np.append(hazard, (1 - hazard) * detector.run_length.weight)
    sizes = np.array([0, *(length + 1)])
    precision = 1 / 4.0 + sizes / 1.5
    total = np.array([0.5 / 4.0 + x[x.size - n :].sum() / 1.5 for n in sizes])
    mean, var = total / precision, 1.5 + 1 / precision
    birth = x.size - sizes
    in_window = birth > max(x.size - alarm.within, 0)
    counts = in_window & (birth > fired[0])

    def shown(these: np.ndarray, old: np.ndarray) -> float:
        share = weight[old] / weight[old].sum()
        m0 = share @ mean[old]
        v0 = share @ (var[old] + (mean[old] - m0) ** 2)
        divergence = ((var + (mean - m0) ** 2) / v0 - 1 - np.log(var / v0)) / 2
        return float((weight * divergence / (divergence + 0.1))[these].sum())

    doubt = weight[~in_window].sum() * shown(in_window & ~counts, ~in_window)
    information = weight @ (0.5 * np.log1p(1.0 / (1.5 * precision)))
    gain = expected_gains(detector._filter, np.array([1.0]), "change")[0]
    assert gain == pytest.approx(shown(counts, ~counts) + doubt + information, rel=1e-9)
    assert doubt > 0.05
    later = [detector.update(3.0, "high") for _ in range(6)]  # now the change is certain
    assert not any(step.alarm for step in later)
    assert expected_gains(detector._filter, np.array([1.0]), "change")[0] < 0.5 * gain


def test_the_gain_of_a_bernoulli_uses_its_own_divergence() -> None:
    alarm, hazard = mf.Alarm(10, 0.99), 0.05
    detector = mf.Detector(mf.Bernoulli(0.5, 0.5), WAYS, hazard, alarm=alarm, prune=None)
    x = [0.0] * 20 + [1.0] * 3
    for value in x:
        detector.update(value, "high")
    sizes = np.append(0, detector.run_length.length + 1)
    weight = np.append(hazard, (1 - hazard) * detector.run_length.weight)
    p = np.array([(0.5 + sum(x[len(x) - n :])) / (1 + n) for n in sizes])
    counts = recent(detector, alarm, -1)
    p0 = weight[~counts] @ p[~counts] / weight[~counts].sum()
    divergence = np.array([stats.entropy([a, 1 - a], [p0, 1 - p0]) for a in p])
    q = (weight * divergence / (divergence + 0.1))[counts].sum()
    a, b = 0.5 + np.array([sum(x[len(x) - n :]) for n in sizes]), 0.5 + sizes
    information = weight @ detector.model.parameter_gain(np.stack([a, b + 0.5 - a, 1 / (b + 0.5)]), 1.0)
    assert expected_gains(detector._filter, np.array([1.0]), "change")[0] == pytest.approx(q + information, rel=1e-9)


# --- alarms that use what is known ------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", [None, "up", "down"])
def test_with_both_levels_it_is_the_posterior_of_a_jump(direction: str | None) -> None:
    """P(change) against the sum over every tick at which the level may have jumped, with mixed fidelities."""
    rng, h, before, size = np.random.default_rng(2), 0.02, 1.0, 0.8
    alarm = mf.Alarm(500, 1.0, direction=direction, before=before, at_least=size)  # type: ignore[arg-type]
    detector = mf.Detector(mf.Gaussian(0, 9, 2.0), [*WAYS, mf.Fidelity("skip", 0, 0)], h, alarm=alarm)
    zeta = rng.choice([0.0, 0.1, 1.0], 40)
    x = before + rng.normal(0, 1, 40) * np.sqrt(2.0 / np.maximum(zeta, 0.1)) - size * (np.arange(40) > 25)
    ways = {None: (1, -1), "up": (1,), "down": (-1,)}[direction]
    for t in range(40):
        name = {0.0: "skip", 0.1: "low", 1.0: "high"}[zeta[t]]
        step = detector.update(float(x[t]), name)
        odds = 0.0
        for start in range(t + 1):
            z, d = zeta[start : t + 1], x[start : t + 1] - before
            for way in ways:
                log_ratio = (z * (d**2 - (d - way * size) ** 2)).sum() / (2 * 2.0)  # of normals of variance 2 / zeta
                odds += h * (1 - h) ** start / (1 - h) ** (t + 1) / len(ways) * math.exp(log_ratio)
        assert step.p_change == pytest.approx(odds / (1 + odds), rel=1e-9)


def test_a_known_level_is_where_the_stream_begins() -> None:
    h, model = 0.1, mf.Gaussian(0, 9, 1)
    detector = mf.Detector(model, hazard=h, alarm=mf.Alarm(before=5.0), prune=None)
    assert detector._filter.predictive(1.0)[0] == pytest.approx((1 - h) * 5.0, abs=1e-3)
    step = detector.update(5.5)
    density = (1 - h) * stats.norm(5.0, 1.0).pdf(5.5) + h * stats.norm(0, math.sqrt(10)).pdf(5.5)
    assert detector.log_evidence == pytest.approx(math.log(density), abs=1e-3)
    assert step.mean == pytest.approx(0.9 * (5.0 * (1 - h) + h * 0.9 * 5.5), abs=0.1)
    assert step.p_change == 0.0, "a regime that begins with the stream is not a change"
    readings = mf.Detector(model, hazard=h, alarm=mf.Alarm(before=[5.0, 5.2, 4.8]), prune=None)
    known = mf.Detector(model, hazard=1e-12, prune=None)
    for x in (5.0, 5.2, 4.8):
        known.update(x)
    assert readings._filter.predictive(1.0)[0] == pytest.approx((1 - h) * known._filter.predictive(1.0)[0], rel=1e-6)


def test_only_changes_in_the_direction_count() -> None:
    x = np.r_[np.zeros(60), np.full(30, 3.0), np.zeros(30)] + np.random.default_rng(0).normal(0, 0.5, 120)
    found = {}
    for direction in (None, "up", "down"):
        detector = mf.Detector(mf.Gaussian(0, 9, 0.25), alarm=mf.Alarm(direction=direction))  # type: ignore[arg-type]
        found[direction] = [step.tick for step in map(detector.update, x.tolist()) if step.alarm]
    assert [60 <= tick < 63 for tick in found["up"]] == [True]
    assert [90 <= tick < 93 for tick in found["down"]] == [True]
    assert found[None] == sorted(found["up"] + found["down"])


def test_one_alarm_per_change_and_again_after_a_return() -> None:
    x = np.r_[np.zeros(60), np.full(60, 2.0), np.zeros(60), np.full(60, 2.0)]
    x += np.random.default_rng(1).normal(0, 1, x.size)
    alarm = mf.Alarm(threshold=0.95, direction="up", before=0.0, at_least=1.0)
    detector = mf.Detector(mf.Gaussian(0, 4, 1), hazard=1 / 1000, alarm=alarm)
    steps = [step for step in map(detector.update, x.tolist()) if step.alarm]
    assert [step.tick // 60 for step in steps] == [1, 3]
    assert all(step.changed_at and abs(step.changed_at - step.tick // 60 * 60) <= 3 for step in steps)
    # without a known level the changes back are changes as well
    detector = mf.Detector(mf.Gaussian(0, 4, 1), hazard=1 / 1000, alarm=mf.Alarm(threshold=0.95, at_least=1.0))
    assert [step.tick // 60 for step in map(detector.update, x.tolist()) if step.alarm] == [1, 2, 3]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_false_alarm_that_is_never_refuted_does_not_hide_the_change(compiled: bool) -> None:
    """P(change) stays between half the threshold and the threshold for longer than the window, then rises."""
    alarm = mf.Alarm(30, 0.9, direction="up", before=0.0, at_least=1.0)
    detector = mf.Detector(mf.Gaussian(0, 4, 1), hazard=1e-6, alarm=alarm)
    if not compiled:
        detector._filter._compiled = None
    half = 0.5  # a reading half-way between the levels is no evidence
    odds = [0.0] * 5 + [2.0] * 14
    steps = [detector.update(x) for x in odds]
    false = [step.tick for step in steps if step.alarm]
    while detector.update(0.4).p_change > 0.85:
        pass
    steps = [detector.update(half) for _ in range(60)]
    assert all(0.45 < step.p_change < 0.9 and not step.alarm for step in steps)
    steps = [detector.update(1.0) for _ in range(40)]
    found = [step.tick for step in steps if step.alarm]
    assert len(false) == 1
    assert len(found) == 1  # and not again while the level stays
    assert found[0] - false[0] > 60


@pytest.mark.parametrize("option", OPTIONS)
def test_saving_changes_no_later_bit(option: str) -> None:
    x = draw("gaussian", np.random.default_rng(8)).tolist()
    detector = mf.Detector(MODELS["gaussian"], WAYS, 1 / 50, alarm=alarm_of("gaussian", option))
    fresh = mf.Detector.from_bytes(detector.to_bytes())
    for t, value in enumerate(x):
        if t == 45:
            detector = mf.Detector.from_bytes(detector.to_bytes())
        assert detector.update(value, "high") == fresh.update(value, "high")
    assert detector.to_bytes() == fresh.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"direction": "sideways"}, "Alarm.direction"),
        ({"at_least": 0.0}, "Alarm.at_least"),
        ({"at_least": float("nan")}, "Alarm.at_least"),
        ({"before": float("inf")}, "Alarm.before"),
        ({"before": [1.0]}, "Alarm.before"),
        ({"within": 0}, "Alarm.within"),
        ({"threshold": 1.5}, "Alarm.threshold"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        mf.Alarm(**arguments)  # type: ignore[arg-type]


def test_options_that_a_model_does_not_support_are_refused() -> None:
    vector = mf.MultivariateGaussian([0, 0], [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="not available for MultivariateGaussian"):
        mf.Detector(vector, alarm=mf.Alarm(direction="up"))
    with pytest.raises(ValueError, match=r"Alarm\.before readings"):
        mf.Detector(mf.StudentTUnknown(), alarm=mf.Alarm(before=1.0))


# --- a whole fleet ----------------------------------------------------------------------------------------------


def test_the_statistic_of_a_fleet_adds_up_the_evidence() -> None:
    fleet = mf.Fleet(3, mf.Gaussian(0, 9, 1), hazard=0.01)
    for x in ([0.0, 0.1, 5.0], [0.2, 0.0, 5.1], [0.1, 2.5, 2.2]):
        step = fleet.update(x)
    assert step.statistic == pytest.approx(sum(-math.log(1 - p) for p in step.p_change), rel=1e-12)
    assert step.statistic > 0.01


def test_an_alarm_of_a_fleet_needs_a_tick_of_all_streams() -> None:
    fleet, alarm = mf.Fleet(3, mf.Gaussian(0, 9, 1)), mf.FleetAlarm(4.0)
    assert not alarm.update(fleet.update([0.0, 0.1, 0.2]))
    with pytest.raises(ValueError, match="needs a tick of all 3 streams of the fleet, not of 2"):
        alarm.update(fleet.update([0.1, 0.2], streams=[2, 0]))


def test_an_alarm_of_a_fleet_fires_once_and_rearms() -> None:
    alarm = mf.FleetAlarm(4.0)
    assert [alarm.passes(value) for value in (1, 5, 6, 3.5, 5, 2.9, 4)] == [
        False,
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    with pytest.raises(ValueError, match=r"FleetAlarm\.threshold"):
        mf.FleetAlarm(0.0)

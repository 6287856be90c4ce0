"""The detector: the loop, the alarm, what it reports, bad input, saving."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf
from mfbocd.belief.serialization import VERSION

from ..registry import gaussian_family

IMU = mf.Fidelity("imu", zeta=0.1, cost=1)
GPS = mf.Fidelity("gps", zeta=1.0, cost=40)


def make(**changes) -> mf.Detector:  # type: ignore[no-untyped-def]
    given = {"model": mf.Gaussian(0, 9, 1), "fidelities": [IMU, GPS], "hazard": 1 / 100} | changes
    return mf.Detector(**given)


def test_step_reads_only_the_chosen_sensor() -> None:
    calls: list[str] = []

    def reader(name: str):  # type: ignore[no-untyped-def]
        def read(raw: dict[str, float]) -> float:
            calls.append(name)
            return raw[name]

        return read

    fidelities = [mf.Fidelity(n, z, c, observe=reader(n)) for n, z, c in (("imu", 0.1, 1), ("gps", 1.0, 40))]
    detector = make(fidelities=fidelities, policy=mf.Random([0.5, 0.5]), seed=3)
    expected, spent = [], 0.0
    for t in range(50):
        chosen = detector.choose()
        step = detector.step({"imu": 0.1 * t, "gps": 0.2 * t})
        expected.append(chosen.name)
        spent += chosen.cost
        assert step.fidelity == chosen.name
        assert step.x == pytest.approx({"imu": 0.1, "gps": 0.2}[chosen.name] * t)
        assert step.cost == chosen.cost
        assert step.tick == t
    assert calls == expected
    assert {"imu", "gps"} == set(calls)
    assert detector.spent == spent


def test_step_without_observe() -> None:
    assert mf.Detector(mf.Gaussian()).step(1.5).x == 1.5
    with pytest.raises(TypeError, match="fidelity 'gps' has no observe"):
        make(policy=mf.Always("gps")).step(1.0)


def test_the_default_is_ordinary_bocd_or_a_budget() -> None:
    assert mf.Detector(mf.Gaussian()).choose() == mf.Fidelity("full", 1.0, 1.0)
    assert isinstance(mf.Detector(mf.Gaussian()).policy, mf.Always)
    assert repr(make().policy) == "Budget(share=0.35, cap=None, gain='joint')"
    assert isinstance(make(fidelities=[IMU, mf.Fidelity("same", 0.9, 1)]).policy, mf.Always)
    assert make(policy=mf.Always()).choose() is GPS
    assert make(policy=mf.Always("imu")).choose() is IMU


def test_update_takes_a_fidelity_or_its_name() -> None:
    results = [make(policy=mf.Always()).update(1.0, f) for f in (GPS, "gps", mf.Fidelity("gps", 1.0, 40))]
    assert len(set(results)) == 1
    assert results[0].fidelity == "gps"
    for x in (1, True, np.float32(1.0), np.int8(1), np.array(1.0)):
        assert make().update(x, "gps") == results[0]


def test_with_several_fidelities_update_needs_the_fidelity_or_a_choice() -> None:
    detector = make(policy=mf.Always("gps"), missing="skip")
    with pytest.raises(ValueError, match="fidelity must be one of imu, gps: with several fidelities, give the one"):
        detector.update(1.0)
    detector.gains()  # shows the choice and makes none
    with pytest.raises(ValueError, match="fidelity must be one of"):
        detector.update(1.0)
    assert detector.ticks == 0
    chosen = detector.choose()
    assert detector.update(1.0).fidelity == chosen.name == "gps"
    with pytest.raises(ValueError, match="fidelity must be one of"):  # that was the choice for another tick
        detector.update(1.0)
    detector.choose()
    assert detector.update(1.0, "imu").fidelity == "imu"
    assert detector.update(None).fidelity is None
    detector.choose()
    detector.reset()
    with pytest.raises(ValueError, match="fidelity must be one of"):
        detector.update(1.0)
    assert mf.Detector(mf.Gaussian(0, 9, 1)).update(1.0).fidelity == "full"


def test_a_hazard_passed_as_fidelities_is_named() -> None:
    message = r"fidelities must be Fidelity objects, not 0.01: did you mean hazard=0.01\?"
    with pytest.raises(TypeError, match=message):
        mf.Detector(mf.Gaussian(), 0.01)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=message):
        mf.Fleet(2, mf.Gaussian(), 0.01)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fidelities must be Fidelity objects, not <object"):
        mf.Detector(mf.Gaussian(), object())  # type: ignore[arg-type]


# --- alarms ---------------------------------------------------------------------------------------------------


def test_one_change_is_one_alarm() -> None:
    rng = np.random.default_rng(0)
    xs = np.concatenate([rng.normal(0, 1, 200), rng.normal(6, 1, 200), rng.normal(-3, 1, 200)])
    detector = make()
    alarms = [s for s in (detector.update(float(x), GPS) for x in xs) if s.alarm]
    assert [s.changed_at for s in alarms] == [200, 400]
    for s in alarms:
        assert s.tick <= s.changed_at + 5
        assert s.confidence >= 0.9
        assert s.p_change >= s.confidence
    quiet = make(alarm=None)
    assert not any(quiet.update(float(x), GPS).alarm for x in xs)


def test_two_changes_within_the_window_are_two_alarms() -> None:
    rng = np.random.default_rng(1)
    xs = np.concatenate([rng.normal(0, 1, 100), rng.normal(8, 1, 20), rng.normal(-8, 1, 50)])
    detector = make(alarm=mf.Alarm(within=50, threshold=0.9))
    assert [s.changed_at for s in (detector.update(float(x), GPS) for x in xs) if s.alarm] == [100, 120]


def test_the_start_of_the_stream_is_not_a_change() -> None:
    detector = make(hazard=1e-6)
    for t in range(30):
        step = detector.update(0.0, GPS)
        assert not step.alarm
        assert step.p_change < 1e-3
        assert detector.p_changed(within=t + 1) < 1e-3
    assert detector.run_length.weight[-1] > 0.99
    assert detector.run_length.length[-1] == 29


def test_false_alarms_are_rare_and_real_changes_found() -> None:
    """200 streams of the model itself, read in full at every tick."""
    model, found, spurious, real = mf.Gaussian(0, 9, 1), 0, 0, 0
    for seed in range(200):
        stream = mf.simulate.gaussian(model, hazard=1 / 250, ticks=500, seed=seed)
        trace = mf.run(mf.Detector(model, hazard=1 / 250), stream.table)
        jumps = [c for c in stream.changes if abs(stream.theta[c] - stream.theta[c - 1]) > 3]
        real += len(jumps)
        near = [c for c in jumps if any(abs(c - a.changed_at) <= 5 for a in trace.changes)]
        found += len(near)
        spurious += sum(all(abs(a.changed_at - c) > 20 for c in stream.changes) for a in trace.changes)
    assert found >= 0.9 * real
    assert spurious <= 0.15 * 200  # at most 0.3 in 1000 ticks


def test_alarm_by_threshold_alone() -> None:
    assert make(alarm=0.7).alarm == mf.Alarm(threshold=0.7)
    for bad in (0.0, 1.5, "x", True):
        with pytest.raises((TypeError, ValueError), match=r"alarm|Alarm"):
            make(alarm=bad)
    with pytest.raises(ValueError, match=r"Alarm.within must be a whole number of at least 1, not 0"):
        mf.Alarm(within=0)


# --- what it reports --------------------------------------------------------------------------------------------


def test_before_the_first_tick_it_reports_the_prior() -> None:
    detector = make()
    assert detector.mean == 0.0
    assert detector.variance == pytest.approx(10.0)
    assert detector.parameter == (0.0, 9.0)
    assert detector.interval(0.9) == pytest.approx(stats.norm(0, math.sqrt(10)).interval(0.9), rel=1e-9)
    assert detector.map_run_length is None
    assert len(detector.run_length.length) == 0
    assert detector.p_changed(within=5) == 0.0
    with pytest.raises(ValueError, match="no tick yet"):
        detector.regime()


def test_a_certain_change_has_a_probability_of_at_most_1() -> None:
    """The weights in the window and all weights are summed in different orders."""
    rng = np.random.default_rng(3)
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01)
    found = []
    for x in [*rng.normal(0, 1, 150), *rng.normal(9, 1, 150)]:
        detector.update(x)
        found += [detector.p_changed(within) for within in (1, 50, 100, 151)]
    assert 0.999 < max(found) <= 1.0


def test_predictive_moments_and_interval_are_those_of_the_mixture() -> None:
    detector = make(hazard=0.2, prune=None)
    for x in (0.3, 0.1, 4.0, 4.2):
        detector.update(x, GPS)
    weight, columns = detector._filter.predicted()
    mean, var = detector.model.predictive(columns)
    rng = np.random.default_rng(0)
    which = rng.choice(len(weight), size=400_000, p=weight)
    draws = rng.normal(mean[which], np.sqrt(var[which]))
    error = draws.std() / math.sqrt(draws.size)
    assert detector.mean == pytest.approx(draws.mean(), abs=5 * error)
    assert detector.variance == pytest.approx(draws.var(), rel=0.02)
    low, high = detector.interval(0.8)
    assert (draws < low).mean() == pytest.approx(0.1, abs=0.003)
    assert (draws > high).mean() == pytest.approx(0.1, abs=0.003)
    wide = detector.interval(0.8, "imu")
    assert wide[0] < low < high < wide[1]


def test_the_bernoulli_interval_ends_at_possible_values() -> None:
    detector = mf.Detector(mf.Bernoulli(1, 1), hazard=0.01)
    assert detector.interval(0.9) == (0.0, 1.0)
    for _ in range(100):
        detector.update(1.0)
    assert detector.interval(0.5) == (1.0, 1.0)


def test_regime_start_and_its_interval() -> None:
    rng = np.random.default_rng(2)
    detector = make()
    for x in np.concatenate([rng.normal(0, 1, 60), rng.normal(2.5, 1, 40)]):
        detector.update(float(x), GPS)
    start = detector.regime(level=0.9)
    length, weight = detector.run_length
    births = 99 - length
    assert start.at == births[weight.argmax()]
    assert start.probability == pytest.approx(weight.max())
    inside = weight[(births >= start.low) & (births <= start.high)].sum()
    assert inside >= 0.9
    assert start.low <= 60 <= start.high
    assert detector.regime(level=0.5).high - detector.regime(level=0.5).low <= start.high - start.low


def test_parameter_is_that_of_the_current_regime() -> None:
    xs = np.array([0.0] * 50 + [5.0] * 50)
    detector = make(prune=None)
    for x in xs.tolist():
        detector.update(x, GPS)
    length, weight = detector.run_length
    var = 1 / (1 / 9 + length + 1.0)
    mean = np.array([xs[99 - n :].sum() for n in length]) * var
    centre = weight @ mean
    assert detector.parameter == pytest.approx((centre, weight @ (var + (mean - centre) ** 2)), rel=1e-10)
    assert centre == pytest.approx(5.0, abs=0.05)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "fidelity", "message"),
    [
        (math.nan, "gps", "x is nan: pass missing='skip'"),
        (None, "gps", "x is None: pass missing='skip'"),
        (math.inf, "gps", "x must be finite, not inf"),
        ("3", "gps", "x must be a number, not '3'"),
        ([1.0], "gps", "x must be a number, not [1.0]"),
        (1 + 2j, "gps", "x must be a number"),
        (1.0, "sonar", "fidelity must be one of imu, gps, not 'sonar'"),
        (1.0, mf.Fidelity("gps", 0.5, 40), "fidelity must be one of imu, gps, not Fidelity"),
        (1.0, 1, "fidelity must be one of imu, gps, not 1"),
    ],
)
def test_bad_readings_are_named_and_change_nothing(x, fidelity, message: str) -> None:  # type: ignore[no-untyped-def]
    detector = make()
    detector.update(0.5, GPS)
    before = detector.to_bytes()
    with pytest.raises((ValueError, TypeError)) as error:
        detector.update(x, fidelity)
    assert message in str(error.value)
    assert detector.to_bytes() == before


def test_values_outside_the_support_are_named() -> None:
    detector = mf.Detector(mf.Bernoulli(1, 1))
    before = detector.to_bytes()
    for bad in (2, 0.5, -1):
        with pytest.raises(ValueError, match=rf"x = {float(bad)} is outside the support of Bernoulli: 0 or 1"):
            detector.update(bad)
    assert detector.to_bytes() == before


@pytest.mark.parametrize(
    ("make_bad", "message"),
    [
        (lambda: mf.Fidelity("a", 1.5, 1), "Fidelity.zeta must lie in [0, 1], not 1.5"),
        (lambda: mf.Fidelity("a", -0.1, 1), "Fidelity.zeta must lie in [0, 1], not -0.1"),
        (lambda: mf.Fidelity("a", 0.5, 0), "Fidelity.cost must be positive (a skip, zeta = 0, may cost 0), not 0"),
        (lambda: mf.Fidelity("a", 0.0, -1), "Fidelity.cost must be positive"),
        (lambda: mf.Fidelity("a", 0.5, math.nan), "Fidelity.cost must be finite, not nan"),
        (lambda: mf.Fidelity("", 0.5, 1), "Fidelity.name must be a non-empty string, not ''"),
        (lambda: mf.Fidelity("a", 0.5, 1, observe=3), "Fidelity.observe must be callable, not 3"),
        (lambda: make(fidelities=[IMU, IMU]), "'imu' appears twice"),
        (lambda: make(fidelities=[]), "at least one"),
        (lambda: make(fidelities=["gps"]), "fidelities must be Fidelity objects, not 'gps'"),
        (lambda: make(hazard=0), "hazard must lie in (0, 1), not 0"),
        (lambda: make(hazard=1.0), "hazard must lie in (0, 1), not 1.0"),
        (lambda: make(hazard=[0.1, 1.2]), "hazard at run length 1 must lie in [0, 1], not"),
        (lambda: make(model=3), "model must be one of mfbocd's models"),
        (lambda: make(policy="always"), "policy must be a policy such as"),
        (lambda: make(policy=mf.Always("sonar")), "Always.name must be one of imu, gps, not 'sonar'"),
        (lambda: make(policy=mf.Random([0.5, 0.6])), "sum to 1, not [0.5, 0.6]"),
        (lambda: make(policy=mf.Random([1.0])), "must be 2 numbers"),
        (lambda: make(policy=mf.Random({"sonar": 1.0})), "names 'sonar', which is none of imu, gps"),
        (lambda: make(seed=-1), "seed must be a whole number of at least 0, not -1"),
        (lambda: make(seed=1.5), "seed must be a whole number of at least 0, not 1.5"),
        (lambda: make(missing="drop"), "missing must be 'raise' or 'skip', not 'drop'"),
        (lambda: make().p_changed(within=0), "within must be a whole number of at least 1, not 0"),
        (lambda: make().interval(1.0), "level must lie in (0, 1), not 1.0"),
    ],
)
def test_bad_arguments_are_named(make_bad, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make_bad()
    assert message in str(error.value)


def test_a_skip_may_cost_nothing() -> None:
    skip = mf.Fidelity("skip", zeta=0.0, cost=0.0)
    detector = make(fidelities=[skip, GPS])
    step = detector.update(1.0, skip)
    assert step.cost == 0.0
    assert detector.mean == 0.0


def test_a_missing_reading_advances_time() -> None:
    detector = make(missing="skip", hazard=0.25, prune=None)
    detector.update(3.0, GPS)
    mean, evidence = detector.mean, detector.log_evidence
    for x in (None, math.nan, np.float64("nan")):
        step = detector.update(x, GPS)
        assert step.x is None
        assert step.cost == 40
    assert detector.log_evidence == evidence
    # r_4 is 3 unless one of three changes happened since
    assert detector.run_length.weight[-1] == pytest.approx(0.75**3)
    assert detector.mean == pytest.approx(mean * 0.75**3, rel=1e-12)
    assert detector.spent == 160
    assert detector.update(None).fidelity is None  # nothing was read, nothing is paid
    assert detector.spent == 160


def test_an_error_in_a_users_family_leaves_the_state() -> None:
    family = gaussian_family("paper")
    detector = mf.Detector(family, hazard=0.1)
    detector.update(1.0)
    before = detector._filter.state.copy()
    family.log_h1 = lambda x: x * math.nan
    with pytest.raises(ValueError, match="gave a log predictive"):
        detector.update(2.0)
    np.testing.assert_array_equal(detector._filter.state, before)
    assert detector.ticks == 1


# --- saving -----------------------------------------------------------------------------------------------------


def saved() -> bytes:
    detector = make(hazard=[0.1, 0.2, 0.05], policy=mf.Random({"imu": 0.5, "gps": 0.5}), missing="skip", alarm=0.8)
    for t in range(40):
        detector.update(0.1 * t, detector.choose())
    return detector.to_bytes()


def test_a_loaded_detector_has_the_same_set_up() -> None:
    one = mf.Detector.from_bytes(saved())
    assert one.fidelities == (IMU, GPS)
    assert one.hazard.table.tolist() == [0.1, 0.2, 0.05]
    assert repr(one.model) == repr(mf.Gaussian(0, 9, 1))
    assert one.alarm == mf.Alarm(threshold=0.8)
    assert one.missing == "skip"
    assert repr(one.policy) == repr(mf.Random({"imu": 0.5, "gps": 0.5}))
    assert one.ticks == 40
    assert one.pruning == make().pruning


def test_observers_are_passed_again_on_loading() -> None:
    one = mf.Detector.from_bytes(saved(), observers={"imu": lambda raw: raw, "gps": lambda raw: raw + 1})
    step = one.step(2.0)
    assert step.x == {"imu": 2.0, "gps": 3.0}[step.fidelity]
    with pytest.raises(ValueError, match="observers names 'sonar'"):
        mf.Detector.from_bytes(saved(), observers={"sonar": abs})


def test_a_model_with_functions_is_passed_again_on_loading() -> None:
    detector = mf.Detector(gaussian_family("paper"), hazard=0.1)
    for x in (0.1, 0.4, 3.0):
        detector.update(x)
    data = detector.to_bytes()
    with pytest.raises(ValueError, match="ExponentialFamily, which contains functions: pass model="):
        mf.Detector.from_bytes(data)
    with pytest.raises(ValueError, match="model is ExponentialFamily, not Gaussian"):
        mf.Detector.from_bytes(data, model=mf.Gaussian())
    twin = mf.Detector.from_bytes(data, model=gaussian_family("paper"))
    assert twin.update(2.0) == detector.update(2.0)


def test_truncated_bytes_are_refused() -> None:
    data = saved()
    for size in [*range(0, 60, 3), len(data) // 2, len(data) - 1]:
        with pytest.raises(ValueError, match=r"truncated|not a saved detector"):
            mf.Detector.from_bytes(data[:size])
    with pytest.raises(ValueError, match="altered"):
        mf.Detector.from_bytes(data + b"x")


def test_altered_bytes_are_refused() -> None:
    data = saved()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), 200):
        bad = bytearray(data)
        bad[at] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(ValueError, match=r"altered|truncated|version|not a saved detector"):
            mf.Detector.from_bytes(bytes(bad))


def test_another_version_is_refused() -> None:
    for other in (0, VERSION + 1):
        body = bytearray(saved()[:-4])
        body[6:8] = struct.pack("<H", other)
        data = bytes(body) + struct.pack("<I", zlib.crc32(body))
        with pytest.raises(ValueError, match=rf"version {other}; .* reads only version {VERSION}"):
            mf.Detector.from_bytes(data)
    with pytest.raises(TypeError, match="is bytes, not str"):
        mf.Detector.from_bytes("text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a saved detector"):
        mf.Detector.from_bytes(b"\x80\x04pickle")


def test_saved_bytes_are_small() -> None:
    assert len(saved()) < 3000


# --- gaps, reset, other fidelities ------------------------------------------------------------------


def test_waiting_equals_ticks_without_a_reading() -> None:
    a, b = (mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, missing="skip") for _ in range(2))
    for x in (0.1, 0.3, -0.2):
        a.update(x)
        b.update(x)
    step = a.wait(40)
    for _ in range(40):
        last = b.update(None)
    assert step == last
    assert step.tick == 42
    assert a.to_bytes() == b.to_bytes()
    assert a.spent == 3.0
    with pytest.raises(ValueError, match="ticks must be a whole number of at least 1, not 0"):
        a.wait(0)


def test_a_reset_keeps_only_spend_and_policy() -> None:
    fidelities = [mf.Fidelity("low", 0.2, 1.0), mf.Fidelity("high", 1.0, 9.0)]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, hazard=0.05, policy=mf.Budget(3.0), seed=3)
    rng = np.random.default_rng(1)
    for x in rng.normal(size=200):
        detector.update(float(x), detector.choose())
    learned, spent = detector.policy.state(), detector.spent
    detector.reset()
    assert detector.ticks == 0
    assert detector.run_length.weight.size == 0
    assert (detector.policy.state(), detector.spent) == (learned, spent)
    fresh = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, hazard=0.05, policy=mf.Always("high"), seed=3)
    for x in rng.normal(size=50):
        a, b = detector.update(float(x), "high"), fresh.update(float(x), "high")
        assert a == b


def test_other_fidelities_mid_stream_keep_the_belief_and_the_price() -> None:
    fidelities = [mf.Fidelity("low", 0.2, 1.0), mf.Fidelity("high", 1.0, 9.0)]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, hazard=0.05, policy=mf.Budget(share=0.3), seed=3)
    rng = np.random.default_rng(2)
    for x in rng.normal(size=300):
        detector.update(float(x), detector.choose())
    before = detector.to_bytes()
    other = detector.with_fidelities([*fidelities, mf.Fidelity("middle", 0.6, 3.0)])
    assert detector.to_bytes() == before
    np.testing.assert_array_equal(other.run_length.weight, detector.run_length.weight)
    assert (other.ticks, other.spent) == (detector.ticks, detector.spent)
    assert other.policy.state() == detector.policy.state()
    assert {f.name for f in other.fidelities} == {"low", "high", "middle"}
    step = other.update(0.3, "middle")
    assert step.cost == 3.0
    assert detector.ticks == 300  # the two are independent
    fixed = detector.with_fidelities(fidelities[0], policy=mf.Always("low"))
    assert fixed.choose().name == "low"
    gone = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Always("high"))
    with pytest.raises(ValueError, match="high"):
        gone.with_fidelities(fidelities[0])


def test_a_chosen_skip_is_not_a_missing_reading() -> None:
    """A loop of one's own needs no missing="skip" for the ticks at which the policy reads nothing."""
    skip, high = mf.Fidelity("skip", 0.0, 0.0), mf.Fidelity("high", 1.0, 2.0)
    loop, shadowed = (mf.Detector(mf.Gaussian(0, 9, 1), [skip, high], policy=mf.Budget(0.5)) for _ in range(2))
    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), [skip, high], policy=mf.Budget(0.5), share_policy=False)
    rng = np.random.default_rng(2)
    skips = 0
    for x in rng.normal(size=80).tolist():
        chosen = loop.choose()
        seen = x if chosen is high else None
        skips += chosen is skip
        assert loop.update(seen, chosen) == shadowed.update(seen, shadowed.choose().name)
        choices = fleet.choose()
        assert fleet.update([seen, x if choices[1] else math.nan]).fidelities[choices[0]] == chosen.name
    assert 20 < skips < 80
    assert fleet.to_bytes(0) == loop.to_bytes()
    while loop.choose() is high:
        loop.update(0.1, "high")
    step = loop.update(None)  # what was chosen
    assert (step.fidelity, step.x, step.cost) == ("skip", None, 0.0)
    for given in (None, math.nan):
        with pytest.raises(ValueError, match="missing='skip'"):
            loop.update(given, "high")
        with pytest.raises(ValueError, match=r"stream 1: .*missing='skip'"):
            fleet.update([0.0, given], "high")
    with pytest.raises(ValueError, match="missing='skip'"):
        mf.Detector(mf.Gaussian(0, 9, 1), [skip, high]).update(None)
    vector = mf.Detector(mf.MultivariateGaussian([0, 0], 9, 1), [skip, high])
    assert vector.update(None, "skip").fidelity == "skip"


def test_a_changed_cost_changes_the_choice_and_not_the_belief() -> None:
    fidelities = [mf.Fidelity("low", 0.2, 1.0), mf.Fidelity("high", 1.0, 2.0)]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, hazard=0.05, policy=mf.Net(0.02), seed=3)
    detector.update(0.1, "high")
    assert detector.choose().name == "high"
    costlier = detector.with_fidelities([fidelities[0], mf.Fidelity("high", 1.0, 200.0)])
    assert costlier.choose().name == "low"
    np.testing.assert_array_equal(costlier.run_length.weight, detector.run_length.weight)

"""Every detector keeps the promises of `BaseDetector`: one test over all of its subclasses."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.belief.gains import GAINS
from mfbocd.detector.base import BaseDetector
from mfbocd.trace.recorder import Recorder

CHEAP, GOOD = mf.Fidelity("cheap", 0.25, 1.0), mf.Fidelity("good", 1.0, 5.0)


def plain(*fidelities: mf.Fidelity) -> mf.Detector:
    return mf.Detector(mf.Gaussian(0, 9, 1), fidelities or None, 1 / 50, missing="skip", seed=3)


def blocks(*fidelities: mf.Fidelity) -> mf.BlockDetector:
    model = mf.Product(mf.GaussianUnknown(0.0, 0.1, 2.0, 1.0), mf.GaussianUnknown(0.0, 0.1, 2.0, 1.0))
    inner = mf.Detector(model, hazard=1 / 20, missing="skip", seed=3)
    return mf.BlockDetector(mf.Blocks(5, ["mean", "log_sd"]), inner, fidelities or None)


def automatic(*fidelities: mf.Fidelity) -> mf.AutoDetector:
    return mf.AutoDetector(1 / 100, seed=3, fidelities=fidelities or None)


MAKE: dict[type[BaseDetector], Callable[..., BaseDetector]] = {
    mf.Detector: plain,
    mf.AutoDetector: automatic,
    mf.BlockDetector: blocks,
}
rng = np.random.default_rng(5)
SERIES = np.concatenate([rng.normal(0, 1, 60), rng.normal(6, 1, 40)]).round(3)


def subclasses(cls: type) -> Iterator[type]:
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("mfbocd."):
            yield sub
            yield from subclasses(sub)


def test_every_detector_is_tested() -> None:
    public = {cls for cls in subclasses(BaseDetector) if not getattr(cls, "__abstractmethods__", None)}
    assert public == set(MAKE)


@pytest.fixture(params=MAKE, ids=lambda cls: cls.__name__)
def make(request: pytest.FixtureRequest) -> Callable[..., BaseDetector]:
    return MAKE[request.param]


def steps_of(detector: BaseDetector, series: np.ndarray) -> list[mf.Step]:
    return [detector.update(float(x), detector.choose()) for x in series]


def test_interface(make: Callable[..., BaseDetector]) -> None:
    detector = make()
    steps = steps_of(detector, SERIES)
    assert [step.tick for step in steps] == list(range(100))
    assert [step.x for step in steps] == SERIES.tolist()
    assert detector.ticks == 100
    assert detector.spent == sum(step.cost for step in steps) == 100.0
    alarms = [step for step in steps if step.alarm]
    assert alarms
    assert abs((alarms[0].changed_at or 0) - 60) <= 5
    assert detector.last_alarm == alarms[-1].tick
    length, weight = detector.run_length
    assert np.all(np.diff(length) > 0)
    assert weight.sum() == pytest.approx(1.0)
    assert detector.map_run_length == length[np.argmax(weight)]
    assert abs(detector.regime().at - 60) <= 5
    assert detector.p_changed(50) > 0.9 > 0.1 > detector.p_changed(20)
    assert "P(change)" in detector.explain() or detector.warnings() or detector.explain()
    low, high = detector.interval(0.9)
    assert math.isnan(low) or low < 6.0 < high
    assert math.isnan(detector.mean) or abs(detector.mean - 6.0) < 1.0
    gains = detector.gains()
    assert [gain.name for gain in gains] == [fidelity.name for fidelity in detector.fidelities]
    for kind in GAINS:
        assert np.all(detector.expected_gains(kind) >= 0.0)
    assert len(detector.level_rule.weights) == len(detector.fidelities)


def test_choose_is_idempotent(make: Callable[..., BaseDetector]) -> None:
    detector = make()
    for x in SERIES[:30]:
        before = detector.to_bytes()
        assert detector.choose() is detector.choose()
        detector.gains()
        assert detector.to_bytes() == before
        detector.update(float(x))


@pytest.mark.parametrize("bad", [math.inf, "a", [1.0, 2.0]], ids=repr)
def test_errors_change_nothing(make: Callable[..., BaseDetector], bad: object) -> None:
    detector = make()
    steps_of(detector, SERIES[:23])
    before = detector.to_bytes()
    with pytest.raises((TypeError, ValueError)):
        detector.update(bad)
    with pytest.raises(ValueError, match="fidelity must be"):
        detector.update(0.0, "other")
    with pytest.raises((TypeError, ValueError)):
        detector.update(0.0, cost=-1.0)
    with pytest.raises((TypeError, ValueError)):
        mf.run(detector, [0.1, 0.2, bad])
    assert detector.to_bytes() == before


def test_saved_at_any_tick(make: Callable[..., BaseDetector]) -> None:
    detector = make()
    for x in SERIES:
        loaded = type(detector).from_bytes(detector.to_bytes())
        step = detector.update(float(x))
        assert repr(loaded.update(float(x))) == repr(step)  # as text, because NaN is not equal to itself
        assert loaded.to_bytes() == detector.to_bytes()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_copies_are_independent(
    make: Callable[..., BaseDetector], duplicate: Callable[[BaseDetector], BaseDetector]
) -> None:
    detector = make()
    steps_of(detector, SERIES[:58])
    other, before = duplicate(detector), detector.to_bytes()
    assert other.to_bytes() == before
    steps_of(other, SERIES[58:])
    assert detector.to_bytes() == before
    steps_of(detector, SERIES[58:])
    assert detector.to_bytes() == other.to_bytes()


def test_run_equals_update(make: Callable[..., BaseDetector]) -> None:
    series = SERIES.copy()
    series[[3, 31, 70]] = np.nan
    one, many, recorded = make(), make(), make()
    steps = [one.update(x) for x in series.tolist()]
    trace = mf.run(many, series)
    assert one.to_bytes() == many.to_bytes()
    assert trace.first == 0
    assert [trace.fidelities[j] for j in trace.choice] == [step.fidelity for step in steps]
    for name in ("x", "cost", "mean", "run_length", "p_change", "alarm"):
        wanted = [math.nan if getattr(step, name) is None else getattr(step, name) for step in steps]
        assert getattr(trace, name).tolist() == pytest.approx(wanted, rel=1e-12, nan_ok=True), name
    recorder = Recorder(recorded)
    for x in series.tolist():
        recorder.before_tick()
        recorder.after_tick(recorded.update(x))
    detailed = recorder.trace()
    assert [(c.tick, c.changed_at) for c in detailed.changes] == [(c.tick, c.changed_at) for c in trace.changes]
    assert detailed.detail is not None
    assert detailed.detail.gains.shape == (len(series), 1)


def test_missing_readings(make: Callable[..., BaseDetector]) -> None:
    detector = make()
    step = detector.update(None)
    assert (step.x, step.fidelity, step.cost) == (None, None, 0.0)
    asked = detector.update(math.nan)
    assert (asked.x, asked.fidelity, asked.cost) == (None, detector.fidelities[0].name, 1.0)
    waited = detector.wait(7)
    assert waited.tick == 8
    assert detector.spent == 1.0
    with pytest.raises((TypeError, ValueError)):
        detector.wait(0)


def test_budget_of_several_fidelities(make: Callable[..., BaseDetector]) -> None:
    detector = make(CHEAP, GOOD)
    assert isinstance(detector.policy, mf.Budget)
    noise = np.random.default_rng(8).normal(size=(3000, 2)) * [2.0, 1.0]
    trace = mf.run(detector, noise)
    assert set(trace.choice.tolist()) == {0, 1}
    assert trace.spent / len(trace) == pytest.approx(detector.policy.target, rel=0.02)
    assert detector.spent == pytest.approx(trace.spent)
    with pytest.raises(ValueError, match="choose"):
        make(CHEAP, GOOD).update(0.5)
    loaded = type(detector).from_bytes(detector.to_bytes())
    assert loaded.choose() == detector.choose()
    assert loaded.to_bytes() == detector.to_bytes()


def test_block_is_weighed_by_the_zeta_of_its_readings() -> None:
    detector = blocks(CHEAP, GOOD)
    names = ["cheap", "good", "good", "cheap", "good"]
    for x, name in zip(SERIES, names, strict=False):
        detector.update(float(x), name)
    inner = blocks().detector
    weighed = inner.with_fidelities(mf.Fidelity("block", zeta=np.mean([0.25, 1.0, 1.0, 0.25, 1.0]), cost=1))
    weighed.update(mf.Blocks(5, ["mean", "log_sd"]).transform(SERIES[:5])[0])
    assert detector.detector.log_evidence == weighed.log_evidence
    detector.update(0.0, "cheap")
    after = weighed.with_fidelities([mf.Fidelity("a", (0.25 + 4 * 0.25) / 5, 1), mf.Fidelity("b", 0.85, 2)])
    assert detector.expected_gains("joint") == pytest.approx(after.expected_gains("joint"))


def test_step_observes() -> None:
    double = mf.Fidelity("double", 1.0, 1.0, observe=lambda raw: 2 * raw)
    for detector in (plain(double), blocks(double), mf.AutoDetector(fidelities=double)):
        assert detector.step(1.5).x == 3.0
        assert detector.step(2.5).fidelity == "double"

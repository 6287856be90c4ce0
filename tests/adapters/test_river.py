"""river's checks on both detectors, and their results."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from river import base, checks, datasets, drift
from river.datasets import synth

import mfbocd as mf
from mfbocd.adapters.river import BOCD, SurpriseScore
from mfbocd.calibrate.auto import AutoDetector

pytestmark = pytest.mark.slow

Row = tuple[dict[str, float], int]


def cards(rows: int, seed: int = 3) -> list[Row]:
    """Six columns of different scales; in one row of fifty, three have outliers."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-2, 3, 6)
    out = []
    for _ in range(rows):
        fraud = int(rng.random() < 0.02)
        x = rng.normal(size=6)
        x[:3] += 6.0 * fraud * rng.choice([-1, 1], 3)
        out.append(({f"V{j}": float(v) for j, v in enumerate(x * scale)}, fraud))
    return out


def anomaly_streams(long: bool) -> Iterator[Any]:
    """river checks anomaly detectors on CreditCard, a download of 150 MB: it is used if it is present."""
    if datasets.CreditCard().is_downloaded:
        yield list(datasets.CreditCard().take(10_000 if long else 1000))
    yield cards(1000 if long else 200)
    yield list(synth.AnomalySine(n_samples=1000 if long else 200, n_anomalies=20, seed=4))


def river_checks(model: base.Base) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Every check river yields for a model; those of anomaly detectors' data on the streams above."""
    for check in checks.yield_checks(model):
        if isinstance(check, partial) and isinstance(model, base.AnomalyDetector):
            for stream in anomaly_streams(long=check.__name__ == "check_bounded_memory_growth"):
                yield check.__name__, partial(check.func, dataset=stream)
        else:
            yield check.__name__, check


@pytest.mark.parametrize("params", [*BOCD._unit_test_params()])
def test_the_drift_detector_passes_every_check_of_river(params: dict[str, Any]) -> None:
    detector = BOCD(**params)
    passed = set()
    for name, check in river_checks(detector):
        # river's drift detectors are no estimators, and have no tags to look at
        if name == "check_tags":
            assert not hasattr(drift.ADWIN(), "_tags")
            continue
        check(detector.clone())
        passed.add(name)
    assert {"check_clone_is_idempotent", "check_pickling_supports_roundtrip", "check_repr_roundtrips_clone"} <= passed


def test_memory_is_bounded() -> None:
    detector = BOCD()
    stream = np.random.default_rng(11).normal(size=4000).tolist()
    drifts(detector, stream[:2600])  # the history is full, and the structures are not chosen again in what follows
    before = detector._raw_memory_usage
    drifts(detector, stream[2600:])
    assert detector._raw_memory_usage <= before + 1024
    assert 1000 < before < 200_000  # its state, not the compiler


@pytest.mark.parametrize("params", [*SurpriseScore._unit_test_params()])
def test_the_anomaly_detector_passes_every_check_of_river(params: dict[str, Any]) -> None:
    random.seed(5)  # the checks shuffle and drop features with it
    detector = SurpriseScore(**params)
    names = []
    for name, check in river_checks(detector):
        check(detector.clone())
        names.append(name)
    assert {"check_roc_auc", "check_bounded_memory_growth", "check_emerging_features", "check_learn_one"} <= {*names}
    assert not detector._unit_test_skips()


def drifts(detector: BOCD, stream: Any) -> list[tuple[int, int | None]]:
    out = []
    for i, x in enumerate(stream):
        detector.update(x)
        if detector.drift_detected:
            out.append((i, detector.changed_at))
    return out


def test_with_a_model_it_is_the_detector_itself() -> None:
    model = mf.Gaussian(0, 2, 1)  # changes small enough for the alarm's settings to matter
    stream = mf.simulate.gaussian(model, hazard=0.01, ticks=1500, seed=2).table[:, 0]
    trace = mf.run(mf.Detector(model, hazard=0.02, alarm=mf.Alarm(within=30, threshold=0.8)), stream)
    ours = BOCD(model, hazard=0.02, within=30, threshold=0.8)
    assert len(trace.changes) > 2
    assert drifts(ours, stream) == [(c.tick, c.changed_at) for c in trace.changes]


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e6, 1e-3), (-40.0, 1e5)])
def test_no_prior_is_needed_whatever_the_unit(offset: float, unit: float) -> None:
    rng = np.random.default_rng(6)
    z = np.concatenate([rng.normal(size=300), 5.0 + rng.normal(size=100)])
    found = drifts(BOCD(), offset + unit * z)
    assert [at for _, at in found] == [300]
    assert found == drifts(BOCD(), z)


def test_without_a_model_it_is_the_automatic_detector() -> None:
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.normal(size=200), 30.0 + rng.normal(size=200), rng.normal(size=100) - 40.0])
    changes = AutoDetector().run(x).changes
    assert [change.changed_at for change in changes] == [200, 400]
    assert drifts(BOCD(), x) == [(change.tick, change.changed_at) for change in changes]
    picky = AutoDetector(0.01, mf.Alarm(within=60, threshold=0.99), seed=3).run(x).changes
    found = drifts(BOCD(hazard=0.01, within=60, threshold=0.99, seed=3), x)
    assert found == [(change.tick, change.changed_at) for change in picky]
    with pytest.raises(TypeError, match="hazard must be a number without a model"):
        BOCD(hazard=mf.Learned())


def test_a_change_is_detected_in_binary_data_and_when_it_stops_being_binary() -> None:
    rng = np.random.default_rng(8)
    stream = [*(rng.random(200) < 0.1).tolist(), *(rng.random(100) < 0.9).tolist()]
    detector = BOCD()
    ((tick, at),) = drifts(detector, stream)
    assert tick >= 200
    assert at is not None
    assert abs(at - 200) <= 3
    later = drifts(detector, [*rng.normal(size=100), *(30.0 + rng.normal(size=50))])
    assert 400 in [at for _, at in later]


def test_confidence_is_set_only_at_a_drift() -> None:
    detector = BOCD(mf.Gaussian(0, 9, 1))
    detector.update(0.1)
    assert (detector.drift_detected, detector.changed_at, detector.confidence) == (False, None, None)
    for x in (0.2, -0.1, 0.3):
        detector.update(x)
    detector.update(15.0)
    assert detector.drift_detected
    assert detector.confidence is not None
    assert 0.9 <= detector.confidence <= 1.0


def test_a_pickle_and_a_copy_continue_identically() -> None:
    stream = np.random.default_rng(9).normal(size=100).tolist()
    detector = BOCD()
    drifts(detector, stream[:50])
    twins = [pickle.loads(pickle.dumps(detector)), copy.deepcopy(detector), copy.copy(detector)]
    rest = [*stream[50:], 20.0, 20.5, 19.0]
    expected = drifts(detector, rest)
    assert expected
    assert [drifts(twin, rest) for twin in twins] == [expected] * 3


def test_a_clone_has_seen_nothing() -> None:
    stream = [*np.random.default_rng(10).normal(size=30), 80.0, 81.0]
    detector = BOCD()
    (drift,) = drifts(detector, stream)
    clone = detector.clone()
    assert not clone.drift_detected
    assert drifts(clone, stream) == [drift]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hazard": 2.0}, "hazard"),
        ({"threshold": 0.0}, r"Alarm.threshold must lie in \(0, 1\], not 0.0"),
        ({"within": 0}, "Alarm.within must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BOCD(**arguments)


@pytest.mark.parametrize("bad", ["warm", None, [1.0], math.nan, math.inf])
def test_a_bad_reading_changes_nothing(bad: Any) -> None:
    detector = BOCD()
    drifts(detector, [1.0, 2.0, 1.5] * 10)
    before = pickle.dumps(detector)
    with pytest.raises((TypeError, ValueError), match="x must be"):
        detector.update(bad)
    assert pickle.dumps(detector) == before


def test_a_reading_that_the_model_refuses_changes_nothing() -> None:
    detector = BOCD(mf.Bernoulli(1, 1))
    drifts(detector, [0, 1, 1])
    before = pickle.dumps(detector)
    with pytest.raises(ValueError, match=r"0\.5"):
        detector.update(0.5)
    assert pickle.dumps(detector) == before
    surprise = SurpriseScore(mf.Bernoulli(1, 1))
    surprise.learn_one({"a": 1})
    before = pickle.dumps(surprise)
    with pytest.raises(ValueError, match=r"0\.5"):
        surprise.learn_one({"a": 1, "b": 0.5})
    assert pickle.dumps(surprise) == before
    assert surprise.score_one({"a": 0.5}) == 1.0
    with pytest.raises(ValueError, match="model must have one number per reading, not 2"):
        BOCD(mf.MultivariateGaussianUnknown([0, 0]))


def test_scores_of_data_from_the_model_are_uniform() -> None:
    model = mf.Gaussian(0, 9, 1)
    detector = SurpriseScore(model, hazard=0.01)
    scores = []
    for x in mf.simulate.gaussian(model, hazard=0.01, ticks=2000, seed=10).table[:, 0].tolist():
        scores.append(detector.score_one({"x": x}))
        detector.learn_one({"x": x})
    # Kolmogorov-Smirnov at 1 in 1000
    edges = np.sort(scores)
    assert np.abs(edges - (np.arange(2000) + 0.5) / 2000).max() < 1.95 / math.sqrt(2000)


def test_a_score_is_the_tail_probability() -> None:
    detector = SurpriseScore(mf.Gaussian(2, 3, 1))
    detector.learn_one({"x": 2.0})
    # after a reading at the prior mean: a mixture about 2 of variances 1 + 3/4 and, after a change, 1 + 3
    p = sum(w * math.erfc(1.5 / math.sqrt(2 * v)) for w, v in ((1 - 1 / 250, 1.75), (1 / 250, 4.0)))
    assert detector.score_one({"x": 3.5}) == pytest.approx(1 - p, abs=1e-12)
    assert detector.score_one({"x": 0.5}) == pytest.approx(1 - p, abs=1e-12)
    detector.learn_one({"x": 2.0, "y": 2.0})
    alone, other = detector.score_one({"x": 3.5}), detector.score_one({"y": 2.1})
    assert other < alone
    assert detector.score_one({"x": 3.5, "y": 2.1}) == pytest.approx(alone**2)


def test_the_rare_value_of_binary_data_has_the_high_score() -> None:
    detector = SurpriseScore(mf.Bernoulli(1, 1), hazard=0.001)
    for _ in range(98):
        detector.learn_one({"x": 0})
    assert detector.score_one({"x": 0}) == 0.0
    # P(x = 1) is about 1 / 100; two tails have twice that
    assert detector.score_one({"x": 1}) == pytest.approx(0.98, abs=0.005)


def test_an_absent_feature_advances_time() -> None:
    updated, silent = (
        SurpriseScore(mf.Gaussian(0, 9, 1), hazard=0.05),
        SurpriseScore(mf.Gaussian(0, 9, 1), hazard=0.05),
    )
    for detector in (updated, silent):
        for x in (0.1, -0.2, 0.0, 0.1):
            detector.learn_one({"x": x, "y": 1.0})
    for missing in ({"y": 1.0}, {"x": None, "y": 1.0}, {"x": math.nan, "y": 1.0}) * 20:
        silent.learn_one(missing)
    # after sixty missing readings a change is probable, and 4 is not surprising
    assert silent.score_one({"x": 4.0}) < 0.95 < updated.score_one({"x": 4.0})
    assert silent.score_one({"x": math.nan}) == silent.score_one({"z": 1.0}) == silent.score_one({}) == 0.0


def test_a_reading_impossible_for_the_guessed_model_scores_one() -> None:
    detector = SurpriseScore(warmup=10)
    for x in [0, 1] * 5:
        assert detector.score_one({"x": x}) == 0.0
        detector.learn_one({"x": x})
    assert detector.score_one({"x": 7.0}) == 1.0
    detector.learn_one({"x": 7.0})
    assert detector.score_one({"x": 7.0}) == 0.0


def test_a_bad_feature_is_named_and_nothing_learned() -> None:
    detector = SurpriseScore()
    detector.learn_one({"a": 1.0})
    before = pickle.dumps(detector)
    with pytest.raises(TypeError, match=r"x\['b'\] must be a number, not 'warm'"):
        detector.learn_one({"a": 2.0, "b": "warm"})
    with pytest.raises(ValueError, match=r"x\['a'\] must be finite, not inf"):
        detector.score_one({"a": math.inf})
    assert pickle.dumps(detector) == before
    with pytest.raises(ValueError, match="warmup"):
        SurpriseScore(warmup=0)


def test_without_river_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "mfbocd.adapters.river")
    with pytest.raises(ImportError, match=r"pip install 'mfbocd\[river\]'"):
        importlib.import_module("mfbocd.adapters.river")


def test_calibrated_scores_are_uniform_whatever_the_model() -> None:
    """A model whose noise is a third of the true one: most of its own scores are high, calibrated ones are not."""
    rng, model = random.Random(3), mf.Gaussian(0, 0.01, 0.1)
    plain, calibrated = SurpriseScore(model, hazard=1e-6), SurpriseScore(model, hazard=1e-6, calibrated=True)
    scores = []
    for _ in range(1500):
        x = {"a": rng.gauss(0, 1)}
        scores.append((plain.score_one(x), calibrated.score_one(x)))
        plain.learn_one(x)
        calibrated.learn_one(x)
    late = np.array(scores[300:])
    assert (late[:, 0] > 0.99).mean() > 0.3
    assert abs((late[:, 1] > 0.99).mean() - 0.01) < 0.01
    assert abs((late[:, 1] > 0.5).mean() - 0.5) < 0.06
    assert calibrated.score_one({"a": 30.0}) > 0.9999
    assert calibrated.score_one({"b": 30.0}) == 0.0
    before = pickle.dumps(calibrated)
    calibrated.score_one({"a": 1.0})
    assert pickle.dumps(calibrated) == before

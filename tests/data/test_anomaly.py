"""The anomaly score: uniform on a stationary stream, one detection per event."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.belief.serialization import pack, unpack
from mfbocd.calibrate import ANOMALY_FEATURES, Anomaly, AnomalyScore, anomaly_detector


def scores(surprises: np.ndarray, **options: float) -> np.ndarray:
    anomaly = AnomalyScore(**options)  # type: ignore[arg-type]
    return np.array([anomaly.update(float(s)).score for s in surprises])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("unit", [1.0, 250.0])
def test_uniform_on_a_stationary_stream(seed: int, unit: float) -> None:
    """Whatever the unit and offset of the surprise, as of a model that is wrong in scale."""
    surprises = 7.0 + unit * np.random.default_rng(seed).exponential(size=6000)
    late = scores(surprises)[1000:]
    for level in (0.1, 0.5, 0.9, 0.99, 0.999):
        share = float((late >= level).mean())
        sd = math.sqrt(level * (1 - level) / late.size)
        # neighbouring scores share their past, which has an error of its own
        assert abs(share - (1 - level)) < 4 * sd + 0.25 * (1 - level), level


def test_surprises_of_a_wrong_model_are_calibrated() -> None:
    """Readings whose tails are much heavier than the model's: few scores are high nevertheless."""
    x = np.random.default_rng(4).standard_t(3, size=4000)
    detector = mf.Detector(mf.Gaussian(0, 1, 0.5), hazard=1e-9, surprise=True, alarm=None, prune=mf.TopK(5))
    anomaly, high, tails = AnomalyScore(), 0, 0
    for value in x.tolist():
        surprise = detector.update(value).surprise
        assert surprise is not None
        high += anomaly.update(surprise).score >= 0.999
        tails += min(surprise.log_lower, surprise.log_upper) < math.log(0.0005)
    assert tails > 150  # the tail probabilities themselves would be alarms all the time
    assert high < 25


def event(*levels: tuple[float, int]) -> list[float]:
    return [s for level, count in levels for s in [level] * count]


def test_one_detection_per_event() -> None:
    rng = np.random.default_rng(5)
    calm = rng.exponential(size=300).tolist()
    stream = [*calm, *event((40.0, 30)), *calm, *event((400.0, 3), (0.5, 2), (4e3, 3)), *calm]
    anomaly = AnomalyScore(0.9999, calm=5)
    found = [t for t, s in enumerate(stream) if anomaly.update(s).detected]
    assert found == [300, 630]  # a pause of 2 is shorter than `calm`
    anomaly = AnomalyScore(0.9999, calm=1)
    found = [t for t, s in enumerate(stream) if anomaly.update(s).detected]
    assert found[:2] == [300, 630]
    assert 635 in found


def test_rearm_needs_consecutive_calm_scores() -> None:
    anomaly = AnomalyScore(0.99, rearm=0.5, calm=3)
    for s in np.random.default_rng(6).uniform(size=200).tolist():
        anomaly.update(s)
    anomaly._waiting = 0
    assert anomaly.update(50.0).detected
    for s in (0.1, 0.1, 0.9, 0.1, 0.1):  # 0.9 begins the count again
        assert not anomaly.update(s).detected
    assert not anomaly.update(60.0).detected
    for s in (0.1, 0.1, 0.1):
        assert not anomaly.update(s).detected
    assert anomaly.update(500.0).detected


def test_score_learns_nothing_and_precedes_learning() -> None:
    anomaly = AnomalyScore()
    for s in np.random.default_rng(7).exponential(size=50).tolist():
        before = pickle.dumps(anomaly)
        expected = anomaly.score(s)
        assert pickle.dumps(anomaly) == before
        assert anomaly.update(s).score == expected


def test_constant_memory_and_window() -> None:
    anomaly = AnomalyScore(window=50)
    surprises = np.random.default_rng(8).exponential(size=500).tolist()
    for s in surprises:
        anomaly.update(s)
    fresh = AnomalyScore(window=50)
    for s in surprises[-50:]:
        fresh.update(s)
    assert anomaly._sorted == fresh._sorted == sorted(surprises[-50:])
    assert anomaly.score(3.0) == fresh.score(3.0)


@pytest.mark.parametrize("cut", [0, 1, 9, 30, 120, 203, 260])
def test_saving_changes_no_later_bit(cut: int) -> None:
    """Also before the first score, while an event lasts, and with a full window."""
    surprises = np.random.default_rng(3).exponential(size=300).round(2).tolist()
    surprises[200:206] = [90.0] * 6
    anomaly = AnomalyScore(0.99, rearm=0.8, calm=3, tail=0.2, window=100, warmup=12)
    for s in surprises[:cut]:
        anomaly.update(s)
    saved = anomaly.to_bytes()
    loaded = AnomalyScore.from_bytes(saved)
    assert loaded.to_bytes() == saved
    assert [loaded.update(s) for s in surprises[cut:]] == [anomaly.update(s) for s in surprises[cut:]]
    assert loaded.to_bytes() == anomaly.to_bytes()


def test_damaged_bytes_are_refused() -> None:
    anomaly = AnomalyScore(window=20)
    for s in range(15):
        anomaly.update(float(s))
    saved = anomaly.to_bytes()
    with pytest.raises(ValueError, match=r"truncated|signature|checksum|saved"):
        AnomalyScore.from_bytes(saved[:-3])
    with pytest.raises(ValueError, match="not a saved AnomalyScore"):
        AnomalyScore.from_bytes(mf.Detector(mf.Gaussian(0, 9, 1)).to_bytes())
    facts, arrays = unpack(saved)
    for field, value in {"waiting": 9, "window": 12, "rearm": 2.0, "calm": "5"}.items():
        with pytest.raises(ValueError, match="the saved AnomalyScore is damaged"):
            AnomalyScore.from_bytes(pack(facts | {field: value}, arrays))
    with pytest.raises(ValueError, match="the saved AnomalyScore is damaged"):
        AnomalyScore.from_bytes(pack(facts, {"past": np.array([1.0, np.inf])}))
    with pytest.raises(ValueError, match="the saved AnomalyScore is damaged"):
        AnomalyScore.from_bytes(pack({k: v for k, v in facts.items() if k != "tail"}, arrays))


def test_surprise_of_a_step() -> None:
    detector, anomaly, same = mf.Detector(mf.Gaussian(0, 9, 1), surprise=True), AnomalyScore(), AnomalyScore()
    for x in np.random.default_rng(9).normal(size=40).tolist():
        surprise = detector.update(x).surprise
        assert surprise is not None
        assert anomaly.update(surprise) == same.update(-surprise.log_density)


def test_extremes() -> None:
    anomaly = AnomalyScore()
    assert anomaly.update(None) == Anomaly(0.0, False)
    assert anomaly.score(None) == 0.0
    for _ in range(30):
        assert anomaly.update(1.0).score < 0.5  # a constant surprise is no anomaly
    assert anomaly.score(1.0 + 1e-9) == 1.0
    assert anomaly.update(math.inf).score == 1.0
    assert 0.0 <= anomaly.update(1e6).score <= 1.0
    with pytest.raises(ValueError, match="surprise"):
        anomaly.update(math.nan)


HOUR = np.arange(2400)
DAY = np.sin(2 * np.pi * HOUR / 24)
ODD = {
    "level": DAY + 1.5,
    "constant": np.full(HOUR.size, 0.3),
    "rough": DAY + np.random.default_rng(6).normal(0, 1.5, HOUR.size),
    "spike": np.where(HOUR % 24 == 7, 9.0, DAY),
}


@pytest.mark.parametrize("kind", ODD)
def test_unusual_blocks(kind: str) -> None:
    """Two unusual days among a hundred are one event, at the end of the first, in any unit."""
    x = np.where((HOUR >= 1680) & (HOUR < 1728), ODD[kind], DAY) + np.random.default_rng(5).normal(0, 0.2, HOUR.size)
    assert events(x) == [1703]
    assert events(1e5 * x - 3e6) == [1703]


def test_nothing_unusual() -> None:
    assert events(DAY + np.random.default_rng(7).normal(0, 0.2, HOUR.size)) == []
    assert events(np.full(HOUR.size, 7.0)) == []


def events(x: np.ndarray) -> list[int]:
    """Ticks at which `AnomalyScore` detects an event."""
    detector, anomaly = anomaly_detector(x[:360]), AnomalyScore()
    steps = [step for step in map(detector.update, x.tolist()) if step.surprise is not None]
    assert len(steps) == 100
    return [step.tick for step in steps if anomaly.update(step.surprise).detected]


def test_prior_of_an_anomaly_detector() -> None:
    """Median and variance of the blocks of the first readings, worth one block."""
    x = 20.0 + 3.0 * np.random.default_rng(8).normal(size=200)
    detector = anomaly_detector(x, every=20, hazard=0.05)
    assert detector.blocks.features == ANOMALY_FEATURES
    assert detector.blocks.every == 20
    assert detector.blocks.floor == pytest.approx(1e-3 * x.std())
    assert detector.detector.hazard.table.tolist() == [0.05]
    assert detector.detector.surprise
    model = detector.detector.model
    assert isinstance(model, mf.Product)
    parts = [part for part in model.parts if isinstance(part, mf.GaussianUnknown)]
    seen = detector.blocks.transform(x)
    np.testing.assert_allclose([part.mean for part in parts], np.median(seen, axis=0))
    np.testing.assert_allclose([part.scale for part in parts], 0.5 * np.var(seen, axis=0))
    assert {(part.count, part.shape) for part in parts} == {(1.0, 1.5)}
    with pytest.raises(ValueError, match="mean cannot be computed from the first 19 readings in blocks of 20"):
        anomaly_detector(x[:19], every=20)


@pytest.mark.parametrize(
    "options",
    [{"threshold": 1.0}, {"threshold": 0.5, "rearm": 0.6}, {"calm": 0}, {"tail": 0.0}, {"warmup": 1}, {"window": 5}],
)
def test_arguments(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="AnomalyScore"):
        AnomalyScore(**options)  # type: ignore[arg-type]

"""The surprise of readings to the automatic detector."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from mfbocd import AutoDetector, Surprise


def fed(x: np.ndarray) -> AutoDetector:
    detector = AutoDetector(surprise=True)
    detector.run(x)
    return detector


def of(detector: AutoDetector, x: float) -> Surprise:
    found = copy.copy(detector).update(x).surprise
    assert found is not None
    return found


RNG = np.random.default_rng(0)
SERIES = {
    "white": RNG.normal(3.0, 2.0, 150),
    "positive": np.exp(np.repeat([0.0, 2.0], 75) + RNG.normal(0.0, 0.6, 150)),
    "season": 5.0 * np.sin(np.arange(150) / 3.0) + RNG.normal(size=150),
    "tiny": 1e-120 * RNG.normal(size=150),
}


@pytest.mark.parametrize("kind", SERIES)
def test_the_density_is_the_slope_of_the_tails(kind: str) -> None:
    x = SERIES[kind]
    detector = fed(x)
    assert detector.structure is not None
    assert (detector.structure.transform == "log") == (kind == "positive")
    unit = float(np.std(x))
    for at in (x[-2], np.median(x), np.median(x) + 2.0 * unit):
        step = 1e-4 * unit
        here, low, high = of(detector, at), of(detector, at - step), of(detector, at + step)
        slope = (math.exp(high.log_lower) - math.exp(low.log_lower)) / (2.0 * step)
        assert here.log_density == pytest.approx(math.log(slope), abs=1e-4)
        assert math.exp(here.log_lower) + math.exp(here.log_upper) == pytest.approx(1.0, abs=1e-9)
    assert of(detector, float(np.median(x)) + 1e3 * unit).log_upper < -5.0


def test_every_way_to_feed_gives_the_same_surprise() -> None:
    x = RNG.normal(size=60)
    x[40] = np.nan
    x[50] = x[49]  # repeated, so that it does not count
    single = AutoDetector(surprise=True)
    steps = [single.update(value) for value in x]
    whole = AutoDetector(surprise=True)
    trace = whole.run(x)
    assert trace.surprise is not None
    none = [t for t, step in enumerate(steps) if step.surprise is None]
    assert none == [*range(20), 40, 50]
    assert np.flatnonzero(np.isnan(trace.surprise.log_density)).tolist() == none
    for t, step in enumerate(steps):
        if step.surprise is not None:
            assert step.surprise == tuple(column[t] for column in trace.surprise)
    plain = AutoDetector().run(x)
    assert plain.surprise is None
    np.testing.assert_array_equal(trace.mean, plain.mean)
    loaded = AutoDetector.from_bytes(whole.to_bytes())
    assert loaded.surprise
    assert loaded.update(0.3) == whole.update(0.3)


def test_impossible_readings() -> None:
    positive = fed(SERIES["positive"])
    binary = fed((RNG.random(60) < 0.3).astype(float))
    assert of(positive, -1.0) == Surprise(-math.inf, -math.inf, pytest.approx(0.0, abs=1e-12))
    assert of(binary, -1.0) == Surprise(-math.inf, -math.inf, 0.0)
    assert of(binary, 4.0) == Surprise(-math.inf, 0.0, -math.inf)
    zero, one, half = of(binary, 0.0), of(binary, 1.0), of(binary, 0.5)
    assert math.exp(zero.log_density) + math.exp(one.log_density) == pytest.approx(1.0)
    assert half == Surprise(-math.inf, zero.log_lower, one.log_upper)


def test_surprise_must_be_a_truth_value() -> None:
    with pytest.raises(TypeError, match="surprise must be True or False"):
        AutoDetector(surprise=1)  # type: ignore[arg-type]

"""The automatic detector on recurring patterns: not cut at every swing, and a real change is still found."""

from __future__ import annotations

import numpy as np
import pytest

from mfbocd import AutoDetector


def swings(rng: np.random.Generator, ticks: int) -> np.ndarray:
    """Two levels that alternate after 6 to 18 ticks: no season, and too many changes to be news."""
    lengths = rng.integers(6, 19, ticks)
    level = np.repeat(np.arange(ticks) % 2, lengths)[:ticks]
    return level + 0.1 * rng.normal(size=ticks)


@pytest.mark.slow
def test_swings_are_not_reported_for_ever_and_another_size_of_them_is() -> None:
    x = swings(np.random.default_rng(0), 3000)
    x[2000:] = 0.5 + 4.0 * (x[2000:] - 0.5)
    detector = AutoDetector()
    detector.run(x)
    assert "recurring pattern" in detector.explain()
    quiet = [tick for tick, _ in detector.changes if 400 <= tick < 2000]
    assert len(quiet) <= 3  # of about 130 swings
    assert any(2000 <= tick < 2100 for tick, _ in detector.changes)


@pytest.mark.slow
def test_a_loaded_detector_continues_in_the_middle_of_a_pattern() -> None:
    x = swings(np.random.default_rng(1), 1500)
    whole = AutoDetector()
    whole.run(x[:700])
    assert "recurring pattern" in whole.explain()
    loaded = AutoDetector.from_bytes(whole.to_bytes())
    here, there = whole.run(x[700:]), loaded.run(x[700:])
    np.testing.assert_array_equal(here.alarm, there.alarm)
    np.testing.assert_array_equal(here.mean, there.mean)
    assert whole.changes == loaded.changes


def test_levels_that_really_change_often_are_reported() -> None:
    rng = np.random.default_rng(2)
    x = np.repeat(rng.permutation(12) * 3.0, 45) + rng.normal(size=540)
    detector = AutoDetector()
    detector.run(x)
    assert len(detector.changes) >= 9
    assert "recurring pattern" not in detector.explain()

"""The automatic detector on seasons with jumps, and what it reconsiders before an alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mfbocd import AutoDetector
from mfbocd.calibrate.auto import Season
from mfbocd.calibrate.auto import detector as automatic
from mfbocd.calibrate.auto.repeats import counted, repeats_itself
from mfbocd.calibrate.auto.season import fit_pieces


def square(rng: np.random.Generator, ticks: int, period: int = 40) -> np.ndarray:
    return np.where(np.arange(ticks) % period < period // 2, 1.0, -1.0) + 0.3 * rng.normal(size=ticks)


def test_a_season_is_the_sum_of_its_harmonics_and_pieces() -> None:
    season = Season(10.5, (0.5, -1.0), (2.0, 0.25), ((1.5, 3.0, 0.0), (4.0, -1.0, 0.5)))
    for tick in range(50):
        phase = tick % 10.5
        angle = 2.0 * math.pi * phase / 10.5
        waves = 0.5 * math.cos(angle) - math.cos(2 * angle) + 2.0 * math.sin(angle) + 0.25 * math.sin(2 * angle)
        since = phase - 4.0 if phase >= 4.0 else phase + 10.5 - 4.0
        piece = 3.0 if 1.5 <= phase < 4.0 else -1.0 + 0.5 * since
        assert season.at(np.array([tick]))[0] == pytest.approx(waves + piece, abs=1e-12)
    assert season.fitted == 4 + 2 + 3


@pytest.mark.parametrize("offset", [0, 7])
def test_pieces_are_found(offset: int) -> None:
    """Two levels, and a line with a jump; the ticks may begin anywhere, and the period is wrong by a tick."""
    rng = np.random.default_rng(0)
    tick = np.arange(offset, offset + 160)
    noise = 0.1 * rng.normal(size=160)
    level = np.where(tick % 20 < 12, 1.0, -1.5)
    line = 0.2 * (tick % 20)
    for curve, pieces in ((level, 2), (line, 1)):
        season = fit_pieces(5.0 + curve + noise, tick, 19.5)
        assert season is not None
        assert season.period == 20.0
        assert len(season.pieces) == pieces
        np.testing.assert_allclose(season.at(tick), curve - curve.mean(), atol=0.15)
    assert [start for start, _, _ in season.pieces] == [0.0]
    exact = fit_pieces(5.0 + level + noise, tick, 19.5, exact=True)
    assert exact is None or exact.period == 19.5


def test_noise_has_no_pieces() -> None:
    y = np.random.default_rng(1).normal(size=200)
    assert fit_pieces(y, np.arange(200), 20.0) is None
    assert fit_pieces(y, np.arange(200), 150.0) is None
    assert fit_pieces(np.zeros(200), np.arange(200), 20.0) is None


def test_a_square_wave_is_a_season_after_two_of_them() -> None:
    x = square(np.random.default_rng(3), 800)
    x[500:] += 3.0
    found = AutoDetector()
    found.run(x)
    assert found.structure is not None
    assert [len(season.pieces) for season in found.structure.seasons] == [2]
    assert all(tick < 90 or 500 <= tick < 510 for tick, _ in found.changes)
    assert any(500 <= tick < 510 for tick, _ in found.changes)
    loaded = AutoDetector.from_bytes(found.to_bytes())
    assert loaded.structure == found.structure


def test_the_structure_is_reconsidered_before_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    x = square(np.random.default_rng(5), 300, 56)
    counts = []
    for times in (4, 0):
        monkeypatch.setattr(automatic, "_AGAIN", times)
        found = AutoDetector()
        found.run(x)
        counts.append(len(found.changes))
    assert counts[0] < counts[1]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "offset", "height", "sd", "period"), [(0, 2, 1.5, 0.2, 18.0), (2, 5, 4, 0.5, 16.4)])
def test_a_sine_is_no_series_of_square_roots(
    seed: int, offset: float, height: float, sd: float, period: float
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(3):
        phase = rng.uniform(0.0, 6.0)
        x = offset + height * np.sin(2.0 * np.pi * np.arange(300) / period + phase) + sd * rng.normal(size=300)
        found = AutoDetector()
        found.run(x)
        assert found.structure is not None
        assert found.structure.transform == "none"
        assert "square root" not in found.explain()


def test_repeated_readings_are_told_from_rounded_ones_and_from_levels() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=60)
    stuck = x.copy()
    stuck[15:50] = stuck[15]  # most readings are equal
    assert repeats_itself(x)
    assert repeats_itself(stuck)
    assert not repeats_itself(np.round(x))
    assert not repeats_itself(np.repeat(x[:10], 30))  # ten levels without noise
    assert not repeats_itself(x[:5])
    assert not repeats_itself(np.full(40, 3.0))


def test_a_repeated_reading_counts_again_after_fifty_repetitions() -> None:
    x = np.append(np.full(60, 3.0), [4.0, 4.0])
    used, repeats = counted(x, once=True)
    assert np.flatnonzero(used).tolist() == [0, *range(51, 60), 60]
    assert repeats == 1
    first, so_far = counted(x[:30], once=True)
    rest, _ = counted(x[30:], once=True, before=x[29], repeats=so_far)
    np.testing.assert_array_equal(np.append(first, rest), used)
    assert counted(x, once=False)[0].all()


def test_a_sensor_that_is_stuck_early_raises_no_alarm() -> None:
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=120)
        x[10:32] = x[10]
        x[40:66] = x[40]
        found = AutoDetector()
        found.run(x)
        assert found.changes == []

"""Looking back on a finished stream: held to the enumeration of every history."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.hindsight import Hindsight, hindsight

from .registry import CASES, Case

ZETAS = (0.0, 0.4, 1.0)


def histories(case: Case, readings: list[tuple[float, float]], hazard: mf.Hazard) -> dict[tuple[int, ...], float]:
    """P(history | every reading) of all 2^(T-1) histories, each given by its changes."""
    ticks = len(readings)
    logs: dict[tuple[int, ...], float] = {}
    for flags in itertools.product([False, True], repeat=ticks - 1):
        changes = tuple(t for t, change in enumerate(flags, start=1) if change)
        starts = [0, *changes]
        log = sum(case.log_marginal(readings[a:b]) for a, b in zip(starts, [*changes, ticks], strict=True))
        for t in range(1, ticks):
            age = t - 1 - max(s for s in starts if s <= t - 1)
            h = float(hazard(age))
            log += math.log(h if t in changes else 1.0 - h)
        logs[changes] = log
    total = np.logaddexp.reduce(list(logs.values()))
    return {changes: math.exp(log - total) for changes, log in logs.items()}


def stream(case: Case, seed: int, ticks: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(case.draw(rng), float(rng.choice(ZETAS))) for _ in range(ticks)]


def look_back(case: Case, readings: list[tuple[float, float]], hazard: mf.Hazard) -> Hindsight:
    ways = [mf.Fidelity(f"z{z}", zeta=z, cost=1.0) for z in ZETAS]
    detector = mf.Detector(case.model(), ways, hazard, prune=None)
    back = Hindsight(detector.hazard)
    for x, zeta in readings:
        detector.update(x, f"z{zeta}")
        back.add(detector)
    return back


@pytest.mark.parametrize("hazard", [0.2, [0.4, 0.1, 0.3]], ids=["constant", "table"])
@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c.name)
def test_all_of_it_equals_the_enumeration(case: Case, hazard: float | list[float]) -> None:
    h = mf.Hazard(hazard)
    for seed in (1, 2, 3):
        readings = stream(case, seed, 8)
        back, exact = look_back(case, readings, h), histories(case, readings, h)
        smoothed = [sum(p for changes, p in exact.items() if t in changes) for t in range(8)]
        np.testing.assert_allclose(back.smoothed, smoothed, atol=1e-11)
        assert tuple(back.segmentation()) == max(exact, key=lambda changes: exact[changes])
        for low, high in ((1, 1), (2, 5), (7, 7), (1, 7)):
            none = sum(p for changes, p in exact.items() if not any(low <= c <= high for c in changes))
            assert back.none(low, high) == pytest.approx(none, abs=1e-11)
        for lag in (0, 2):
            for t in range(1, 8):
                seen = histories(case, readings[: t + lag + 1], h)
                expected = sum(p for changes, p in seen.items() if t in changes)
                assert back.lagged(lag)[t] == pytest.approx(expected, abs=1e-11)


def test_a_learned_hazard_is_summed_over() -> None:
    case = CASES[0]
    learned = mf.Learned(low=0.05, high=0.5, points=3)
    readings = stream(case, 4, 8)
    back = look_back(case, readings, learned)
    each = [histories(case, readings, mf.Hazard(float(h))) for h in learned.table]
    parts = [look_back(case, readings, mf.Hazard(float(h))) for h in learned.table]
    ways = [mf.Fidelity(f"z{z}", zeta=z, cost=1.0) for z in ZETAS]
    detector = mf.Detector(case.model(), ways, learned, prune=None)
    for x, zeta in readings:
        detector.update(x, f"z{zeta}")
    share = detector.hazards[1]
    np.testing.assert_allclose(back.smoothed, share @ np.array([p.smoothed for p in parts]), atol=1e-11)
    assert back.none(2, 4) == pytest.approx(share @ np.array([p.none(2, 4) for p in parts]), abs=1e-11)
    joint = {(m, c): share[m] * p for m, exact in enumerate(each) for c, p in exact.items()}
    assert tuple(back.segmentation()) == max(joint, key=lambda key: joint[key])[1]


def test_changes_are_found_where_they_are_and_the_intervals_hold_them() -> None:
    hits = total = 0
    for seed in range(20):
        made = mf.simulate.gaussian(mf.Gaussian(0, 25, 1), hazard=0.01, ticks=400, seed=seed)
        found = hindsight(mf.Detector(mf.Gaussian(0, 25, 1), hazard=0.01), made.table[:, 0]).changepoints(0.9)
        assert all(c.low <= c.at <= c.high for c in found)
        assert all(0.0 < c.probability <= 1.0 for c in found)
        for change in made.changes.tolist():
            near = [c for c in found if abs(c.at - change) <= 20 and c.probability > 0.5]
            total += 1
            hits += any(c.low <= change <= c.high for c in near)
    assert total > 50
    assert hits / total > 0.85  # 90 % intervals, of which a few changes too small to see have none


def test_pruned_it_is_close_to_exact() -> None:
    made = mf.simulate.gaussian(mf.Gaussian(0, 9, 1), hazard=0.02, ticks=600, seed=5)
    exact = hindsight(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02, prune=None), made.table[:, 0])
    pruned = hindsight(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02), made.table[:, 0])
    np.testing.assert_allclose(pruned.smoothed, exact.smoothed, atol=0.02)
    assert pruned.segmentation() == exact.segmentation()
    assert exact.trace is not None
    assert len(exact.trace) == 600


def test_what_it_refuses() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1))
    detector.update(0.0)
    with pytest.raises(ValueError, match="has seen nothing, not 1 ticks"):
        hindsight(detector, [0.1])
    back = Hindsight(detector.hazard)
    detector.update(0.0)
    with pytest.raises(ValueError, match="tick 0 comes next, but the detector is at 1"):
        back.add(detector)
    assert back.segmentation() == []
    assert back.changepoints() == []
    assert back.smoothed.size == 0
    with pytest.raises(ValueError, match="lag must be a whole number"):
        back.lagged(-1)
    with pytest.raises(ValueError, match="low and high must be ticks"):
        back.none(1, 2)

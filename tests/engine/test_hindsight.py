"""Hindsight on a finished stream, compared with enumeration of every history and, on longer ones, a plain twin."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.trace.hindsight import CELLS, FEWEST, LIVE, Hindsight, hindsight, live_for

from ..registry import ALL, CASES, Case

ZETAS = (0.0, 0.4, 1.0)


def histories(case: Case, readings: list[tuple[Any, float]], hazard: mf.Hazard) -> dict[tuple[int, ...], float]:
    """P(history | every reading) of all 2^(T-1) histories, each given by its changes."""
    ticks = len(readings)
    logs: dict[tuple[int, ...], float] = {}

    @cache
    def marginal(start: int, end: int) -> float:
        return case.marginal_of(readings[start:end], readings[:start])

    for flags in itertools.product([False, True], repeat=ticks - 1):
        changes = tuple(t for t, change in enumerate(flags, start=1) if change)
        starts = [0, *changes]
        log = sum(marginal(a, b) for a, b in zip(starts, [*changes, ticks], strict=True))
        for t in range(1, ticks):
            age = t - 1 - max(s for s in starts if s <= t - 1)
            h = float(hazard(age))
            p = h if t in changes else 1.0 - h
            log += math.log(p) if p > 0.0 else -math.inf
        logs[changes] = log
    total = np.logaddexp.reduce(list(logs.values()))
    return {changes: math.exp(log - total) for changes, log in logs.items()}


def stream(case: Case, seed: int, ticks: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(case.draw(rng), float(rng.choice(ZETAS))) for _ in range(ticks)]


def look_back(case: Case, readings: list[tuple[float, float]], hazard: mf.Hazard) -> Hindsight:
    fidelities = [mf.Fidelity(f"z{z}", zeta=z, cost=1.0) for z in ZETAS]
    detector = mf.Detector(case.model(), fidelities, hazard, prune=mf.TopK(3))  # dropped histories are negligible
    back = Hindsight(detector)
    for x, zeta in readings:
        back.add(detector.update(x, f"z{zeta}"))
    return back


@pytest.mark.parametrize("hazard", [0.2, [0.4, 0.1, 0.3]], ids=["constant", "table"])
@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c.name)
def test_hindsight_equals_the_enumeration(case: Case, hazard: float | list[float]) -> None:
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


@pytest.mark.parametrize("hazard", [0.2, mf.Hazard.from_lengths([0, 0.3, 0.3, 0.4])], ids=["constant", "ends"])
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_every_family_equals_the_enumeration(case: Case, hazard: float | mf.Hazard) -> None:
    h = mf.Hazard(hazard)
    readings = stream(case, 5, 7)
    back, exact = look_back(case, readings, h), histories(case, readings, h)
    smoothed = [sum(p for changes, p in exact.items() if t in changes) for t in range(7)]
    np.testing.assert_allclose(back.smoothed, smoothed, atol=10 * case.tolerance)
    best = max(exact.values())
    assert exact[tuple(back.segmentation())] == pytest.approx(
        best, rel=1e-6
    )  # either of two equally probable ones is correct
    assert back.exact


class Twin:
    """Log marginals of all segments by the methods of the model, with plain sums and maxima."""

    def __init__(self, model: Any, xs: list[float]) -> None:
        self.ticks = ticks = len(xs)
        self.marginal = np.full((ticks, ticks + 1), -math.inf)  # [start, end)
        for start in range(ticks):
            stats, total = model.prior()[:, None], 0.0
            for t in range(start, ticks):
                total += float(model.log_predictive(stats, xs[t], 1.0)[0])
                stats = model.update(stats, xs[t], 1.0)
                self.marginal[start, t + 1] = total

    def under(self, hazard: mf.Hazard) -> Twin:
        self.h = np.array([float(hazard(age)) for age in range(self.ticks)])
        self.lasted = np.concatenate([[0.0], np.cumsum(np.log1p(-self.h))])
        return self

    def segment(self, start: int, end: int) -> float:
        """log p(a regime lasts from start to end, and its readings); open at the end of the stream."""
        length = end - start
        closes = math.log(self.h[length - 1]) if end < self.ticks else 0.0
        return float(self.marginal[start, end] + self.lasted[length - 1] + closes)

    def joint(self, changes: list[int]) -> float:
        edges = [0, *changes, self.ticks]
        return sum(self.segment(a, b) for a, b in itertools.pairwise(edges))

    def best(self, longest: int | None = None) -> float:
        """log p of the most probable history, if regimes last at most `longest`."""
        best = [0.0]
        for end in range(1, self.ticks + 1):
            first = 0 if longest is None else max(end - longest, 0)
            best.append(max(best[start] + self.segment(start, end) for start in range(first, end)))
        return best[-1]

    def smoothed(self) -> np.ndarray:
        ahead, behind = np.zeros(self.ticks + 1), np.zeros(self.ticks + 1)
        for end in range(1, self.ticks + 1):
            ahead[end] = np.logaddexp.reduce([ahead[s] + self.segment(s, end) for s in range(end)])
        for start in range(self.ticks - 1, -1, -1):
            behind[start] = np.logaddexp.reduce(
                [self.segment(start, e) + behind[e] for e in range(start + 1, self.ticks + 1)]
            )
        begins = np.exp(ahead[:-1] + behind[:-1] - ahead[-1])
        begins[0] = 0.0
        return begins


def far(model: Any) -> np.ndarray:
    """A stream of three regimes with small steps, far from the prior: pruning at 1e-8 loses its best history."""
    rng = np.random.default_rng(2)
    level = np.repeat([0.0, 1.0, -0.5], [50, 50, 60])
    match model:
        case mf.Poisson():
            return rng.poisson(60.0 + 20.0 * level).astype(float)
        case mf.Exponential():
            return rng.exponential(np.exp(4.6 + 0.8 * level))
        case mf.Bernoulli():
            return (rng.random(level.size) < 0.2 + 0.2 * level.clip(0)).astype(float)
    return rng.normal(30.0 + 2.0 * level)


@pytest.mark.parametrize(
    "model",
    [
        mf.Gaussian(0, 9, 1),
        mf.Gaussian(
            0, 0.3, 1
        ),  # 50 prior standard deviations: 800 nats, where filters have dropped every other hypothesis
        mf.GaussianUnknown(0, 1, 20, 20),
        mf.Poisson(100, 10),
        mf.Exponential(20, 20),
        mf.Bernoulli(60, 1),
    ],
    ids=["gaussian", "further", "unknown", "poisson", "exponential", "bernoulli"],
)
def test_far_from_the_prior_it_is_the_most_probable(model: Any) -> None:
    xs = far(model)
    twin = Twin(model, xs.tolist())
    for hazard in (mf.Hazard(0.01), mf.Hazard.weibull(2, 100)):
        twin.under(hazard)
        back = hindsight(mf.Detector(model, hazard=hazard), xs)
        assert back.exact
        assert twin.joint(back.segmentation()) == pytest.approx(twin.best(), abs=1e-8)
        np.testing.assert_allclose(back.smoothed, twin.smoothed(), atol=1e-9)


class GaussianTwin(Twin):
    """The same for Gaussian(0, 9, 1), from the joint density of a segment (sums and squares)."""

    def __init__(self, xs: np.ndarray) -> None:
        self.ticks = xs.size
        self.marginal = np.full((xs.size, xs.size + 1), -math.inf)
        for start in range(xs.size):
            n = np.arange(1.0, xs.size - start + 1)
            total, square = np.cumsum(xs[start:]), np.cumsum(xs[start:] ** 2)
            spread = square - 9.0 * total**2 / (1.0 + 9.0 * n)
            self.marginal[start, start + 1 :] = -0.5 * (n * math.log(2 * math.pi) + np.log1p(9.0 * n) + spread)


@pytest.mark.parametrize("seed", [0, 4])
def test_a_change_that_a_threshold_misses_is_found(seed: int) -> None:
    """A long stream 8 prior standard deviations off: pruned at 1e-8, it looked like one regime."""
    xs = np.random.default_rng(seed).normal(np.where(np.arange(600) < 300, 25.0, 26.0))
    twin = GaussianTwin(xs).under(mf.Hazard(0.01))
    back = hindsight(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), xs)
    found = back.segmentation()
    assert twin.joint(found) == pytest.approx(twin.best(), abs=1e-8)
    np.testing.assert_allclose(back.smoothed, twin.smoothed(), atol=1e-9)
    assert len(found) == 1
    assert abs(found[0] - 300) <= 20


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_where_it_is_not_exact(seed: int) -> None:
    """With `live` hypotheses, never less probable than the best history whose regimes last at most `reach`."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(np.repeat(rng.normal(0, 2.0, 8), rng.integers(5, 40, 8))) + 10.0
    model = mf.Gaussian(0, 9, 1)
    twin = Twin(model, xs.tolist()).under(mf.Hazard(0.05))
    for live in (8, 16, 64):
        back = hindsight(mf.Detector(model, hazard=0.05), xs, live=live)
        assert not back.exact
        assert back.reach == live // 2
        assert max(len(row) for row in back._forward._births) <= live + 1
        found = twin.joint(back.segmentation())
        assert twin.best(back.reach) - 1e-8 <= found <= twin.best() + 1e-8
    whole = hindsight(mf.Detector(model, hazard=0.05), xs, live=len(xs))
    assert whole.exact
    assert twin.joint(whole.segmentation()) == pytest.approx(twin.best(), abs=1e-8)


def test_the_number_of_hypotheses_followed() -> None:
    assert live_for(LIVE) == LIVE
    for ticks in (LIVE + 1, 20_000, 130_000):
        assert FEWEST <= live_for(ticks) <= CELLS / ticks
    assert live_for(10**9) == FEWEST
    for live in (3, 4.0, True):
        with pytest.raises((TypeError, ValueError), match="live must be a whole number of at least 4"):
            Hindsight(mf.Detector(mf.Gaussian(0, 9, 1)), live)  # type: ignore[arg-type]


def test_hindsight_handles_ticks_without_a_reading() -> None:
    """A missing reading and one at zeta 0 carry no information; only the hazard acts."""
    model, h = mf.Gaussian(0, 9, 1), 0.1
    detector = mf.Detector(model, hazard=h, missing="skip")
    given = [0.2, None, 0.1, float("nan"), 5.0, 5.2, None]
    back = Hindsight(detector)
    for x in given:
        back.add(detector.update(x))

    def log_marginal(part: list[float | None]) -> float:
        stats, total = model.prior()[:, None], 0.0
        for x in part:
            if x is not None and x == x:
                total += float(model.log_predictive(stats, x, 1.0)[0])
                stats = model.update(stats, x, 1.0)
        return total

    logs = {}
    for flags in itertools.product([False, True], repeat=6):
        changes = [t for t, change in enumerate(flags, start=1) if change]
        parts = itertools.pairwise([0, *changes, 7])
        prior = len(changes) * math.log(h) + (6 - len(changes)) * math.log1p(-h)
        logs[tuple(changes)] = sum(log_marginal(given[a:b]) for a, b in parts) + prior
    total = np.logaddexp.reduce(list(logs.values()))
    smoothed = [sum(math.exp(v - total) for c, v in logs.items() if t in c) for t in range(7)]
    np.testing.assert_allclose(back.smoothed, smoothed, atol=1e-12)
    # a change at a tick without a reading is as probable as one at the next: either is correct
    assert logs[tuple(back.segmentation())] == pytest.approx(max(logs.values()), abs=1e-12)


def test_a_learned_hazard_is_summed_over() -> None:
    case = CASES[0]
    learned = mf.Learned(low=0.05, high=0.5, points=3)
    readings = stream(case, 4, 8)
    back = look_back(case, readings, learned)
    each = [histories(case, readings, mf.Hazard(float(h))) for h in learned.table]
    parts = [look_back(case, readings, mf.Hazard(float(h))) for h in learned.table]
    fidelities = [mf.Fidelity(f"z{z}", zeta=z, cost=1.0) for z in ZETAS]
    detector = mf.Detector(case.model(), fidelities, learned, prune=None)
    for x, zeta in readings:
        detector.update(x, f"z{zeta}")
    share = detector.hazard_posterior[1]
    np.testing.assert_allclose(back.smoothed, share @ np.array([p.smoothed for p in parts]), atol=1e-11)
    assert back.none(2, 4) == pytest.approx(share @ np.array([p.none(2, 4) for p in parts]), abs=1e-11)
    joint = {(m, c): share[m] * p for m, exact in enumerate(each) for c, p in exact.items()}
    assert tuple(back.segmentation()) == max(joint, key=lambda key: joint[key])[1]


def test_changes_are_located_and_the_intervals_cover_them() -> None:
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
    assert hits / total > 0.85  # 90 % intervals; a few changes are too small to detect and have none


def test_how_the_detector_prunes_does_not_matter() -> None:
    made = mf.simulate.gaussian(mf.Gaussian(0, 9, 1), hazard=0.02, ticks=300, seed=5)
    results = [
        hindsight(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02, prune=prune), made.table[:, 0])
        for prune in (None, mf.TopK(8), mf.Threshold(0.01))
    ]
    for other in results[1:]:
        assert (other.smoothed == results[0].smoothed).all()
        assert other.changepoints() == results[0].changepoints()
    assert results[0].trace is not None
    assert len(results[0].trace) == 300


def test_hindsight_refusals() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1))
    detector.update(0.0)
    with pytest.raises(ValueError, match="before its first tick, not after 1 ticks"):
        hindsight(detector, [0.1])
    back = Hindsight(detector)
    with pytest.raises(ValueError, match="step must be of tick 0, not of tick 1"):
        back.add(detector.update(0.0))
    assert back.segmentation() == []
    assert back.changepoints() == []
    assert back.smoothed.size == 0
    with pytest.raises(ValueError, match="lag must be a whole number"):
        back.lagged(-1)
    with pytest.raises(ValueError, match=r"low\.\.high must lie within ticks"):
        back.none(1, 2)

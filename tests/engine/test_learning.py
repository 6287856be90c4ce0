"""zeta and cost learned from shadow pairs and actual costs: recovery from wrong declarations, saving, runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from benchmarks import shadow as study
from mfbocd.calibrate import ShadowGuard
from mfbocd.detector.learning import ZetaGrid

GAUSSIAN = mf.Gaussian(0, 9, 1)
WAYS = [mf.Fidelity("low", 0.2, 1.0), mf.Fidelity("high", 1.0, 40.0)]


def streams(case: str, learn: bool, seeds: range = range(4), ticks: int = 2400) -> list[study.Result]:
    return [study.measured(case, seed, True, learn, ticks) for seed in seeds]


def test_a_sensor_declared_twice_as_good_as_it_is_is_corrected() -> None:
    """True zeta 0.1, declared 0.2: fewer false alarms once the pairs have shown it, at the same spend."""
    fixed, learned = streams("twice too high", False), streams("twice too high", True)
    assert 0.07 < np.median([r.zeta for r in learned]) < 0.14
    assert sum(r.alarms[1] for r in learned) < 0.5 * sum(r.alarms[1] for r in fixed)
    assert all(abs(r.spent / study.BUDGET - 1) < 0.04 for r in learned)


def test_a_sensor_that_degrades_half_way_is_tracked() -> None:
    """zeta falls from 0.1 to 0.025: many false alarms without learning, few with it."""
    fixed, learned = streams("degrades", False), streams("degrades", True)
    assert 0.015 < np.median([r.zeta for r in learned]) < 0.04
    assert sum(r.alarms[1] for r in fixed) > 20
    assert sum(r.alarms[1] for r in learned) < 0.25 * sum(r.alarms[1] for r in fixed)
    assert all(abs(r.spent / study.BUDGET - 1) < 0.04 for r in learned)


def test_the_grid_is_bayes_rule_with_jumps() -> None:
    """The belief after two pairs, from the formula with numpy; the normal density is written out."""
    grid = ZetaGrid(0.3, "gaussian", 2.0)
    belief = grid.updated(grid.updated(grid.start(), 1.0, -0.5), 0.2, 3.0)
    zeta = np.array(grid.zeta)
    share = np.minimum(zeta[1:] / 0.3, 0.3 / zeta[1:])
    first = p = np.array([0.5, *0.5 * share / share.sum()])
    for difference in (1.5, -2.8):
        variance = 2.0 * (1.0 + 1.0 / zeta)
        p = (0.997 * p + 0.003 * first) * np.exp(-(difference**2) / (2 * variance)) / np.sqrt(variance)
        p /= p.sum()
    assert belief == pytest.approx(p.tolist(), rel=1e-12)
    assert grid.value(belief) == pytest.approx(math.exp(p @ np.log(zeta)))


@pytest.mark.parametrize(("method", "zeta"), [("information", 0.36), ("accuracy", 0.8), ("tpr", 0.8)])
def test_labels_that_agree_with_probability_080(method: Any, zeta: float) -> None:
    rng = np.random.default_rng(3)
    guard = ShadowGuard(0.9 if method != "information" else 0.7, 1, method, learn=True)
    for _ in range(400):
        high = float(rng.random() < 0.5)
        guard.observe(high, high if rng.random() < 0.8 else 1.0 - high)
    assert guard.zeta == pytest.approx(zeta, rel=0.25)


def paired(every: int = 3, **options: Any) -> mf.Detector:
    return mf.Detector(GAUSSIAN, WAYS, 1 / 50, policy=mf.Budget(8.0, cap=(400, 30)), shadow=every, **options)


def rows(ticks: int, seed: int = 5) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.stack([rng.normal(0, 4, ticks), rng.normal(0, 1, ticks)], axis=1)


def test_off_by_default_and_the_guard_alone_changes_no_zeta() -> None:
    detector = paired()
    mf.run(detector, rows(90))
    assert detector.fidelities == tuple(WAYS)
    assert b"learn" not in detector.to_bytes().replace(b"learnt", b"").replace(b"learned_hazard", b"")
    assert not detector.shadow["low"].learn


def test_run_reads_the_same_pairs_as_step() -> None:
    table = rows(120)
    observers = {"low": lambda raw: raw[0], "high": lambda raw: raw[1]}
    ways = [mf.Fidelity(f.name, f.zeta, f.cost, observers[f.name]) for f in WAYS]
    stepping = paired(learn=True).with_fidelities(ways)
    steps = [stepping.step(row.tolist()) for row in table]
    running = paired(learn=True)
    trace = mf.run(running, table)
    assert trace.cost.tolist() == [step.cost for step in steps]
    assert trace.mean.tolist() == [step.mean for step in steps]
    assert running.fidelities[0].zeta == stepping.fidelities[0].zeta < 0.15
    assert running.shadow["low"].spec() == stepping.shadow["low"].spec()
    assert running.shadow["low"].pairs > 20


def test_a_learned_detector_continues_after_loading() -> None:
    detector, table = paired(learn=True), rows(200)
    mf.run(detector, table[:100])
    saved = detector.to_bytes()
    twin = mf.Detector.from_bytes(saved)
    assert twin.learn
    assert twin.to_bytes() == saved
    first, second = mf.run(detector, table[100:]), mf.run(twin, table[100:])
    assert first.mean.tolist() == second.mean.tolist()
    assert twin.to_bytes() == detector.to_bytes() != saved


def test_a_run_that_fails_changes_nothing() -> None:
    detector, table = paired(learn=True), rows(100)
    before = detector.to_bytes()
    bad = table.astype(object)
    bad[90] = "broken"
    with pytest.raises((TypeError, ValueError), match="row 90"):
        mf.run(detector, bad)
    assert detector.to_bytes() == before
    assert detector.fidelities == tuple(WAYS)


def test_a_copy_learns_for_itself() -> None:
    import copy

    detector = paired(learn=True)
    mf.run(detector, rows(60))
    before = detector.to_bytes()
    mf.run(copy.copy(detector), rows(60, seed=6))
    assert detector.to_bytes() == before


def test_actual_costs_are_charged_and_followed() -> None:
    """The good sensor costs 80, not 40: the spend stays at the budget because later choices expect it."""
    rng = np.random.default_rng(1)
    spent = {}
    for learn in (False, True):
        detector = mf.Detector(GAUSSIAN, WAYS, 1 / 50, policy=mf.Budget(8.0), learn=learn)
        for _ in range(6000):
            f = detector.choose()
            detector.update(float(rng.normal()), f, cost=80.0 if f.name == "high" else 1.0)
        spent[learn] = detector.spent / 6000
        cost = detector.fidelities[1].cost
        assert cost == (pytest.approx(80.0, rel=0.01) if learn else 40.0)
    assert spent[True] == pytest.approx(8.0, rel=0.02)


def test_a_budget_continues_when_a_cost_changes() -> None:
    budget = mf.Budget(8.0)
    detector = mf.Detector(GAUSSIAN, WAYS, 1 / 50, policy=budget)
    mf.run(detector, rows(300))
    old = detector.policy
    new = old.rebound([WAYS[0], mf.Fidelity("high", 1.0, 80.0)])
    assert isinstance(old, mf.Budget)
    assert isinstance(new, mf.Budget)
    assert (new.log_price, new.ticks, new.debt) == (old.log_price, old.ticks, old.debt)  # the unit is the same
    cheaper = old.rebound([mf.Fidelity("low", 0.2, 2.0), WAYS[1]])
    assert cheaper.debt == pytest.approx(old.debt * 7.0 / 6.0)  # the same money in units of 6 instead of 7
    with pytest.raises(ValueError, match="at least 9"):
        old.rebound([mf.Fidelity("low", 0.2, 9.0), WAYS[1]])


class Meter:
    """An observer that knows afterwards what it cost."""

    def __init__(self, cost: float) -> None:
        self.last_cost = cost

    def __call__(self, raw: Any) -> float:
        return float(raw)


def test_observers_report_what_they_cost() -> None:
    ways = [mf.Fidelity("low", 0.2, 1.0, Meter(1.5)), mf.Fidelity("high", 1.0, 40.0, Meter(50.0))]
    detector = mf.Detector(GAUSSIAN, ways, 1 / 50, policy=mf.Always("high"), learn=True, shadow=2)
    assert detector.step(0.1).cost == 50.0
    assert detector.step(0.1).cost == 51.5
    assert detector.fidelities[1].cost == pytest.approx(40 + 0.05 * 10 + 0.05 * 9.5)
    assert detector.fidelities[0].cost == pytest.approx(1.025)
    plain = mf.Detector(GAUSSIAN, ways, 1 / 50, policy=mf.Always("high"))
    assert plain.step(0.1).cost == 40.0


@pytest.mark.parametrize("reported", [-5.0, math.nan, math.inf, "much", True])
@pytest.mark.parametrize("shadow", [None, 1])
def test_a_cost_that_cannot_be_is_an_error_of_the_observer(reported: Any, shadow: int | None) -> None:
    ways = [mf.Fidelity("low", 0.2, 1.0, Meter(reported)), mf.Fidelity("high", 1.0, 40.0, Meter(50.0))]
    options: dict[str, Any] = {"policy": mf.Always("low"), "learn": True, "shadow": shadow}
    detector = mf.Detector(GAUSSIAN, ways, 1 / 50, **options)
    before = detector.to_bytes()
    with pytest.raises((TypeError, ValueError), match="last_cost of 'low' must be"):
        detector.step(0.1)
    assert detector.to_bytes() == before
    detector = mf.Detector(GAUSSIAN, ways, 1 / 50, on_error="fallback", **options)
    step = detector.step(0.1)
    assert (step.fidelity, step.failed, step.cost) == ("high", ("low",), 51.0)
    assert detector.spent == 51.0
    assert detector.fidelities[0].cost == 1.0


def test_what_cannot_be_learned_is_refused() -> None:
    model = mf.Confusion({0.3: [[0.9, 0.1], [0.2, 0.8]]})
    ways = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 9.0)]
    guard = {"low": ShadowGuard(0.3, 5, "accuracy")}
    with pytest.raises(ValueError, match="only a key of its likelihoods"):
        mf.Detector(model, ways, shadow=guard, learn=True)
    with pytest.raises(TypeError, match="learn must be True or False"):
        mf.Detector(GAUSSIAN, learn=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cost must be at least 0"):
        mf.Detector(GAUSSIAN).update(0.1, cost=-1.0)
    spec = ShadowGuard(0.3, 5, "accuracy", learn=True).spec()
    spec["state"]["learned"][0] = 7.0
    with pytest.raises(ValueError, match=r"state\.learned must be 41 probabilities"):
        ShadowGuard.from_spec(spec)

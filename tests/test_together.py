"""Detectors moved together are what they would be alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout as at
from mfbocd._kernels.told import compact, likely
from mfbocd.filter import RunLength, table
from mfbocd.information import expected_gains
from mfbocd.policy import Policy, draw_uniform
from mfbocd.policy.base import largest_net
from mfbocd.snapshot import Freezer, Maker, belief_of
from mfbocd.together import Moved, Mover

from .registry import ALL, Case
from .test_policy import POLICIES

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
LEAST, ROWS = 0.02, 5


def likely_by_hand(found: RunLength) -> list[list[float]]:
    """The same in plain numpy."""
    which = np.flatnonzero(found.weight >= LEAST)
    if which.size > ROWS:
        which = np.sort(which[np.argsort(-found.weight[which], kind="stable")[:ROWS]])
    return [[int(found.length[i]), round(float(found.weight[i]), 4)] for i in which]


def told(mover: Mover, detectors: list[mf.Detector], xs: list[Any], names: list[str]) -> list[Any]:
    """As the service does it: check, move, tell."""
    ways = [next(f for f in d.fidelities if f.name == name) for d, name in zip(detectors, names, strict=True)]
    values = [d.taken(x) for d, x in zip(detectors, xs, strict=True)]
    moved = mover.move(detectors, values, [f.zeta for f in ways])
    steps = []
    for d, one, value, f in zip(detectors, moved, values, ways, strict=True):
        assert isinstance(one, Moved), one
        steps.append((d.passed(one.report, value, f, f.cost_of(None)), one))
    return steps


@pytest.mark.parametrize("prune", [None, (mf.Threshold(1e-5), mf.Resample(24))], ids=["exact", "pruned"])
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_together_is_alone(case: Case, prune: Any) -> None:
    """Of one kind and of another beside it, some ahead of others, with and without a reading."""
    n, ticks = (3, 3) if case.model().observe is None else (24, 28)
    rng = np.random.default_rng(0)

    def make(i: int) -> mf.Detector:
        share, hazard = (0.3, 0.03) if i % 4 else (0.6, 0.2)
        return mf.Detector(
            case.model(), FIDELITIES, hazard, policy=mf.Budget(share=share), prune=prune, missing="skip", seed=i
        )

    mover = Mover(LEAST, ROWS)
    single = make(0)
    together, alone = [make(i) for i in range(n)], [make(i) for i in range(n)]
    freeze = [Freezer(d) for d in together]
    for t in range(ticks):
        here = [i for i in range(n) if (i + t) % 5]
        xs = [None if rng.random() < 0.1 else case.draw(rng) for _ in here]
        names = [alone[i].choose().name for i in here]
        found = told(mover, [together[i] for i in here], xs, names)
        for i, x, name, (step, moved) in zip(here, xs, names, found, strict=True):
            assert step == alone[i].update(x, name)
            assert moved.likely == likely_by_hand(alone[i].run_length)
            d = alone[i]
            assert d.weighed == "joint"
            assert moved.gains == expected_gains(d.filter, d.policy.zeta, "joint").tolist()
            assert freeze[i](together[i], moved.saved) == d.to_bytes()
            assert d.fidelities[d.policy.pick_one(moved.gains, d.seed, d.ticks)] == d.choose()
    assert [d.to_bytes() for d in together] == [d.to_bytes() for d in alone]
    twin = make(0)
    for x in (case.draw(rng), None, case.draw(rng)):
        ((step, _),) = told(mover, [single], [x], ["low"])
        assert step == twin.update(x, "low")


def test_readings_of_several_numbers() -> None:
    def make() -> mf.Detector:
        return mf.Detector(mf.MultivariateGaussian([0, 0], np.eye(2) * 9, np.eye(2)), FIDELITIES, 0.05)

    together, alone = [make(), make()], [make(), make()]
    mover = Mover(LEAST, ROWS)
    rng = np.random.default_rng(1)
    for _ in range(20):
        xs = rng.normal(size=(2, 2)).tolist()
        for (step, moved), other, x in zip(told(mover, together, xs, ["low", "high"]), alone, xs, strict=True):
            assert step == other.update(x, step.fidelity)
            assert moved.likely == likely_by_hand(other.run_length)
    assert [d.to_bytes() for d in together] == [d.to_bytes() for d in alone]


def test_one_that_cannot_take_its_reading_keeps_nobody_back() -> None:
    class Strict(mf.Gaussian):
        observe = advance = gains = None  # through Python, where a model can fail at a tick

        def log_predictive(self, stats: Any, x: float, zeta: float) -> Any:
            if x > 5.0:
                raise ArithmeticError("too large")
            return super().log_predictive(stats, x, zeta)

    detectors = [mf.Detector(Strict(0, 9, 1)) for _ in range(3)] + [mf.Detector(mf.Gaussian(0, 9, 1))]
    before = detectors[1].filter.state.copy()
    moved = Mover(LEAST, ROWS).move(detectors, [0.5, 7.0, 0.5, 7.0], [1.0] * 4)
    assert [isinstance(one, Moved) for one in moved] == [True, False, True, True]
    assert str(moved[1]) == "too large"
    np.testing.assert_array_equal(detectors[1].filter.state, before)


@pytest.mark.parametrize("least", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("rows", [1, 3, 400])
def test_what_is_told_of_states_is_what_plain_numpy_finds(least: float, rows: int) -> None:
    rng = np.random.default_rng(2)
    detectors = [mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, prune=mf.Resample(60)) for _ in range(7)]
    for t in range(150):
        for d in detectors[: 7 if t < 40 else 5]:
            d.update(float(rng.normal()))
    for d in detectors:
        weight = table(d.filter.state)[at.WEIGHT]
        weight[:] = np.ceil(8.0 * weight / weight.max()) / 8.0  # many are equal
        d.filter.state[at.TOTAL] = weight.sum()
    states = np.stack([d.filter.state for d in detectors])
    length, ends = np.empty(7 * rows, dtype=np.int64), np.empty(7, dtype=np.int64)
    share = np.empty(7 * rows)
    likely(states, least, rows, length, share, ends)
    low = 0
    for d, end in zip(detectors, ends.tolist(), strict=True):
        found = d.run_length
        which = np.flatnonzero(found.weight >= least)
        kept = np.sort(which[np.argsort(-found.weight[which], kind="stable")[:rows]])
        np.testing.assert_array_equal(length[low:end], found.length[kept])
        np.testing.assert_array_equal(share[low:end], (1e4 * found.weight[kept]).round())
        low = end
    numbers = np.empty(states.size)
    compact(states, numbers, ends)
    plain = [np.concatenate([a[name].ravel() for name in ("head", "live")]) for a in map(belief_of, detectors)]
    np.testing.assert_array_equal(numbers[: int(ends[-1])], np.concatenate(plain))
    np.testing.assert_array_equal(ends, np.cumsum([p.size for p in plain]))


WEIGHING = {name: policy for name, policy in POLICIES.items() if policy().gain is not None}


@pytest.mark.parametrize("policy", WEIGHING.values(), ids=WEIGHING)
def test_the_pick_of_one_is_that_of_many(policy: Callable[[], Policy]) -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=policy())
    bound = detector.policy
    rng = np.random.default_rng(3)
    seen = set()
    for tick in range(200):
        gains = rng.gamma(1.0, 0.02, size=2) * [0.3, 1.0]
        many = bound.pick(gains[None], bound.cost[None], draw_uniform([7], tick))
        assert bound.pick_one(gains.tolist(), 7, tick) == many[0]
        seen.add(int(many[0]))
    assert len(seen) > 1


def test_of_equal_net_gains_the_first_is_picked() -> None:
    assert largest_net([0.5, 0.5, 0.2], [2.0, 2.0, 0.0], 0.1) == 0


def test_detectors_made_alike_share_what_no_tick_changes() -> None:
    def make(policy: Policy, hazard: float = 0.02) -> mf.Detector:
        detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, hazard, policy=policy, prune=mf.Resample(20))
        for x in np.random.default_rng(4).normal(size=30).tolist():
            detector.update(x)
        return detector

    maker = Maker(mf.Detector.from_bytes, most=3)
    capped = make(mf.Budget(3.0, cap=(12.0, 5)))
    for detector in (make(mf.Budget(share=0.3)), capped, make(mf.Net(0.01)), make(mf.Net(0.01), hazard=0.1)):
        saved = detector.to_bytes()
        one, other = maker(saved), maker(saved)
        assert one.model is other.model
        assert one.by_name is other.by_name
        assert one.to_bytes() == other.to_bytes() == saved
        steps = [one.update(x) for x in (0.4, 3.0, 3.1)]
        assert other.to_bytes() == saved
        assert [detector.update(x) for x in (0.4, 3.0, 3.1)] == steps == [other.update(x) for x in (0.4, 3.0, 3.1)]
        assert one.to_bytes() == other.to_bytes() == detector.to_bytes()
    guarded = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, shadow=5).to_bytes()
    one, other = maker(guarded), maker(guarded)
    assert one.shadow["low"] is not other.shadow["low"]

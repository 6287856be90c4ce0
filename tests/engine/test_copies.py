"""A copy of anything with a state shares nothing that changes, whichever way it is copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import AnomalyScore, ShadowGuard
from mfbocd.detector.late import LateReadings
from mfbocd.inputs.blocks import Blocks
from mfbocd.policy.shared import SharedBudget
from mfbocd.trace.tracker import LevelTracker

GAUSSIAN = mf.Gaussian(0, 9, 1)
LOW, HIGH = mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)


class Least(mf.Policy):
    """The fidelity that was read least often: a user's policy, which counts in place."""

    def validate(self) -> None:
        self.counts = [0.0] * len(self.fidelities)

    def pick(self, gains: Any, costs: Any, draws: Any) -> Any:
        return np.full(len(gains), int(np.argmin(self.counts)))

    def schedule(self, seeds: Any, first: int, ticks: int) -> Any:
        return np.full((ticks, len(seeds)), int(np.argmin(self.counts)))

    def record_cost(self, costs: Any) -> None:
        self.counts[self.costs.index(float(costs[0]))] += 1.0

    def state(self) -> dict[str, Any]:
        return {"counts": list(self.counts)}

    def spec(self) -> dict[str, Any]:
        return {}


def policy_of(kind: mf.Policy) -> tuple[Any, Callable[[Any, float], object], Callable[[Any], Any]]:
    return kind.bind([LOW, HIGH]), lambda p, x: p.record_cost((10.0 if x > 0 else 1.0,)), lambda p: p.state()


def late_readings() -> LateReadings:
    late = LateReadings(mf.Detector(GAUSSIAN, [LOW, HIGH]))
    late.apply(0.3, "low", 1.0, key="asked")
    return late


THINGS: dict[str, Callable[[], tuple[Any, Callable[[Any, float], object], Callable[[Any], Any]]]] = {
    "detector": lambda: (mf.Detector(GAUSSIAN), lambda d, x: d.update(x), lambda d: d.to_bytes()),
    "automatic": lambda: (mf.auto(), lambda d, x: d.update(x), lambda d: d.to_bytes()),
    "of blocks": lambda: (
        mf.BlockDetector(Blocks(4, ["mean"]), mf.Detector(GAUSSIAN)),
        lambda d, x: d.update(x),
        lambda d: d.to_bytes(),
    ),
    "blocks": lambda: (Blocks(4, ["mean"]), lambda b, x: b.push(x), lambda b: b.to_bytes()),
    "fleet": lambda: (mf.Fleet(2, GAUSSIAN), lambda f, x: f.update([x, -x]), lambda f: f.to_bytes()),
    "anomaly": lambda: (AnomalyScore(), lambda a, x: a.update(x), lambda a: a.to_bytes()),
    "guard": lambda: (
        ShadowGuard(0.5, 3, "gaussian", noise_var=1.0, learn=True),
        lambda g, x: g.observe(0.0, x),
        lambda g: g.spec(),
    ),
    "levels": lambda: (
        LevelTracker.of(mf.Detector(GAUSSIAN)),
        lambda t, x: (t.add(mf.Detector(GAUSSIAN).update(x)), t.around(0)),
        lambda t: t.to_dict(),
    ),
    "late readings": lambda: (
        late_readings(),
        lambda late, x: (late.apply(x, "high", 10.0), late.replace("asked", x, "high"), late.catch_up()),
        lambda late: (late.detector.to_bytes(), late.open),
    ),
    "shared budget": lambda: (
        SharedBudget(mf.Budget(8.0), [LOW, HIGH], mf.Detector(GAUSSIAN)._filter, 2),
        lambda s, x: s.record(20.0 if x > 0 else 2.0, 2),
        lambda s: (s.price, s.policy.state()),
    ),
    "budget": lambda: policy_of(mf.Budget(8.0)),
    "capped": lambda: policy_of(mf.Budget(8.0, cap=(90.0, 7))),
    "own policy": lambda: policy_of(Least()),
    "with own policy": lambda: (
        mf.Detector(GAUSSIAN, [LOW, HIGH], policy=Least()),
        lambda d, x: d.update(x, "high"),
        lambda d: (d.ticks, d.policy.state()),
    ),
    "fleet with own policies": lambda: (
        mf.Fleet(2, GAUSSIAN, [LOW, HIGH], policy=Least(), share_policy=False),
        lambda f, x: f.update([x, -x], ["low", "high"]),
        lambda f: [f.extract(i).policy.state() for i in (0, 1)],
    ),
}

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", THINGS)
def test_a_copy_is_independent_and_continues_the_same(name: str, how: str) -> None:
    thing, feed, state = THINGS[name]()
    xs = np.random.default_rng(3).normal(size=14).round(3).tolist()
    for x in xs[:6]:
        feed(thing, x)
    before = copy.deepcopy(state(thing))
    other = COPIES[how](thing)
    assert state(other) == before
    for x in xs[6:]:
        feed(other, x)
    after = state(other)
    assert state(thing) == before != after
    for x in xs[6:]:
        feed(thing, x)
    assert state(thing) == after == state(other)

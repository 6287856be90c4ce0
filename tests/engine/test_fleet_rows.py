"""Every stream of a fleet is what a detector of its own would be, whatever happens to the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfbocd as mf
from mfbocd.belief.gains import expected_gains

from ..registry import ALL, Case

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
SKIP = [mf.Fidelity("skip", 0.0, 0.0), *FIDELITIES]
PRUNES: dict[str, Any] = {
    "exact": None,
    "topk": mf.TopK(6),
    "resample": mf.Resample(8, slack=2),
    "both": (mf.Threshold(1e-4), mf.Resample(7)),
}
POLICIES: dict[str, Any] = {
    "default": lambda: None,
    "always": lambda: mf.Always("low"),
    "random": lambda: mf.Random(),
    "net": lambda: mf.Net(0.03),
    "soft": lambda: mf.Soft(0.05),
    "margin": lambda: mf.Margin(0.02),
    "rate": lambda: mf.InformationRate(),
    "budget": lambda: mf.Budget(2.0, gain="variance"),
    "cap": lambda: mf.Budget(share=0.4, cap=(14.0, 4)),
}
QUICK = [case for case in ALL if case.model().observe is not None]
SLOW = [case for case in ALL if case.model().observe is None]


class Twins:
    """A fleet, and one detector per stream, that must stay the same."""

    def __init__(self, case: Case, rng: np.random.Generator, n: int, **options: Any) -> None:
        self.case, self.rng, self.options = case, rng, options
        self.seed = 5
        self.names = [f"s{i}" for i in range(n)]
        self.fleet = mf.Fleet(
            n, case.model(), seed=self.seed, share_policy=False, names=self.names, threads=2, **options
        )
        self.alone = {name: self.make(self.seed + i) for i, name in enumerate(self.names)}
        self.added = n

    def make(self, seed: int) -> mf.Detector:
        return mf.Detector(self.case.model(), seed=seed, **self.options)

    def draw(self) -> Any:
        return None if self.options["missing"] == "skip" and self.rng.random() < 0.15 else self.case.draw(self.rng)

    def update(self) -> None:
        """A tick of some streams, in any order, by name or index, at the chosen fidelities or at others."""
        names = self.fleet.names
        some = self.rng.permutation(len(names))[: self.rng.integers(0, len(names) + 1)].tolist()
        streams: Any = [names[i] for i in some] if self.rng.random() < 0.5 else np.array(some, dtype=np.int64)
        ways = self.options["fidelities"]
        before = [self.alone[names[i]] for i in some]
        decision = self.fleet.decide(streams=streams)
        assert decision.choice.tolist() == [ways.index(d.choose()) for d in before]
        choice = decision.choice
        if self.rng.random() < 0.3:
            choice = self.rng.integers(0, len(ways), len(some))
        xs = [self.draw() for _ in some]
        step = self.fleet.update(xs, choice, streams=streams)
        told = [d.update(x, ways[j]) for d, x, j in zip(before, xs, choice.tolist(), strict=True)]
        same_steps(step.steps(), told)
        assert step.streams.tolist() == some

    def check(self) -> None:
        fleet, names = self.fleet, self.fleet.names
        assert sorted(names) == sorted(self.alone)
        assert len(fleet) == len(names)
        alone = [self.alone[name] for name in names]
        assert fleet.ticks.tolist() == [d.ticks for d in alone]
        assert fleet.spent_by_stream.tolist() == [d.spent for d in alone]
        assert fleet.log_evidence.tolist() == [d.log_evidence for d in alone]
        assert np.asarray(fleet.mean).tolist() == [np.asarray(d.mean).tolist() for d in alone]
        assert fleet.to_bytes_each() == [d.to_bytes() for d in alone]
        decision = fleet.decide()
        for i, (name, d) in enumerate(zip(names, alone, strict=True)):
            assert fleet.to_bytes(name) == d.to_bytes()
            assert fleet.extract(i).to_bytes() == d.to_bytes()
            gain = d.policy.gain
            weighed = [] if gain is None else expected_gains(d._filter, d.policy.zeta, gain).tolist()
            assert decision.gains[i].tolist() == weighed
            price = getattr(d.policy, "price", None)
            assert (None if decision.price is None else decision.price[i]) == price
            if d.ticks:
                for mine, theirs in zip(fleet.run_length(name), d.run_length, strict=True):
                    np.testing.assert_array_equal(mine, theirs)
        assert fleet.p_changed(3).tolist() == [d.changed(3) for d in alone]

    def add(self) -> None:
        self.alone[f"a{self.added}"] = self.make(self.seed + self.added)
        assert self.fleet.add(f"a{self.added}") == len(self.fleet) - 1
        self.added += 1

    def remove(self) -> None:
        names = self.fleet.names
        gone = self.rng.permutation(len(names))[: self.rng.integers(0, len(names) + 1)].tolist()
        self.fleet.remove([names[i] for i in gone] if self.rng.random() < 0.5 else gone)
        for i in gone:
            del self.alone[names[i]]

    def insert(self) -> None:
        """A stream from elsewhere, as a detector or as bytes; one of the same name is replaced."""
        other = self.make(1000 + self.added)
        for _ in range(int(self.rng.integers(0, 9))):
            other.update(self.draw(), self.options["fidelities"][0])
        names = self.fleet.names
        given = other if self.rng.random() < 0.5 else other.to_bytes()
        if names and self.rng.random() < 0.5:
            name = names[int(self.rng.integers(len(names)))]
            assert self.fleet.insert(given, name, replace=True) == names.index(name)
        else:
            name = f"i{self.added}"
            assert self.fleet.insert(given, name) == len(names)
            self.added += 1
        self.alone[name] = mf.Detector.from_bytes(other.to_bytes(), model=other.model)

    def reload(self) -> None:
        fleet = mf.Fleet.from_bytes(self.fleet.to_bytes(), model=self.fleet.model, threads=1)
        assert fleet.to_bytes() == self.fleet.to_bytes()
        self.fleet = fleet

    def extract(self) -> None:
        """Out and in again changes nothing, and what was taken out is independent."""
        if len(self.fleet):
            name = self.fleet.names[-1]
            one = self.fleet.extract(name)
            before = one.to_bytes()
            one.update(self.draw(), self.options["fidelities"][0])
            assert self.fleet.to_bytes(name) == before
            self.fleet.insert(before, name, replace=True)


def same_steps(found: list[mf.Step], wanted: list[mf.Step]) -> None:
    assert [[type(v) for v in step] for step in found] == [[type(v) for v in step] for step in wanted]
    np.testing.assert_equal([tuple(step) for step in found], [tuple(step) for step in wanted])  # NaN is NaN


ACTIONS = ("update", "update", "update", "update", "add", "remove", "insert", "reload", "extract")


def follow(
    case: Case, prune: str, policy: str, missing: str, skip: bool, seed: int, n: int, actions: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    options = {
        "fidelities": SKIP if skip else FIDELITIES,
        "hazard": 0.05,
        "policy": POLICIES[policy](),
        "prune": PRUNES[prune],
        "alarm": mf.Alarm(within=5, threshold=0.5),
        "missing": missing,
    }
    twins = Twins(case, rng, n, **options)
    for action in actions:
        getattr(twins, action)()
    twins.check()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=st.sampled_from(QUICK),
    prune=st.sampled_from(list(PRUNES)),
    policy=st.sampled_from(list(POLICIES)),
    missing=st.sampled_from(["raise", "skip"]),
    skip=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 5),
    actions=st.lists(st.sampled_from(ACTIONS), max_size=40),
)
def test_a_stream_is_a_detector(
    case: Case, prune: str, policy: str, missing: str, skip: bool, seed: int, n: int, actions: list[str]
) -> None:
    follow(case, prune, policy, missing, skip, seed, n, actions)

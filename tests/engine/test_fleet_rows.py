"""Every stream of a fleet equals a separate detector, whatever happens to the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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
        fidelities = self.options["fidelities"]
        before = [self.alone[names[i]] for i in some]
        decision = self.fleet.decide(streams=streams)
        assert decision.choice.tolist() == [fidelities.index(d.choose()) for d in before]
        choice = decision.choice
        if self.rng.random() < 0.3:
            choice = self.rng.integers(0, len(fidelities), len(some))
        xs = [self.draw() for _ in some]
        step = self.fleet.update(xs, choice, streams=streams)
        expected = [d.update(x, fidelities[j]) for d, x, j in zip(before, xs, choice.tolist(), strict=True)]
        same_steps(step.steps(), expected)
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
            assert decision.limit[i] == getattr(d.policy, "limit", "")
            if d.ticks:
                for mine, theirs in zip(fleet.run_length(name), d.run_length, strict=True):
                    np.testing.assert_array_equal(mine, theirs)
        assert fleet.p_changed(3).tolist() == [d.p_changed(3) for d in alone]

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


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=st.sampled_from(SLOW),
    prune=st.sampled_from(list(PRUNES)),
    policy=st.sampled_from(["always", "random", "cap", "default"]),
    missing=st.sampled_from(["raise", "skip"]),
    seed=st.integers(0, 2**32 - 1),
    actions=st.lists(st.sampled_from(ACTIONS), max_size=8),
)
def test_a_stream_of_a_family_without_kernels_is_a_detector(
    case: Case, prune: str, policy: str, missing: str, seed: int, actions: list[str]
) -> None:
    follow(case, prune, policy, missing, False, seed, 3, actions)


def test_what_a_policy_has_learned_moves_with_its_stream() -> None:
    """Also where it is more than numbers: a cap remembers what the last ticks cost."""
    ways = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
    fleet = mf.Fleet(3, mf.Gaussian(0, 9, 1), ways, policy=mf.Budget(3.0, cap=(14.0, 4)), share_policy=False)
    fleet.update([0.1, 0.2, 0.3], ["low", "low", "high"])
    last = fleet.to_bytes("2")
    fleet.remove("0")
    assert fleet.names == ["2", "1"]
    assert fleet.to_bytes("2") == last


def test_many_streams_and_long_ones() -> None:
    """Memory for streams and hypotheses doubles several times, and is given back."""
    rng = np.random.default_rng(3)
    options: dict[str, Any] = {"fidelities": FIDELITIES, "hazard": 0.05, "prune": None, "missing": "raise"}
    twins = Twins(QUICK[0], rng, 2, **options)
    for _ in range(200):
        twins.update()
    for _ in range(60):
        twins.add()
    for _ in range(20):
        twins.update()
    twins.check()
    assert twins.fleet._rows.capacity >= 62
    assert twins.fleet._rows.cap >= 128
    for i, name in enumerate([*twins.fleet.names[2::2], *twins.fleet.names[3::2]]):
        twins.fleet.remove(name)
        del twins.alone[name]
        if i % 15 == 0:
            twins.check()
    assert twins.fleet._rows.capacity <= 16
    twins.update()
    twins.check()


# --- names --------------------------------------------------------------------------------------------------------


def test_names_stay_with_their_streams() -> None:
    fleet = mf.Fleet(4, mf.Gaussian(0, 9, 1), seed=7)
    assert fleet.names == ["0", "1", "2", "3"]
    fleet.update([10.0, 11.0, 12.0, 13.0])
    means = dict(zip(fleet.names, fleet.mean.tolist(), strict=True))
    fleet.remove([1])
    assert fleet.names == ["0", "3", "2"]  # the last one took the place
    assert dict(zip(fleet.names, fleet.mean.tolist(), strict=True)) == {k: means[k] for k in ("0", "3", "2")}
    assert fleet.seeds.tolist() == [7, 10, 9]
    assert fleet.add() == 3
    assert fleet.add("x", seed=99) == 4
    assert fleet.add() == 5
    assert fleet.names == ["0", "3", "2", "4", "x", "6"]
    assert fleet.seeds.tolist() == [7, 10, 9, 11, 99, 13]
    assert fleet.run_length("3").length.tolist() == [0]
    fleet.add("8")
    fleet.add()
    assert fleet.names[-2:] == ["8", "9"]  # 8 is taken
    named = mf.Fleet(2, mf.Gaussian(), names=["b", "a"])
    assert named.update([0.5], streams=["a"]).streams.tolist() == [1]


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda f: f.update([0.0, 1.0], streams=["b", "b"]),
            ValueError,
            "streams must be different, but 'b' appears",
        ),
        (lambda f: f.update([0.0, 1.0], "low", streams=["b", 1]), ValueError, "different, but 'b' appears twice"),
        (lambda f: f.update([0.0], "low", streams=["z"]), KeyError, "the fleet has no stream 'z'"),
        (lambda f: f.update([0.0], "low", streams=[3]), IndexError, r"stream must lie in \[0, 3\), not 3"),
        (lambda f: f.update([0.0], streams=np.array([-1])), IndexError, r"stream must lie in \[0, 3\), not -1"),
        (lambda f: f.update([0.0], streams=[True]), TypeError, "by name or index, not True"),
        (lambda f: f.update([0.0], streams="a"), TypeError, "streams must be a list of names or indices, not 'a'"),
        (lambda f: f.update([0.0, np.nan], "low", streams=["c", "b"]), ValueError, "stream b: x is nan"),
        (lambda f: f.update([0.0, np.inf], "low", streams=["c", "a"]), ValueError, "stream a: x must be finite"),
        (
            lambda f: f.update([0.0], "low", streams=["a", "b"]),
            ValueError,
            r"per stream, shape \(2,\), not \(1,\)",
        ),
        (lambda f: f.update([0.0], [2], streams=["b"]), ValueError, r"stream b: fidelity index must lie in \[0, 2\)"),
        (lambda f: f.update([0.0], ["sonar"], streams=["b"]), ValueError, "fidelity must be one of low, high"),
        (lambda f: f.update([0.0], streams=["b"]), ValueError, "stream b: fidelity must be one of low, high: with"),
        (lambda f: f.step([0.0], streams=["a"]), TypeError, "has no observe"),
        (lambda f: f.step([0.0], streams=["a", "b"]), ValueError, "one raw input for each of 2 streams, not 1"),
        (lambda f: f.remove(["a", "z"]), KeyError, "the fleet has no stream 'z'"),
        (lambda f: f.remove(["a", "a"]), ValueError, "appears twice"),
        (lambda f: f.add("a"), ValueError, "the fleet already has a stream 'a'"),
        (lambda f: f.add(""), TypeError, "must be a non-empty string"),
        (lambda f: f.add(3), TypeError, "must be a non-empty string"),
        (lambda f: f.add("d", seed=-1), ValueError, "seed must be a whole number of at least 0, not -1"),
        (lambda f: f.add("d", scale=0.0), ValueError, r"Fleet\.scale must be positive"),
        (lambda f: f.insert(f.extract("b"), "a"), ValueError, "the fleet already has a stream 'a'"),
        (lambda f: f.insert(b"nonsense", "d"), ValueError, "not a saved detector"),
        (
            lambda f: f.insert(f.extract(0), "d", scale=2.0),
            ValueError,
            r"the detector's model must equal the fleet's, Gaussian\(mean=0, var=4, noise_var=4\), not",
        ),
        (lambda f: f.extract("z"), KeyError, "the fleet has no stream 'z'"),
        (lambda f: f.to_bytes(5), IndexError, "stream must lie in"),
    ],
)
def test_bad_input_names_the_stream_and_changes_nothing(act: Any, error: type[Exception], message: str) -> None:
    fleet = mf.Fleet(3, mf.Gaussian(), FIDELITIES, names=["a", "b", "c"], policy=mf.Always("low"))
    fleet.update([0.0, 0.1, 0.2], "low")
    before = fleet.to_bytes()
    with pytest.raises(error, match=message):
        act(fleet)
    assert fleet.to_bytes() == before


def test_the_fidelity_that_was_read_may_be_omitted_after_it_was_chosen() -> None:
    """For the same tick and the same streams only."""
    fleet = mf.Fleet(3, mf.Gaussian(0, 9, 1), FIDELITIES, policy=mf.Random())
    for _ in range(20):
        choice = fleet.choose(streams=[2, 0])
        assert fleet.update([0.5], streams=[0]).choice.tolist() == [choice[1]]
        for streams in ([0], [1], [2, 1]):
            with pytest.raises(ValueError, match="with several fidelities, give the one that was read"):
                fleet.update([0.5] * len(streams), streams=streams)
        assert fleet.update([0.5], streams=[2]).choice.tolist() == [choice[0]]
    assert fleet.ticks.tolist() == [20, 0, 20]


def test_bad_names() -> None:
    with pytest.raises(ValueError, match="names must name all 3 streams, not 2"):
        mf.Fleet(3, mf.Gaussian(), names=["a", "b"])
    with pytest.raises(ValueError, match="names must be different, but 'a' appears twice"):
        mf.Fleet(2, mf.Gaussian(), names=["a", "a"])
    with pytest.raises(TypeError, match="must be a non-empty string, not 1"):
        mf.Fleet(2, mf.Gaussian(), names=["a", 1])  # type: ignore[list-item]


class Strict(mf.Gaussian):
    """Fails at a tick: through Python, where a model can."""

    observe = advance = gains = None

    def log_predictive(self, stats: Any, x: float, zeta: float) -> Any:
        if x > 5.0:
            raise ArithmeticError("too large")
        return super().log_predictive(stats, x, zeta)


def test_a_model_that_fails_for_one_stream_changes_none() -> None:
    fleet = mf.Fleet(3, Strict(0, 9, 1), FIDELITIES, share_policy=False)
    fleet.update([0.1, 0.2, 0.3], "high")
    before = fleet.to_bytes_each()
    with pytest.raises(ArithmeticError, match="too large"):
        fleet.update([0.5, 0.6, 7.0], "high", streams=[2, 0, 1])
    assert fleet.to_bytes_each() == before
    fleet.update([0.5, 0.6, 0.7], "high")
    assert fleet.ticks.tolist() == [2, 2, 2]


# --- observers ------------------------------------------------------------------------------------------------------


def test_step_reads_the_chosen_fidelity_and_no_other() -> None:
    asked: list[tuple[str, float]] = []

    def reads(name: str) -> Any:
        return lambda raw: asked.append((name, raw)) or raw + 0.25

    fidelities = [
        mf.Fidelity("skip", 0.0, 0.0),
        mf.Fidelity("low", 0.1, lambda raw: 1.0 + raw % 0.5, reads("low")),
        mf.Fidelity("high", 1.0, 9.0, reads("high")),
    ]
    options: dict[str, Any] = {"hazard": 0.05, "policy": mf.Soft(0.02, price=0.01, gain="joint")}
    fleet = mf.Fleet(4, mf.Gaussian(0, 9, 1), fidelities, **options, share_policy=False)
    alone = [mf.Detector(mf.Gaussian(0, 9, 1), fidelities, **options, seed=i) for i in range(4)]
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    for t in range(60):
        some = [i for i in range(4) if (i + t) % 3]
        raws = rng.normal(size=len(some)).tolist()
        asked.clear()
        step = fleet.step(raws, streams=some)
        mine = list(asked)
        asked.clear()
        assert step.steps() == [alone[i].step(raw) for i, raw in zip(some, raws, strict=True)]
        assert mine == asked
        seen |= {fidelities[j].name for j in step.choice.tolist()}
    assert seen == {"skip", "low", "high"}
    assert fleet.to_bytes_each() == [d.to_bytes() for d in alone]


def test_an_observer_that_fails_or_has_memory_changes_nothing() -> None:
    def broken(raw: float) -> float:
        if raw > 1.0:
            raise OSError("no answer")
        return raw

    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), mf.Fidelity("full", 1.0, 1.0, broken))
    before = fleet.to_bytes()
    with pytest.raises(OSError, match="no answer"):
        fleet.step([0.5, 2.0])
    assert fleet.to_bytes() == before
    broken.warmup = 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="remembers earlier inputs"):
        fleet.step([0.5, 0.5])

"""A budget shared by streams: a round is one reading of each stream, and per_tick is its cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.policy import SharedBudget
from mfbocd.policy.shared import MOST_ROUNDS

GAUSSIAN = mf.Gaussian(0, 9, 1)
FIDELITIES = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 40.0)]
HAZARD = 1 / 40
LIKE = mf.Detector(GAUSSIAN, FIDELITIES, HAZARD)


def group(budget: mf.Budget, streams: int, **options: Any) -> SharedBudget:
    return SharedBudget(budget, FIDELITIES, LIKE._filter, streams, **options)


def plain(budget: mf.Budget, streams: int) -> mf.Budget:
    """The budget of so many streams, as it learns from the cost of whole rounds."""
    policy = budget.bind(FIDELITIES, streams)
    policy.initialize(LIKE._filter)
    return policy


def price_state(shared: SharedBudget) -> dict[str, Any]:
    return {name: value for name, value in shared.state().items() if name not in ("spent", "readings", "streams")}


def tables(n: int, rounds: int, seed: int = 0) -> np.ndarray:
    """(rounds, n, 2): streams that change at the hazard's rate, read at both fidelities."""
    rng = np.random.default_rng(seed)
    level = np.zeros(n)
    out = np.empty((rounds, n, 2))
    for t in range(rounds):
        level = np.where(rng.random(n) < HAZARD, rng.normal(0.0, 3.0, n), level)
        out[t] = level[:, None] + rng.normal(size=(n, 2)) * [math.sqrt(10.0), 1.0]
    return out


# --- rounds -------------------------------------------------------------------------------------------------------


def test_a_round_is_one_reading_of_each_stream() -> None:
    shared, whole = group(mf.Budget(24.0), 3), plain(mf.Budget(24.0), 3)
    assert shared.price == whole.price
    rng = np.random.default_rng(0)
    for _ in range(200):
        before = shared.price
        costs = rng.choice([1.0, 40.0], 3, p=[0.8, 0.2]).tolist()
        for cost in costs[:2]:
            shared.record(cost)
            assert shared.price == before
        assert (shared.spent, shared.readings) == (costs[0] + costs[1], 2)
        shared.record(costs[2])
        whole.record_cost((costs[0] + costs[1] + costs[2],))
        assert price_state(shared) == whole.state()
        assert shared.price == whole.price
        assert (shared.spent, shared.readings) == (0.0, 0)
    assert whole.ticks == 200


@pytest.mark.parametrize("rounds", [1, 2, 5, MOST_ROUNDS, MOST_ROUNDS + 7])
def test_several_rounds_at_once_count_with_their_average(rounds: int) -> None:
    """Up to MOST_ROUNDS of them: they were all decided at one price."""
    shared, whole = group(mf.Budget(24.0), 3), plain(mf.Budget(24.0), 3)
    cost = 30.0 * rounds
    shared.record(cost, readings=3 * rounds)
    for _ in range(min(rounds, MOST_ROUNDS)):
        whole.record_cost((30.0,))
    assert price_state(shared) == whole.state()
    assert (shared.spent, shared.readings) == (0.0, 0)


def test_the_rest_of_several_rounds_begins_the_next() -> None:
    shared, whole = group(mf.Budget(24.0), 3), plain(mf.Budget(24.0), 3)
    shared.record(2.0)
    shared.record(30.0, readings=7)  # with the one before: 8 readings that cost 32, so 12 per round
    whole.record_cost((12.0,))
    whole.record_cost((12.0,))
    assert price_state(shared) == whole.state()
    assert (shared.spent, shared.readings) == (8.0, 2)
    shared.record(5.0)
    whole.record_cost((13.0,))
    assert price_state(shared) == whole.state()
    shared.record(0.0, readings=0)
    assert (shared.spent, shared.readings) == (0.0, 0)


def test_the_target_is_that_of_the_whole_group() -> None:
    assert group(mf.Budget(24.0), 3).target == 24.0
    assert group(mf.Budget(share=0.5), 3).target == 3 * 20.5
    assert mf.Detector(GAUSSIAN, FIDELITIES, policy=mf.Budget(share=0.5)).policy.target == 20.5
    assert mf.Detector(GAUSSIAN, FIDELITIES, policy=mf.Budget(7.0)).policy.target == 7.0
    assert mf.Fleet(5, GAUSSIAN, FIDELITIES, policy=mf.Budget(share=0.5)).policy.target == 5 * 20.5
    assert math.isnan(mf.Budget(7.0).target)


def test_a_whole_fleet_is_bought_one_expensive_reading_and_some_streams_decide_for_themselves() -> None:
    """The cost of all streams is known only at the start of a round; else each takes the largest net gain."""
    ways = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 1e4)]
    shared = SharedBudget(mf.Budget(share=0.001), ways, LIKE._filter, 3)
    gains, costs = np.array([[0.0, 1e6], [0.0, 3e6], [0.0, 2e6]]), np.tile([1.0, 1e4], (3, 1))
    assert shared.pick(gains, costs, np.zeros(3)).tolist() == [0, 1, 0]
    assert shared.pick(gains[:2], costs[:2], np.zeros(2)).tolist() == [1, 1]
    shared.record(1.0)
    assert shared.pick(gains, costs, np.zeros(3)).tolist() == [1, 1, 1]


# --- the number of streams ----------------------------------------------------------------------------------------


def test_a_debt_is_an_amount_of_money_however_many_streams_there_are() -> None:
    shared = group(mf.Budget(24.0), 3)
    for _ in range(20):
        shared.record(90.0, readings=3)
    price, owed = shared.policy.log_price, shared.policy.debt * (24.0 - 3.0)
    assert owed == pytest.approx(20 * (90.0 - 24.0))
    shared.streams = 9
    assert shared.streams == 9
    assert shared.target == 24.0
    assert shared.policy.log_price == price
    assert shared.policy.debt * (24.0 - 9.0) == pytest.approx(owed)
    shared.streams = 3
    assert shared.policy.debt * (24.0 - 3.0) == pytest.approx(owed)
    shares = group(mf.Budget(share=0.5), 3)
    shares.streams = 4
    assert shares.target == 4 * 20.5


def test_more_streams_than_the_budget_can_pay_for_are_refused() -> None:
    shared = group(mf.Budget(24.0), 3)
    shared.record(30.0, readings=3)
    before = shared.state()
    with pytest.raises(ValueError, match=r"Budget\.per_tick must be at least 25"):
        shared.streams = 25
    assert shared.state() == before
    for bad in (0, -1, True, 2.0):
        with pytest.raises((TypeError, ValueError), match="streams must be a whole number of at least 1"):
            shared.streams = bad  # type: ignore[assignment]
    shared.streams = 24
    assert shared.target == 24.0


def test_fewer_streams_spend_what_they_can() -> None:
    shared = group(mf.Budget(70.0), 3)
    shared.streams = 1
    assert shared.target == 40.0
    assert shared.pick(np.array([[0.1, 0.2]]), np.array([[1.0, 40.0]]), np.zeros(1)).tolist() == [1]
    shared.streams = 3
    assert shared.target == 70.0


# --- saving -------------------------------------------------------------------------------------------------------


def test_a_saved_budget_continues_in_the_middle_of_a_round() -> None:
    one = group(mf.Budget(24.0), 3)
    for cost in (40.0, 1.0, 1.0, 40.0):
        one.record(cost)
    other = group(mf.Budget(24.0), 3)
    other.restore(one.state())
    assert other.state() == one.state() == one.state() | {"spent": 40.0, "readings": 1, "streams": 3}
    for shared in (one, other):
        shared.record(1.0)
        shared.record(1.0)
    assert other.state() == one.state()
    assert other.price == one.price


def test_a_saved_budget_of_another_number_of_streams() -> None:
    one, other, direct = (group(mf.Budget(24.0), n) for n in (3, 8, 3))
    for shared in (one, direct):
        for _ in range(5):
            shared.record(90.0, readings=3)
    other.restore(one.state())
    direct.streams = 8
    assert price_state(other) == price_state(direct)
    assert other.streams == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"spent": -1.0},
        {"spent": math.inf},
        {"spent": "1"},
        {"readings": -1},
        {"readings": 1.5},
        {"streams": 0},
        {"log_price": math.nan},
        {"nonsense": 1.0},
    ],
    ids=str,
)
def test_an_impossible_state_is_refused(wrong: dict[str, Any]) -> None:
    shared = group(mf.Budget(24.0), 3)
    shared.record(90.0, readings=3)
    before = shared.state()
    with pytest.raises(ValueError, match=r"cannot be|must be|has learned no"):
        shared.restore(before | wrong)
    assert shared.state() == before
    with pytest.raises(ValueError, match="has no 'readings'"):
        shared.restore({name: value for name, value in before.items() if name != "readings"})


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_cap_needs_streams_that_choose_together() -> None:
    capped = mf.Budget(24.0, cap=(100.0, 3))
    with pytest.raises(ValueError, match=r"Budget\.cap must be left out of a group's budget"):
        group(capped, 3)
    shared = group(capped, 3, lockstep=True)
    shared.record(30.0, readings=3)
    for readings in (1, 2, 4, 6):
        with pytest.raises(ValueError, match=r"Budget\.cap needs a reading of all 3 streams in every call"):
            shared.record(30.0, readings=readings)
    fleet = mf.Fleet(3, GAUSSIAN, FIDELITIES, HAZARD, policy=capped)
    fleet.update([0.1, 0.2, 0.3], "low")
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match=r"Budget\.cap needs a reading of all 3 streams"):
        fleet.update([0.1, 0.2], "low", streams=[0, 1])
    assert fleet.to_bytes() == before


def test_only_a_budget_can_be_shared() -> None:
    with pytest.raises(TypeError, match="must be a Budget, not Net"):
        group(mf.Net(0.1), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Budget\.per_tick must be at least 3"):
        group(mf.Budget(2.0), 3)
    with pytest.raises(ValueError, match="share_policy=False contradicts"):
        mf.Fleet(3, GAUSSIAN, FIDELITIES, policy=group(mf.Budget(24.0), 3), share_policy=False)


# --- the same total in a fleet, stream by stream, and in rounds ---------------------------------------------------


def test_a_fleet_updated_as_a_whole_decides_and_learns_as_one_budget() -> None:
    """Bit for bit `Budget.pick` and `record_cost` for all streams."""
    n = 4
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, HAZARD, policy=mf.Budget(12.0 * n), threads=1)
    budget = mf.Budget(12.0 * n)
    budget.lockstep = True
    policy = plain(budget, n)
    costs = np.tile([1.0, 40.0], (n, 1))
    seen = set()
    for readings in tables(n, 300):
        choice = fleet.choose()
        assert choice.tolist() == policy.pick(fleet.gains("joint"), costs, np.zeros(n)).tolist()
        step = fleet.update(readings[np.arange(n), choice], choice)
        policy.record_cost(step.cost)
        assert fleet.policy.state() == policy.state()
        seen.add(tuple(choice.tolist()))
    assert len(seen) > 4


def whole(n: int, budget: mf.Budget, data: np.ndarray) -> float:
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, HAZARD, policy=budget, threads=1)
    for readings in data:
        choice = fleet.choose()
        fleet.update(readings[np.arange(n), choice], choice)
    return fleet.spent


def one_by_one(n: int, budget: mf.Budget, data: np.ndarray) -> float:
    """Streams that choose at different times, each when its last reading has arrived."""
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, HAZARD, policy=budget, threads=1)
    chosen = fleet.choose()
    for readings in data:
        for i in np.random.default_rng(len(readings)).permutation(n).tolist():
            fleet.update(readings[i : i + 1, chosen[i]], chosen[i : i + 1], streams=[i])
            chosen[i] = fleet.choose(streams=[i])[0]
    return fleet.spent


def unequal_parts(n: int, budget: mf.Budget, data: np.ndarray) -> float:
    """Some streams now, the others later; together one reading of each per row."""
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, HAZARD, policy=budget, threads=1)
    for readings in data:
        for some in (np.arange(1), np.arange(1, n)):
            choice = fleet.choose(streams=some)
            fleet.update(readings[some, choice], choice, streams=some)
    return fleet.spent


def batches(n: int, budget: mf.Budget, data: np.ndarray) -> float:
    """Detectors that only know the price of a batch of four rounds, as on a cluster."""
    shared = group(budget, n)
    streams = [mf.Detector(GAUSSIAN, FIDELITIES, HAZARD, policy=mf.Always(), seed=i) for i in range(n)]
    for start in range(0, len(data), 4):
        price, spent, readings = mf.Net(shared.effective_price).bind(FIDELITIES), 0.0, 0
        for row in data[start : start + 4]:
            for i, detector in enumerate(streams):
                choice = price.choose(detector._filter, i)
                spent += detector.update(float(row[i, choice]), FIDELITIES[choice]).cost
                readings += 1
        shared.record(spent, readings)
    return sum(detector.spent for detector in streams)


WAYS_TO_SPEND: dict[str, Callable[[int, mf.Budget, np.ndarray], float]] = {
    "whole": whole,
    "one by one": one_by_one,
    "unequal parts": unequal_parts,
    "batches": batches,
}


BUDGETS: dict[str, Callable[[int], mf.Budget]] = {
    "per_tick": lambda n: mf.Budget(8.0 * n),
    "share": lambda n: mf.Budget(share=0.25),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS_TO_SPEND)
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_the_same_configuration_spends_the_same_total_everywhere(
    how: str, budget: Callable[[int], mf.Budget]
) -> None:
    n, rounds = 5, 3000
    wanted = group(budget(n), n).target
    spent = WAYS_TO_SPEND[how](n, budget(n), tables(n, rounds))
    assert spent / rounds == pytest.approx(wanted, rel=0.02)


def test_several_fleets_share_one_budget() -> None:
    """The caller sets the number of streams; the spend of each fleet counts for all."""
    shared = group(mf.Budget(50.0), 5)
    left, right = (mf.Fleet(n, GAUSSIAN, FIDELITIES, HAZARD, policy=shared, threads=1, names=names) for n, names in
                   ((2, ["a", "b"]), (3, ["c", "d", "e"])))  # fmt: skip
    alone = plain(mf.Budget(50.0), 5)
    for readings in tables(5, 50):
        paid = 0.0
        for fleet, part in ((left, slice(0, 2)), (right, slice(2, 5))):
            choice = fleet.choose()
            decision = fleet.decide()
            assert decision.price is not None
            assert set(decision.price.tolist()) == {alone.price}
            assert set(decision.limit.tolist()) == {alone.limit}
            nets = decision.gains - alone.effective_price * np.array([1.0, 40.0])
            assert choice.tolist() == decision.choice.tolist() == nets.argmax(axis=1).tolist()
            paid += float(fleet.update(readings[part][np.arange(len(fleet)), choice], choice).cost.sum())
        alone.record_cost((paid,))
        assert price_state(shared) == alone.state()
    left.add("f")
    assert shared.streams == 5


def test_a_stream_that_comes_or_goes_changes_the_round() -> None:
    fleet = mf.Fleet(2, GAUSSIAN, FIDELITIES, HAZARD, policy=mf.Budget(share=0.5))
    assert fleet.policy.target == 2 * 20.5
    fleet.add("c")
    assert fleet.policy.target == 3 * 20.5
    fleet.update([0.1, 0.2, 0.3], "low")
    assert fleet.policy.ticks == 1
    fleet.remove(["0", "1"])
    assert (fleet.policy.target, len(fleet)) == (20.5, 1)
    fleet.update([0.1], "low")
    assert fleet.policy.ticks == 2
    fleet.remove("c")
    assert len(fleet) == 0
    fixed = mf.Fleet(2, GAUSSIAN, FIDELITIES, HAZARD, policy=mf.Budget(2.5))
    with pytest.raises(ValueError, match=r"Budget\.per_tick must be at least 3"):
        fixed.add("c")
    assert fixed.names == ["0", "1"]
    assert fixed.policy.target == 2.5

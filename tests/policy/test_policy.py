"""Rules, prices and budgets: which fidelity is read, and the total cost."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mfbocd as mf
from mfbocd.belief.gains import GAINS, Gain, expected_gains
from mfbocd.policy import POLICIES as KINDS
from mfbocd.policy import draw_uniform
from mfbocd.policy.base import largest_net
from mfbocd.policy.rules import rates

from ..registry import ALL, INTEGRATED, Case

SKIP = mf.Fidelity("skip", 0.0, 0.0)
LOW = mf.Fidelity("low", 0.1, 1.0)
MID = mf.Fidelity("mid", 0.4, 7.0)
HIGH = mf.Fidelity("high", 1.0, 40.0)
FIDELITIES = [LOW, HIGH]
GAUSSIAN = mf.Gaussian(0.0, 9.0, 1.0)

POLICIES: dict[str, Callable[[], mf.Policy]] = {
    "always": lambda: mf.Always("low"),
    "random": lambda: mf.Random({"low": 0.3, "high": 0.7}),
    "rate": lambda: mf.InformationRate({"high": 6.7}),
    "margin": lambda: mf.Margin(0.02),
    "net": lambda: mf.Net(0.003),
    "soft-rate": lambda: mf.Soft(0.01, weights=[1.0, 6.7]),
    "soft-net": lambda: mf.Soft(0.02, price=0.003, gain="joint"),
    "budget": lambda: mf.Budget(8.0),
    "budget-share": lambda: mf.Budget(share=0.3, gain="variance"),
    "budget-run-length": lambda: mf.Budget(8.0, gain="run_length"),
    "budget-cap": lambda: mf.Budget(8.0, cap=(90.0, 7)),
}


def picked(policy: mf.Policy, gains, fidelities=None, costs=None, draws=None) -> list[int]:  # type: ignore[no-untyped-def]
    """Return the choices of a policy for gains (n, J), by default at the costs of the fidelities."""
    table = np.atleast_2d(np.asarray(gains, dtype=float))
    if fidelities is None:
        fidelities = [mf.Fidelity(f"f{j}", 0.5, 1.0) for j in range(table.shape[1])]
    bound = policy.bind(fidelities)
    paid = np.broadcast_to(bound.cost if costs is None else np.asarray(costs, dtype=float), table.shape)
    return bound.pick(table, paid, np.zeros(len(table)) if draws is None else np.asarray(draws)).tolist()


def gaussian_table(fidelities=FIDELITIES, ticks: int = 400, seed: int = 0, hazard: float = 1 / 40) -> np.ndarray:  # type: ignore[no-untyped-def]
    return mf.simulate.gaussian(GAUSSIAN, fidelities, hazard, ticks=ticks, seed=seed).table


def detector_of(policy: mf.Policy | None, fidelities=FIDELITIES, **options) -> mf.Detector:  # type: ignore[no-untyped-def]
    return mf.Detector(GAUSSIAN, fidelities, 1 / 40, policy=policy, **options)


# --- choices for given gains -------------------------------------------------------------------------------------


def test_one_fidelity_leaves_no_choice() -> None:
    rules = [
        mf.InformationRate(),
        mf.Margin(0.1),
        mf.Net(3.0),
        mf.Soft(1.0),
        mf.Budget(1.0),
        mf.Always(),
        mf.Random(),
    ]
    for policy in rules:
        assert picked(policy, [[0.0], [5.0], [-1.0]], draws=[0.0, 0.5, 0.999]) == [0, 0, 0]


def test_information_rate() -> None:
    assert picked(mf.InformationRate(), [0.1, 0.5], costs=[1.0, 4.0]) == [1]  # .1 against .125
    assert picked(mf.InformationRate(), [0.1, 0.5], costs=[1.0, 6.0]) == [0]
    assert picked(mf.InformationRate(), [0.1, 0.5, 0.9], costs=[1.0, 4.0, 7.0]) == [2]  # .1, .125, .1286
    assert picked(mf.InformationRate(), [0.2, 0.4], costs=[1.0, 2.0]) == [0]  # of equal ones the first
    assert picked(mf.InformationRate(), [[0.1, 0.5], [0.2, 0.5]], costs=[1.0, 4.0]) == [1, 0]


def test_a_skip_has_rate_zero_and_is_chosen_only_if_every_gain_is_zero() -> None:
    fidelities = [SKIP, LOW, HIGH]
    assert rates(np.array([[0.0, 0.1, 0.5]]), np.array([0.0, 1.0, 40.0]), np.ones(3)).tolist() == [[0.0, 0.1, 0.0125]]
    assert picked(mf.InformationRate(), [[0.0, 0.1, 0.5], [0.0, 0.0, 0.0]], fidelities) == [1, 0]
    assert picked(mf.InformationRate([9.0, 1.0, 1.0]), [0.0, 1e-9, 0.0], fidelities) == [1]
    assert picked(mf.Net(0.01), [[0.0, 0.02, 0.3], [0.0, 0.009, 0.3], [0.0, 0.0, 0.5]], fidelities) == [1, 0, 2]
    assert picked(mf.Margin(0.05), [[0.0, 0.1, 0.12], [0.0, 0.01, 0.04], [0.0, 0.1, 0.5]], fidelities) == [1, 0, 2]


def test_weights_by_order_and_by_name() -> None:
    fidelities = [LOW, MID, HIGH]
    gains = [0.1, 0.5, 0.9]
    assert picked(mf.InformationRate(), gains, fidelities) == [0]
    assert picked(mf.InformationRate([1.0, 2.0, 1.0]), gains, fidelities) == [1]
    assert picked(mf.InformationRate((1.0, 2.0, 10.0)), gains, fidelities) == [2]
    assert picked(mf.InformationRate({"high": 10.0}), gains, fidelities) == [2]  # those not named have weight 1
    assert picked(mf.InformationRate({"mid": 2, "low": 0}), gains, fidelities) == [1]
    assert picked(mf.InformationRate(np.array([0, 0, 1])), gains, fidelities) == [2]
    assert picked(mf.Soft(1e-9, weights={"mid": 2.0}), gains, fidelities) == [1]


def test_margin_is_the_papers_formula() -> None:
    rng = np.random.default_rng(0)
    gains, deltas = rng.exponential(0.1, (500, 2)), rng.exponential(0.1, 500)
    for (low, high), delta in zip(gains.tolist(), deltas.tolist(), strict=True):
        expected = 0 if abs(low - high) < delta else 1
        assert picked(mf.Margin(delta), [low, high], FIDELITIES) == [expected]
        assert picked(mf.Margin(delta), [high, low], [HIGH, LOW]) == [1 - expected]  # whatever their order
    assert picked(mf.Margin(0.0), [[0.2, 0.2], [0.5, 0.1]], FIDELITIES) == [1, 1]


def test_margin_of_three() -> None:
    """The cheapest of those whose gain is close to that of the most expensive; a gain far above it is not close."""
    fidelities = [LOW, MID, HIGH]
    assert picked(mf.Margin(0.1), [[0.0, 0.45, 0.5], [0.45, 0.0, 0.5], [0.9, 0.1, 0.5]], fidelities) == [1, 0, 2]


def test_net() -> None:
    fidelities = [LOW, MID, HIGH]
    gains = [[0.02, 0.1, 0.45], [0.02, 0.1, 0.3], [0.1, 0.1, 0.3], [0.3, 0.2, 0.1]]
    assert picked(mf.Net(0.01), gains, fidelities) == [2, 1, 0, 0]
    assert picked(mf.Net(0.0), gains, fidelities) == [2, 2, 2, 0]  # free: the largest gain
    assert picked(mf.Net(1e9), gains, fidelities) == [0, 0, 0, 0]  # too expensive: the cheapest
    assert picked(mf.Net(1e9), gains, [HIGH, MID, LOW]) == [2, 2, 2, 2]
    assert picked(mf.Net(0.0), [0.1, 0.3, 0.3], fidelities) == [1]  # of equal ones the first


@given(
    gains=st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=5),
    price=st.floats(0.0, 0.1),
)
def test_net_and_rate_pick_a_largest_score(gains: list[list[float]], price: float) -> None:
    fidelities = [LOW, MID, HIGH]
    cost = np.array([1.0, 7.0, 40.0])
    table = np.array(gains)
    for policy, score in (
        (mf.Net(price), table - price * cost),
        (mf.InformationRate([1, 2, 3]), table * [1, 2, 3] / cost),
    ):
        rows = np.arange(len(table))
        np.testing.assert_array_equal(score[rows, picked(policy, table, fidelities)], score.max(axis=1))


# --- soft -------------------------------------------------------------------------------------------------------


def test_soft_tends_to_the_argmax_and_to_equal_probabilities() -> None:
    fidelities = [LOW, MID, HIGH]
    gains = np.tile([0.02, 0.1, 0.45], (3000, 1))
    draws = draw_uniform(range(3000), 0)
    for cold in (1e-4, 1e-12, 1e-300, 5e-324):
        assert set(picked(mf.Soft(cold, price=0.01), gains, fidelities, draws=draws)) == {2}
        assert set(picked(mf.Soft(cold), gains, fidelities, draws=draws)) == {0}
    assert picked(mf.Soft(1e-300, price=0.0), [[0.1, 0.1, 0.0]] * 2, fidelities, draws=[0.2, 0.7]) == [
        0,
        1,
    ]  # ties have equal probabilities
    for policy in (mf.Soft(1e12), mf.Soft(1e300, price=0.01)):
        hot = np.bincount(picked(policy, gains, fidelities, draws=draws), minlength=3)
        assert stats.chisquare(hot).pvalue > 1e-3


@pytest.mark.parametrize(
    ("policy", "score"),
    [
        (mf.Soft(0.05), [0.02 / 1, 0.1 / 7, 0.45 / 40]),
        (mf.Soft(0.01, weights=[1.0, 1.0, 3.0]), [0.02 / 1, 0.1 / 7, 3 * 0.45 / 40]),
        (mf.Soft(0.03, price=0.01), [0.02 - 0.01, 0.1 - 0.07, 0.45 - 0.4]),
    ],
    ids=["rate", "weighted", "net"],
)
def test_soft_samples_in_proportion(policy: mf.Soft, score: list[float]) -> None:
    n = 20_000
    draws = draw_uniform([7], 0) if n == 1 else np.array([draw_uniform([7], tick)[0] for tick in range(n)])
    counts = np.bincount(
        picked(policy, np.tile([0.02, 0.1, 0.45], (n, 1)), [LOW, MID, HIGH], draws=draws), minlength=3
    )
    share = np.exp(np.array(score) / policy.temperature)
    assert stats.chisquare(counts, n * share / share.sum()).pvalue > 1e-3
    wrong = np.exp(np.array(score) / (2 * policy.temperature))
    if policy.price is not None:  # and this sample would detect another temperature
        assert stats.chisquare(counts, n * wrong / wrong.sum()).pvalue < 1e-6


def test_soft_in_a_detector_draws_anew_by_tick_and_by_seed() -> None:
    def chosen(seed: int) -> list[str]:
        detector = detector_of(mf.Soft(1e9), seed=seed)
        return [str(detector.update(0.1, detector.choose()).fidelity) for _ in range(60)]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    assert 15 < chosen(1).count("low") < 45


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.InformationRate([1.0]), "InformationRate.weights must be 2 numbers, one per fidelity, not [1.0]"),
        (lambda: mf.InformationRate({"gps": 1.0}), "InformationRate.weights names 'gps', which is none of low, high"),
        (lambda: mf.InformationRate([1.0, -2.0]), "InformationRate.weights must be at least 0, not [1.0, -2.0]"),
        (lambda: mf.InformationRate([1.0, math.nan]), "InformationRate.weights must be finite, not nan"),
        (lambda: mf.InformationRate([1.0, "x"]), "InformationRate.weights must be a number, not 'x'"),
        (lambda: mf.InformationRate([1.0, True]), "InformationRate.weights must be a number, not True"),
        (lambda: mf.InformationRate({"low": None}), "InformationRate.weights must be a number, not None"),
        (lambda: mf.InformationRate(3.0), "InformationRate.weights must be numbers, one per fidelity, not 3.0"),
        (lambda: mf.InformationRate("ab"), "InformationRate.weights must be numbers, one per fidelity, not 'ab'"),
        (lambda: mf.Soft(1.0, weights=[1.0]), "Soft.weights must be 2 numbers"),
        (lambda: mf.Soft(0.0), "Soft.temperature must be positive, not 0"),
        (lambda: mf.Soft(math.inf), "Soft.temperature must be finite, not inf"),
        (lambda: mf.Soft("hot"), "Soft.temperature must be a number, not 'hot'"),
        (lambda: mf.Soft(1.0, price=-1.0), "Soft.price must be at least 0, not -1.0"),
        (lambda: mf.Soft(1.0, price=1.0, weights=[1, 1]), "Soft takes weights (of a rate) or a price"),
        (lambda: mf.Net(-0.1), "Net.price must be at least 0, not -0.1"),
        (lambda: mf.Net(math.nan), "Net.price must be finite, not nan"),
        (lambda: mf.Net(None), "Net.price must be a number, not None"),
        (lambda: mf.Margin(-1.0), "Margin.delta must be at least 0, not -1.0"),
        (lambda: mf.Margin("x"), "Margin.delta must be a number, not 'x'"),
        (lambda: mf.Random({"low": 0.5}), "Random.probabilities must be numbers of at least 0 that sum to 1"),
        (lambda: mf.Random([0.5, "x"]), "Random.probabilities must be a number, not 'x'"),
        (lambda: mf.Random(0.5), "Random.probabilities must be numbers, one per fidelity, not 0.5"),
        (lambda: mf.Budget(), "Budget takes exactly one of per_tick, share and reads"),
        (lambda: mf.Budget(3.0, share=0.5), "Budget takes exactly one of per_tick, share and reads"),
        (lambda: mf.Budget(0.0), "Budget.per_tick must be positive, not 0"),
        (lambda: mf.Budget(math.nan), "Budget.per_tick must be finite, not nan"),
        (lambda: mf.Budget("8"), "Budget.per_tick must be a number, not '8'"),
        (lambda: mf.Budget(0.5), "Budget.per_tick must be at least 1, what the cheapest fidelity costs, not 0.5"),
        (lambda: mf.Budget(share=0.0), "Budget.share must lie in (0, 1], not 0.0"),
        (lambda: mf.Budget(share=1.5), "Budget.share must lie in (0, 1], not 1.5"),
        (lambda: mf.Budget(8.0, cap=50), "Budget.cap must be (amount, ticks), not 50"),
        (lambda: mf.Budget(8.0, cap=(50, 5, 1)), "Budget.cap must be (amount, ticks), not (50, 5, 1)"),
        (lambda: mf.Budget(8.0, cap=(50, 0)), "Budget.cap[1] must be a whole number of at least 1, not 0"),
        (lambda: mf.Budget(8.0, cap=(50, 2.5)), "Budget.cap[1] must be a whole number of at least 1, not 2.5"),
        (lambda: mf.Budget(8.0, cap=(-50, 5)), "Budget.cap must be positive, not -50"),
        (lambda: mf.Budget(8.0, cap=("x", 5)), "Budget.cap must be a number, not 'x'"),
        (lambda: mf.Budget(8.0, cap=(4.0, 5)), "Budget.cap must allow 5 ticks of the cheapest fidelity, 5, not 4"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        detector_of(make())
    assert message in str(error.value)


def test_a_share_needs_costs_that_are_numbers() -> None:
    fidelities = [LOW, mf.Fidelity("high", 1.0, lambda raw: 40.0)]
    with pytest.raises(ValueError, match=r"Budget.share needs costs that are numbers; give per_tick"):
        detector_of(mf.Budget(share=0.3), fidelities)
    assert detector_of(mf.Budget(3.0), fidelities).policy.price > 0.0


def test_a_policy_is_not_bound_in_place() -> None:
    """One object given to two detectors: neither learns from the other, nor is the object itself changed."""
    given = mf.Budget(8.0, cap=(90.0, 7))
    one, two = detector_of(given), detector_of(given, [LOW, MID, HIGH])
    fresh = two.to_bytes()
    mf.run(one, gaussian_table(ticks=50))
    assert two.to_bytes() == fresh
    assert given.state() == mf.Budget(8.0, cap=(90.0, 7)).state()
    assert one.policy.state() != given.state()


# --- every policy -----------------------------------------------------------------------------------------------


def test_every_policy_is_tested() -> None:
    assert {type(make()).__name__ for make in POLICIES.values()} == set(KINDS)


def stepwise(detector: mf.Detector, table: np.ndarray, first: int = 0) -> list[mf.Step]:
    """Feed the rows of a table through choose and update, at the chosen fidelity."""
    names = [f.name for f in detector.fidelities]
    steps = []
    for row in table[first:]:
        f = detector.choose()
        steps.append(detector.update(float(row[names.index(f.name)]), f))
    return steps


@pytest.mark.parametrize("name", POLICIES)
def test_choose_is_idempotent_and_pure(name: str) -> None:
    detector, quiet = (detector_of(POLICIES[name](), seed=4) for _ in range(2))
    for row in gaussian_table(ticks=60, seed=1):
        before, before_state = detector.to_bytes(), copy.deepcopy(detector.policy.state())
        first = detector.choose()
        assert all(detector.choose() is first for _ in range(3))
        detector.gains()
        assert detector.to_bytes() == before
        assert detector.policy.state() == before_state
        x = float(row[FIDELITIES.index(first)])
        # a copy that is only updated, and never asked to choose, ends in the same state
        assert detector.update(x, first) == quiet.update(x, first.name)
    assert detector.to_bytes() == quiet.to_bytes()


@pytest.mark.parametrize("name", POLICIES)
def test_a_replay_repeats_every_choice(name: str) -> None:
    table = gaussian_table(ticks=150, seed=2)
    one, two, whole = (detector_of(POLICIES[name](), seed=9) for _ in range(3))
    steps = stepwise(one, table)
    assert stepwise(two, table) == steps
    trace = mf.run(whole, table)
    assert [FIDELITIES[j].name for j in trace.choice] == [s.fidelity for s in steps]
    assert whole.to_bytes() == one.to_bytes()
    if name != "always":
        assert len({s.fidelity for s in steps}) == 2


@pytest.mark.parametrize("name", POLICIES)
def test_saving_midway_changes_no_later_choice_or_bit(name: str) -> None:
    """Saved before a choice, and between a choice and its update."""
    table = gaussian_table(ticks=120, seed=3)
    detector = detector_of(POLICIES[name](), seed=5)
    stepwise(detector, table[:50])
    before = mf.Detector.from_bytes(detector.to_bytes())
    asked = detector.choose()
    between = mf.Detector.from_bytes(detector.to_bytes())
    assert between.choose() == asked
    steps = stepwise(detector, table, 50)
    for twin in (before, between):
        assert repr(twin.policy) == repr(detector.policy)
        assert stepwise(twin, table, 50) == steps
        assert twin.to_bytes() == detector.to_bytes()
    assert repr(detector.policy) == repr(POLICIES[name]())


@pytest.mark.parametrize(
    "numbers", [[1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1.0, 2.0], dtype=np.float32)], ids=repr
)
def test_weights_of_any_kind_of_number_can_be_saved(numbers) -> None:  # type: ignore[no-untyped-def]
    for weights in (numbers, dict(zip(["low", "high"], numbers, strict=True))):
        for policy in (mf.InformationRate(weights), mf.Soft(0.1, weights=weights)):
            detector = detector_of(policy)
            assert repr(mf.Detector.from_bytes(detector.to_bytes()).policy) == repr(detector.policy)
    halves = {"low": np.float32(0.5), "high": np.float32(0.5)}
    detector = detector_of(mf.Random(halves))
    assert repr(mf.Detector.from_bytes(detector.to_bytes()).policy) == "Random({'low': 0.5, 'high': 0.5})"


def test_a_failed_update_does_not_change_a_budget() -> None:
    detector = detector_of(mf.Budget(8.0, cap=(90.0, 7)))
    stepwise(detector, gaussian_table(ticks=20))
    before = detector.to_bytes()
    for x, name in ((math.nan, "low"), (1.0, "sonar"), ("x", "low")):
        with pytest.raises((TypeError, ValueError)):
            detector.update(x, name)
    with pytest.raises(ValueError, match="row 5, column"):
        mf.run(detector, np.vstack([gaussian_table(ticks=5), [[math.inf, math.inf]]]))
    assert detector.to_bytes() == before


# --- the budget -------------------------------------------------------------------------------------------------

BITS = mf.Bernoulli(1.0, 1.0)
SETTINGS = {
    "gaussian-.1": (GAUSSIAN, [LOW, HIGH], 8.0),
    "gaussian-.1-tight": (GAUSSIAN, [LOW, HIGH], 2.5),
    "gaussian-.1-rich": (GAUSSIAN, [LOW, HIGH], 30.0),
    "gaussian-.5": (mf.Gaussian(1, 3, 1), [mf.Fidelity("low", 0.5, 1), mf.Fidelity("high", 1, 2)], 1.35),
    "bernoulli": (BITS, [mf.Fidelity("low", 0.49, 1), mf.Fidelity("high", 1, 10)], 4.0),
    "bernoulli-paper": (
        mf.Bernoulli(0.1, 0.1, predictive="paper"),
        [mf.Fidelity("low", 0.5, 1), mf.Fidelity("high", 1, 2)],
        1.35,
    ),
    "skip": (GAUSSIAN, [SKIP, LOW, HIGH], 5.0),
    "skip-or-read": (GAUSSIAN, [SKIP, mf.Fidelity("full", 1.0, 1.0)], 0.3),
    "three": (GAUSSIAN, [LOW, MID, HIGH], 8.0),
    "most-expensive-first": (GAUSSIAN, [HIGH, MID, LOW], 8.0),
    "other-units": (
        mf.Gaussian(1e6, 9e-12, 1e-12),
        [mf.Fidelity("low", 0.1, 1e-3), mf.Fidelity("high", 1, 4e-2)],
        8e-3,
    ),
}


def test_with_a_skip_a_run_length_gain_of_zero_does_not_stop_a_budget() -> None:
    """All hypotheses are equal until something is read: I(r; x) = 0. A budget buys the first reading nevertheless."""
    ways = [SKIP, LOW, HIGH]
    detector = detector_of(mf.Net(1e-6, gain="run_length"), ways, missing="skip")
    assert mf.run(detector, gaussian_table(ways, 60)).choice.tolist() == [0] * 60
    for gain in GAINS:
        detector = detector_of(mf.Budget(share=0.1, gain=gain), ways, missing="skip")
        single = mf.run(detector, gaussian_table(ways, 600))
        assert single.choice[0] == 2
        assert 2.0 < single.cost.mean() < 4.4
        fleet = mf.Fleet(2, GAUSSIAN, ways, 1 / 40, policy=mf.Budget(share=0.1, gain=gain), share_policy=False)
        assert fleet.choose().tolist() == [2, 2]
        assert mf.Fleet(2, GAUSSIAN, ways, 1 / 40, policy=mf.Budget(share=0.5, gain=gain)).choose().tolist() == [2, 2]


def drawn(model, fidelities, hazard: float, ticks: int, seed: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    if isinstance(model, mf.Bernoulli):
        return mf.simulate.bernoulli(model, fidelities, hazard, ticks=ticks, seed=seed).table
    return mf.simulate.gaussian(model, fidelities, hazard, ticks=ticks, seed=seed).table


@pytest.mark.parametrize(
    ("setting", "gain"),
    [(s, g) for s in SETTINGS for g in GAINS],
)
@pytest.mark.slow
def test_the_average_spend_meets_the_budget_from_a_cold_start(setting: str, gain) -> None:  # type: ignore[no-untyped-def]
    model, fidelities, per_tick = SETTINGS[setting]
    seed = GAINS.index(gain)
    detector = mf.Detector(model, fidelities, 1 / 100, policy=mf.Budget(per_tick, gain=gain), missing="skip")
    trace = mf.run(detector, drawn(model, fidelities, 1 / 100, 5000, seed))
    assert trace.cost.mean() == pytest.approx(per_tick, rel=0.02)
    assert detector.spent == pytest.approx(trace.cost.sum())
    assert len(set(trace.choice.tolist())) > 1
    assert 0.0 < detector.policy.price < math.inf


@pytest.mark.parametrize("setting", ["gaussian-.1", "gaussian-.5", "bernoulli", "skip", "three"])
def test_the_budget_is_met_on_a_stream_that_contradicts_the_model(setting: str) -> None:
    """Changes five times rarer, then eight times more frequent than by the hazard; and noise that grows."""
    model, fidelities, per_tick = SETTINGS[setting]
    halves = [drawn(model, fidelities, hazard, 2500, 3) for hazard in (1 / 500, 1 / 12)]
    if isinstance(model, mf.Gaussian):
        halves[1] = halves[1] + np.random.default_rng(4).normal(0.0, 2.0, halves[1].shape)
    detector = mf.Detector(model, fidelities, 1 / 100, policy=mf.Budget(per_tick), missing="skip")
    trace = mf.run(detector, np.concatenate(halves))
    assert trace.cost.mean() == pytest.approx(per_tick, rel=0.02)
    assert trace.cost[2500:].mean() == pytest.approx(per_tick, rel=0.05)


def test_a_share_lies_between_the_cheapest_and_the_most_expensive() -> None:
    detector = mf.Detector(GAUSSIAN, FIDELITIES, 1 / 100, policy=mf.Budget(share=0.2))
    trace = mf.run(detector, drawn(GAUSSIAN, FIDELITIES, 1 / 100, 5000, 0))
    assert trace.cost.mean() == pytest.approx(1 + 0.2 * 39, rel=0.02)
    default = mf.Detector(GAUSSIAN, FIDELITIES, 1 / 100)
    trace = mf.run(default, drawn(GAUSSIAN, FIDELITIES, 1 / 100, 5000, 0))
    assert trace.cost.mean() == pytest.approx(1 + 0.35 * 39, rel=0.02)


def test_a_budget_buys_readings_where_their_gain_is_largest() -> None:
    """Right after a change the expensive fidelity is read far more often than long after it."""
    fidelities, hazard = FIDELITIES, 1 / 100
    stream = mf.simulate.gaussian(GAUSSIAN, fidelities, hazard, ticks=5000, seed=6)
    trace = mf.run(mf.Detector(GAUSSIAN, fidelities, hazard, policy=mf.Budget(8.0)), stream.table)
    since = np.arange(5000) - np.maximum.accumulate(
        np.where(np.isin(np.arange(5000), stream.changes), np.arange(5000), 0)
    )
    soon, late = trace.choice[(since > 1) & (since <= 8)], trace.choice[since > 60]
    assert soon.mean() > 1.8 * late.mean()


def test_a_learned_price_is_the_price_of_net() -> None:
    """Between two ticks a Budget picks what Net picks at its price."""
    table = gaussian_table(ticks=300, seed=8)
    detector = detector_of(mf.Budget(8.0))
    prices = []
    for row in table:
        gains = expected_gains(detector._filter, np.array([0.1, 1.0]), "joint")
        chosen = detector.choose()
        assert FIDELITIES.index(chosen) == picked(mf.Net(detector.policy.effective_price), gains, FIDELITIES)[0]
        prices.append(detector.policy.price)
        detector.update(float(row[FIDELITIES.index(chosen)]), chosen)
    assert len(set(prices)) > 250  # it is learned


@pytest.mark.parametrize(("read", "direction"), [("high", 1), ("low", -1)])
def test_the_price_stays_finite_and_positive_and_recovers(read: str, direction: int) -> None:
    """Reading one fidelity forever, against every choice of the policy, breaks nothing."""
    policy = mf.Budget(8.0).bind(FIDELITIES)
    policy.initialize(detector_of(mf.Always())._filter)
    first = policy.price
    cost = np.array([40.0 if read == "high" else 1.0])
    for _ in range(60_000):
        policy.record_cost(cost)
    assert 0.0 < policy.price < math.inf
    assert (policy.price - first) * direction > 0
    extreme = policy.pick(np.array([[0.0, 5.0]]), np.array([[1.0, 40.0]]), np.zeros(1))
    assert extreme.tolist() == [0 if read == "high" else 1]
    detector = detector_of(mf.Budget(8.0))
    for row in gaussian_table(ticks=150, seed=4):
        detector.update(float(row[["low", "high"].index(read)]), read)
    trace = mf.run(detector, gaussian_table(ticks=4000, seed=5))
    assert trace.cost[1500:].mean() == pytest.approx(8.0, rel=0.1)


def test_a_budget_between_equal_costs_buys_the_better_fidelity() -> None:
    equal = [mf.Fidelity("a", 0.3, 2.0), mf.Fidelity("b", 1.0, 2.0)]
    assert mf.run(detector_of(mf.Budget(2.0), equal), gaussian_table(equal, 20)).choice.tolist() == [1] * 20


# --- the cap ----------------------------------------------------------------------------------------------------


def worst_window(cost: np.ndarray, ticks: int) -> float:
    """Return the largest cost of a window of so many ticks, including the shorter ones at the start."""
    total = np.concatenate([np.zeros(ticks), np.cumsum(cost)])
    return float((total[ticks:] - total[:-ticks]).max())


def test_worst_window() -> None:
    assert worst_window(np.array([5.0, 1.0, 1.0, 4.0, 2.0]), 2) == 6.0
    assert worst_window(np.array([5.0, 1.0]), 10) == 6.0


@pytest.mark.filterwarnings("ignore:Budget.cap")
@pytest.mark.parametrize(
    ("fidelities", "cap"),
    [
        (FIDELITIES, (90.0, 7)),
        (FIDELITIES, (46.0, 7)),  # exactly one expensive reading and six cheap ones
        (FIDELITIES, (7.0, 7)),  # only cheap ones
        (FIDELITIES, (41.0, 1)),
        (FIDELITIES, (39.0, 1)),
        (
            [mf.Fidelity("high", 1.0, 20.0), LOW],
            (45.0, 10),
        ),  # two expensive ones leave too little for eight cheap ones
        ([HIGH, MID, LOW], (100.0, 10)),
        ([SKIP, LOW, HIGH], (41.0, 25)),
        (
            [mf.Fidelity("low", 0.1, 0.1), mf.Fidelity("high", 1.0, 0.7)],
            (2.3, 10),
        ),  # costs that are not exact in binary
        ([mf.Fidelity("low", 0.1, 0.1), mf.Fidelity("high", 1.0, 0.7)], (1.0, 10)),
    ],
)
def test_no_window_costs_more_than_the_cap(fidelities, cap) -> None:  # type: ignore[no-untyped-def]
    detector = detector_of(mf.Budget(share=0.9, cap=cap), fidelities, missing="skip")
    trace = mf.run(detector, gaussian_table(fidelities, 2000, seed=11))
    assert worst_window(trace.cost, cap[1]) <= cap[0] * (1 + 1e-12)
    largest = max(f.cost for f in fidelities)
    if largest <= cap[0] - (cap[1] - 1) * min(f.cost for f in fidelities):
        # the cap is used: the most expensive window has no money left for another expensive reading
        assert worst_window(trace.cost, cap[1]) > cap[0] - largest
        assert trace.cost.max() > min(f.cost for f in fidelities)


def test_a_cap_that_never_binds_changes_nothing() -> None:
    table = gaussian_table(ticks=1000, seed=2)
    free, capped = (mf.run(detector_of(mf.Budget(8.0, cap=cap)), table) for cap in (None, (4000.0, 100)))
    np.testing.assert_array_equal(free.choice, capped.choice)


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_a_cap_with_cost_functions() -> None:
    """With a fidelity of fixed cost as a fallback no window overspends, whatever the functions return."""
    rng = np.random.default_rng(0)
    raws = rng.choice([3.0, 11.0, 60.0], 1500).tolist()
    cases = {
        "with a fixed one": [LOW, mf.Fidelity("high", 1.0, float)],
        "function first": [mf.Fidelity("high", 1.0, float), LOW],
        "sometimes cheaper": [mf.Fidelity("mid", 0.5, lambda raw: raw / 6), mf.Fidelity("low", 0.1, 2.0), HIGH],
        "with a skip": [mf.Fidelity("low", 0.1, lambda raw: raw / 5), mf.Fidelity("high", 1.0, float), SKIP],
    }
    for name, fidelities in cases.items():
        detector = detector_of(mf.Budget(12.0, cap=(70.0, 6)), fidelities, missing="skip")
        trace = mf.run(detector, gaussian_table(fidelities, 1500, seed=1), raws=raws)
        assert worst_window(trace.cost, 6) <= 70.0, name
        assert worst_window(trace.cost, 6) > 50.0, name
        expected = [fidelities[j].cost_of(raw) for j, raw in zip(trace.choice.tolist(), raws, strict=True)]
        assert trace.cost.tolist() == expected


def test_an_exceeded_cap_is_restored_by_the_cheapest() -> None:
    """After forced expensive readings it chooses the cheapest until the window is within the cap again."""
    for fidelities in ([LOW, HIGH], [HIGH, LOW]):
        detector = detector_of(mf.Budget(8.0, cap=(60.0, 5)), fidelities)
        for _ in range(8):
            detector.update(0.1, "high")
        chosen = []
        for _ in range(6):
            chosen.append(detector.choose().name)
            detector.update(5.0, detector.choose())
        assert chosen[:4] == ["low"] * 4


@pytest.mark.filterwarnings("ignore:Budget.cap")
@pytest.mark.parametrize("order", [1, -1])
def test_a_cap_of_a_fleet_applies_to_all_streams_together(order: int) -> None:
    n, cap = 6, (200.0, 5)
    fidelities = [LOW, MID, HIGH][::order]
    fleet = mf.Fleet(n, GAUSSIAN, fidelities, 1 / 40, policy=mf.Budget(share=0.8, cap=cap), threads=1)
    tables = np.stack([gaussian_table(fidelities, 300, seed=i) for i in range(n)], axis=1)
    costs = []
    for rows in tables:
        choice = fleet.choose()
        step = fleet.update(rows[np.arange(n), choice], choice)
        costs.append(step.cost.sum())
    assert worst_window(np.array(costs), cap[1]) <= cap[0]
    assert worst_window(np.array(costs), cap[1]) > cap[0] - 40.0


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_the_rest_of_a_cap_goes_to_the_largest_gain() -> None:
    policy = mf.Budget(50.0, cap=(44.0, 1)).bind(FIDELITIES, 4)
    policy.log_price = math.log(1e-3)
    gains = np.array([[0.01, 0.3], [0.01, 0.9], [0.01, 0.5], [0.01, 0.02]])
    costs = np.tile([1.0, 40.0], (4, 1))
    assert policy.pick(gains, costs, np.zeros(4)).tolist() == [0, 1, 0, 0]
    three = mf.Budget(50.0, cap=(48.0, 1)).bind([LOW, MID, HIGH], 4)
    three.log_price = math.log(1e-3)
    gains = np.array([[0.0, 0.2, 0.3], [0.0, 0.2, 0.9], [0.0, 0.4, 0.6], [0.0, 0.0, 0.02]])
    # 43 pay for one expensive and three cheap; a middle one needs 7 - 1 more, and only 5 are left
    assert three.pick(gains, np.tile([1.0, 7.0, 40.0], (4, 1)), np.zeros(4)).tolist() == [0, 2, 0, 0]
    three.cap = (56.0, 1)
    assert three.pick(gains, np.tile([1.0, 7.0, 40.0], (4, 1)), np.zeros(4)).tolist() == [1, 2, 1, 0]


WEIGHING = {name: policy for name, policy in POLICIES.items() if policy().gain is not None}


@pytest.mark.parametrize("policy", WEIGHING.values(), ids=WEIGHING)
def test_the_pick_of_one_is_that_of_many(policy: Callable[[], mf.Policy]) -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=policy())
    bound = detector.policy
    rng = np.random.default_rng(3)
    seen = set()
    for tick in range(200):
        gains = rng.gamma(1.0, 0.05, size=2) * [0.3, 1.0]
        many = bound.pick(gains[None], bound.cost[None], draw_uniform([7], tick))
        assert bound.pick_one(gains.tolist(), 7, tick) == many[0]
        seen.add(int(many[0]))
    assert len(seen) > 1


def test_of_equal_net_gains_the_first_is_picked() -> None:
    assert largest_net([0.5, 0.5, 0.2], [2.0, 2.0, 0.0], 0.1) == 0


# --- a fleet ----------------------------------------------------------------------------------------------------


def fleet_run(fleet: mf.Fleet, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choices and costs (T, n) of tables (T, n, J)."""
    rows = np.arange(len(fleet))
    choices, costs = [], []
    for table in tables:
        choice = fleet.choose()
        step = fleet.update(table[rows, choice], choice)
        choices.append(choice)
        costs.append(step.cost)
    return np.array(choices), np.array(costs)


def test_a_fleet_has_one_price_and_meets_one_budget() -> None:
    """Ten streams that change often and ten that never do: together they spend the budget, the former more of it."""
    n, ticks = 20, 1500
    busy = [gaussian_table(ticks=ticks, seed=i, hazard=1 / 25) for i in range(n // 2)]
    quiet = [np.random.default_rng(i).normal(0.0, [math.sqrt(10), 1.0], (ticks, 2)) for i in range(n // 2)]
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, 1 / 40, policy=mf.Budget(8.0 * n), threads=2)
    choices, costs = fleet_run(fleet, np.stack(busy + quiet, axis=1))
    assert costs.sum(axis=1).mean() == pytest.approx(8.0 * n, rel=0.02)
    assert fleet.spent == pytest.approx(costs.sum())
    high = choices.mean(axis=0)
    assert high[: n // 2].min() > high[n // 2 :].max()
    assert high[: n // 2].mean() > 1.4 * high[n // 2 :].mean()
    assert costs[:, : n // 2].mean() > 9.0 > 7.0 > costs[:, n // 2 :].mean()  # not 8 each


def test_a_share_of_a_fleet_is_a_share_of_each_stream() -> None:
    n = 8
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, 1 / 40, policy=mf.Budget(share=0.25), threads=1)
    _, costs = fleet_run(fleet, np.stack([gaussian_table(ticks=1500, seed=i) for i in range(n)], axis=1))
    assert costs.mean() == pytest.approx(1 + 0.25 * 39, rel=0.02)
    with pytest.raises(ValueError, match=r"Budget\.per_tick must be at least 8, what the cheapest fidelity costs"):
        mf.Fleet(n, GAUSSIAN, FIDELITIES, policy=mf.Budget(7.9))


@pytest.mark.parametrize("name", POLICIES)
def test_a_fleets_choice_is_each_streams_pick(name: str) -> None:
    n = 5
    if name in ("budget-cap",):
        fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, 1 / 40, policy=mf.Budget(8.0 * n, cap=(1e6, 7)), seed=3, threads=1)
    else:
        policy = POLICIES[name]()
        if isinstance(policy, mf.Budget) and policy.per_tick is not None:
            policy = mf.Budget(8.0 * n, gain=policy.gain)
        fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, 1 / 40, policy=policy, seed=3, threads=1)
    tables = np.stack([gaussian_table(ticks=80, seed=i) for i in range(n)], axis=1)
    different = 0
    for table in tables:
        choice = fleet.choose()
        assert fleet.choose().tolist() == choice.tolist()
        single = [fleet.extract(i) for i in range(n)]
        # where the debt forbids readings, a fleet still buys some
        if getattr(single[0].policy, "limit", "") != "forbidden":
            assert choice.tolist() == [FIDELITIES.index(d.choose()) for d in single]
        if isinstance(fleet.policy, mf.Budget):
            assert {d.policy.price for d in single} == {fleet.policy.price}
        different += len(set(choice.tolist())) > 1
        fleet.update(table[np.arange(n), choice])
    assert different > 3 or name == "always"


@pytest.mark.parametrize("model", [GAUSSIAN, mf.Bernoulli(0.5, 0.5)], ids=repr)
def test_net_in_a_fleet_equals_detectors(model) -> None:  # type: ignore[no-untyped-def]
    n, ticks = 12, 150
    fidelities = [SKIP, LOW, HIGH]
    policy = mf.Net(0.004)
    fleet = mf.Fleet(n, model, fidelities, 1 / 40, policy=policy, missing="skip", threads=2)
    tables = np.stack([drawn(model, fidelities, 1 / 40, ticks, i) for i in range(n)], axis=1)
    choices, costs = fleet_run(fleet, tables)
    for i in range(n):
        alone = mf.Detector(model, fidelities, 1 / 40, policy=policy, seed=i, missing="skip")
        trace = mf.run(alone, tables[:, i])
        np.testing.assert_array_equal(choices[:, i], trace.choice)
        np.testing.assert_array_equal(costs[:, i], trace.cost)
        assert fleet.extract(i).to_bytes() == alone.to_bytes()
    assert len(set(choices.ravel().tolist())) > 1


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_a_fleet_uses_the_cost_of_each_raw_input() -> None:
    fidelities = [LOW, mf.Fidelity("high", 1.0, lambda raw: 10.0 * raw)]
    fleet = mf.Fleet(3, GAUSSIAN, fidelities, policy=mf.Net(0.02), threads=1)
    raws = [1.0, 50.0, 2.0]
    assert fleet.choose(raws).tolist() == [1, 0, 1]
    step = fleet.update([0.1, 0.2, 0.3], raws=raws)
    assert step.choice.tolist() == [1, 0, 1]
    assert step.cost.tolist() == [10.0, 1.0, 20.0]
    assert fleet.spent_by_stream.tolist() == [10.0, 1.0, 20.0]
    for bad in (None, [1.0]):
        with pytest.raises(ValueError, match="raws must hold 3 raw inputs"):
            fleet.choose(bad)
        with pytest.raises(ValueError, match="raws must hold 3 raw inputs"):
            fleet.update([0.1, 0.2, 0.3], raws=bad)
    assert set(fleet.ticks.tolist()) == {1}


def test_a_stream_extracted_from_a_fleet_keeps_its_part_of_the_budget() -> None:
    n = 6
    fleet = mf.Fleet(n, GAUSSIAN, FIDELITIES, 1 / 40, policy=mf.Budget(8.0 * n, cap=(150.0 * n, 7)), threads=1)
    fleet_run(fleet, np.stack([gaussian_table(ticks=200, seed=i) for i in range(n)], axis=1))
    one = fleet.extract(2)
    assert one.policy.price == fleet.policy.price
    assert mf.Detector.from_bytes(one.to_bytes()).policy.price == fleet.policy.price
    trace = mf.run(one, gaussian_table(ticks=5000, seed=50))
    assert trace.cost.mean() == pytest.approx(8.0, rel=0.02)
    assert worst_window(trace.cost, 7) <= 150.0


# --- cost functions -----------------------------------------------------------------------------------------------


def frame_cost(raw: float) -> float:
    return 4.0 * raw


FRAMES = [LOW, mf.Fidelity("network", 1.0, frame_cost)]


def test_choose_computes_the_cost_of_the_raw_input_and_update_pays_it() -> None:
    detector = detector_of(mf.Net(0.02), FRAMES)
    gains = {g.name: g.joint for g in detector.gains(1.0)}
    break_even = (gains["network"] - gains["low"]) / 0.02 + 1.0  # at this cost both are equally good
    assert detector.choose(0.99 * break_even / 4).name == "network"
    assert detector.choose(1.01 * break_even / 4).name == "low"
    step = detector.update(0.3, detector.choose(2.0), raw=2.0)
    assert (step.fidelity, step.cost, detector.spent) == ("network", 8.0, 8.0)
    assert detector.update(0.3, "low", raw=2.0).cost == 1.0
    assert detector.update(0.3, "network", raw=5.0).cost == 20.0
    assert detector.spent == 29.0


def test_run_uses_the_costs_of_the_raw_inputs() -> None:
    rng = np.random.default_rng(2)
    raws = rng.choice([1.0, 30.0], 200).tolist()
    table = gaussian_table(FRAMES, 200)
    detector, stepped = detector_of(mf.Net(0.003), FRAMES), detector_of(mf.Net(0.003), FRAMES)
    trace = mf.run(detector, table, raws=raws)
    for t, raw in enumerate(raws):
        f = stepped.choose(raw)
        assert FRAMES.index(f) == trace.choice[t]
        stepped.update(float(table[t, trace.choice[t]]), f, raw=raw)
    assert detector.to_bytes() == stepped.to_bytes()
    assert trace.cost.tolist() == [FRAMES[j].cost_of(raw) for j, raw in zip(trace.choice.tolist(), raws, strict=True)]
    cheap = np.array(raws) == 1.0
    assert trace.choice[cheap].mean() > trace.choice[~cheap].mean() + 0.3


def test_the_budget_is_met_with_cost_functions() -> None:
    raws = np.random.default_rng(3).uniform(1.0, 20.0, 5000).tolist()
    detector = mf.Detector(GAUSSIAN, FRAMES, 1 / 100, policy=mf.Budget(8.0))
    trace = mf.run(detector, drawn(GAUSSIAN, FRAMES, 1 / 100, 5000, 0), raws=raws)
    assert trace.cost.mean() == pytest.approx(8.0, rel=0.02)
    high = trace.choice == 1
    assert np.mean(np.array(raws)[high]) < 0.8 * np.mean(raws)  # it waits for cheap inputs


def test_saving_with_cost_functions() -> None:
    table, raws = gaussian_table(FRAMES, 80), np.random.default_rng(1).uniform(0.5, 9.0, 80).tolist()
    detector = detector_of(mf.Budget(8.0, cap=(60.0, 5)), FRAMES)
    mf.run(detector, table[:40], raws=raws[:40])
    with pytest.raises(ValueError, match="the cost of 'network' was a function, which cannot be saved: pass costs="):
        mf.Detector.from_bytes(detector.to_bytes())
    twin = mf.Detector.from_bytes(detector.to_bytes(), costs={"network": frame_cost})
    assert (
        mf.run(twin, table[40:], raws=raws[40:]).choice.tolist()
        == mf.run(detector, table[40:], raws=raws[40:]).choice.tolist()
    )
    assert twin.to_bytes() == detector.to_bytes()


@pytest.mark.parametrize("cost", [-1.0, 0.0, math.nan, "x"])
def test_a_cost_function_that_returns_no_cost_is_named_and_changes_nothing(cost) -> None:  # type: ignore[no-untyped-def]
    fidelities = [LOW, mf.Fidelity("network", 1.0, lambda raw: raw)]
    detector = detector_of(mf.Net(0.02), fidelities)
    detector.update(0.1, detector.choose(3.0), raw=3.0)
    before = detector.to_bytes()
    for call in (lambda: detector.choose(cost), lambda: detector.update(0.2, "network", raw=cost)):
        with pytest.raises((TypeError, ValueError), match=r"Fidelity\.cost must be"):
            call()
    assert detector.to_bytes() == before


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
@pytest.mark.slow
def test_every_model_works_with_a_budget(case: Case) -> None:
    """Each gain under a budget, alone and in a fleet: the same choices, at a finite price."""
    rng = np.random.default_rng(0)
    ticks = 3 if "family" in case.name else 5 if case.name in INTEGRATED else 20
    table = np.array([[case.draw(rng), case.draw(rng)] for _ in range(ticks)])
    for gain in GAINS:
        detector = mf.Detector(case.model(), FIDELITIES, 1 / 40, policy=mf.Budget(8.0, gain=gain))
        fleet = mf.Fleet(2, case.model(), FIDELITIES, 1 / 40, policy=mf.Budget(16.0, gain=gain), threads=1)
        assert fleet.policy.price == pytest.approx(detector.policy.price)
        for row in table:
            assert 0.0 < detector.policy.price < math.inf
            chosen = FIDELITIES.index(detector.choose())
            if detector.policy.limit == "forbidden":
                break  # the debt forbids readings: of a fleet, some are still bought
            assert fleet.choose().tolist() == [chosen, chosen]
            x = row[chosen] if np.ndim(row[chosen]) else float(row[chosen])
            step = detector.update(x)
            np.testing.assert_allclose(fleet.update([row[chosen]] * 2).mean, [step.mean] * 2, rtol=1e-9)


def test_young_streams_do_not_overspend() -> None:
    """After 200 ticks no stream has spent more than 110 % of its budget, or one reading if that is more."""
    rng = np.random.default_rng(0)
    gains: list[tuple[float, Gain]] = [(0.05, "change"), (0.2, "joint"), (0.5, "variance")]
    for share, gain in gains:
        n, ways = 40, [LOW, HIGH]
        fleet = mf.Fleet(n, GAUSSIAN, ways, 1 / 100, policy=mf.Budget(share=share, gain=gain), share_policy=False)
        level = np.zeros(n)
        target = 1.0 + share * 39.0
        for t in range(400):
            level = np.where(rng.random(n) < 0.02, rng.normal(0, 3, n), level)
            choice = fleet.choose()
            fleet.update(level + rng.normal(size=n) / np.sqrt(np.array([0.1, 1.0])[choice]), choice)
            if t + 1 in (200, 300, 400):
                most = max(1.1 * target * (t + 1), target * (t + 1) + 40.0)
                assert fleet._rows.spent[:n].max() <= most


def test_exactly_so_many_streams_are_read() -> None:
    rng = np.random.default_rng(0)
    ways = [SKIP, LOW, HIGH]
    fleet = mf.Fleet(10, GAUSSIAN, ways, 1 / 100, policy=mf.Budget(reads=3, gain="change"))
    followed = 0
    for t in range(80):
        choice = fleet.choose()
        assert np.bincount(choice, minlength=3).tolist() == [7, 0, 3]
        if t == 60:
            gains = fleet.gains("change")
            assert set(np.flatnonzero(choice == 2)) == set(np.argsort(gains[:, 2] - gains[:, 0])[-3:])
        step = fleet.update(rng.normal(5.0 * (t > 50) * (np.arange(10) == 4), 1.0), choice)
        followed += bool(step.alarm[4])
    assert followed == 1, "the stream that changes is read and its alarm fires"
    assert fleet.spent == 80 * 3 * 40.0
    again = mf.Fleet.from_bytes(fleet.to_bytes())
    assert again.choose().tolist() == fleet.choose().tolist()
    with pytest.raises(ValueError, match=r"Budget\.reads needs a reading of all 10 streams"):
        fleet.choose(streams=[1, 2])
    with pytest.raises(ValueError, match=r"Budget\.reads must be at most the number of streams, 1"):
        mf.Detector(GAUSSIAN, ways, policy=mf.Budget(reads=2))
    with pytest.raises(ValueError, match=r"Budget\.reads fixes the cost"):
        mf.Budget(reads=2, cap=(10, 10))


def test_without_evidence_every_stream_has_its_turn() -> None:
    fleet = mf.Fleet(6, GAUSSIAN, [SKIP, HIGH], 1 / 100, policy=mf.Budget(reads=2))
    seen: set[int] = set()
    for _ in range(8):
        choice = fleet.choose()
        seen |= set(np.flatnonzero(choice).tolist())
        fleet.update(np.zeros(6), choice)
    assert seen == set(range(6))

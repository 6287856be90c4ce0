"""What a budget promises: the average spend at any ratio of costs, and a cap that no window exceeds."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfbocd as mf
from mfbocd._kernels.price import HORIZON
from mfbocd.io.config import Config
from mfbocd.policy import SharedBudget
from mfbocd.policy.controller import Controller, Setting
from mfbocd.policy.own import OwnPolicies
from mfbocd.service import manage
from mfbocd.service.engine import Engine
from mfbocd.service.errors import RequestError
from mfbocd.service.store.sqlite import SqliteStore

GAUSSIAN = mf.Gaussian(0.0, 9.0, 1.0)
MODELS: dict[str, mf.Model] = {
    "gaussian": GAUSSIAN,
    "bernoulli": mf.Bernoulli(1.0, 1.0),
    "unknown": mf.GaussianUnknown(0.0, 0.2, 2.0, 2.0),
    "poisson": mf.Poisson(2.0, 0.5),
}
TICKS = 20_000


def fidelities_of(ratio: float, skip: bool = False, low: float = 0.1) -> list[mf.Fidelity]:
    first = mf.Fidelity("skip", 0.0, 0.0) if skip else mf.Fidelity("low", low, 1.0)
    return [first, mf.Fidelity("high", 1.0, ratio)]


def readings(model: str, fidelities: list[mf.Fidelity], hazard: float, ticks: int, seed: int) -> np.ndarray:
    """Return readings of each fidelity, with levels drawn from about the prior; NaN for a skip."""
    rng = np.random.default_rng(seed)
    regime = np.cumsum(rng.random(ticks) < hazard)
    zeta = np.array([f.zeta for f in fidelities])
    noise = np.where(zeta > 0.0, 1.0 / np.sqrt(np.where(zeta > 0.0, zeta, 1.0)), math.nan)
    if model == "bernoulli":
        truth = (rng.random(ticks) < rng.random(regime[-1] + 1)[regime])[:, None]
        flipped = rng.random((ticks, zeta.size)) < 0.5 * (1.0 - np.sqrt(zeta))
        return np.where(zeta > 0.0, (truth != flipped).astype(float), math.nan)
    if model == "poisson":
        counts = rng.poisson(rng.gamma(2.0, 2.0, regime[-1] + 1)[regime]).astype(float)
        return np.where(zeta > 0.0, counts[:, None], math.nan)
    level = rng.normal(0.0, 3.0, regime[-1] + 1)[regime]
    return level[:, None] + noise * rng.normal(size=(ticks, zeta.size))


def off(cost: np.ndarray, target: float, largest: float) -> float:
    """Return the error of the spend relative to the tolerance: 1 %, or one expensive reading if that is more."""
    return float(abs(cost.sum() - target * len(cost)) / max(0.01 * target * len(cost), largest))


# --- the average ------------------------------------------------------------------------------------------------

CASES = [
    # model, gain, ratio of the costs, skip, share, hazard the detector assumes, hazard of the stream
    ("gaussian", "joint", 1e1, False, 0.001, 1 / 50, 1 / 250),
    ("gaussian", "joint", 1e3, False, 0.5 / 999, 1 / 250, 1 / 250),  # 1.5 per tick
    ("gaussian", "joint", 1.0, True, 0.002, 1 / 100, 1 / 100),
    ("gaussian", "variance", 1e5, False, 0.003, 1 / 1000, 1 / 50),
    ("gaussian", "run_length", 1e4, False, 0.02, 1 / 250, 1 / 5000),
    ("gaussian", "run_length", 1e2, False, 0.35, 1 / 100, 1 / 1000),
    ("gaussian", "joint", 1e5, False, 1e-6, 1 / 100, 1 / 250),  # a fiftieth of a reading in total
    ("gaussian", "variance", 1e2, True, 0.999, 1 / 250, 1 / 250),
    ("bernoulli", "joint", 1e5, False, 0.0005, 1 / 250, 1 / 1000),
    ("bernoulli", "variance", 1e3, True, 0.01, 1 / 1000, 1 / 50),
    ("bernoulli", "run_length", 1e2, False, 0.9, 1 / 50, 1 / 250),
    ("unknown", "joint", 1e2, False, 0.004, 1 / 250, 1 / 250),
    ("unknown", "variance", 1e4, True, 0.1, 1 / 100, 1 / 1000),
    ("poisson", "variance", 1e1, True, 0.05, 1 / 100, 1 / 250),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "gain", "ratio", "skip", "share", "assumed", "true"), CASES)
def test_the_spend_is_within_a_percent_or_one_reading_of_the_budget(  # type: ignore[no-untyped-def]
    model: str, gain, ratio: float, skip: bool, share: float, assumed: float, true: float
) -> None:
    fidelities = fidelities_of(ratio, skip)
    least = fidelities[0].cost_of()
    target = least + share * (ratio - least)
    detector = mf.Detector(
        MODELS[model],
        fidelities,
        assumed,
        policy=mf.Budget(target, gain=gain),
        missing="skip",
        alarm=None,
        prune=mf.TopK(48),
    )
    trace = mf.run(detector, readings(model, fidelities, true, TICKS, 7))
    assert off(trace.cost, target, ratio) <= 1.0
    # savings and debts stay small: the gap between readings is at most a few affordable readings
    bought = np.flatnonzero(trace.choice == 1)
    if share * TICKS > 10.0:
        gaps = np.diff(np.concatenate([[-1], bought, [TICKS]]))
        assert gaps.max() <= 3.0 / share + 2.0 * HORIZON


def test_the_debt_of_a_long_burst_does_not_starve_the_next_regime() -> None:
    """Regimes that change at every tenth tick for 3000 ticks, then one change after a quiet time."""
    for ratio, share in ((40.0, 0.1), (1e3, 0.02), (1e5, 0.01)):
        fidelities = fidelities_of(ratio)
        wild = readings("gaussian", fidelities, 1 / 10, 3000, 1)
        quiet = readings("gaussian", fidelities, 0.0, 3000, 2)
        after = readings("gaussian", fidelities, 0.0, 3000, 3) + 8.0
        detector = mf.Detector(GAUSSIAN, fidelities, 1 / 100, policy=mf.Budget(share=share), alarm=None)
        trace = mf.run(detector, np.concatenate([wild, quiet, after]))
        for change in (3000, 6000):
            soon = trace.choice[change : change + round(2 / share) + 200].sum()
            assert soon >= 3, (ratio, share, change)
        target = 1.0 + share * (ratio - 1.0)
        assert abs(trace.cost.sum() - 9000 * target) <= max(HORIZON * (target - 1.0), ratio) * (1.0 + 1e-9)


def test_a_burst_of_readings_stays_possible() -> None:
    """After a change some ten expensive readings are bought at once although each is worth 20 ticks of the budget."""
    fidelities = fidelities_of(40.0)
    detector = mf.Detector(GAUSSIAN, fidelities, 1 / 250, policy=mf.Budget(share=0.05), alarm=None)
    mf.run(detector, readings("gaussian", fidelities, 1 / 250, 4000, 1))
    burst = []
    for i in range(40):
        chosen = detector.choose()
        burst.append(chosen.name)
        detector.update(30.0 * (-1) ** (i // 2), chosen)  # the level changes all the time
    assert burst.count("high") >= 5


@pytest.mark.slow
def test_cost_functions_meet_the_budget() -> None:
    """A reading may cost 30,000 times the budget per tick, and the cost is not known in advance."""
    rng = np.random.default_rng(5)
    for target, most, fixed in ((2.0, 6e4, 1.0), (0.5, 50.0, 0.0)):
        raws = (most * rng.uniform(0.01, 1.0, TICKS) ** 3 + 1.0).tolist()
        low = mf.Fidelity("low", 0.1, fixed) if fixed else mf.Fidelity("skip", 0.0, 0.0)
        fidelities = [low, mf.Fidelity("high", 1.0, float)]
        detector = mf.Detector(GAUSSIAN, fidelities, 1 / 100, policy=mf.Budget(target), missing="skip", alarm=None)
        trace = mf.run(detector, readings("gaussian", fidelities, 1 / 250, TICKS, 4), raws=raws)
        assert off(trace.cost, target, trace.cost.max()) <= 1.0, target
        assert (trace.choice == 1).sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "ratio", "share"), [(20, 1e3, 0.001), (5, 1e5, 0.0004), (4, 50.0, 0.05), (3, 1e4, 0.7)]
)
def test_a_fleet_is_within_a_percent_or_one_reading_of_its_budget(n: int, ratio: float, share: float) -> None:
    fidelities = fidelities_of(ratio)
    ticks = 4000
    fleet = mf.Fleet(
        n, GAUSSIAN, fidelities, 1 / 100, policy=mf.Budget(share=share), threads=1, alarm=None, prune=mf.TopK(32)
    )
    tables = np.stack([readings("gaussian", fidelities, 1 / 250, ticks, i) for i in range(n)], axis=1)
    costs, rows = [], np.arange(n)
    for table in tables:
        choice = fleet.choose()
        costs.append(float(fleet.update(table[rows, choice], choice).cost.sum()))
    target = n * (1.0 + share * (ratio - 1.0))
    debt = np.cumsum(np.array(costs) - target)
    # equals 1 % of 20,000 ticks, or one reading
    assert np.abs(debt).max() <= max(HORIZON * target, ratio) * 1.01
    assert max(costs) > n


def test_a_detector_and_a_fleet_learn_the_same_price_at_a_large_cost_ratio() -> None:
    """The vectorized twin gives the same bits where debt and price are at their bounds."""
    fidelities = fidelities_of(1e4)
    for share in (0.001, 0.5):
        one = [mf.Budget(share=share).bind(fidelities) for _ in range(4)]
        many = OwnPolicies(mf.Budget(share=share).bind(fidelities), 4)
        rows = np.array([2, 0, 1, 3])
        rng = np.random.default_rng(0)
        for _ in range(3000):
            costs = rng.choice([1.0, 1e4], 4, p=[0.9, 0.1])
            for row, cost in zip(rows.tolist(), costs.tolist(), strict=True):
                one[row].record_cost((cost,))
            many.record(rows, costs)
            assert [p.state() for p in one] == [many.state(row) for row in range(4)]
            prices = many.prices(np.arange(4))
            assert prices is not None
            assert [p.price for p in one] == prices.tolist()
            assert [p.limit for p in one] == many.limits(np.arange(4)).tolist()
            assert [p.pick_one([0.0, 1.0], 0, 1) for p in one] == many.pick(
                np.arange(4), np.array([[0.0, 1.0]] * 4), np.array([[1.0, 1e4]] * 4), *np.zeros((3, 4), dtype=int)
            ).tolist()


def naive_state(
    log_price: float, debt: float, ticks: int, excess: float, reading: float, tick_budget: float, began: float
) -> tuple[float, float]:
    """One tick of the controller, from the notes of `Budget`."""
    limit = 200.0 if ticks >= 2000 else 0.1 * ticks if ticks >= 200 else max(60.0 - 0.2 * ticks, 20.0)
    forbidden = debt > 0.0 and debt > tick_budget * limit - reading
    demanded = debt < -max(200.0, reading)
    settled = min(0.02, 0.03 / reading)
    rate = max(settled, 1.0 / (max(10.0, reading) + ticks))
    most = 2.0 * max(200.0 * tick_budget, 200.0, reading)
    debt = sorted([-most, debt + excess, most])[1]
    moved = log_price + rate * excess + settled * settled / 8.0 * debt
    if (forbidden and moved < log_price) or (demanded and moved > log_price):
        moved = log_price
    return sorted([began - 30.0, moved, began + 30.0])[1], debt


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_one_tick_of_the_controller_is_the_documented_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reading, tick_budget, began = 10 ** rng.uniform(-1, 4), 10 ** rng.uniform(0, 2), float(rng.normal())
    controller = Controller(Setting(reading, tick_budget, began=began))
    ticks = rng.choice([0, 3, 150, 199, 200, 1999, 2000, 30_000], 50)
    debt = rng.choice([0.0, 1.0, reading, 20.0 * tick_budget, 200.0 * tick_budget], 50) * rng.normal(0.0, 1.0, 50)
    log_price = began + rng.choice([0.0, 29.9, -29.9], 50) + rng.normal(0.0, 0.1, 50)
    excess = np.where(rng.random(50) < 0.5, -1.0, reading) * rng.random(50)
    numbers = np.stack([log_price, debt, ticks], axis=1)
    many = controller.next_states(numbers, excess)
    prices, effective = controller.prices(numbers), controller.effective_prices(numbers)
    limits = controller.limits(numbers)
    for k, (price, owed, tick) in enumerate(numbers.tolist()):
        one = controller.next_state(price, owed, int(tick), float(excess[k]))
        assert (*one, tick + 1.0) == tuple(many[k].tolist())
        wanted = naive_state(price, owed, int(tick), float(excess[k]), reading, tick_budget, began)
        assert one == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert controller.price(price) == prices[k] == math.exp(price)
        forbidden = owed > max(tick_budget * (controller.debt_limit(int(tick)) / tick_budget) - reading, 0.0)
        demanded = owed < -max(200.0, reading)
        limit = "forbidden" if forbidden else "demanded" if demanded else ""
        assert controller.limit(owed, int(tick)) == limits[k] == limit
        moved = {"": 0.0, "forbidden": 30.0, "demanded": -30.0}[limit]
        assert controller.effective_price(price, owed, int(tick)) == effective[k]
        assert effective[k] == pytest.approx(math.exp(price + moved), rel=1e-12)


def test_a_limit_decides_without_moving_the_price() -> None:
    """Whatever the debt forbids and the savings demand, the price changes by a few percent per tick."""
    fidelities = fidelities_of(40.0)
    budget = mf.Budget(1.5).bind(fidelities)
    budget.initialize(mf.Detector(GAUSSIAN, fidelities, 1 / 100)._filter)
    gains = {"forbidden": [0.0, 9.0], "demanded": [0.0, 1e-9]}
    met: dict[str, int] = {"": 0, "forbidden": 0, "demanded": 0}
    prices = [budget.price]
    for cost, ticks in ((1.0, 300), (40.0, 20), (1.0, 2000)):
        for _ in range(ticks):
            if budget.limit:
                wanted = int(budget.limit == "demanded")
                assert budget.pick_one(gains[budget.limit], 0, 0) == wanted
                assert budget.pick(np.array([gains[budget.limit]]), np.array([[1.0, 40.0]]), np.zeros(1)) == [wanted]
            met[budget.limit] += 1
            budget.record_cost((cost,))
            prices.append(budget.price)
    assert min(met.values()) > 50
    assert np.abs(np.diff(np.log(prices))).max() < 0.3  # 78 units at the rate of a young stream


def test_the_memory_of_cost_functions_is_saved() -> None:
    fidelities = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, float)]
    detector = mf.Detector(GAUSSIAN, fidelities, policy=mf.Budget(2.0))
    for _ in range(3):
        detector.update(0.1, "high", raw=9e4)
    saved = mf.Detector.from_bytes(detector.to_bytes(), costs={"high": float})
    assert saved.policy.state() == detector.policy.state()
    assert saved.policy.state()["round"] > 4e4
    for _ in range(5):
        detector.update(0.1, "low")
        saved.update(0.1, "low")
    assert saved.to_bytes() == detector.to_bytes()
    numbers = saved.with_fidelities(fidelities_of(10.0))  # fixed costs need no memory
    assert "round" not in numbers.policy.state()
    assert numbers.policy._controller.setting.reading == pytest.approx(9.0)


# --- the largest possible spend -----------------------------------------------------------------------------------


def test_a_budget_above_the_largest_cost_is_refused_everywhere() -> None:
    fidelities = fidelities_of(40.0)
    message = r"Budget\.per_tick must be at most 40, what a reading at the most expensive fidelity costs, not 322\.0"
    with pytest.raises(ValueError, match=message):
        mf.Detector(GAUSSIAN, fidelities, policy=mf.Budget(322.0))
    with pytest.raises(ValueError, match=r"at most 200, what a reading of each of the 5 streams at .* not 322\.0"):
        mf.Fleet(5, GAUSSIAN, fidelities, policy=mf.Budget(322.0))
    with pytest.raises(ValueError, match=r"Budget\.per_tick must be at most 1, .* not 8\.0"):
        mf.Detector(GAUSSIAN, policy=mf.Budget(8.0))
    config = Config.parse(config_of(322.0))  # it may be for a fleet, whose number of streams is not known here
    assert config.fleet(40).policy.price > 0.0
    for n in (1, 8):
        with pytest.raises(ValueError, match=rf"must be at most {40 * n}, "):
            config.fleet(n)
    with pytest.raises(ValueError, match=message):
        config.detector()
    priced = [fidelities[0], mf.Fidelity("high", 1.0, float)]
    assert mf.Detector(GAUSSIAN, priced, policy=mf.Budget(1e6)).policy.price > 0.0  # the largest cost is unknown


def test_a_budget_at_the_largest_or_smallest_cost_reads_that_fidelity_at_every_tick() -> None:
    fidelities = fidelities_of(40.0)
    table = readings("gaussian", fidelities, 1 / 50, 500, 0)
    for amount, index in ((40.0, 1), (1.0, 0)):
        trace = mf.run(mf.Detector(GAUSSIAN, fidelities, policy=mf.Budget(amount)), table)
        assert trace.choice.tolist() == [index] * 500
        fleet = mf.Fleet(2, GAUSSIAN, fidelities, policy=mf.Budget(2 * amount), threads=1)
        for _ in range(20):
            assert fleet.choose().tolist() == [index] * 2
            fleet.update([0.1, 5.0])


def config_of(per_tick: float, ratio: float = 40.0) -> dict[str, Any]:
    return {
        "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
        "fidelity": [{"name": "low", "zeta": 0.1, "cost": 1}, {"name": "high", "zeta": 1, "cost": ratio}],
        "policy": {"kind": "budget", "per_tick": per_tick},
    }


def test_a_group_on_spark_refuses_more_than_its_streams_can_spend(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from mfbocd.adapters.spark import GroupBudget

    with pytest.raises(ValueError, match=r"per_tick must be at most 320, what a reading .* costs, not 322\.0"):
        GroupBudget(tmp_path, Config.parse(config_of(322.0)), streams=8)
    assert GroupBudget(tmp_path, Config.parse(config_of(320.0)), streams=8).price(0) >= 0.0


def test_a_group_of_a_service_may_have_more_than_its_first_streams_can_spend(tmp_path: Path) -> None:
    """Streams are added later. Until then all read the best fidelity, and no savings accumulate."""
    engine = Engine(SqliteStore(tmp_path / "streams.db"))

    def add(stream: str, **given: Any) -> dict[str, Any]:
        return manage.add_stream(
            engine, stream=stream, name=stream, observers={}, available={}, max_streams=100, **given
        )

    manage.add_group(engine, group="g", name="g", config=config_of(70.0))
    assert add("one", group="g", config=None)["next"]["fidelity"] == "high"
    with pytest.raises(
        RequestError, match=r"per_tick must be at most 40, what a reading .* costs, not 70\.0"
    ) as refused:
        add("lone", group=None, config=config_of(70.0))
    assert refused.value.status == 422
    engine.store.close()
    few = group_of(config_of(70.0), 1)
    for _ in range(500):
        few.record(40.0)
    assert few.policy.debt == 0.0
    few.streams = 10
    assert few.policy.debt == 0.0
    assert few.target == 70.0


def group_of(config: dict[str, Any], streams: int) -> SharedBudget:
    """The budget of a group whose streams choose at different times."""
    one = Config.parse(config).detector(shared=True)
    assert isinstance(one.policy, mf.Budget)
    return SharedBudget(one.policy, one.fidelities, one._filter, streams)


@pytest.mark.slow
def test_a_group_whose_streams_choose_ahead_is_within_a_percent_or_one_reading_of_each() -> None:
    """In one round every stream may read the expensive fidelity."""
    n, ratio, rounds = 4, 1e3, 3000
    for share in (0.002, 0.1):
        target = n * (1.0 + share * (ratio - 1.0))
        config = config_of(target, ratio)
        fleet = Config.parse(config).fleet(n, policy=group_of(config, n), threads=1)
        tables = [readings("gaussian", list(fleet.fidelities), 1 / 100, rounds, i) for i in range(n)]
        chosen = fleet.choose()
        owed = [0.0]
        for t in range(rounds):
            for i in range(n):
                fleet.update([tables[i][t, chosen[i]]], chosen[i : i + 1], streams=[i])
                chosen[i] = fleet.choose(streams=[i])[0]
            owed.append(fleet.spent - target * (t + 1))
        assert max(np.abs(owed)) <= max(HORIZON * target, n * ratio)
        assert fleet.spent > n * rounds


# --- the cap ----------------------------------------------------------------------------------------------------


def worst_window(cost: np.ndarray, ticks: int) -> float:
    """Return the largest sum over `ticks` consecutive ticks, including the shorter windows at the start."""
    total = np.concatenate([np.zeros(ticks), np.cumsum(cost)])
    return float((total[ticks:] - total[:-ticks]).max())


class Sensor:
    """Reads the number of a raw input (cost, cost, number), and fails at random."""

    def __init__(self, rng: np.random.Generator, fails: float) -> None:
        self.rng, self.fails = rng, fails

    def __call__(self, raw: Any) -> float:
        if self.rng.random() < self.fails:
            raise OSError("no answer")
        return float(raw[2] + self.rng.normal())


def drawn_fidelities(rng: np.random.Generator, fails: float) -> list[mf.Fidelity]:
    """Two to four fidelities, some of whose costs are functions of the raw input."""
    fidelities = [mf.Fidelity("skip", 0.0, 0.0)] if rng.random() < 0.3 else []
    for j, zeta in enumerate(np.sort(rng.uniform(0.05, 1.0, rng.integers(2, 4)))):
        scale = float(rng.uniform(0.5, 30.0))
        cost = (lambda raw, k=j % 2, s=scale: s * raw[k]) if rng.random() < 0.6 else scale
        fidelities.append(mf.Fidelity(f"f{j}", float(zeta), cost, Sensor(rng, fails)))
    return [fidelities[i] for i in rng.permutation(len(fidelities))]


def spends(seed: int) -> tuple[tuple[float, int], np.ndarray] | None:
    """Return a random cap and the cost per tick, alone or in a fleet, with fallbacks and shadows; None if refused."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 1, 1, 3]))
    fails = 0.0 if n > 1 else float(rng.choice([0.0, 0.3]))
    fidelities = drawn_fidelities(rng, fails)
    cap = (float(n * rng.uniform(5.0, 200.0)), int(rng.integers(1, 12)))
    policy = mf.Budget(float(n * rng.uniform(1.0, 30.0)), cap=cap, gain=rng.choice(["joint", "variance"]))
    raws = [[(*rng.exponential(1.0, 2).clip(0.01), rng.normal(0, 3)) for _ in range(n)] for _ in range(120)]
    costs = []
    try:
        if n > 1:
            fleet = mf.Fleet(n, GAUSSIAN, fidelities, 1 / 40, policy=policy, missing="skip", threads=1)
        else:
            shadow = 3 if rng.random() < 0.5 else None
            detector = mf.Detector(
                GAUSSIAN, fidelities, 1 / 40, policy=policy, missing="skip", on_error="fallback", shadow=shadow
            )
    except ValueError as error:
        if str(error).startswith(("Budget.cap", "Budget.per_tick")):
            return None
        raise
    for row in raws:
        if n > 1:
            fleet.choose(row)
            costs.append(float(fleet.update([raw[2] for raw in row], raws=row).cost.sum()))
        else:
            costs.append(detector.step(row[0]).cost)
    return cap, np.array(costs)


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_a_cap_holds_in_every_window_or_is_refused() -> None:
    """200 random configurations with cost functions, fallbacks, shadows and fleets."""
    used, refused = 0, 0
    for seed in range(200):
        made = spends(seed)
        if made is None:
            refused += 1
            continue
        (amount, ticks), costs = made
        assert worst_window(costs, ticks) <= amount * (1.0 + 1e-12), seed
        used += worst_window(costs, ticks) > 0.5 * amount
    assert used > 50
    assert 20 < refused < 150


@pytest.mark.parametrize(
    ("costs", "amount", "most"),
    [
        ((1.0, 40.0), 60 + 2.5 * 39, 60 + 2 * 39),  # half a reading is lost
        ((1.0, 40.0), 60 + 3 * 39, 60 + 3 * 39),
        ((1.0, 14.0, 40.0), 60 + 2.5 * 39, 60 + 2 * 39 + 13),  # a medium one fits into the rest
        ((1.0, 27.0, 40.0), 60 + 2.0 * 39, 60 + 3 * 26),  # three medium ones use all of it
        ((0.0, 10.0), 20.0, 20.0),
    ],
)
def test_a_budget_that_a_cap_leaves_no_room_for_is_said_and_otherwise_spent(
    costs: tuple[float, ...], amount: float, most: float
) -> None:
    """Filling one window with whole readings, by enumeration, says what the cap allows."""
    ticks = 60
    ways = [mf.Fidelity(f"f{j}", 0.3 * j, cost) for j, cost in enumerate(costs)]
    fills = [
        ticks * costs[0] + sum(n * (cost - costs[0]) for n, cost in zip(counts, costs[1:], strict=True))
        for counts in product(range(8), repeat=len(costs) - 1)
    ]
    assert max(fill for fill in fills if fill <= amount) == most
    exact = mf.Budget(most / ticks, cap=(amount, ticks))
    detector = mf.Detector(GAUSSIAN, ways, 1 / 250, policy=exact)
    rng = np.random.default_rng(2)
    for _ in range(4000):
        detector.update(float(rng.normal()), detector.choose())
    assert detector.spent == pytest.approx(4000 * most / ticks, rel=0.06)  # until 200 units are saved, less is spent
    with pytest.warns(UserWarning, match=rf"Budget\.cap = .* leaves room for {most / ticks:g} per tick"):
        mf.Detector(GAUSSIAN, ways, 1 / 250, policy=mf.Budget(1.02 * most / ticks, cap=(amount, ticks)))


def test_a_cap_without_a_fixed_cost_to_fall_back_on_is_refused() -> None:
    functions = [mf.Fidelity("a", 0.1, float), mf.Fidelity("b", 1.0, float)]
    with pytest.raises(ValueError, match=r"Budget\.cap needs a fidelity whose cost is a number"):
        mf.Detector(GAUSSIAN, functions, policy=mf.Budget(5.0, cap=(60.0, 10)))
    high = mf.Fidelity("high", 1.0, 40.0)
    with pytest.raises(
        ValueError, match=r"must allow 10 ticks of the cheapest fidelity whose cost is a number, 400, not 60"
    ):
        mf.Detector(GAUSSIAN, [functions[0], high], policy=mf.Budget(5.0, cap=(60.0, 10)))
    skip = mf.Fidelity("skip", 0.0, 0.0)
    assert mf.Detector(GAUSSIAN, [skip, *functions], policy=mf.Budget(5.0, cap=(60.0, 10))).choose(61.0) == skip


def test_a_cost_function_is_called_once_per_reading() -> None:
    """The cost compared with the cap is the cost paid, even if the function returns another value each time."""
    asked = []

    def cost(raw: Any) -> float:
        asked.append(raw)
        return float(len(asked))

    fidelities = [mf.Fidelity("skip", 0.0, 0.0), mf.Fidelity("high", 1.0, cost, lambda raw: 0.5)]
    for options in ({}, {"on_error": "fallback"}):
        asked.clear()
        detector = mf.Detector(GAUSSIAN, fidelities, policy=mf.Net(1e-9), **options)  # type: ignore[arg-type]
        assert [detector.step(i).cost for i in range(3)] == [1.0, 2.0, 3.0]
        assert asked == [0, 1, 2]


def test_other_costs_keep_the_learned_price_also_where_it_is_extreme() -> None:
    """The log price is limited relative to its start, which a changed cost must not move."""
    ways = [mf.Fidelity("low", 0.1, 1e18), mf.Fidelity("high", 1.0, 1e19)]
    budget = mf.Detector(GAUSSIAN, ways, policy=mf.Budget(share=0.3)).policy
    assert isinstance(budget, mf.Budget)
    other = budget.rebound([ways[0], mf.Fidelity("high", 1.0, 1.1e19)])
    assert other.log_price == budget.log_price < -40.0
    other.record_cost((1e18,))
    assert abs(other.log_price - budget.log_price) < 1.0

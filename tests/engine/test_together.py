"""Detectors moved together are what they would be alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mfbocd._kernels.told import crc_tables, gather, tell
from mfbocd.fleet.together import Moved, Mover, Seat, kind_of

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.filter import RunLength
from mfbocd.belief.gains import expected_gains
from mfbocd.belief.serialization import plain, seal
from mfbocd.belief.state import table
from mfbocd.detector.serialization import Loader
from mfbocd.policy import Policy, draw_uniform
from mfbocd.policy.base import largest_net

from ..policy.test_policy import FIDELITIES as WAYS
from ..policy.test_policy import POLICIES
from ..registry import ALL, Case

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
LEAST, ROWS = 0.02, 5


def likely_by_hand(found: RunLength) -> list[list[float]]:
    """The same in plain numpy."""
    which = np.flatnonzero(found.weight >= LEAST)
    if which.size > ROWS:
        which = np.sort(which[np.argsort(-found.weight[which], kind="stable")[:ROWS]])
    return [[int(found.length[i]), round(float(found.weight[i]), 4)] for i in which]


@pytest.mark.slow
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
    seats, alone = [Seat(make(i)) for i in range(n)], [make(i) for i in range(n)]
    for t in range(ticks):
        here = [i for i in range(n) if (i + t) % 5]
        xs = [None if rng.random() < 0.1 else case.draw(rng) for _ in here]
        ways = [alone[i].choose() for i in here]
        moved = mover.move(
            [seats[i] for i in here], [alone[i]._accept(x) for i, x in zip(here, xs, strict=True)], ways
        )
        for i, x, way, one in zip(here, xs, ways, moved, strict=True):
            check(one, alone[i], alone[i].update(x, way))
    assert [seat.detector.to_bytes() for seat in seats] == [d.to_bytes() for d in alone]
    single, twin = Seat(make(0)), make(0)
    for x in (case.draw(rng), None, case.draw(rng)):
        (one,) = mover.move([single], [twin._accept(x)], [FIDELITIES[0]])
        check(one, twin, twin.update(x, "low"))


def check(moved: Moved, alone: mf.Detector, step: mf.Step) -> None:
    """All that is told of a tick is what the detector, which took that step alone, says itself."""
    assert moved.step == step
    assert [type(v) for v in moved.step] == [type(v) for v in step]
    assert moved.spent == alone.spent
    assert moved.likely == likely_by_hand(alone.run_length)
    assert moved.chosen == alone.choose()
    assert moved.price == getattr(alone.policy, "price", None)
    gain = alone._gain
    assert moved.gains == ([] if gain is None else expected_gains(alone._filter, alone.policy.zeta, gain).tolist())
    assert moved.saved == alone.to_bytes()


def test_readings_of_several_numbers() -> None:
    def make() -> mf.Detector:
        return mf.Detector(mf.MultivariateGaussian([0, 0], np.eye(2) * 9, np.eye(2)), FIDELITIES, 0.05)

    seats, alone = [Seat(make()), Seat(make())], [make(), make()]
    mover = Mover(LEAST, ROWS)
    rng = np.random.default_rng(1)
    for _ in range(20):
        xs = rng.normal(size=(2, 2))
        moved = mover.move(seats, list(xs), FIDELITIES)
        for one, other, x, way in zip(moved, alone, xs.tolist(), FIDELITIES, strict=True):
            check(one, other, other.update(x, way))


TIGHT = {"tight": lambda: mf.Budget(16.0, cap=(90.0, 5))}  # at this spend the cap is often in the way


@pytest.mark.parametrize("policy", (POLICIES | TIGHT).values(), ids=POLICIES | TIGHT)
def test_every_policy_decides_and_learns_for_many_as_for_one(policy: Callable[[], Policy]) -> None:
    """Also where some are ahead, where an alarm is told, and where the policy is another from some tick on."""

    def make(i: int) -> mf.Detector:
        return mf.Detector(mf.Gaussian(0, 9, 1), WAYS, 0.05, policy=policy(), seed=i, missing="skip")

    mover = Mover(LEAST, ROWS)
    seats, alone = [Seat(make(i)) for i in range(4)], [make(i) for i in range(4)]
    rng = np.random.default_rng(2)
    alarms = 0
    for t in range(60):
        if t == 40:
            for d in (seats[1].detector, alone[1]):
                d.policy = mf.Net(0.002).bind(d.fidelities)
        here = range(4) if t % 3 else range(1, 4)
        ways = [alone[i].choose() for i in here]
        xs = [None if rng.random() < 0.1 else float(rng.normal(6.0 * (t // 20), 1.0)) for _ in here]
        for i, x, way, one in zip(here, xs, ways, mover.move([seats[i] for i in here], xs, ways), strict=True):
            check(one, alone[i], alone[i].update(x, way))
            alarms += one.step.alarm
    assert alarms >= 4


def test_at_a_given_price_the_net_gain_decides_and_nothing_is_learnt() -> None:
    """Beside others that have their own, of the same kind, and alone."""

    def make() -> mf.Detector:
        return mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, 0.05, policy=mf.Budget(share=0.3))

    mover = Mover(LEAST, ROWS)
    seats, own = [Seat(make()) for _ in range(4)], make()
    learnt = seats[0].detector.policy.state()
    rng = np.random.default_rng(5)
    chosen = set()
    for t in range(40):
        x, price = float(rng.normal()), float(rng.choice([0.001, 0.02]))
        some = [*seats[:3], seats[3]] if t % 5 else seats[2:3]
        prices = [price, 2.0 * price, price, None] if t % 5 else [price]
        moved = mover.move(some, [x] * len(some), [FIDELITIES[1]] * len(some), prices)
        if t % 5:
            check(moved[3], own, own.update(x, "high"))
        for one, seat, asked in zip(moved, some, prices, strict=True):
            if asked is not None:
                detector = seat.detector
                net = mf.Net(asked).bind(FIDELITIES)
                assert one.chosen == FIDELITIES[net.choose(detector._filter, 0)]
                assert (one.price, one.saved) == (asked, detector.to_bytes())
                assert detector.policy.state() == learnt
                chosen.add(one.chosen.name)
    assert chosen == {"low", "high"}
    assert own.policy.state() != learnt
    (moved,) = mover.move([Seat(mf.Detector(mf.Gaussian(0, 9, 1)))], [0.5], [mf.Fidelity("full", 1.0, 1.0)], [0.25])
    assert (moved.gains, moved.chosen.name, moved.price) == ([], "full", 0.25)


def test_one_way_to_read() -> None:
    seats, alone = [Seat(mf.Detector(mf.Gaussian(0, 9, 1))) for _ in range(3)], mf.Detector(mf.Gaussian(0, 9, 1))
    full = alone.fidelities[0]
    for x in (0.5, 7.0, 7.2):
        step = alone.update(x)
        for one in Mover(LEAST, ROWS).move(seats, [x] * 3, [full] * 3):
            check(one, alone, step)


def test_kinds_are_told_apart() -> None:
    """By all that a pass of the kernels, a payment or a choice takes from the first of them."""

    def make(cost: float = 5.0, hazard: float = 0.05, rows: int = 20, **budget: Any) -> Any:
        ways = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, cost)]
        policy = mf.Budget(**{"share": 0.3, **budget})
        return kind_of(mf.Detector(mf.Gaussian(0, 9, 1), ways, hazard, policy=policy, prune=mf.Resample(rows)))

    kinds = [
        make(),
        make(share=0.4),
        make(cost=6.0),
        make(hazard=0.06),
        make(cap=(40.0, 10)),
        make(rows=60),
        make(gain="variance"),
    ]
    assert len(set(kinds)) == len(kinds)
    assert make() is kinds[0]
    assert kind_of(mf.Detector(mf.MultivariateGaussian([0, 0], np.eye(2), np.eye(2)))) is None


def test_an_error_of_one_is_of_all() -> None:
    class Strict(mf.Gaussian):
        observe = advance = gains = None  # through Python, where a model can fail at a tick

        def log_predictive(self, stats: Any, x: float, zeta: float) -> Any:
            if x > 5.0:
                raise ArithmeticError("too large")
            return super().log_predictive(stats, x, zeta)

    seats = [Seat(mf.Detector(Strict(0, 9, 1))) for _ in range(2)]
    full = seats[0].detector.fidelities[0]
    with pytest.raises(ArithmeticError, match="too large"):
        Mover(LEAST, ROWS).move(seats, [0.5, 7.0], [full, full])


def test_a_spend_that_is_no_number_is_refused() -> None:
    dear = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 1e308)]
    seats = [Seat(mf.Detector(mf.Gaussian(0, 9, 1), dear, policy=mf.Budget(share=0.5))) for _ in range(2)]
    mover = Mover(LEAST, ROWS)
    mover.move(seats, [0.5, 0.5], [dear[1], dear[1]])
    for some in (seats, seats[:1]):
        with pytest.raises(ValueError, match="spent"):
            mover.move(some, [0.5, 0.5][: len(some)], [dear[1], dear[1]][: len(some)])


@pytest.mark.parametrize("least", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("rows", [1, 3, 400])
def test_what_is_told_of_states_is_what_plain_numpy_finds(least: float, rows: int) -> None:
    rng = np.random.default_rng(2)
    detectors = [mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, prune=mf.Resample(60)) for _ in range(7)]
    for t in range(150):
        for d in detectors[: 7 if t < 40 else 5]:
            d.update(float(rng.normal()))
    for d in detectors:
        weight = table(d._filter.state)[layout.WEIGHT]
        weight[:] = np.ceil(8.0 * weight / weight.max()) / 8.0  # many are equal
        d._filter.state[layout.TOTAL] = weight.sum()
    states = np.empty((7, detectors[0]._filter.state.size))
    addresses = np.array([d._filter.address for d in detectors])
    gather(addresses, states)
    np.testing.assert_array_equal(states, [d._filter.state for d in detectors])
    length, share = np.empty(7 * rows, dtype=np.int64), np.empty(7 * rows)
    ends, stops = np.empty(7, dtype=np.int64), np.empty(7, dtype=np.int64)
    numbers, begin = rng.normal(size=(7, 3)), b"whatever stands before"
    saved = np.empty(states.size + 7 * 4, dtype=np.uint64)
    checks = np.full(7, zlib.crc32(begin), dtype=np.uint64)
    states[:, layout.EVIDENCE] += 1.0  # to see that they go back
    tell(states, least, rows, length, share, ends, numbers, checks, crc_tables(), saved, stops, addresses)
    low = start = 0
    for i, (d, end, stop) in enumerate(zip(detectors, ends.tolist(), stops.tolist(), strict=True)):
        np.testing.assert_array_equal(d._filter.state, states[i])
        found = d.run_length
        which = np.flatnonzero(found.weight >= least)
        kept = np.sort(which[np.argsort(-found.weight[which], kind="stable")[:rows]])
        np.testing.assert_array_equal(length[low:end], found.length[kept])
        np.testing.assert_array_equal(share[low:end], (1e4 * found.weight[kept]).round())
        told = saved[start:stop].astype("<u8").tobytes()[:-4]
        head = states[i, : layout.HEAD].copy()
        head[layout.CAP] = 0.0
        whole = seal(begin, zlib.crc32(begin), *map(plain, (numbers[i], head, table(states[i]))))
        assert told == whole[len(begin) :]
        low, start = end, stop


WEIGHING = {name: policy for name, policy in POLICIES.items() if policy().gain is not None}


@pytest.mark.parametrize("policy", WEIGHING.values(), ids=WEIGHING)
def test_the_pick_of_one_is_that_of_many(policy: Callable[[], Policy]) -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), WAYS, policy=policy())
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


def test_detectors_made_alike_share_what_no_tick_changes() -> None:
    def make(policy: Policy, hazard: float = 0.02) -> mf.Detector:
        detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, hazard, policy=policy, prune=mf.Resample(20))
        for x in np.random.default_rng(4).normal(size=30).tolist():
            detector.update(x, detector.choose())
        return detector

    maker = Loader(mf.Detector.from_bytes, most=3)
    capped = make(mf.Budget(3.0, cap=(12.0, 5)))
    for detector in (make(mf.Budget(share=0.3)), capped, make(mf.Net(0.01)), make(mf.Net(0.01), hazard=0.1)):
        saved = detector.to_bytes()
        one, other = maker(saved), maker(saved)
        assert one.model is other.model
        assert one._by_name is other._by_name
        assert one.to_bytes() == other.to_bytes() == saved
        steps = [one.update(x, one.choose()) for x in (0.4, 3.0, 3.1)]
        assert other.to_bytes() == saved
        assert steps == [detector.update(x, detector.choose()) for x in (0.4, 3.0, 3.1)]
        assert steps == [other.update(x, other.choose()) for x in (0.4, 3.0, 3.1)]
        assert one.to_bytes() == other.to_bytes() == detector.to_bytes()
    guarded = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, shadow=5).to_bytes()
    one, other = maker(guarded), maker(guarded)
    assert one.shadow["low"] is not other.shadow["low"]

"""Low fidelity alone, a coin, the paper's rule and the library's default on the same streams of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd._kernels import layout
from mfbocd.fleet.fleet import Fleet
from mfbocd.models import Bernoulli
from mfbocd.policy import Always, Budget, InformationRate, Policy
from mfbocd.policy.fidelity import Fidelity

from . import published
from .level import reach
from .machines import HAZARD, PRIOR, Machine, fidelities, streams

Array = NDArray[np.float64]
Choices = NDArray[np.int64]
Pair = tuple[Fidelity, Fidelity]

HELD_OUT = 1_000_000  # added to the seeds of the streams the rule is tuned on


def play(machine: Machine, trials: int, tuning: int, ticks: int, seed: int, as_published: bool) -> dict[str, Any]:
    """Every rule on `trials` streams of a machine: MSE, L1 and share of low fidelity, one number a stream.

    LF is plain detection (zeta = 1) on low readings, IG the paper's rule with its weight tuned on `tuning` others, RN
    reads low exactly as often as IG did on the same stream. Budget, which is no part of the published code, may spend
    there what IG spent; "RN for Budget" reads low as often as it did.
    """
    found = fidelities(machine)
    tables = streams(machine, found.readings, ticks, range(seed, seed + trials)).tables
    others = range(HELD_OUT + seed, HELD_OUT + seed + tuning)
    held = streams(machine, found.readings, ticks, others).tables
    low, high = machine.flops
    ways = (Fidelity("low", found.zeta, low), Fidelity("high", 1.0, high))

    def share(weight: float) -> float:
        return float((informed(weight, ways, held, as_published) == 0).mean())

    # from a weight of the costs' ratio on the larger gain wins, which is nearly always high fidelity's
    weight = reach(share, machine.share, low=0.02, high=10.0 * high / low)
    choice = informed(weight, ways, tables, as_published)
    runs: dict[str, tuple[Choices, Pair]] = {
        "LF": (np.zeros_like(choice), (Fidelity("low", 1.0, low), ways[1])),
        "RN": (coin((choice == 0).sum(axis=0), ticks, seed), ways),
        "IG": (choice, ways),
    }
    if not as_published:
        spent = np.where(choice == 0, low, high).mean(axis=0)
        made = within_budgets(spent, ways, tables)
        # it seldom spends its budget to the unit, so it has a coin of its own
        runs |= {"Budget": (made, ways), "RN for Budget": (coin((made == 0).sum(axis=0), ticks, seed), ways)}
    result: dict[str, Any] = {"weight": weight}
    for rule, (made, pair) in runs.items():
        mse, l1 = (published_errors if as_published else errors)(made, pair, tables)
        result[rule] = {"MSE": mse.tolist(), "L1": l1.tolist(), "low": (made == 0).mean(axis=0).tolist()}
    return result


# --- who chooses -----------------------------------------------------------------------------------------------


def informed(weight: float, ways: Pair, tables: Array, as_published: bool) -> Choices:
    """What the paper's rule chooses on each stream if high fidelity weighs this much and low 1, shape (T, n)."""
    if not as_published:
        return _followed(_fleet(ways, tables, InformationRate({"high": weight})), tables, None)
    rates = (1.0 / ways[0].cost_of(), weight / ways[1].cost_of())
    zeta = [f.zeta for f in ways]
    model = Bernoulli(*PRIOR)
    made = [published.run(model, zeta, HAZARD, tables[:, i], rates=rates).choice for i in range(tables.shape[1])]
    return np.stack(made, axis=1)


def coin(lows: NDArray[np.int64], ticks: int, seed: int) -> Choices:
    """For every stream so many ticks at low fidelity (index 0), which ones at random, shape (ticks, n).

    >>> (coin(np.array([2, 0]), ticks=5, seed=1) == 0).sum(axis=0)
    array([2, 0])
    """
    rank = np.random.default_rng(seed).random((ticks, lows.size)).argsort(axis=0).argsort(axis=0)
    return (rank >= lows).astype(np.int64)


def within_budgets(per_tick: Array, ways: Pair, tables: Array) -> Choices:
    """What the library's default chooses if every stream has a budget of its own, shape (T, n)."""
    fleet = _fleet(ways, tables, Always())
    own = [Budget(amount).bind(fleet.fidelities) for amount in per_tick]
    for policy in own:
        policy.initialize(fleet.detector(0)._filter)
    return _followed(fleet, tables, own)


def _followed(fleet: Fleet, tables: Array, own: Sequence[Policy] | None) -> Choices:
    """The choices of the fleet's policy, or of each stream's own."""
    rows = np.arange(fleet.n)
    costs = np.array([f.cost_of() for f in fleet.fidelities])
    made = np.empty(tables.shape[:2], dtype=np.int64)
    for t, readings in enumerate(tables):
        if own is None:
            made[t] = fleet.choose()
        else:
            gains = fleet.gains("joint")
            for i, policy in enumerate(own):
                made[t, i] = policy.pick(gains[i : i + 1], costs[None], np.zeros(1))[0]
                policy.record_cost(costs[made[t, i : i + 1]])
        fleet.update(readings[rows, made[t]], made[t])
    return made


# --- what it led to --------------------------------------------------------------------------------------------


def errors(choice: Choices, ways: Pair, tables: Array) -> tuple[Array, Array]:
    """MSE of the predicted mean and the paper's L1 of the run-length posterior to the all-high run, one a stream.

    The paper's matrices hold the run length of the NEXT point: their first column is the hazard in both runs and the
    rest (1 - h) times the filtered posterior, so their L1 is (1 - h) times that of the filtered ones.
    """
    ticks, n, _ = tables.shape
    tested, high = (_fleet(ways, tables, Always()) for _ in range(2))
    rows, ones = np.arange(n), np.ones(n, dtype=np.int64)
    squares, l1 = np.zeros(n), np.zeros(n)
    for t in range(ticks):
        mine = tested.update(tables[t, rows, choice[t]], choice[t]).mean
        theirs = high.update(tables[t, :, 1], ones).mean
        squares += (mine - theirs) ** 2
        l1 += np.abs(_weights(tested, t + 1) - _weights(high, t + 1)).sum(axis=1)
    return squares / ticks, (1.0 - HAZARD) * l1


def published_errors(choice: Choices, ways: Pair, tables: Array) -> tuple[Array, Array]:
    """The same two of the paper's own code."""
    model, zeta = Bernoulli(*PRIOR), [f.zeta for f in ways]
    mse, l1 = [], []
    for i in range(tables.shape[1]):
        pair = (choice[:, i], np.ones(len(tables), dtype=np.int64))
        mine, high = (published.run(model, zeta, HAZARD, tables[:, i], choice=c) for c in pair)
        mse.append(((mine.mean - high.mean) ** 2).mean())
        l1.append(np.abs(mine.posterior - high.posterior).sum())
    return np.array(mse), np.array(l1)


def _fleet(ways: Pair, tables: Array, policy: Policy) -> Fleet:
    n = tables.shape[1]
    return Fleet(n, Bernoulli(*PRIOR), ways, HAZARD, policy=policy, prune=None, alarm=None, threads=1)


def _weights(fleet: Fleet, count: int) -> Array:
    """The filtered posteriors, (n, count), oldest regime first: exact, so all streams hold the same births."""
    weight = fleet._states[:, layout.HEAD : layout.HEAD + count]
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))

"""Low fidelity alone, random choice, the paper's rule and the default on the same streams of a machine's readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd.models import Bernoulli
from mfbocd.policy import Budget, InformationRate
from mfbocd.policy.fidelity import Fidelity

from .. import published
from ..streams.families import Drawn, Family
from ..streams.follow import Choices, follow, planned
from ..streams.tuning import HELD_OUT, reach, share_low
from .machines import HAZARD, PRIOR, Fidelities, Machine, fidelities, streams

Array = NDArray[np.float64]


def family_of(machine: Machine, found: Fidelities, ticks: int) -> Family:
    """The streams of a machine."""
    low, high = machine.flops
    pair = (Fidelity("low", found.zeta, low), Fidelity("high", 1.0, high))

    def draw(seed: int) -> Drawn:
        drawn = streams(machine, found.readings, ticks, range(seed, seed + 1))
        return Drawn(drawn.tables[:, 0], None, np.empty(0, dtype=np.int64))

    return Family(machine.name, Bernoulli(*PRIOR), pair, HAZARD, draw)


def play(machine: Machine, trials: int, tuning: int, ticks: int, seed: int, as_published: bool) -> dict[str, Any]:
    """Every rule on `trials` streams of a machine: MSE, L1 and share of low fidelity, one number per stream.

    LF is plain detection (zeta = 1) on low readings, IG the paper's rule with its weight tuned on `tuning` other
    streams, RN reads low exactly as often as IG did on the same stream. Budget, which is not part of the published
    code, gets the spend of IG on that stream; "RN for Budget" reads low as often as Budget did.
    """
    family = family_of(machine, fidelities(machine), ticks)
    drawn = family.streams(trials, first=seed)
    held_out = family.streams(tuning, first=HELD_OUT + seed)
    low, high = family.fidelities

    def share(weight: float) -> float:
        if as_published:
            return float((informed(weight, family, held_out, True) == 0).mean())
        return share_low(family, InformationRate({"high": weight}), [s.table for s in held_out])

    # above the ratio of the costs the larger gain decides, which is nearly always that of high fidelity
    weight = reach(share, machine.share, low=0.02, high=10.0 * high.cost_of() / low.cost_of())
    choice = informed(weight, family, drawn, as_published)
    plain = replace(family, fidelities=(Fidelity("low", 1.0, low.cost), high))
    runs = {
        "LF": (np.zeros_like(choice), plain),
        "RN": (random_choices((choice == 0).sum(axis=0), ticks, seed), family),
        "IG": (choice, family),
    }
    if not as_published:
        spent = np.where(choice == 0, low.cost_of(), high.cost_of()).mean(axis=0)
        made = within_budgets(spent, family, drawn)
        # it rarely spends its budget exactly, so it has its own random baseline
        random = random_choices((made == 0).sum(axis=0), ticks, seed)
        runs |= {"Budget": (made, family), "RN for Budget": (random, family)}
    result: dict[str, Any] = {"weight": weight}
    for rule, (made, of) in runs.items():
        mse, l1 = errors(made, of, drawn, as_published)
        result[rule] = {"MSE": mse, "L1": l1, "low": (made == 0).mean(axis=0).tolist()}
    return result


def informed(weight: float, family: Family, drawn: Sequence[Drawn], as_published: bool) -> Choices:
    """Choices of the paper's rule with this weight of high fidelity and 1 of low, (T, n)."""
    if not as_published:
        return follow(family, InformationRate({"high": weight}), drawn, 0).choice
    low, high = family.fidelities
    rates = (1.0 / low.cost_of(), weight / high.cost_of())
    runs = [published.run(family.model, (low.zeta, high.zeta), HAZARD, s.table, rates=rates) for s in drawn]
    return np.stack([run.choice for run in runs], axis=1)


def random_choices(lows: NDArray[np.int64], ticks: int, seed: int) -> Choices:
    """For every stream this number of ticks at low fidelity (index 0), at random places, (ticks, n).

    >>> (random_choices(np.array([2, 0]), ticks=5, seed=1) == 0).sum(axis=0)
    array([2, 0])
    """
    rank = np.random.default_rng(seed).random((ticks, lows.size)).argsort(axis=0).argsort(axis=0)
    return (rank >= lows).astype(np.int64)


def within_budgets(per_tick: Array, family: Family, drawn: Sequence[Drawn]) -> Choices:
    """Choices of the library's default with a budget for every stream, (T, n)."""
    return follow(family, [Budget(amount) for amount in per_tick], drawn, 0).choice


def errors(
    choice: Choices, family: Family, drawn: Sequence[Drawn], as_published: bool
) -> tuple[list[float], list[float]]:
    """MSE of the predicted mean and L1 of the run-length posterior to the all-high run, one number per stream.

    The paper's matrices hold the run length of the NEXT point: their first column is the hazard in both runs and the
    rest is (1 - h) times the filtered posterior, so their L1 is (1 - h) times that of the filtered posteriors.
    """
    if as_published:
        zeta = [f.zeta for f in family.fidelities]
        return published.errors(family.model, zeta, HAZARD, [s.table for s in drawn], list(choice.T.copy()))
    scores = follow(family, planned(choice), drawn, 0)
    return scores.mse.tolist(), ((1.0 - HAZARD) * scores.l1).tolist()

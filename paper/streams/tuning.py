"""Rules with the argument that gives a wanted share of low fidelity on held-out streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mfbocd.belief.gains import Gain
from mfbocd.calibrate import average_spend
from mfbocd.fleet.fleet import Fleet
from mfbocd.policy import Budget, InformationRate, Margin, Net, Policy, Soft
from mfbocd.policy.fidelity import Fidelity

from .families import Family
from .follow import Chooser

Array = NDArray[np.float64]

HELD_OUT = 1_000_000  # added to the seeds of streams that serve tuning
NEAR = 0.002  # of the wanted share; finer than held-out streams can resolve
HALVINGS = 16
TUNING = 16  # held-out streams of `at_levels`
GRID = np.linspace(-14.0, 6.0, 33)  # logarithms of the arguments it tries


def reach(share: Callable[[float], float], wanted: float, *, low: float = 0.01, high: float = 16.0) -> float:
    """The argument in [low, high] whose share is closest to `wanted`, by bisection of its logarithm.

    `share` must decrease in its argument.

    >>> round(reach(lambda weight: 1 / (1 + weight), 0.2), 1)
    4.0
    """
    a, b = math.log(low), math.log(high)
    best = (math.inf, 0.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        found = share(math.exp(middle))
        best = min(best, (abs(found - wanted), middle))
        if best[0] <= NEAR:
            break
        a, b = (middle, b) if found > wanted else (a, middle)
    return math.exp(best[1])


def share_low(family: Family, choose: Policy | Chooser, tables: Sequence[Array]) -> float:
    """Share of the ticks of these streams that a rule reads at low fidelity."""
    model, fidelities, hazard = family.model, family.fidelities, family.hazard
    if isinstance(choose, Policy):
        low, high = (f.cost_of() for f in fidelities)
        spend = average_spend(choose, model, fidelities, hazard, tables, prune=None, missing="raise", threads=1)
        return (high - spend) / (high - low)
    fleet = Fleet(len(tables), model, fidelities, hazard, prune=None, threads=1)
    stacked, rows = np.stack(tables, axis=1), np.arange(len(tables))
    count = 0
    for readings in stacked:
        choice = choose(fleet)
        fleet.update(readings[rows, choice], choice)
        count += int((choice == 0).sum())
    return count / stacked[..., 0].size


def makers(fidelities: tuple[Fidelity, Fidelity], gain: Gain) -> dict[str, tuple[Callable[[float], Policy], bool]]:
    """Each rule as a function of the argument that sets its spend, and whether the spend increases with it."""
    extra = fidelities[1].cost_of() - fidelities[0].cost_of()
    return {
        "rate": (lambda w: InformationRate([1.0, w], gain=gain), True),
        "margin": (lambda delta: Margin(delta, gain=gain), False),
        "net": (lambda price: Net(price / extra, gain=gain), False),
        # a temperature of half the price of high over low: between an argmax and random choice
        "soft": (lambda price: Soft(0.5 * price, price=price / extra, gain=gain), False),
    }


def at_levels(family: Family, rule: str, gain: Gain, levels: Sequence[float]) -> list[Policy]:
    """The rule at the arguments that give these shares of low fidelity on held-out streams."""
    make, rising = makers(family.fidelities, gain)[rule]
    tables = [s.table for s in family.streams(1 if family.single else TUNING, first=HELD_OUT)]

    def share(log: float) -> float:
        found = share_low(family, make(math.exp(log)), tables)
        return -found if rising else found  # increases along the grid either way

    shares = np.array([share(g) for g in GRID])
    policies = []
    for level in levels:
        wanted = -level if rising else level
        i = int(np.clip(np.searchsorted(np.maximum.accumulate(shares), wanted), 1, GRID.size - 1))
        low, high = GRID[i - 1], GRID[i]
        best = min(((abs(shares[k] - wanted), GRID[k]) for k in (i - 1, i)), key=lambda pair: pair[0])
        for _ in range(7):
            middle = 0.5 * (low + high)
            value = share(middle)
            best = min(best, (abs(value - wanted), middle), key=lambda pair: pair[0])
            low, high = (middle, high) if value < wanted else (low, middle)
        policies.append(make(math.exp(best[1])))
    return policies


def policies_for(
    family: Family, rule: str, gain: Gain, levels: Sequence[float], streams: int
) -> list[Policy | list[Policy]]:
    """What to run at each level: one policy for all streams, or one per stream for the rule that learns."""
    if rule != "budget":
        return list(at_levels(family, rule, gain, levels))
    low, high = (f.cost_of() for f in family.fidelities)
    return [[Budget(level * low + (1.0 - level) * high, gain=gain) for _ in range(streams)] for level in levels]

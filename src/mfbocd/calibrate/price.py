"""The price, weight or margin that meets a wanted spend, found on held-out streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..belief.gains import Gain
from ..belief.hazard import Hazard
from ..detector.detector import Detector
from ..fleet.fleet import Fleet
from ..inputs.arguments import positive
from ..inputs.readings import floats
from ..models import Model
from ..policy import InformationRate, Net, Policy
from ..policy.fidelity import Fidelity, checked
from ..trace.run import run


@dataclass(frozen=True)
class Tuned:
    """A policy tuned on held-out streams, and the spend it achieved there."""

    policy: Policy
    value: float
    """Of the tuned argument."""
    wanted: float
    """Average cost a tick and stream that was asked for."""
    achieved: float
    """And what the policy spent on the held-out streams: a rule that jumps may not come closer."""


def average_spend(
    policy: Policy,
    model: Model,
    fidelities: Iterable[Fidelity],
    hazard: float | Hazard,
    tables: Sequence[ArrayLike],
    *,
    seed: int = 0,
    **options: Any,
) -> float:
    """What a policy spends a tick and stream on finished streams, each of shape (T, J)."""
    ways = checked(fidelities)
    streams = [floats(t) for t in tables]
    if not streams:
        raise ValueError("tables must hold at least one stream, not none")
    options = {"missing": "skip"} | options
    if len({s.shape for s in streams}) == 1 and not any(callable(f.cost) for f in ways):
        stacked = np.stack(streams, axis=1)  # (T, n, J): advanced together, which is many times quicker
        fleet = Fleet(len(streams), model, ways, hazard, policy=policy, seed=seed, **options)
        rows = np.arange(len(streams))
        for readings in stacked:
            choice = fleet.choose()
            fleet.update(readings[rows, choice], choice)
        return float(fleet.spent / stacked.shape[0] / len(streams))
    spent = ticks = 0.0
    for i, stream in enumerate(streams):
        detector = Detector(model, ways, hazard, policy=policy, seed=seed + i, **options)
        run(detector, stream)
        spent += detector.spent
        ticks += len(stream)
    return spent / ticks


def tune(
    make: Callable[[float], Policy],
    model: Model,
    fidelities: Iterable[Fidelity],
    hazard: float | Hazard,
    tables: Sequence[ArrayLike],
    per_tick: float,
    *,
    rising: bool,
    start: float = 1.0,
    tolerance: float = 0.002,
    **options: Any,
) -> Tuned:
    """Bisect the logarithm of a policy's argument until the held-out streams cost `per_tick` on average.

    `make` builds the policy from the argument; `rising` says whether spending rises with it. The bracket is found
    from `start` by doubling. The closest spend that was seen wins.
    """
    ways = checked(fidelities)
    wanted = positive("tune", "per_tick", per_tick)
    costs = [f.cost_of() for f in ways if not callable(f.cost)]
    if len(costs) == len(ways) and not min(costs) <= wanted <= max(costs):
        raise ValueError(f"per_tick must lie between the cheapest and the dearest cost, {min(costs):g} and "
                         f"{max(costs):g}, not {per_tick!r}")  # fmt: skip
    seen: list[tuple[float, float]] = []

    def short(log: float) -> bool:
        """Whether the argument e^log spends too little."""
        spend = average_spend(make(math.exp(log)), model, ways, hazard, tables, **options)
        seen.append((log, spend))
        return spend < wanted

    log = math.log(start)
    step = 2.0
    too_little = short(log)
    for _ in range(20):
        further = log + (step if too_little == rising else -step)
        turned = short(further) != too_little
        low, high = sorted((log, further))
        log, step = further, 2.0 * step
        if turned:
            for _ in range(24):
                if min(abs(s - wanted) for _, s in seen) <= tolerance * wanted:
                    break
                middle = 0.5 * (low + high)
                if short(middle) == rising:
                    low = middle
                else:
                    high = middle
            break
    log, achieved = min(seen, key=lambda pair: abs(pair[1] - wanted))
    return Tuned(make(math.exp(log)), math.exp(log), wanted, achieved)


def price_for(
    per_tick: float,
    model: Model,
    fidelities: Iterable[Fidelity],
    hazard: float | Hazard,
    tables: Sequence[ArrayLike],
    *,
    gain: Gain = "joint",
    **options: Any,
) -> Tuned:
    """The price at which `Net` spends `per_tick` on held-out streams, with the spend it achieved.

    >>> from mfbocd import Fidelity, Gaussian, simulate
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1, cost=40)]
    >>> tables = [simulate.gaussian(Gaussian(0, 9, 1), ways, 1 / 100, ticks=200, seed=s).table for s in range(10)]
    >>> tuned = price_for(12.0, Gaussian(0, 9, 1), ways, 1 / 100, tables)
    >>> abs(tuned.achieved / 12.0 - 1) < 0.02
    True
    """
    return tune(
        lambda price: Net(price, gain=gain), model, fidelities, hazard, tables, per_tick, rising=False, **options
    )


def weights_for(
    per_tick: float,
    model: Model,
    fidelities: Iterable[Fidelity],
    hazard: float | Hazard,
    tables: Sequence[ArrayLike],
    *,
    gain: Gain = "run_length",
    **options: Any,
) -> Tuned:
    """The weight of the dearest fidelity at which the paper's rule spends `per_tick` on held-out streams."""
    ways = checked(fidelities)
    dearest = max(ways, key=lambda f: f.cost_of()).name
    return tune(
        lambda w: InformationRate({dearest: w}, gain=gain),
        model,
        ways,
        hazard,
        tables,
        per_tick,
        rising=True,
        **options,
    )

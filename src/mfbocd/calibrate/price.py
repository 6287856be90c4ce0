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
    """A policy tuned on held-out streams, and its spend on them.

    Attributes
    ----------
    policy : Policy
        The tuned policy.
    value : float
        Value of the tuned argument.
    wanted : float
        Requested average cost per tick and stream.
    achieved : float
        Average cost per tick and stream on the held-out streams; a rule with jumps may not come closer.
    """

    policy: Policy
    value: float
    wanted: float
    achieved: float


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
    """Return the average cost per tick and stream of a policy on finished streams.

    Parameters
    ----------
    policy : Policy
        The policy.
    model : Model
        The model.
    fidelities : Iterable[Fidelity]
        The fidelities.
    hazard : float or Hazard
        P(change) per tick.
    tables : Sequence[ArrayLike]
        Readings of each stream, (T, J); at least one stream.
    seed : int
        Seed of the first stream; 0 by default.
    **options : Any
        Further arguments of the detector, such as ``prune``.

    Returns
    -------
    float
        The average cost per tick and stream.

    Raises
    ------
    ValueError
        If there are no streams.

    Examples
    --------
    >>> from mfbocd import Always, Gaussian, simulate
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1, cost=40)]
    >>> table = simulate.gaussian(Gaussian(0, 9, 1), ways, 1 / 100, ticks=50).table
    >>> average_spend(Always("gps"), Gaussian(0, 9, 1), ways, 1 / 100, [table])
    40.0
    """
    checked_fidelities = checked(fidelities)
    streams = [floats(t) for t in tables]
    if not streams:
        raise ValueError("tables must contain at least one stream, not none")
    options = {"missing": "skip"} | options
    if len({s.shape for s in streams}) == 1 and not any(callable(f.cost) for f in checked_fidelities):
        stacked = np.stack(streams, axis=1)  # (T, n, J): advanced together, which is many times faster
        fleet = Fleet(len(streams), model, checked_fidelities, hazard, policy=policy, seed=seed, **options)
        rows = np.arange(len(streams))
        for readings in stacked:
            choice = fleet.choose()
            fleet.update(readings[rows, choice], choice)
        return float(fleet.spent / stacked.shape[0] / len(streams))
    spent = ticks = 0.0
    for i, stream in enumerate(streams):
        detector = Detector(model, checked_fidelities, hazard, policy=policy, seed=seed + i, **options)
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
    """Bisect the logarithm of a policy's argument until held-out streams cost `per_tick` on average.

    The bracket is found from `start` by doubling. The argument with the closest spend is returned.

    Parameters
    ----------
    make : Callable[[float], Policy]
        Builds the policy from the argument.
    model : Model
        The model.
    fidelities : Iterable[Fidelity]
        The fidelities.
    hazard : float or Hazard
        P(change) per tick.
    tables : Sequence[ArrayLike]
        Readings of each held-out stream, (T, J).
    per_tick : float
        Wanted average cost per tick and stream, between the cheapest and the most expensive fidelity.
    rising : bool
        Whether the spend rises with the argument.
    start : float
        First value of the argument; 1 by default.
    tolerance : float
        Relative deviation of the spend at which the search stops; 0.002 by default.
    **options : Any
        Further arguments of `average_spend`.

    Returns
    -------
    Tuned
        The policy and its spend.

    Raises
    ------
    ValueError
        If `per_tick` is out of range, or there are no streams.

    Examples
    --------
    >>> from mfbocd import Gaussian, simulate
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1, cost=40)]
    >>> tables = [simulate.gaussian(Gaussian(0, 9, 1), ways, 1 / 100, ticks=200, seed=s).table for s in range(10)]
    >>> tuned = tune(Net, Gaussian(0, 9, 1), ways, 1 / 100, tables, per_tick=12.0, rising=False)
    >>> abs(tuned.achieved / 12.0 - 1) < 0.02
    True
    """
    checked_fidelities = checked(fidelities)
    wanted = positive("tune", "per_tick", per_tick)
    costs = [f.cost_of() for f in checked_fidelities if not callable(f.cost)]
    if len(costs) == len(checked_fidelities) and not min(costs) <= wanted <= max(costs):
        raise ValueError(f"per_tick must lie between the lowest and the highest cost, {min(costs):g} and "
                         f"{max(costs):g}, not {per_tick!r}")  # fmt: skip
    seen: list[tuple[float, float]] = []

    def underspends(log: float) -> bool:
        """Return whether the argument e^log spends too little."""
        spend = average_spend(make(math.exp(log)), model, checked_fidelities, hazard, tables, **options)
        seen.append((log, spend))
        return spend < wanted

    log = math.log(start)
    step = 2.0
    too_little = underspends(log)
    for _ in range(20):
        further = log + (step if too_little == rising else -step)
        turned = underspends(further) != too_little
        low, high = sorted((log, further))
        log, step = further, 2.0 * step
        if turned:
            for _ in range(24):
                if min(abs(s - wanted) for _, s in seen) <= tolerance * wanted:
                    break
                middle = 0.5 * (low + high)
                if underspends(middle) == rising:
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
    """Find the price at which `Net` spends `per_tick` on held-out streams.

    Parameters
    ----------
    per_tick : float
        Wanted average cost per tick and stream.
    model : Model
        The model.
    fidelities : Iterable[Fidelity]
        The fidelities.
    hazard : float or Hazard
        P(change) per tick.
    tables : Sequence[ArrayLike]
        Readings of each held-out stream, (T, J).
    gain : str
        The gain of the policy; "joint" by default.
    **options : Any
        Further arguments of `tune`.

    Returns
    -------
    Tuned
        The policy and its spend.

    Raises
    ------
    ValueError
        If `per_tick` is out of range, or there are no streams.

    Examples
    --------
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
    """Find the weight of the most expensive fidelity at which the paper's rule spends `per_tick` on held-out streams.

    Parameters
    ----------
    per_tick : float
        Wanted average cost per tick and stream.
    model : Model
        The model.
    fidelities : Iterable[Fidelity]
        The fidelities.
    hazard : float or Hazard
        P(change) per tick.
    tables : Sequence[ArrayLike]
        Readings of each held-out stream, (T, J).
    gain : str
        The gain of the policy; "run_length" by default.
    **options : Any
        Further arguments of `tune`.

    Returns
    -------
    Tuned
        The policy (`InformationRate`) and its spend.

    Raises
    ------
    ValueError
        If `per_tick` is out of range, or there are no streams.

    Examples
    --------
    >>> from mfbocd import Gaussian, simulate
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1, cost=40)]
    >>> tables = [simulate.gaussian(Gaussian(0, 9, 1), ways, 1 / 100, ticks=200, seed=s).table for s in range(10)]
    >>> tuned = weights_for(12.0, Gaussian(0, 9, 1), ways, 1 / 100, tables)
    >>> abs(tuned.achieved / 12.0 - 1) < 0.1
    True
    """
    checked_fidelities = checked(fidelities)
    expensive = max(checked_fidelities, key=lambda f: f.cost_of()).name
    return tune(
        lambda w: InformationRate({expensive: w}, gain=gain),
        model,
        checked_fidelities,
        hazard,
        tables,
        per_tick,
        rising=True,
        **options,
    )

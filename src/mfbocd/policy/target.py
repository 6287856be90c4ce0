"""How much a budget may spend per tick, checked against the costs of its fidelities, and its first price."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..belief.filter import Filter

if TYPE_CHECKING:
    from .budget import Budget


class Target(NamedTuple):
    """What a budget allows per tick of all streams together."""

    amount: float
    """Wanted average cost, from `least` to `most`."""
    least: float
    """Cost of the cheapest fidelity; 0 where a cost is a function."""
    most: float
    """Cost of the most expensive fidelity; infinite where a cost is a function."""

    @property
    def unit(self) -> float:
        """What the budget leaves above the cheapest fidelity; at the smallest budget, the budget itself."""
        return self.amount - self.least or self.amount or 1.0


def target_of(budget: Budget) -> Target:
    """Return what a budget that is bound to fidelities allows, or raise an error if they cannot spend it."""
    fixed = budget.cost[np.isfinite(budget.cost)]
    known = not budget.priced
    low, high = (float(fixed.min()), float(fixed.max())) if known else (0.0, math.inf)
    streams = budget.streams
    if budget.per_tick is not None:
        amount = budget.per_tick
    elif not known:
        which = "share" if budget.reads is None else "reads"
        raise ValueError(f"Budget.{which} needs costs that are numbers; give per_tick where they are functions")
    elif budget.reads is not None:
        if budget.reads > streams and not budget.shared:
            raise ValueError(f"Budget.reads must be at most the number of streams, {streams}, not {budget.reads}")
        amount = streams * low + min(budget.reads, streams) * (high - low)
    else:
        amount = streams * (low + float(budget.share or 0.0) * (high - low))
    least, most = streams * low, streams * high
    if amount < least * (1.0 - 1e-9):  # an equal part of a sum has rounding errors
        raise ValueError(
            f"Budget.per_tick must be at least {least:g}, what the cheapest fidelity costs, "
            f"not {budget.per_tick!r}; a skip (zeta 0, cost 0) lowers that to 0"
        )
    amount = max(amount, least)
    if amount > most:
        if not budget.shared and amount > most * (1.0 + 1e-9):  # a mean of costs has rounding errors
            reading = "a reading" if streams == 1 else f"a reading of each of the {streams} streams"
            raise ValueError(
                f"Budget.per_tick must be at most {most:g}, what {reading} at the most expensive fidelity costs, "
                f"not {budget.per_tick!r}"
            )
        amount = most
    return Target(amount, least, most)


def reserve_of(budget: Budget, amount: float, ticks: int) -> float:
    """Return the cheapest fixed cost per tick, which is reserved for every coming tick so that the cap holds."""
    fixed = budget.cost[np.isfinite(budget.cost)]
    if not fixed.size:
        raise ValueError(
            "Budget.cap needs a fidelity whose cost is a number: costs that are functions may all exceed what is "
            "left of the cap; a skip (zeta 0, cost 0) is enough"
        )
    spare = budget.streams * float(fixed.min())
    if amount < ticks * spare:
        which = "cheapest fidelity whose cost is a number" if budget.priced else "cheapest fidelity"
        raise ValueError(f"Budget.cap must allow {ticks} ticks of the {which}, {ticks * spare:g}, not {amount:g}")
    return spare


def most_under_cap(budget: Budget, amount: float, ticks: int) -> float:
    """Return the largest average cost per tick under a cap: a window holds whole readings only."""
    if budget.priced:
        return amount / ticks
    low, *dearer = sorted(set(budget.costs))
    most = 0.0
    while dearer:
        room, count = amount - budget.streams * ticks * low, budget.streams * ticks
        used = 0.0
        for cost in reversed(dearer):
            readings = min(count, math.floor(room / (cost - low) * (1.0 + 1e-12)))
            count -= readings
            room -= readings * (cost - low)
            used += readings * (cost - low)
        most = max(most, used)
        dearer.pop()  # without the most expensive, more may fit
    return most / ticks + budget.streams * low


def first_log_price(budget: Budget, belief: Filter) -> float:
    """Return the log price that the model predicts, before any reading (`Budget.initialize` has the argument)."""
    known = bool(np.isfinite(budget.cost).all())
    target = budget.target / budget.streams
    least, most = (budget.cost.min(), budget.cost.max()) if known else (0.0, target)
    above = float(most - least) or 1.0
    part = min((target - least) / above, 0.98)
    length = belief.hazard.mean_length()
    model, prior = belief.model, belief.model.prior()
    mean, _ = model.predictive(prior)
    typical = float(mean) if model.dimension == 1 else mean
    stats = model.update(prior, typical, max(part * length, 0.5))[:, None]
    cheapest, best = 0.0, 1.0  # zeta of these fidelities
    if known:
        cheapest, best = float(budget.zeta[budget.cost.argmin()]), float(budget.zeta[budget.cost.argmax()])
    if budget.gain == "run_length":
        # the entropy of a change at this tick, which bounds the gain of a reading
        h = 1.0 / length
        more = (best - cheapest) * -(h * math.log(h) + (1.0 - h) * math.log1p(-h)) if h < 1.0 else 1.0
    else:
        of = model.parameter_gain
        if budget.gain == "variance":
            of = model.variance_gain
        elif budget.gain == "change":
            of = model.quick_parameter_gain
        more = float(of(stats, best)[0] - of(stats, cheapest)[0])
    return math.log(max(more, 1e-12) / above)

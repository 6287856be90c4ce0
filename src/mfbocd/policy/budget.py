"""A price learnt while running, so that the average spend meets a budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..belief.filter import Filter
from ..belief.gains import Gain, checked_gain
from ..inputs.arguments import positive, probability
from .base import Array, Choices, Policy, largest_net

RATE = 0.02  # how far the log price moves for one unit over- or underspent, once settled
SETTLE = 10.0  # it moves by 1 / (SETTLE + ticks) until then: the first price is a guess
KICK = 1.0  # and by no more for one expensive reading of every stream, however many units that is
HORIZON = 200.0  # units, so ticks of the cheapest, in which a debt can be repaid: 1 % of 20,000 ticks
REACH = 30.0  # how far the log price may go from where it began
BAR = 30.0  # added to it where the debt forbids a reading, taken off where the savings demand one
_LARGEST = 700.0  # beyond, the price would be no number
_LARGEST_ROUND = 1e12


class Budget(Policy):
    """`Net` whose price is learnt so that the average cost a tick meets a budget.

    After each tick the log price moves by rate * excess + rate^2 / 8 * debt. The excess is what the tick cost beyond
    the budget, in units of what the budget leaves above the cheapest fidelity; the debt is the sum of the excesses so
    far. So the debt is driven to zero, not only the present spend to its target, from any start and through changes
    (rate^2 / 8 damps the loop critically at an elasticity of 1/2). The rate is RATE, or less if one expensive reading
    costs so many units that it would move the log price by more than KICK.

    The debt has hard bounds as well, since one expensive reading may cost thousands of units: no reading is bought
    that leaves more debt than HORIZON ticks can repay, except that one reading may always be bought while there is no
    debt; and with as much saved, the next reading is bought at any price. Over 20,000 ticks the spend is thus within
    1 % of the budget, or within one expensive reading if that is more, as long as an expensive reading tells more
    than a cheap one; and no change of regime meets a debt that takes longer to repay than HORIZON ticks or a reading.

    Parameters
    ----------
    per_tick: the wanted average cost per tick; for a fleet, of all its streams together. At least what the cheapest
        fidelity costs and at most what the most expensive one does, where costs are numbers.
    share: instead of `per_tick`, how far between the cheapest fidelity's cost (0) and the most expensive one's (1).
    cap: (amount, ticks): never more than `amount` in any `ticks` consecutive ticks. Needs a fidelity whose cost is a
        number, so low that it can be read at every tick: where all costs are functions, add a skip.
    gain: what is weighed against the price.

    >>> Budget(8.0, cap=(400, 20))
    Budget(8.0, cap=(400.0, 20), gain='joint')
    """

    def __init__(
        self,
        per_tick: float | None = None,
        *,
        share: float | None = None,
        cap: tuple[float, int] | None = None,
        gain: Gain = "joint",
    ) -> None:
        if (per_tick is None) == (share is None):
            raise ValueError("Budget takes per_tick or share, one of the two")
        self.per_tick = None if per_tick is None else positive("Budget", "per_tick", per_tick)
        self.share = None if share is None else probability("Budget", "share", share, "(0, 1]")
        self.cap = None if cap is None else _checked_cap(cap)
        self.gain = checked_gain("Budget", gain)
        self.log_price = self._began = 0.0
        self.debt = 0.0
        self.ticks = 0
        self.recent: list[float] = []  # spends of the last ticks a cap looks back on
        self._target = self._unit = math.nan
        self._spare = 0.0
        self._scale(0.0)

    def __repr__(self) -> str:
        amount = f"share={self.share:g}" if self.per_tick is None else repr(self.per_tick)
        return f"Budget({amount}, cap={self.cap!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Check that the budget and the cap can be met, and work out what the controller counts in."""
        self.recent = list(self.recent)
        fixed = self.cost[np.isfinite(self.cost)]
        known = not self.priced
        low, high = (float(fixed.min()), float(fixed.max())) if known else (0.0, math.inf)
        if self.per_tick is not None:
            self._target = self.per_tick
        elif known:
            self._target = self.streams * (low + float(self.share or 0.0) * (high - low))
        else:
            raise ValueError("Budget.share needs costs that are numbers; give per_tick where they are functions")
        least, most = self.streams * low, self.streams * high
        if self._target < least:
            raise ValueError(
                f"Budget.per_tick must be at least {least:g}, what the cheapest fidelity costs, "
                f"not {self.per_tick!r}; a skip (zeta 0, cost 0) lowers that to 0"
            )
        if self._target > most:
            if not self.shared and self._target > most * (1.0 + 1e-9):  # a mean of costs may be a rounding too large
                raise ValueError(
                    f"Budget.per_tick must be at most {most:g}, what {_all(self.streams)} at the most expensive "
                    f"fidelity costs, not {self.per_tick!r}"
                )
            self._target = most
        self._unit = self._target - least or self._target or 1.0  # at the least budget any excess is a reading
        self._scale((most - least) / self._unit if known else 0.0)
        if self._target == least < most:  # only ever the cheapest, or the best: nothing need be learnt
            self._ceiling = -1.0
        elif self._target == most:
            self._floor = 1.0
        if self.cap is not None:
            self._spare = self._fallback(*self.cap, fixed)

    def _scale(self, units: float) -> None:
        """Set what depends on the units that a round of the most expensive readings costs above the cheapest."""
        self.round = min(units, _LARGEST_ROUND)
        self._rate = min(RATE, KICK / self.round) if self.round > 0.0 else RATE
        self._floor, self._ceiling = -max(HORIZON, self.round), max(HORIZON - self.round, 0.0)
        self._settle = max(SETTLE, self.round / KICK)
        self._worst = 2.0 * max(HORIZON, self.round)

    def _fallback(self, amount: float, ticks: int, fixed: Array) -> float:
        """What the cheapest fixed cost comes to per tick: held back for every tick to come, so that the cap holds."""
        if not fixed.size:
            raise ValueError(
                "Budget.cap needs a fidelity whose cost is a number: costs that are functions may all exceed what is "
                "left of the cap; a skip (zeta 0, cost 0) is enough"
            )
        spare = self.streams * float(fixed.min())
        if amount < ticks * spare:
            which = "cheapest fidelity whose cost is a number" if self.priced else "cheapest fidelity"
            raise ValueError(f"Budget.cap must leave {ticks} ticks of the {which}, {ticks * spare:g}, not {amount:g}")
        return spare

    @property
    def price(self) -> float:
        """The gain one unit of cost must buy now: as learnt, or e^BAR times more or less where the debt decides."""
        return self._price(self._floor, self._ceiling)

    def _price(self, floor: float, ceiling: float) -> float:
        bar = BAR if self.debt > ceiling else -BAR if self.debt < floor else 0.0
        return math.exp(min(self.log_price + bar, _LARGEST))

    def initialize(self, belief: Filter) -> None:
        """Begin at the price the model itself expects.

        If the first part of a regime is read at high fidelity and the rest at low, in the proportion the budget
        allows, then the two are equally good where the first part ends: there the difference of their gains is the
        price of the difference of their costs.
        """
        known = bool(np.isfinite(self.cost).all())
        least, most = (self.cost.min(), self.cost.max()) if known else (0.0, self._target / self.streams)
        above = float(most - least) or 1.0
        part = min((self._target / self.streams - least) / above, 0.98)
        length = belief.hazard.mean_length()
        model, prior = belief.model, belief.model.prior()
        mean, _ = model.predictive(prior)
        typical = float(mean) if model.dimension == 1 else mean
        stats = model.update(prior, typical, max(part * length, 0.5))[:, None]
        zeta = (float(self.zeta[self.cost.argmin()]), float(self.zeta[self.cost.argmax()])) if known else (0.0, 1.0)
        if self.gain == "run_length":
            # what a change at this tick alone would leave to be known, of which the reading tells a part
            h = 1.0 / length
            more = (zeta[1] - zeta[0]) * -(h * math.log(h) + (1.0 - h) * math.log1p(-h)) if h < 1.0 else 1.0
        else:
            of = model.variance_gain if self.gain == "variance" else model.parameter_gain
            more = float(of(stats, zeta[1])[0] - of(stats, zeta[0])[0])
        self.log_price = self._began = math.log(max(more, 1e-12) / above)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The largest net gain at the present price, of those that cap and debt still afford."""
        rows = np.arange(len(costs))
        choice: Choices = np.argmin(costs, axis=1)
        left = self._left()
        if self.priced or self.streams > 1:
            # Here it is known what all would cost together, so that the debt is held to single readings.
            price = self._price(max(self._floor, -max(HORIZON, self.round / self.streams)), math.inf)
            left = min(left, self._credit(float(costs[rows, choice].sum()), float(np.ptp(costs, axis=1).max())))
        else:
            price = self.price
        net = gains - price * costs
        best: Choices = net.argmax(axis=1)
        if costs[rows, best].sum() <= left:
            return best
        # Everybody gets the cheapest; what is left goes to whom it helps most a unit of cost.
        left -= costs[rows, choice].sum()
        extra = costs[rows, best] - costs[rows, choice]
        worth = net[rows, best] - net[rows, choice]
        order = np.argsort(-worth / np.where(extra > 0.0, extra, 1.0), kind="stable")
        for i in order.tolist():
            # the best that still fits, not only the best of all; the cheapest is taken even where it does not
            fits = np.where(costs[i] - costs[i, choice[i]] <= max(left, 0.0), net[i], -np.inf)
            j = int(fits.argmax())
            left -= costs[i, j] - costs[i, choice[i]]
            choice[i] = j
        return choice

    def _credit(self, cheapest: float, extra: float) -> float:
        """What the debt lets the coming tick cost: up to HORIZON units of it, and out of savings one reading."""
        if self._ceiling < 0.0:
            return cheapest
        room = self._target + (HORIZON - self.debt) * self._unit
        return room if self.debt > 0.0 else max(room, cheapest + extra)

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """As `pick`."""
        if self.cap is not None:
            return super().pick_one(gains, seed, tick)
        return largest_net(gains, self.costs, self.price)

    @property
    def is_net_gain(self) -> bool:
        """If no cap is in the way."""
        return self.cap is None

    def _left(self) -> float:
        """What the coming tick may cost, so that no window with it, nor any later one, need exceed the cap."""
        if self.cap is None:
            return math.inf
        amount, ticks = self.cap
        before = sum(max(spent, self._spare) for spent in self.recent)
        return amount - before - (ticks - 1 - len(self.recent)) * self._spare

    def affords(self, cost: float) -> bool:
        """Whether the cap leaves as much."""
        return cost <= self._left()

    def record_cost(self, costs: Sequence[float] | Array) -> None:
        """Learn from what the tick cost."""
        spent = float(np.sum(costs) if len(costs) > 1 else costs[0])  # the sum of one takes as long as all the rest
        if self.cap is not None:
            self.recent = [*self.recent, spent][-(self.cap[1] - 1) :] if self.cap[1] > 1 else []
        excess = (spent - self._target) / self._unit
        if self.priced and excess > self.round:
            self._scale(excess)
        self.debt = min(max(self.debt + excess, -self._worst), self._worst)
        rate = max(self._rate, 1.0 / (self._settle + self.ticks))
        moved = self.log_price + rate * excess + self._rate * self._rate / 8.0 * self.debt
        self.log_price = min(max(moved, self._began - REACH), self._began + REACH)
        self.ticks += 1

    @classmethod
    def record_costs(cls, policies: Sequence[Self], costs: Sequence[float]) -> Array | None:
        """As `paid`, with the same operations in the same order: the same bits."""
        like = policies[0]
        if like.cap is not None or like.priced:
            return super().record_costs(policies, costs)
        log_price, debt, ticks = np.array([(policy.log_price, policy.debt, policy.ticks) for policy in policies]).T
        with np.errstate(over="ignore"):
            excess = (np.array(costs) - like._target) / like._unit
            debt = np.minimum(np.maximum(debt + excess, -like._worst), like._worst)
            rate = np.maximum(like._rate, 1.0 / (like._settle + ticks))
            moved = log_price + rate * excess + like._rate * like._rate / 8.0 * debt
        log_price = np.minimum(np.maximum(moved, like._began - REACH), like._began + REACH)
        for policy, price, owed in zip(policies, log_price.tolist(), debt.tolist(), strict=True):
            policy.log_price, policy.debt = price, owed
            policy.ticks += 1
        return np.stack([log_price, debt, ticks + 1.0], axis=1)

    def batch_key(self) -> tuple[Any, ...]:
        """What the price moves by, and about."""
        return self._target, self._unit, self._began, self.cap

    def for_one_stream(self) -> Budget:
        """An equal part of the budget, at the price learnt together."""
        part = copy.copy(self)
        if self.streams > 1:
            part.per_tick, part.share = self._target / self.streams, None
            part.cap = None if self.cap is None else (self.cap[0] / self.streams, self.cap[1])
            part.recent = [spent / self.streams for spent in self.recent]
        return part

    def state(self) -> dict[str, Any]:
        """Price, debt, ticks so far, the spends a cap looks back on, and of costs that are functions the largest."""
        learnt = {"log_price": self.log_price, "debt": self.debt, "ticks": self.ticks, "recent": self.recent}
        return learnt | {"round": self.round} if self.priced else learnt

    def restore(self, state: Mapping[str, Any]) -> None:
        """As any; costs that are now numbers are known better than by what was seen of them."""
        super().restore({name: value for name, value in state.items() if name != "round"})
        if self.priced and "round" in state:
            self._scale(state["round"])

    def spec(self) -> dict[str, Any]:
        """All four arguments."""
        return {"per_tick": self.per_tick, "share": self.share, "cap": self.cap, "gain": self.gain}


def _checked_cap(cap: Any) -> tuple[float, int]:
    if not isinstance(cap, (tuple, list)) or len(cap) != 2:
        raise TypeError(f"Budget.cap must be (amount, ticks), not {cap!r}")
    amount, ticks = cap
    if isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 1:
        raise ValueError(f"Budget.cap must look at a whole number of ticks of at least 1, not {ticks!r}")
    return positive("Budget", "cap", amount), ticks


def _all(streams: int) -> str:
    return "a reading" if streams == 1 else f"a reading of each of the {streams} streams"

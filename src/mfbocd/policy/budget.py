"""A price learnt while running, so that the average spend meets a budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..filter import Filter
from ..information import Gain, checked_gain
from ..models.base import finite, positive
from .base import Array, Choices, Policy, largest_net

RATE = 0.02  # how far the log price moves for one unit over- or underspent, once settled
SETTLE = 10.0  # it moves by 1 / (SETTLE + ticks) until then: the first price is a guess
HOLD = RATE * RATE / 8.0  # and for a unit of debt at every tick: damps the loop critically at an elasticity of 1/2
WORST = 200.0  # units of debt the price reacts to; more is not remembered
REACH = 8.0  # how far the log price may go from where it began: beyond, only the way back gets longer
_DEAR = 700.0  # beyond, the price would be no number


class Budget(Policy):
    """`Net` whose price is learnt so that the average cost a tick meets a budget.

    After each tick the log price moves by RATE * excess + HOLD * debt. The excess is what the tick cost beyond the
    budget, in units of what the budget leaves above the cheapest fidelity; the debt is their sum so far. So the debt
    is driven to zero, not only the present spend to its target, from any start and through changes.

    Parameters
    ----------
    per_tick: the wanted average cost a tick; for a fleet of all its streams together.
    share: instead of `per_tick`, how far between the cheapest fidelity's cost (0) and the dearest's (1).
    cap: (amount, ticks): never more than `amount` in any `ticks` consecutive ticks.
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
        if share is not None and not 0.0 < finite("Budget", "share", share) <= 1.0:
            raise ValueError(f"Budget.share must lie in (0, 1], not {share!r}")
        self.share = share
        self.cap = None if cap is None else _checked_cap(cap)
        self.gain = checked_gain("Budget", gain)
        self.log_price = self._began = 0.0
        self.debt = 0.0
        self.ticks = 0
        self.recent: list[float] = []  # spends of the last ticks a cap looks back on
        self._target = self._unit = math.nan
        self._spare = 0.0

    def __repr__(self) -> str:
        amount = f"share={self.share:g}" if self.per_tick is None else repr(self.per_tick)
        return f"Budget({amount}, cap={self.cap!r}, gain={self.gain!r})"

    def fit(self) -> None:
        """Check that the budget and the cap can be met."""
        self.recent = list(self.recent)
        known = bool(np.isfinite(self.cost).all())
        if self.per_tick is not None:
            self._target = self.per_tick
        elif known:
            low, high = float(self.cost.min()), float(self.cost.max())
            self._target = self.streams * (low + float(self.share or 0.0) * (high - low))
        else:
            raise ValueError("Budget.share needs costs that are numbers; give per_tick where they are functions")
        fixed = self.cost[np.isfinite(self.cost)]
        least = self.streams * float(fixed.min()) if known else 0.0
        if self._target < least:
            raise ValueError(
                f"Budget.per_tick must be at least {least:g}, what the cheapest fidelity costs, "
                f"not {self.per_tick!r}; a skip (zeta 0, cost 0) lowers that to 0"
            )
        self._unit = self._target - least or self._target  # at the very least budget any excess is the dear one's
        if self.cap is not None and self.cap[0] < self.cap[1] * least:
            raise ValueError(
                f"Budget.cap must leave {self.cap[1]} ticks of the cheapest fidelity, "
                f"{self.cap[1] * least:g}, not {self.cap[0]:g}"
            )
        # what every tick can do with, and is held back for each to come; nothing where only functions know
        spare = self.streams * float(fixed.min()) if fixed.size else 0.0
        self._spare = spare if self.cap is not None and self.cap[1] * spare <= self.cap[0] else 0.0

    @property
    def price(self) -> float:
        """The gain one unit of cost must buy now."""
        return math.exp(self.log_price if self.log_price < _DEAR else _DEAR)

    def prime(self, belief: Filter) -> None:
        """Begin at the price the model itself expects.

        If the first part of a regime is read at high fidelity and the rest at low, in the proportion the budget
        allows, then the two are equally good where the first part ends: there the difference of their gains is the
        price of the difference of their costs.
        """
        known = bool(np.isfinite(self.cost).all())
        least, most = (self.cost.min(), self.cost.max()) if known else (0.0, self._target / self.streams)
        dearer = float(most - least) or 1.0
        part = min(max((self._target / self.streams - least) / dearer, 0.02), 0.98)
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
        self.log_price = self._began = math.log(max(more, 1e-12) / dearer)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The largest net gain at the present price, of those the cap still affords."""
        net = gains - self.price * costs
        best: Choices = net.argmax(axis=1)
        if self.cap is None:
            return best
        rows = np.arange(len(net))
        left = self._left()
        if costs[rows, best].sum() <= left:
            return best
        # Everybody gets the cheapest; what is left goes to whom it helps most a unit of cost.
        choice = np.argmin(costs, axis=1)
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

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """As `pick`."""
        if self.cap is not None:
            return super().pick_one(gains, seed, tick)
        return largest_net(gains, self.costs, self.price)

    @property
    def nets(self) -> bool:
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

    def paid(self, costs: Sequence[float] | Array) -> None:
        """Learn from what the tick cost."""
        spent = float(np.sum(costs) if len(costs) > 1 else costs[0])  # the sum of one takes as long as all the rest
        if self.cap is not None:
            self.recent = [*self.recent, spent][-(self.cap[1] - 1) :] if self.cap[1] > 1 else []
        excess = (spent - self._target) / self._unit
        self.debt = min(max(self.debt + excess, -WORST), WORST)
        rate = max(RATE, 1.0 / (SETTLE + self.ticks))
        moved = self.log_price + rate * excess + HOLD * self.debt
        self.log_price = min(max(moved, self._began - REACH), self._began + REACH)
        self.ticks += 1

    @classmethod
    def paid_each(cls, policies: Sequence[Self], costs: Sequence[float]) -> Array | None:
        """As `paid`, with the same operations in the same order: the same bits."""
        like = policies[0]
        if like.cap is not None:
            return super().paid_each(policies, costs)
        log_price, debt, ticks = np.array([(policy.log_price, policy.debt, policy.ticks) for policy in policies]).T
        with np.errstate(over="ignore"):
            excess = (np.array(costs) - like._target) / like._unit
            debt = np.minimum(np.maximum(debt + excess, -WORST), WORST)
            rate = np.maximum(RATE, 1.0 / (SETTLE + ticks))
            moved = log_price + rate * excess + HOLD * debt
        log_price = np.minimum(np.maximum(moved, like._began - REACH), like._began + REACH)
        for policy, price, owed in zip(policies, log_price.tolist(), debt.tolist(), strict=True):
            policy.log_price, policy.debt = price, owed
            policy.ticks += 1
        return np.stack([log_price, debt, ticks + 1.0], axis=1)

    def alike(self) -> tuple[Any, ...]:
        """What the price moves by, and about."""
        return self._target, self._unit, self._began, self.cap

    def alone(self) -> Budget:
        """An equal part of the budget, at the price learnt together."""
        part = copy.copy(self)
        if self.streams > 1:
            part.per_tick, part.share = self._target / self.streams, None
            part.cap = None if self.cap is None else (self.cap[0] / self.streams, self.cap[1])
            part.recent = [spent / self.streams for spent in self.recent]
        return part

    def state(self) -> dict[str, Any]:
        """Price, debt, ticks so far, and the spends a cap looks back on."""
        return {"log_price": self.log_price, "debt": self.debt, "ticks": self.ticks, "recent": self.recent}

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

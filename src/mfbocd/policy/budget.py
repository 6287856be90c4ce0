"""A price learnt while running, so that the average spend meets a budget."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from ..information import Gain, checked_gain
from ..models.base import finite, positive
from .base import Array, Choices, Policy

RATE = 0.02  # of the log price a tick's worth of budget over- or underspent moves
HOLD = RATE * RATE / 8.0  # of the slow part, which remembers the price: damps the loop critically at elasticity 1/2
WORST = 400.0  # ticks of budget of over- or underspending the price reacts to; more is not remembered


class Budget(Policy):
    """`Net` whose price is learnt so that the average cost a tick meets a budget.

    log price = slow + RATE * debt, where the debt is what was overspent so far in ticks of budget, and `slow`
    integrates it. So the debt is driven to zero, not only the present spend to its target, from any start and
    through changes.

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
        self.slow: float | None = None  # log price at no debt; None until the first tick is paid for
        self.debt = 0.0
        self.recent: list[float] = []  # spends of the last ticks a cap looks back on
        self._target = math.nan

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
        least = self.streams * float(self.cost.min()) if known else 0.0
        if self._target < least:
            raise ValueError(
                f"Budget.per_tick must be at least {least:g}, what the cheapest fidelity costs, "
                f"not {self.per_tick!r}; a skip (zeta 0, cost 0) lowers that to 0"
            )
        if self.cap is not None and self.cap[0] < self.cap[1] * least:
            raise ValueError(
                f"Budget.cap must leave {self.cap[1]} ticks of the cheapest fidelity, "
                f"{self.cap[1] * least:g}, not {self.cap[0]:g}"
            )

    @property
    def price(self) -> float | None:
        """The gain one unit of cost must buy now; None before the first tick."""
        return None if self.slow is None else math.exp(self.slow + RATE * self.debt)

    def start(self, gains: Array, costs: Array) -> None:
        """Begin at the price that makes the dearest and the cheapest fidelity equally good at the first tick."""
        if self.slow is None:
            self.slow = _even(gains, costs)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The largest net gain at the present price, of those the cap still affords."""
        slow = _even(gains, costs) if self.slow is None else self.slow
        price = math.exp(slow + RATE * self.debt)
        net = gains - price * costs
        best = np.argmax(net, axis=1)
        if self.cap is None:
            return best
        rows = np.arange(len(net))
        left = self.cap[0] - sum(self.recent)
        if costs[rows, best].sum() <= left:
            return best
        # Everybody gets the cheapest; what is left goes to whom it helps most a unit of cost.
        choice = np.argmin(costs, axis=1)
        left -= costs[rows, choice].sum()
        extra = costs[rows, best] - costs[rows, choice]
        worth = net[rows, best] - net[rows, choice]
        order = np.argsort(-worth / np.where(extra > 0.0, extra, 1.0), kind="stable")
        for i in order.tolist():
            # the best that still fits, not only the best of all
            fits = np.where(costs[i] - costs[i, choice[i]] <= left, net[i], -np.inf)
            j = int(fits.argmax())
            left -= costs[i, j] - costs[i, choice[i]]
            choice[i] = j
        return choice

    def paid(self, costs: Array) -> None:
        """Learn from what the tick cost."""
        spent = float(costs.sum())
        if self.cap is not None:
            self.recent = [*self.recent, spent][-(self.cap[1] - 1) :] if self.cap[1] > 1 else []
        self.debt = min(max(self.debt + spent / self._target - 1.0, -WORST), WORST)
        if self.slow is not None:
            self.slow += HOLD * self.debt

    def alone(self) -> Budget:
        """An equal part of the budget, at the price learnt together."""
        part = copy.copy(self)
        if self.streams > 1:
            part.per_tick, part.share = self._target / self.streams, None
            part.cap = None if self.cap is None else (self.cap[0] / self.streams, self.cap[1])
            part.recent = [spent / self.streams for spent in self.recent]
        return part

    def state(self) -> dict[str, Any]:
        """Price, debt, and the spends a cap looks back on."""
        return {"slow": self.slow, "debt": self.debt, "recent": self.recent}

    def spec(self) -> dict[str, Any]:
        """All four arguments."""
        return {"per_tick": self.per_tick, "share": self.share, "cap": self.cap, "gain": self.gain}


def _even(gains: Array, costs: Array) -> float:
    """log of the price at which the dearest and the cheapest reading are equally good, on average over streams."""
    rows = np.arange(len(gains))
    low, high = costs.argmin(axis=1), costs.argmax(axis=1)
    more = float((gains[rows, high] - gains[rows, low]).sum())
    dearer = float((costs[rows, high] - costs[rows, low]).sum())
    return math.log(max(more, 1e-12) / dearer) if dearer > 0.0 else 0.0


def _checked_cap(cap: Any) -> tuple[float, int]:
    if not isinstance(cap, (tuple, list)) or len(cap) != 2:
        raise TypeError(f"Budget.cap must be (amount, ticks), not {cap!r}")
    amount, ticks = cap
    if isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 1:
        raise ValueError(f"Budget.cap must look at a whole number of ticks of at least 1, not {ticks!r}")
    return positive("Budget", "cap", amount), ticks

"""The money of a `JudgeMonitor`: what a judgement costs, what was spent today, and what it may cost now."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...detector.late import Key
from ...inputs.arguments import finite, not_negative, positive, whole
from ...policy import Budget
from ...policy.fidelity import Fidelity

_FREE = 1e-9  # cost of a free check relative to the budget per item: a cost must be positive
_ROUNDING = 1.0 + 1e-9  # checks that spend the whole budget may exceed it by the rounding of their sum


class Ledger:
    """Decides whether a judgement is worth its cost, and never exceeds the budget of a day.

    Parameters
    ----------
    cost : float or callable
        What one judgement costs, or a function of the item that returns it.
    per_day : float
        The budget.
    items_per_day : int
        Expected number of items per day.
    cheap_cost : float
        What one check costs.

    Attributes
    ----------
    spent : float
        Money spent so far.
    """

    def __init__(
        self, cost: float | Callable[[Any], float], per_day: float, items_per_day: int, cheap_cost: float
    ) -> None:
        owner = "JudgeMonitor"
        self.cost = cost if callable(cost) else positive(owner, "cost", cost)
        self.per_day = positive(owner, "per_day", per_day)
        self.items_per_day = whole(owner, "items_per_day", items_per_day, 1)
        self.cheap_cost = not_negative(owner, "cheap_cost", cheap_cost)
        self.spent = 0.0
        self._least = max(self.cheap_cost, _FREE * self.per_item)
        self._factor = 1.0  # actual cost of a judgement relative to the expected one
        self._owed = 0.0  # difference of actual and expected costs, charged with the next item
        # Money spent and number of items by day. Days may interleave and come back, so none is forgotten.
        self._days: dict[Key, tuple[float, int]] = {}
        budget = Budget(self.per_item)
        budget.shared = True  # a budget that pays for every judgement is not an error
        # The level of the check is known: without the judge, nothing is gained.
        self._budget = budget.bind([Fidelity("none", 0.0, self._least), Fidelity("judge", 1.0, self.expected)])

    @property
    def per_item(self) -> float:
        """The budget of one item."""
        return self.per_day / self.items_per_day

    def start(self, gain: float, cost: float) -> None:
        """Start at the price at which a judgement with this gain is just worth its cost."""
        self._budget._start_at(math.log(max(gain, 1e-12) / cost))

    def expected(self, item: Any) -> float:
        """Return what a judgement is expected to cost, with the check before it."""
        given = self.cost(item) if callable(self.cost) else self.cost
        return positive("JudgeMonitor", "cost", given) * self._factor + self._least

    def day_of(self, tick: int) -> Key:
        """Return the day of an item where nobody says it: `items_per_day` consecutive items."""
        return f"items from {tick - tick % self.items_per_day}"

    def forget_day_before(self, tick: int) -> None:
        """Forget the day before that of an item where nobody says it: it does not come back."""
        self._days.pop(self.day_of(tick - self.items_per_day), None)

    def allows_check(self, day: Key) -> bool:
        """Return whether the day's budget can pay for a check, which more items than expected may have used up."""
        spent = self._days.get(day, (0.0, 0))[0]
        return self.cheap_cost == 0.0 or spent + self.cheap_cost <= self.per_day * _ROUNDING

    def allows(self, cost: float, day: Key) -> bool:
        """Return whether the day's budget can pay for a judgement, and for the checks of the items to come."""
        spent, items = self._days.get(day, (0.0, 0))
        reserved = self.cheap_cost * max(self.items_per_day - items - 1, 0)
        return spent + cost + reserved <= self.per_day

    def is_worth(self, gain: float, cost: float) -> bool:
        """Return whether a gain is worth its cost at the current price."""
        choice = self._budget.pick(np.array([[0.0, gain]]), np.array([[self._least, cost]]), np.zeros(1))
        return bool(choice[0] == 1)

    def pay(self, cost: float, day: Key) -> None:
        """Count the money of an item as spent in its day."""
        self.spent += cost
        spent, items = self._days.get(day, (0.0, 0))
        self._days[day] = spent + cost, items + 1

    def charge(self, cost: float | None = None) -> None:
        """Let the price follow what an item cost: a check by default."""
        self._budget.record_cost(((self._least if cost is None else cost) + self._owed,))
        self._owed = 0.0

    def correct(self, expected: float, actual: float, day: Key, charged: bool, rate: float) -> float:
        """Account for the actual cost of a judgement.

        Parameters
        ----------
        expected : float
            What was paid for it.
        actual : float
            What it cost.
        day : str or int
            The day of the item.
        charged : bool
            Whether it has been charged already; then the difference is charged with the next item.
        rate : float
            How much the expected cost of later judgements follows.

        Returns
        -------
        float
            What is to be charged if it has not been charged.
        """
        actual += self._least
        self.spent += actual - expected
        if day in self._days:
            spent, items = self._days[day]
            self._days[day] = spent + actual - expected, items
        self._factor *= 1.0 + rate * (actual / expected - 1.0)
        if charged:
            self._owed += actual - expected
        return actual

    def spec(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "spent": self.spent,
            "costs": [self._factor, self._owed],
            "days": [[day, *found] for day, found in self._days.items()],
            "budget": self._budget.state(),
            "start": self._budget._controller.setting.began,
        }

    def restore(self, spec: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.spent, self._factor, self._owed = (
            finite("JudgeMonitor", "money", value) for value in (spec["spent"], *spec["costs"])
        )
        self._days = {
            day: (finite("JudgeMonitor", "money", spent), whole("JudgeMonitor", "items", items, 0))
            for day, spent, items in spec["days"]
        }
        self._budget._start_at(finite("JudgeMonitor", "money", spec["start"]))
        self._budget.restore(spec["budget"])

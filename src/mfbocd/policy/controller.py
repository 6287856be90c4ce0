"""The controller that learns the price of a `Budget`; the rule is in the notes of that class."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import price
from .base import Array

RATE = 0.02  # change of the log price per unit over- or underspent, once settled
SETTLE = 10.0  # see `price.START`
LARGEST_STEP = 0.03  # largest change of the log price for one expensive reading of every stream, once settled
MOST_SAVED = 200.0  # units saved that demand an expensive reading
_LARGEST = 700.0  # log price beyond which the price would overflow

Limit = Literal["", "forbidden", "demanded"]
LIMITS: tuple[Limit, Limit, Limit] = ("", "forbidden", "demanded")
"""Names of `price.FREE`, `price.FORBIDDEN` and `price.DEMANDED`, which is -1: the last."""


class Setting(NamedTuple):
    """What a controller is made for. A unit is the budget per tick minus the cost of the cheapest fidelity."""

    reading: float = 0.0
    """Cost, in units, of one most expensive reading of every stream above the cheapest."""
    tick_budget: float = 1.0
    """The budget of one tick, in units."""
    together: int = 1
    """Number of streams that one choice is for; the limits then apply to the reading of each."""
    began: float = 0.0
    """The first log price, from which the log price moves by at most `price.REACH`."""
    only_cheapest: bool = False
    """Whether the budget pays for the cheapest fidelity only."""
    only_best: bool = False
    """Whether the budget pays for the most expensive fidelity at every tick."""


class Controller:
    """The rule of one budget's controller, for one state or for many.

    A state is the log price, the debt in units, and the number of ticks. Controllers never change, so copies of a
    budget share one.

    Parameters
    ----------
    setting : Setting
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        reading = setting.reading
        largest = reading / setting.together
        self.worst = 2.0 * max(price.HORIZON * setting.tick_budget, MOST_SAVED, reading)
        """Largest absolute debt."""
        self._constants = c = np.empty(price.CONSTANTS)
        c[price.RATE] = min(RATE, LARGEST_STEP / reading) if reading > 0.0 else RATE
        c[price.SETTLE] = max(SETTLE, price.START * reading)
        c[price.FLOOR] = 1.0 if setting.only_best else -max(MOST_SAVED, reading)
        c[price.CEILING] = -1.0 if setting.only_cheapest else math.inf
        c[price.MOST_SAVED] = max(MOST_SAVED, largest)
        c[price.WORST] = self.worst
        c[price.READING] = largest
        c[price.TICK_BUDGET] = setting.tick_budget
        c[price.BEGAN] = setting.began

    def debt_limit(self, ticks: int) -> float:
        """Return the largest debt that a reading may leave."""
        return float(price.debt_limit(self._constants, float(ticks)))

    def next_state(self, log_price: float, debt: float, ticks: int, excess: float) -> tuple[float, float]:
        """Return log price and debt after a tick that cost `excess` units more than the budget."""
        log_price, debt = price.next_state(self._constants, log_price, debt, float(ticks), excess)
        return float(log_price), float(debt)  # numpy's numbers where nothing is compiled

    def next_states(self, numbers: Array, excess: Array) -> Array:
        """Compute `next_state` of many states, shape (m, 3)."""
        out = np.empty_like(numbers)
        price.next_states(self._constants, numbers, excess, out)
        return out

    def price(self, log_price: float) -> float:
        """Return the price that was learned."""
        return math.exp(min(log_price, _LARGEST))

    def prices(self, numbers: Array) -> Array:
        """Compute `price` of many states, shape (m, 3)."""
        return _exponentials(numbers[:, 0])

    def limit(self, debt: float, ticks: int) -> Limit:
        """Return what the limits of the debt say about the reading of one stream."""
        found = price.limit_of(self._constants, debt, float(ticks), self._constants[price.READING])
        return LIMITS[int(found)]

    def limits(self, numbers: Array) -> NDArray[np.str_]:
        """Compute `limit` of many states, shape (m, 3)."""
        out = np.empty(len(numbers))
        price.limits_of(self._constants, numbers, self._constants[price.READING], out)
        return np.array(LIMITS)[out.astype(np.int64)]

    def effective_price(self, log_price: float, debt: float, ticks: int) -> float:
        """Return the price that decides: out of all proportion where a limit of the debt decides instead."""
        reading = self.setting.reading
        moved = price.effective_log_price(self._constants, log_price, debt, float(ticks), reading)
        return math.exp(min(moved, _LARGEST))

    def effective_prices(self, numbers: Array) -> Array:
        """Compute `effective_price` of many states, shape (m, 3)."""
        out = np.empty(len(numbers))
        price.effective_log_prices(self._constants, numbers, self.setting.reading, out)
        return _exponentials(out)

    def price_together(self, log_price: float, debt: float, streams: int) -> float:
        """Return the price of one tick of many streams, where the limit of the debt applies to their total cost."""
        floor = max(self._constants[price.FLOOR], -max(MOST_SAVED, self.setting.reading / streams))
        return math.exp(min(log_price - price.BAR if debt < floor else log_price, _LARGEST))

    def export(self) -> dict[str, float]:
        """Return the constants by name, for code that runs the controller outside of Python."""
        c = self._constants.tolist()
        return {
            "round": self.setting.reading,
            "rate": c[price.RATE],
            "start": price.START,
            "settle": c[price.SETTLE],
            "floor": c[price.FLOOR],
            "ceiling": c[price.CEILING],
            "most_saved": c[price.MOST_SAVED],
            "worst": self.worst,
            "tick_budget": self.setting.tick_budget,
            "horizon": price.HORIZON,
            "young": price.YOUNG,
            "young_ticks": price.YOUNG_TICKS,
            "first_debt": price.FIRST_DEBT,
            "debt_slope": price.FIRST_DEBT / price.YOUNG_TICKS - price.YOUNG,
            "first_log_price": self.setting.began,
        }


def _exponentials(log_prices: Array) -> Array:
    # math.exp as for a single price: numpy's differs in the last bit
    return np.array([math.exp(one) for one in np.minimum(log_prices, _LARGEST).tolist()])

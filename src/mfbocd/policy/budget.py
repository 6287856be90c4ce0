"""A price that is learned while running, so that the average spend meets a budget."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels.price import REACH
from ..belief.filter import Filter
from ..belief.gains import Gain, checked_gain
from ..inputs.arguments import positive, probability, whole
from .base import Array, Choices, Policy, largest_net, largest_nets
from .controller import Controller, Limit, Setting
from .fidelity import Fidelity
from .target import first_log_price, most_under_cap, reserve_of, target_of

_LARGEST_READING = 1e12  # units


class Budget(Policy):
    """Choose the largest net gain at a price that is learned so that the average cost per tick meets a budget.

        argmax_zeta gain(zeta) - price * cost(zeta)

    Parameters
    ----------
    per_tick : float, optional
        Wanted average cost per tick; for a fleet, of all its streams together. It must lie between the costs of
        the cheapest and the most expensive fidelity (times the number of streams) where these are numbers.
    share : float, optional
        The budget as a position between the cheapest fidelity's cost (0) and the most expensive one's (1), in (0, 1].
    reads : int, optional
        For a fleet: number of streams that are read at the most expensive fidelity at every tick. These are the
        streams with the largest gain; the others are read at the cheapest. All streams must be read together. Exactly
        one of `per_tick`, `share` and `reads` is required.
    cap : tuple of (float, int), optional
        Hard limit (amount, ticks): never more than `amount` in any `ticks` consecutive ticks. It requires a fidelity
        with a fixed cost that can be paid at every tick; where all costs are functions, add a skip. A warning says if
        the cap leaves room for less than the budget.
    gain : {'joint', 'run_length', 'variance', 'change'}, default 'joint'
        The gain that is compared with the price (docs/deciding.md).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, not exactly one of `per_tick`, `share` and
        `reads` is given, or `reads` is combined with `cap`.

    Notes
    -----
    The price is set by a controller that counts in units: one unit is what the budget leaves per tick above the
    cheapest fidelity. After each tick

        excess = (spent - budget) / unit
        debt += excess
        log price += rate * excess + rate^2 / 8 * debt

    The first term raises the price after a tick above the budget and lowers it after one below. The second raises it
    as long as more than the budget was spent in total and lowers it as long as less was, so that the total spend
    reaches its target from any start and through changes. (With rate^2 / 8 the loop is critically damped if the
    spend above the cheapest is proportional to 1 / sqrt(price).) The rate is 0.02. It is larger during the first
    ticks, when the price is a guess, and smaller if one expensive reading costs so many units that it would change
    the log price by more than 0.03: a suspected change needs a burst of readings, which a faster price would cut off.

    One expensive reading may cost thousands of units, so the debt also has hard limits. No reading may leave a debt
    of more than the budget of 200 ticks, or 10 % of the budget so far if that is less. (At the first tick the limit
    is the budget of 60 ticks; it falls to the budget of 20 ticks after 200.) The only exception: while there is no
    debt, one reading may always be bought. While readings are forbidden, the price does not fall. With 200 units
    saved, the next reading is bought at any price, and the price does not rise.

    After 200 ticks or more, the spend therefore exceeds the budget by at most 10 %, and over 20,000 ticks it is
    within 1 % of it, or within one expensive reading if that is more, provided that an expensive reading has a larger
    gain than a cheap one. At the limit of the debt, an expensive reading is affordable again after as many ticks at
    the cheapest fidelity as save its cost.

    Examples
    --------
    >>> Budget(8.0, cap=(400, 20))
    Budget(8.0, cap=(400.0, 20), gain='joint')
    >>> Budget(reads=10, gain="change")
    Budget(reads=10, cap=None, gain='change')
    """

    lockstep = False  # whether all streams are read in every call (`SharedBudget`)

    def __init__(
        self,
        per_tick: float | None = None,
        *,
        share: float | None = None,
        reads: int | None = None,
        cap: tuple[float, int] | None = None,
        gain: Gain = "joint",
    ) -> None:
        if sum(given is not None for given in (per_tick, share, reads)) != 1:
            raise ValueError("Budget takes exactly one of per_tick, share and reads")
        if reads is not None and cap is not None:
            raise ValueError("Budget.reads fixes the cost of every tick: leave out cap")
        self.per_tick = None if per_tick is None else positive("Budget", "per_tick", per_tick)
        self.share = None if share is None else probability("Budget", "share", share, "(0, 1]")
        self.reads = None if reads is None else whole("Budget", "reads", reads, 1)
        self.cap = None if cap is None else _checked_cap(cap)
        self.gain = checked_gain("Budget", gain)
        self.log_price = 0.0
        self.debt = 0.0
        self.ticks = 0
        self.recent: list[float] = []  # costs of the last ticks, for the cap
        self._target = self._unit = math.nan
        self._spare = 0.0
        self._controller = Controller(Setting())

    def __repr__(self) -> str:
        amount = repr(self.per_tick)
        if self.per_tick is None:
            amount = f"reads={self.reads}" if self.share is None else f"share={self.share:g}"
        return f"Budget({amount}, cap={self.cap!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Check that the budget and the cap can be met, and compute the controller's units."""
        target = target_of(self)
        self._target, self._unit = target.amount, target.unit
        self._controller = Controller(
            Setting(
                reading=0.0 if self.priced else min((target.most - target.least) / self._unit, _LARGEST_READING),
                tick_budget=self._target / self._unit if self._target > 0.0 else 1.0,
                together=self.streams if self.lockstep else 1,
                began=self._controller.setting.began,
                # at the smallest and the largest budget there is nothing to learn
                only_cheapest=target.amount == target.least < target.most,
                only_best=target.amount == target.most,
            )
        )
        if self.cap is not None:
            self._spare = reserve_of(self, *self.cap)
            most = most_under_cap(self, *self.cap)
            if most < self._target * (1.0 - 1e-9) and not self.shared:
                warnings.warn(
                    f"Budget.cap = {self.cap!r} leaves room for {most:g} per tick, counted in whole readings: less "
                    f"than the budget, {self._target:g}, so a part of it cannot be spent",
                    stacklevel=4,
                )

    def _adapt(self, **changes: float) -> None:
        """Replace the controller by one with another setting."""
        self._controller = Controller(self._controller.setting._replace(**changes))  # type: ignore[arg-type]

    def _start_at(self, log_price: float) -> None:
        """Set the first log price."""
        self.log_price = log_price
        self._adapt(began=log_price)

    @property
    def target(self) -> float:
        """Wanted average cost per tick of all streams together; NaN before `bind`."""
        return self._target

    @property
    def price(self) -> float:
        """Units of gain that one unit of cost must buy, as learned so far; it decides where there is no `limit`."""
        return self._controller.price(self.log_price)

    @property
    def limit(self) -> Limit:
        """Which limit of the debt decides the next tick in place of the price.

        ``"forbidden"`` while the debt forbids a most expensive reading, ``"demanded"`` while the savings demand one,
        and empty otherwise.
        """
        return self._controller.limit(self.debt, self.ticks)

    @property
    def effective_price(self) -> float:
        """The price at which the net gain decides as `price` and `limit` together do.

        It is the price, times e^30 where a reading is forbidden and e^-30 where one is demanded.
        """
        return self._controller.effective_price(self.log_price, self.debt, self.ticks)

    def initialize(self, belief: Filter) -> None:
        """Start at the price that the model predicts.

        Suppose the first part of a regime is read at high fidelity and the rest at low, in the proportion the budget
        allows. Where the first part ends, both fidelities have the same net gain: there, the difference of their
        gains is the price times the difference of their costs.
        """
        self._start_at(first_log_price(self, belief))

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the largest net gain at the current price, among the choices that cap and debt allow."""
        rows = np.arange(len(costs))
        choice: Choices = np.argmin(costs, axis=1)
        if self.reads is not None:
            return self._most_useful(gains, costs, choice, draws)
        if self._unread and not gains.any():
            gains = np.broadcast_to(self.zeta, gains.shape)
        left = self._left()
        if self.priced or self.streams > 1:
            # The total cost of the tick is known here, so the limit of the debt applies to single readings.
            price = self._controller.price_together(self.log_price, self.debt, self.streams)
            left = min(left, self._credit(float(costs[rows, choice].sum()), float(np.ptp(costs, axis=1).max())))
        else:
            price = self.effective_price
        net = gains - price * costs
        best: Choices = net.argmax(axis=1)
        if costs[rows, best].sum() <= left:
            return best
        # Every stream gets the cheapest; the rest goes where the net gain per unit of cost is largest.
        left -= costs[rows, choice].sum()
        extra = costs[rows, best] - costs[rows, choice]
        worth = net[rows, best] - net[rows, choice]
        order = np.argsort(-worth / np.where(extra > 0.0, extra, 1.0), kind="stable")
        for i in order.tolist():
            # the best choice that still fits; the cheapest is taken even if it does not fit
            fits = np.where(costs[i] - costs[i, choice[i]] <= max(left, 0.0), net[i], -np.inf)
            j = int(fits.argmax())
            left -= costs[i, j] - costs[i, choice[i]]
            choice[i] = j
        return choice

    def _most_useful(self, gains: Array, costs: Array, choice: Choices, draws: Array) -> Choices:
        """Return the most expensive fidelity for the streams that gain most by it, the cheapest for the others."""
        if len(gains) != self.streams:
            raise ValueError(
                f"Budget.reads needs a choice for all {self.streams} streams at once, not for {len(gains)}"
            )
        rows = np.arange(len(costs))
        best = np.argmax(costs, axis=1)
        more = gains[rows, best] - gains[rows, choice]
        order = np.lexsort((draws, -more))[: self.reads]  # streams with equal gains in random order
        choice[order] = best[order]
        return choice

    @property
    def _unread(self) -> bool:
        """Whether every tick so far was one of the cheapest fidelity, as before the first.

        Then all gains may be 0: only readings distinguish run lengths. The first reading is chosen as if its gain
        were its zeta.
        """
        return self.debt <= -self.ticks

    def _credit(self, cheapest: float, extra: float) -> float:
        """Return the cost that the debt allows for the coming tick; without a debt, that of one reading at least."""
        if self._controller.setting.only_cheapest:
            return cheapest
        room = self._target + (self._controller.debt_limit(self.ticks) - self.debt) * self._unit
        return room if self.debt > 0.0 else max(room, cheapest + extra)

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """Return the same choice as `pick`."""
        if self.cap is not None or self.reads is not None:
            return super().pick_one(gains, seed, tick)
        if self._unread and not any(gains):
            gains = self.zeta.tolist()
        return largest_net(gains, self.costs, self.effective_price)

    def _left(self) -> float:
        """Return the largest cost of the coming tick that keeps this window and all later ones within the cap."""
        if self.cap is None:
            return math.inf
        amount, ticks = self.cap
        before = sum(max(spent, self._spare) for spent in self.recent)
        return amount - before - (ticks - 1 - len(self.recent)) * self._spare

    def affords(self, cost: float) -> bool:
        """Tell whether the cap allows this cost."""
        return cost <= self._left()

    def record_cost(self, costs: Sequence[float] | Array) -> None:
        """Update price and debt with the cost of the tick."""
        spent = float(np.sum(costs) if len(costs) > 1 else costs[0])  # np.sum of one number is slow
        if self.cap is not None:
            self.recent = [*self.recent, spent][-(self.cap[1] - 1) :] if self.cap[1] > 1 else []
        excess = (spent - self._target) / self._unit
        if self.priced and excess > self._controller.setting.reading:
            self._adapt(reading=min(excess, _LARGEST_READING))
        self.log_price, self.debt = self._controller.next_state(self.log_price, self.debt, self.ticks, excess)
        self.ticks += 1

    @property
    def numeric(self) -> bool:
        """Whether the state is three plain numbers: log price, debt and ticks.

        With a cap it also contains recent costs, and with cost functions the largest cost seen.
        """
        return self.cap is None and self.reads is None and not self.priced and type(self) is Budget

    def pick_many(self, numbers: Array, gains: Array, costs: Array) -> Choices:
        """Compute `pick_one` of many budgets like this one.

        Parameters
        ----------
        numbers : ndarray
            Log price, debt and ticks of each budget, shape (m, 3).
        gains, costs : ndarray
            Expected gain and cost of each stream and fidelity, shape (m, J).

        Returns
        -------
        ndarray of int
            Indices of the chosen fidelities, shape (m,).
        """
        unread = (numbers[:, 1] <= -numbers[:, 2]) & ~gains.any(axis=1)
        if unread.any():
            gains = np.where(unread[:, None], self.zeta, gains)
        return largest_nets(gains, costs, self._controller.effective_prices(numbers))

    def learn(self, numbers: Array, costs: Array) -> Array:
        """Compute `record_cost` of many budgets like this one.

        Parameters
        ----------
        numbers : ndarray
            Log price, debt and ticks of each budget, shape (m, 3).
        costs : ndarray
            What each stream paid, shape (m,).

        Returns
        -------
        ndarray
            The new numbers, shape (m, 3).
        """
        with np.errstate(over="ignore"):
            excess = (costs - self._target) / self._unit
        return self._controller.next_states(numbers, excess)

    def prices(self, numbers: Array) -> Array:
        """Compute `price` of many budgets like this one.

        Parameters
        ----------
        numbers : ndarray
            Log price, debt and ticks of each budget, shape (m, 3).

        Returns
        -------
        ndarray
            Prices, shape (m,).
        """
        return self._controller.prices(numbers)

    def limits(self, numbers: Array) -> NDArray[np.str_]:
        """Compute `limit` of many budgets like this one.

        Parameters
        ----------
        numbers : ndarray
            Log price, debt and ticks of each budget, shape (m, 3).

        Returns
        -------
        ndarray of str
            Limits, shape (m,).
        """
        return self._controller.limits(numbers)

    def resized(self, streams: int, belief: Filter) -> Self:
        """Return this budget for another number of streams, with the same price and the same debt in units of cost.

        Parameters
        ----------
        streams : int
            The new number of streams.
        belief : Filter
            The run-length posterior of a stream before its first tick.

        Returns
        -------
        Budget
            A bound copy.
        """
        other = copy.copy(self)
        other.shared = True  # checked when it was made; fewer streams spend at most what they can
        other = other.bind(self.fidelities, streams)
        other.initialize(belief)
        first = other._controller.setting.began
        other.log_price = min(max(self.log_price, first - REACH), first + REACH)
        other._take_debt(self)
        return other

    def _take_debt(self, other: Budget) -> None:
        """Continue with another budget's debt, the same in units of cost, and its largest function cost."""
        if other.priced:
            self._adapt(reading=other._controller.setting.reading)
        worst = self._controller.worst
        self.debt = min(max(other.debt * (other._unit / self._unit), -worst), worst)

    def rebound(self, fidelities: Sequence[Fidelity]) -> Self:
        """Keep the price, and the debt in units of cost."""
        other = super().rebound(fidelities)
        other._take_debt(self)
        return other

    def for_one_stream(self) -> Budget:
        """Return an equal part of the budget, at the price learned by all streams."""
        part = copy.copy(self)
        if self.streams > 1:
            part.per_tick, part.share, part.reads = self._target / self.streams, None, None
            part.cap = None if self.cap is None else (self.cap[0] / self.streams, self.cap[1])
            part.recent = [spent / self.streams for spent in self.recent]
        return part

    def state(self) -> dict[str, Any]:
        """Return log price, debt, ticks, the recent costs that the cap needs, and the largest function cost seen."""
        learned = {"log_price": self.log_price, "debt": self.debt, "ticks": self.ticks, "recent": self.recent}
        return learned | {"round": self._controller.setting.reading} if self.priced else learned

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state`; the largest cost seen is used only where costs are functions."""
        super().restore({name: value for name, value in state.items() if name != "round"})
        if self.priced and "round" in state:
            self._adapt(reading=state["round"])

    def spec(self) -> dict[str, Any]:
        """Return the five arguments."""
        spec = {"per_tick": self.per_tick, "share": self.share, "cap": self.cap, "gain": self.gain}
        return spec | ({"reads": self.reads} if self.reads is not None else {})


def controller(budget: Budget) -> dict[str, float]:
    """Return the constants of a bound budget's controller, for code that runs it outside of Python.

    Parameters
    ----------
    budget : Budget
        Bound to fidelities with fixed costs, and initialized.

    Returns
    -------
    dict of str to float
        By name: the constants of this module, those of this budget, and the cost that the cap reserves for each
        coming tick.
    """
    return {
        "target": budget._target,
        "unit": budget._unit,
        "spare": budget._spare,
    } | budget._controller.export()


def _checked_cap(cap: Any) -> tuple[float, int]:
    if not isinstance(cap, (tuple, list)) or len(cap) != 2:
        raise TypeError(f"Budget.cap must be (amount, ticks), not {cap!r}")
    amount, ticks = cap
    return positive("Budget", "cap", amount), whole("Budget", "cap[1]", ticks, 1)

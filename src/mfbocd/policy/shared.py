"""One budget for a group of streams, with one price learned from the spend of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..belief.filter import Filter
from ..inputs.arguments import whole
from ..inputs.copies import Independent
from .base import Array, Choices, largest_nets
from .budget import Budget
from .controller import Limit
from .fidelity import Fidelity

MOST_ROUNDS = 32
"""Largest number of rounds that one `record` counts: all were decided at one price and show its error only once."""


class SharedBudget(Independent):
    """One `Budget` for a group of streams, each of which is read at its own pace.

    `per_tick` (or `share`) of the budget is the average cost per tick of the whole group. A tick of the group is a
    round: as many readings as there are streams. The price changes once per round. A `Fleet`, a group of the service
    and a group on Spark all count in this way, so the same configuration has the same total spend in each.

    Parameters
    ----------
    budget : Budget
        The budget of the group. Its learned price is not used; `restore` does that.
    fidelities : sequence of Fidelity
        The fidelities of the streams.
    belief : Filter
        The run-length posterior of a stream before its first tick; the first price is predicted from its model.
    streams : int
        Number of streams of the group, at least 1. `streams` can be set later.
    lockstep : bool, default False
        Whether every stream is read in every call. Only then may the budget have a cap: streams that choose
        independently could exceed it together.

    Attributes
    ----------
    policy : Budget
        The budget bound to the group.
    effective_price : float
        The price at which streams decide now (`Budget.effective_price`).
    spent : float
        Cost of the readings of the current round.
    readings : int
        Number of readings of the current round.

    Raises
    ------
    TypeError
        If `budget` is not a Budget.
    ValueError
        If the budget has a cap without `lockstep`, or is below the cost of the cheapest fidelity of every stream.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> ways = [Fidelity("imu", 0.1, 1), Fidelity("gps", 1, 40)]
    >>> one = Detector(Gaussian(0, 9, 1), ways)
    >>> group = SharedBudget(Budget(16.0), ways, Filter(one.model, one.hazard, one.pruning), streams=2)
    >>> first = group.price
    >>> group.record(40.0)
    >>> group.price == first
    True
    >>> group.record(40.0)  # completes a round that cost 80, not 16
    >>> group.price > first
    True
    """

    def __init__(
        self,
        budget: Budget,
        fidelities: Sequence[Fidelity],
        belief: Filter,
        streams: int,
        *,
        lockstep: bool = False,
    ) -> None:
        if not isinstance(budget, Budget):
            raise TypeError(f"the policy of a group must be a Budget, not {budget!r}")
        if budget.cap is not None and not lockstep:
            raise ValueError(
                f"Budget.cap must be left out of a group's budget, not {budget.cap!r}: its streams choose ahead of "
                "one another, and could exceed the cap together"
            )
        if budget.reads is not None and not lockstep:
            raise ValueError(
                f"Budget.reads must be left out of a group's budget, not {budget.reads!r}: only a Fleet reads its "
                "streams together"
            )
        self.lockstep = lockstep
        self.policy = type(budget)(**budget.spec())
        self.policy.shared = budget.shared
        self.policy.lockstep = lockstep
        self.policy = self.policy.bind(fidelities, whole("", "streams", streams, 1))
        self.policy.initialize(belief)
        self._belief = belief
        self.spent = 0.0
        self.readings = 0
        self.effective_price: float = self.policy.effective_price

    def __repr__(self) -> str:
        return f"<SharedBudget of {self.streams} streams: {self.policy!r}, price {self.price:g}>"

    @property
    def streams(self) -> int:
        """Number of streams that share the budget.

        Setting it keeps the price, and the debt in units of cost. A `per_tick` above what the streams can spend is
        treated as the most they can spend. One below the cost of the cheapest fidelity of every stream raises a
        ValueError and changes nothing.
        """
        return self.policy.streams

    @streams.setter
    def streams(self, streams: int) -> None:
        if whole("", "streams", streams, 1) == self.streams:
            return
        self.policy = self.policy.resized(streams, self._belief)
        self.effective_price = self.policy.effective_price

    @property
    def target(self) -> float:
        """Wanted average cost of a round."""
        return self.policy.target

    @property
    def price(self) -> float:
        """Units of gain that one unit of cost must buy, as learned so far."""
        return self.policy.price

    @property
    def limit(self) -> Limit:
        """Which limit of the debt decides in place of the price (`Budget.limit`)."""
        return self.policy.limit

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Choose a fidelity for some streams.

        For all streams at the start of a round it is `Budget.pick`, which uses their total cost. For fewer streams,
        each gets the largest net gain at the current price.

        Parameters
        ----------
        gains : ndarray
            Expected gain of each stream and fidelity, shape (m, J).
        costs : ndarray
            Cost of each stream and fidelity, shape (m, J).
        draws : ndarray
            One uniform random number per stream, shape (m,).

        Returns
        -------
        ndarray of int
            Indices of the chosen fidelities, shape (m,).
        """
        if len(gains) == self.streams and self.readings == 0:
            return self.policy.pick(gains, costs, draws)
        if self.policy.reads is not None:
            self.check(len(gains))
        return largest_nets(gains, costs, self.effective_price)

    def check(self, readings: int) -> None:
        """Check that readings of this many streams are allowed: with a cap or `reads`, all must be read together.

        Parameters
        ----------
        readings : int
            Number of streams to be read.

        Raises
        ------
        ValueError
            If the budget has a cap or `reads` and not all streams are read.
        """
        which = "reads" if self.policy.reads is not None else "cap" if self.policy.cap is not None else None
        if which is not None and (readings != self.streams or self.readings):
            raise ValueError(
                f"Budget.{which} needs a reading of all {self.streams} streams in every call, not of {readings}: "
                "streams that choose ahead of one another could exceed it together"
            )

    def record(self, cost: float, readings: int = 1) -> None:
        """Record readings and their total cost; every completed round changes the price.

        Parameters
        ----------
        cost : float
            Total cost of the readings.
        readings : int, default 1
            Number of readings. Where they complete several rounds, each counts with the average cost, and at most
            `MOST_ROUNDS` of them count.
        """
        self.check(readings)
        if readings < 1:
            return
        self.spent += cost
        self.readings += readings
        rounds, left = divmod(self.readings, self.streams)
        if rounds == 0:
            return
        if rounds == 1 and left == 0:
            self.policy.record_cost((self.spent,))
            self.spent, self.readings = 0.0, 0
        else:
            each = self.spent / self.readings
            for _ in range(min(rounds, MOST_ROUNDS)):
                self.policy.record_cost((self.streams * each,))
            self.spent, self.readings = left * each, left
        self.effective_price = self.policy.effective_price

    def state(self) -> dict[str, Any]:
        """Return what was learned, the current round and the number of streams, as plain values for saving.

        Returns
        -------
        dict
            For `restore`.
        """
        return self.policy.state() | {"spent": self.spent, "readings": self.readings, "streams": self.streams}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state`; the debt of a group of another size is the same in units of cost.

        Parameters
        ----------
        state : mapping
            A result of `state`.

        Raises
        ------
        ValueError
            If it is not a state of a shared budget; nothing is changed then.
        """
        learned = dict(state)
        try:
            spent, readings = learned.pop("spent"), learned.pop("readings")
            before = learned.pop("streams")
        except KeyError as missing:
            raise ValueError(f"the saved state of a group's budget has no {missing.args[0]!r}") from None
        counts = type(readings) is int and readings >= 0 and type(before) is int and before >= 1
        if not counts or type(spent) not in (int, float) or not 0.0 <= spent < math.inf:
            raise ValueError(f"the saved state of a group's budget cannot be: {dict(state)!r}")
        streams, policy = self.streams, self.policy
        if before != streams:
            policy = policy.resized(before, self._belief)
        else:
            policy = policy.bind(policy.fidelities, streams)
        policy.restore(learned)
        self.policy = policy if before == streams else policy.resized(streams, self._belief)
        self.spent, self.readings = float(spent), readings
        self.effective_price = self.policy.effective_price

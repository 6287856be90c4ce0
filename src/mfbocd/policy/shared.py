"""One budget for a group of streams: one price, learnt from what all of them spend."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..belief.filter import Filter
from .base import Array, Choices, largest_nets
from .budget import Budget
from .fidelity import Fidelity

MOST_ROUNDS = 32
"""Rounds that one `record` counts for at most: all were decided at one price, whose error they show only once."""


class SharedBudget:
    """One `Budget` for a group of streams that are read each at its own pace.

    `per_tick` (or `share`) of the budget is the average cost per tick of the whole group. A tick of the group is one
    reading of each of its streams: a round of as many readings as there are streams. The price moves once a round. A
    `Fleet`, a group of the service and a group on Spark all count this way, so that the same configuration spends the
    same total in each.

    Parameters
    ----------
    budget : Budget
        The budget of the group. Its learnt price is not taken over; `restore` does that.
    fidelities : sequence of Fidelity
        What the streams can read.
    belief : Filter
        The run-length posterior of a stream before its first tick: the first price is what its model expects.
    streams : int
        How many streams the group has, at least 1. `streams` can be set later.
    lockstep : bool, default False
        Whether every stream is read in every call. Only then may the budget have a cap: streams that choose ahead of
        one another could exceed it together.

    Raises
    ------
    TypeError
        If `budget` is no Budget.
    ValueError
        If the budget has a cap without `lockstep`, or cannot pay for the cheapest fidelity of every stream.

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
        self.lockstep = lockstep
        self.policy = type(budget)(**budget.spec())
        self.policy.shared = budget.shared
        self.policy = self.policy.bind(fidelities, streams_of(streams))
        self.policy.initialize(belief)
        self._belief = belief
        self.spent = 0.0
        """Cost of the readings of the round under way."""
        self.readings = 0
        """Readings of the round under way."""
        self.price: float = self.policy.price
        """The gain one unit of cost must buy now."""

    def __repr__(self) -> str:
        return f"<SharedBudget of {self.streams} streams: {self.policy!r}, price {self.price:g}>"

    def copy(self) -> SharedBudget:
        """Return another budget, independent of this one."""
        other = copy.copy(self)
        other.policy = copy.copy(self.policy)
        return other

    @property
    def streams(self) -> int:
        """How many streams share the budget.

        Setting it keeps the price, and the debt as an amount of money. A `per_tick` above what the streams can spend
        counts as the most they can. One below the cost of the cheapest fidelity of every stream is a ValueError and
        changes nothing.
        """
        return self.policy.streams

    @streams.setter
    def streams(self, streams: int) -> None:
        if streams_of(streams) == self.streams:
            return
        self.policy = self.policy.resized(streams, self._belief)
        self.price = self.policy.price

    @property
    def target(self) -> float:
        """The average cost of a round that is aimed at."""
        return self.policy.target

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Choices of some streams, shape (m,), from gains and costs (m, J).

        Of all streams at the start of a round, as `Budget.pick`, which knows what they will cost together. Of fewer,
        each takes the largest net gain at the present price.
        """
        if len(gains) == self.streams and self.readings == 0:
            return self.policy.pick(gains, costs, draws)
        return largest_nets(gains, costs, self.price)

    def check(self, readings: int) -> None:
        """Refuse readings of some streams only where the budget has a cap."""
        if self.policy.cap is not None and (readings != self.streams or self.readings):
            raise ValueError(
                f"Budget.cap needs a reading of all {self.streams} streams in every call, not of {readings}: streams "
                "that choose ahead of one another could exceed it together"
            )

    def record(self, cost: float, readings: int = 1) -> None:
        """Count readings and what they cost together; every round they complete moves the price.

        Parameters
        ----------
        cost : float
            What the readings cost together.
        readings : int, default 1
            How many there were. Where they complete several rounds, each counts with the average cost, and at most
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
        self.price = self.policy.price

    def state(self) -> dict[str, Any]:
        """What was learnt, the round under way and the number of streams, as plain values for saving."""
        return self.policy.state() | {"spent": self.spent, "readings": self.readings, "streams": self.streams}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state`; a debt of a group of another size is the same amount of money.

        Raises
        ------
        ValueError
            If this is no state of a group's budget; nothing is changed then.
        """
        learnt = dict(state)
        try:
            spent, readings = learnt.pop("spent"), learnt.pop("readings")
            before = learnt.pop("streams")
        except KeyError as missing:
            raise ValueError(f"the saved state of a group's budget has no {missing.args[0]!r}") from None
        whole = type(readings) is int and readings >= 0 and type(before) is int and before >= 1
        if not whole or type(spent) not in (int, float) or not 0.0 <= spent < math.inf:
            raise ValueError(f"the saved state of a group's budget cannot be: {dict(state)!r}")
        streams, policy = self.streams, self.policy
        if before != streams:
            policy = policy.resized(before, self._belief)
        else:
            policy = policy.bind(policy.fidelities, streams)
        policy.restore(learnt)
        self.policy = policy if before == streams else policy.resized(streams, self._belief)
        self.spent, self.readings = float(spent), readings
        self.price = self.policy.price


def streams_of(streams: int) -> int:
    """A number of streams that can share a budget."""
    if isinstance(streams, bool) or not isinstance(streams, (int, np.integer)) or streams < 1:
        raise ValueError(f"streams must be a whole number of at least 1, not {streams!r}")
    return int(streams)

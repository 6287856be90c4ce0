"""A policy of its own for each of many streams, without an object per stream where numbers are enough."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Array, Choices, Policy, largest_nets
from .budget import Budget


class OwnPolicies:
    """What the policy of each of many streams has learnt; stream i decides as a detector with that policy would.

    A policy that learns nothing is one object for all streams. A `Budget` without a cap and with fixed costs has
    learnt three numbers per stream, kept in an array. Of every other policy each stream has a copy.

    Parameters
    ----------
    policy : Policy
        Bound to the fidelities for one stream, and initialized: what every stream begins with.
    capacity : int
        For how many streams there is memory.
    """

    def __init__(self, policy: Policy, capacity: int) -> None:
        self.like = policy
        self._fresh = policy.state()
        self._budget = policy if isinstance(policy, Budget) and policy.numeric else None
        self._names = tuple(name for name, value in self._fresh.items() if type(value) in (int, float))
        self.numbers = np.zeros((capacity, len(self._names) if self._budget else 0))
        """(capacity, 3) of a plain `Budget`, else (capacity, 0)."""
        self._copies: list[Policy] = []
        if self._budget is not None:
            self.numbers[:] = [self._fresh[name] for name in self._names]
        elif policy.learns:
            self._copies = [copy.copy(policy) for _ in range(capacity)]

    @property
    def numeric(self) -> bool:
        """Whether all that changes is in `numbers`; so it is of a policy that learns nothing."""
        return self._budget is not None or not self.like.learns

    def copy(self) -> OwnPolicies:
        """Another, independent of this one."""
        other = copy.copy(self)
        other.numbers, other._copies = self.numbers.copy(), [copy.copy(policy) for policy in self._copies]
        return other

    def resize(self, capacity: int) -> None:
        """Have memory for as many streams; those beyond the old capacity must be `reset` before use."""
        kept = min(capacity, len(self.numbers))
        numbers = np.zeros((capacity, self.numbers.shape[1]))
        numbers[:kept] = self.numbers[:kept]
        self.numbers = numbers
        del self._copies[capacity:]

    def reset(self, row: int) -> None:
        """Let a stream begin with what the policy begins with."""
        if self._budget is not None:
            self.numbers[row] = [self._fresh[name] for name in self._names]
        elif self.like.learns:
            self._set(row, copy.copy(self.like))

    def move(self, source: int, target: int) -> None:
        """Move what one stream's policy has learnt to another place."""
        self.numbers[target] = self.numbers[source]
        if self._copies:
            self._copies[target] = self._copies[source]

    def _set(self, row: int, policy: Policy) -> None:
        while len(self._copies) <= row:
            self._copies.append(copy.copy(self.like))
        self._copies[row] = policy

    def of(self, row: int) -> Policy:
        """The policy of one stream, as an object of its own."""
        if self._copies:
            return copy.copy(self._copies[row])
        policy = copy.copy(self.like)
        if self._budget is not None:
            policy.restore(self.state(row))
        return policy

    def state(self, row: int) -> dict[str, Any]:
        """`Policy.state` of one stream."""
        if self._copies:
            return self._copies[row].state()
        learnt = zip(self._names, self.numbers[row].tolist(), strict=False)
        return self._fresh | {name: type(self._fresh[name])(value) for name, value in learnt}

    def restore(self, row: int, state: Mapping[str, Any]) -> None:
        """`Policy.restore` of one stream, from a state of the same policy; an error changes nothing."""
        policy = copy.copy(self.like)
        policy.restore(state)
        if self._budget is not None:
            found = policy.state()
            self.numbers[row] = [found[name] for name in self._names]
        elif self.like.learns:
            self._set(row, policy)

    def prices(self, rows: Choices) -> Array | None:
        """The gain one unit of cost must buy, shape (m,); None where the policy has no such price."""
        if self._budget is not None:
            return self._budget.prices(self.numbers[rows])
        policies = [self._copies[row] for row in rows.tolist()] if self._copies else [self.like] * len(rows)
        found = [getattr(policy, "price", None) for policy in policies]
        return None if None in found else np.array(found, dtype=float)

    def pick(
        self, rows: Choices, gains: Array, costs: Array, draws: Array, seeds: Choices, ticks: Choices
    ) -> Choices:
        """Choices of these streams, shape (m,), from gains and costs (m, J) and a uniform draw each (m,)."""
        if self._budget is not None:
            return largest_nets(gains, costs, self._budget.prices(self.numbers[rows]))
        if not self._copies and self.like.rowwise:
            return self.like.pick(gains, costs, draws)
        found = np.empty(len(rows), dtype=np.int64)
        for k, row in enumerate(rows.tolist()):
            policy = self._copies[row] if self._copies else self.like
            if policy.priced:
                found[k] = policy.pick(gains[k : k + 1], costs[k : k + 1], draws[k : k + 1])[0]
            else:
                found[k] = policy.pick_one(gains[k].tolist(), int(seeds[k]), int(ticks[k]))
        return found

    def record(self, rows: Choices, costs: Array) -> None:
        """Let each of these policies learn from what its stream paid."""
        if self._budget is not None:
            self.numbers[rows] = self._budget.learn(self.numbers[rows], costs)
        elif self.like.learns:
            for row, cost in zip(rows.tolist(), costs.tolist(), strict=True):
                self._copies[row].record_cost((cost,))

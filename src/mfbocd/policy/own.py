"""One policy per stream for many streams, without an object per stream where numbers are enough."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.copies import Independent
from .base import Array, Choices, Policy
from .budget import Budget


class OwnPolicies(Independent):
    """The learned state of the policy of each of many streams; stream i decides like a detector with that policy.

    A policy that does not learn is one object for all streams. A `Budget` without a cap and with fixed costs has
    three numbers per stream, stored in an array. For any other policy, each stream has a copy.

    Parameters
    ----------
    policy : Policy
        Bound to the fidelities for one stream, and initialized: the start of every stream.
    capacity : int
        Number of streams to allocate memory for.
    """

    def __init__(self, policy: Policy, capacity: int) -> None:
        self.like = policy
        self._fresh = policy.state()
        self._budget = policy if isinstance(policy, Budget) and policy.numeric else None
        self._names = tuple(name for name, value in self._fresh.items() if type(value) in (int, float))
        self.numbers = np.zeros((capacity, len(self._names) if self._budget else 0))
        """Shape (capacity, 3) for a plain `Budget`, else (capacity, 0)."""
        self._copies: list[Policy] = []
        if self._budget is not None:
            self.numbers[:] = [self._fresh[name] for name in self._names]
        elif policy.learns:
            self._copies = [copy.copy(policy) for _ in range(capacity)]

    @property
    def numeric(self) -> bool:
        """Whether the whole state is in `numbers`; also true of a policy that does not learn."""
        return self._budget is not None or not self.like.learns

    def resize(self, capacity: int) -> None:
        """Allocate memory for this many streams; those beyond the old capacity must be `reset` before use."""
        kept = min(capacity, len(self.numbers))
        numbers = np.zeros((capacity, self.numbers.shape[1]))
        numbers[:kept] = self.numbers[:kept]
        self.numbers = numbers
        del self._copies[capacity:]

    def reset(self, row: int) -> None:
        """Set the policy of a stream to its initial state."""
        if self._budget is not None:
            self.numbers[row] = [self._fresh[name] for name in self._names]
        elif self.like.learns:
            self._set(row, copy.copy(self.like))

    def move(self, source: int, target: int) -> None:
        """Move the state of one stream's policy to another row."""
        self.numbers[target] = self.numbers[source]
        if self._copies:
            self._copies[target] = self._copies[source]

    def _set(self, row: int, policy: Policy) -> None:
        while len(self._copies) <= row:
            self._copies.append(copy.copy(self.like))
        self._copies[row] = policy

    def of(self, row: int) -> Policy:
        """Return the policy of one stream as an independent object."""
        if self._copies:
            return copy.copy(self._copies[row])
        policy = copy.copy(self.like)
        if self._budget is not None:
            policy.restore(self.state(row))
        return policy

    def state(self, row: int) -> dict[str, Any]:
        """Return `Policy.state` of one stream."""
        if self._copies:
            return self._copies[row].state()
        learned = zip(self._names, self.numbers[row].tolist(), strict=False)
        return self._fresh | {name: type(self._fresh[name])(value) for name, value in learned}

    def restore(self, row: int, state: Mapping[str, Any]) -> None:
        """Apply `Policy.restore` to one stream, with a state of the same policy; an error changes nothing."""
        policy = copy.copy(self.like)
        policy.restore(state)
        if self._budget is not None:
            found = policy.state()
            self.numbers[row] = [found[name] for name in self._names]
        elif self.like.learns:
            self._set(row, policy)

    def prices(self, rows: Choices) -> Array | None:
        """Return the price of each stream, shape (m,); None where the policy has no price."""
        if self._budget is not None:
            return self._budget.prices(self.numbers[rows])
        policies = [self._copies[row] for row in rows.tolist()] if self._copies else [self.like] * len(rows)
        found = [getattr(policy, "price", None) for policy in policies]
        return None if None in found else np.array(found, dtype=float)

    def limits(self, rows: Choices) -> NDArray[np.str_]:
        """Return the limit that decides in place of each stream's price, shape (m,); empty without one."""
        if self._budget is not None:
            return self._budget.limits(self.numbers[rows])
        policies = [self._copies[row] for row in rows.tolist()] if self._copies else [self.like] * len(rows)
        return np.array([getattr(policy, "limit", "") for policy in policies], dtype="U9")

    def pick(
        self, rows: Choices, gains: Array, costs: Array, draws: Array, seeds: Choices, ticks: Choices
    ) -> Choices:
        """Return the choices of these streams, shape (m,), from gains and costs (m, J) and draws (m,)."""
        if self._budget is not None:
            return self._budget.pick_many(self.numbers[rows], gains, costs)
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
        """Update each of these policies with the cost its stream paid."""
        if self._budget is not None:
            self.numbers[rows] = self._budget.learn(self.numbers[rows], costs)
        elif self.like.learns:
            for row, cost in zip(rows.tolist(), costs.tolist(), strict=True):
                self._copies[row].record_cost((cost,))

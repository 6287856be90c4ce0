"""The policy a detector has when none is given."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Policy
from .budget import Budget
from .fidelity import Fidelity
from .fixed import Always


def policy_of(policy: Policy | None, fidelities: Sequence[Fidelity]) -> Policy:
    """The policy, or the default: `Budget(share=0.35)` between several fidelities of known cost."""
    if policy is not None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a policy such as Budget(8.0), not {policy!r}")
        return policy
    costs = {f.cost for f in fidelities if not callable(f.cost)}
    several = len(costs) > 1 and not any(callable(f.cost) for f in fidelities)
    return Budget(share=0.35) if several else Always()

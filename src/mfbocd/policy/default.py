"""The default policy of a detector."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Policy
from .budget import Budget
from .fidelity import Fidelity
from .fixed import Always


def policy_of(policy: Policy | None, fidelities: Sequence[Fidelity]) -> Policy:
    """Return a policy, or the default one.

    Parameters
    ----------
    policy : Policy or None
        The policy that was given.
    fidelities : sequence of Fidelity
        The fidelities to choose from.

    Returns
    -------
    Policy
        `policy` if it is given. Otherwise `Budget(share=0.35)` if there are several fidelities with different, fixed
        costs, else `Always()`.

    Raises
    ------
    TypeError
        If `policy` is not a policy.
    """
    if policy is not None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a policy such as Budget(8.0), not {policy!r}")
        return policy
    costs = {f.cost for f in fidelities if not callable(f.cost)}
    several = len(costs) > 1 and not any(callable(f.cost) for f in fidelities)
    return Budget(share=0.35) if several else Always()

"""The budget of a stream, and the budget that the streams of a group share."""

from __future__ import annotations

import json

from ..detector.detector import Detector
from ..io.config import Config
from ..policy import Budget, SharedBudget


def budget_of(detector: Detector) -> float | None:
    """The average cost per tick that the policy of a stream aims at; None if the policy has no budget."""
    policy = detector.policy
    return policy.target if isinstance(policy, Budget) else None


def group_budget(config: Config, streams: int, state: str = "") -> SharedBudget:
    """The budget of a group.

    Parameters
    ----------
    config : Config
        Configuration of the group.
    streams : int
        Number of streams in the group; 0 counts as 1.
    state : str
        `SharedBudget.state` as JSON; empty for a new group.

    Raises
    ------
    ValueError
        If the policy is no budget, has a cap, or cannot pay for the cheapest fidelity of every stream.
    """
    budget = config.shared_budget(max(streams, 1), shared=True)
    if budget is None:
        raise ValueError(f"the policy of a group must be a budget, not {config.policy!r}")
    if state:
        budget.restore(json.loads(state))
    return budget

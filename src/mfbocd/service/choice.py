"""What a stream shall read next, with the reasons, computed once a tick."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..detector.detector import Detector
from ..fleet.together import decided
from ..io.config import Config
from ..policy import Budget
from .records import text


def decide(detector: Detector, price: float | None = None) -> dict[str, Any]:
    """The choice of the coming tick: its fidelity, the gains the policy weighs, and the price, if not given, its own.

    >>> from mfbocd import Fidelity, Gaussian, Net
    >>> detector = Detector(Gaussian(0, 9, 1), [Fidelity("imu", 0.1, 1), Fidelity("gps", 1, 40)], policy=Net(0.01))
    >>> told = decide(detector)
    >>> told["fidelity"], told["price"], round(told["gains"]["gps"], 2)
    ('gps', 0.01, 1.15)
    """
    gains, chosen, price = decided(detector, price)
    return choice(detector._by_name, gains, chosen.name, price)


def choice(names: Iterable[str], gains: Sequence[float], chosen: str, price: float | None) -> dict[str, Any]:
    """`decide` of what is known already."""
    return {"fidelity": chosen, "gains": dict(zip(names, gains, strict=False)), "price": price}


def budget_of(detector: Detector) -> float | None:
    """The average cost a tick the policy is held to, where it is a budget."""
    policy = detector.policy
    if not isinstance(policy, Budget):
        return None
    if policy.per_tick is not None:
        return policy.per_tick
    low, high = float(policy.cost.min()), float(policy.cost.max())
    return low + (policy.share or 0.0) * (high - low)


class SharedBudget:
    """One budget of the streams of a group: one price for all, learnt from the spend of all.

    Streams go on at their own pace, so a round is as many readings as there are streams: it is to the budget what
    a tick is in a fleet, and `per_tick` is what a round may cost. The price moves once a round.
    """

    def __init__(self, config: Config, streams: int, state: str) -> None:
        self._config = config
        detector = config.detector(missing="skip", shared=True)
        if not isinstance(detector.policy, Budget):
            raise ValueError(f"a group's policy must be a budget, not {config.policy!r}")
        if detector.policy.cap is not None:
            raise ValueError(
                "a group's budget takes no cap: its streams choose ahead of one another, and could exceed it together"
            )
        self.policy = detector.policy.bind(detector.fidelities, max(streams, 1))
        self.policy.initialize(detector._filter)
        self.spent, self.readings = 0.0, 0
        if state:
            facts: dict[str, Any] = json.loads(state)
            self.spent, self.readings = facts.pop("spent"), facts.pop("readings")
            self.policy.restore(facts)
        self.price = self.policy.price
        """What a stream of the group decides by."""

    def state(self) -> str:
        """What was learnt and the round under way, as JSON."""
        return text(self.policy.state() | {"spent": self.spent, "readings": self.readings})

    def record_cost(self, cost: float) -> None:
        """One reading of one stream."""
        self.spent += cost
        self.readings += 1
        if self.readings >= self.policy.streams:
            self.policy.record_cost((self.spent,))
            self.spent, self.readings = 0.0, 0
            self.price = self.policy.price

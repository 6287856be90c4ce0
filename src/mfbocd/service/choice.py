"""The fidelity that a stream reads next, with the reasons, computed once per tick; and the budget of a group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..detector.detector import Detector
from ..fleet.together import decided
from ..io.config import Config
from ..policy import Budget
from .records import json_text


def choose(detector: Detector, price: float | None = None) -> dict[str, Any]:
    """The choice for the next tick.

    Parameters
    ----------
    detector : Detector
    price : float, optional
        Price of a group; the price of the detector's own policy by default.

    Returns
    -------
    dict
        ``fidelity``, ``gains`` per fidelity and ``price``.

    Examples
    --------
    >>> from mfbocd import Fidelity, Gaussian, Net
    >>> detector = Detector(Gaussian(0, 9, 1), [Fidelity("imu", 0.1, 1), Fidelity("gps", 1, 40)], policy=Net(0.01))
    >>> choice = choose(detector)
    >>> choice["fidelity"], choice["price"], round(choice["gains"]["gps"], 2)
    ('gps', 0.01, 1.15)
    """
    gains, chosen, price = decided(detector, price)
    return choice_record(detector._by_name, gains, chosen.name, price)


def choice_record(names: Iterable[str], gains: Sequence[float], chosen: str, price: float | None) -> dict[str, Any]:
    """A choice as it is stored and returned to clients."""
    return {"fidelity": chosen, "gains": dict(zip(names, gains, strict=False)), "price": price}


def budget_of(detector: Detector) -> float | None:
    """The average cost per tick that the policy aims at; None if the policy has no budget."""
    policy = detector.policy
    if not isinstance(policy, Budget):
        return None
    if policy.per_tick is not None:
        return policy.per_tick
    low, high = float(policy.cost.min()), float(policy.cost.max())
    return low + (policy.share or 0.0) * (high - low)


class SharedBudget:
    """One budget for the streams of a group: one price, learned from the spend of all.

    Streams advance independently, so a round of the group is as many readings as it has streams. `per_tick` is the
    cost of a round, and the price changes once per round.

    Parameters
    ----------
    config : Config
        Configuration of the group, whose policy must be a budget without a cap.
    streams : int
        Number of streams in the group.
    state : str
        What `state` returned; empty for a new group.
    """

    def __init__(self, config: Config, streams: int, state: str) -> None:
        detector = config.detector(missing="skip", shared=True)
        if not isinstance(detector.policy, Budget):
            raise ValueError(f"a group's policy must be a budget, not {config.policy!r}")
        if detector.policy.cap is not None:
            raise ValueError(
                "a group's budget takes no cap: its streams choose independently, and could exceed it together"
            )
        self.policy = detector.policy.bind(detector.fidelities, max(streams, 1))
        self.policy.initialize(detector._filter)
        self.spent, self.readings = 0.0, 0
        if state:
            saved: dict[str, Any] = json.loads(state)
            self.spent, self.readings = saved.pop("spent"), saved.pop("readings")
            self.policy.restore(saved)
        self.price = self.policy.price
        """The price at which the streams of the group choose."""

    def state(self) -> str:
        """The learned price and the round in progress, as JSON."""
        return json_text(self.policy.state() | {"spent": self.spent, "readings": self.readings})

    def record_cost(self, cost: float) -> None:
        """Add the cost of one reading of one stream."""
        self.spent += cost
        self.readings += 1
        if self.readings >= self.policy.streams:
            self.policy.record_cost((self.spent,))
            self.spent, self.readings = 0.0, 0
            self.price = self.policy.price

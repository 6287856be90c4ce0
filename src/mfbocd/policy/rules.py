"""Rules that weigh a gain against a cost at every tick, with nothing learnt between ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..belief.gains import Gain, checked_gain
from ..inputs.arguments import finite, positive
from .base import Array, Choices, Policy, by_fidelity, largest_net, numbers_of

Weights = Mapping[str, float] | Sequence[float] | None


def rates(gains: Array, costs: Array, weights: Array) -> Array:
    """w gain / cost; a reading that costs nothing and tells nothing has rate 0."""
    free = costs == 0.0
    return np.where(free, 0.0, weights * gains / np.where(free, 1.0, costs))


class InformationRate(Policy):
    """The paper's rule: argmax of w(zeta) U(zeta) / cost(zeta) (`decision_rule`), U the gain in the run length.

    `weights` are one number a fidelity, in order or by name, to reach a wanted spend; all 1 without them. Kept for
    comparison: with an accurate gain it does no better than a coin (docs/deciding.md).

    >>> InformationRate({"imu": 1.0, "gps": 2.5})
    InformationRate({'imu': 1.0, 'gps': 2.5}, gain='run_length')
    """

    def __init__(self, weights: Weights = None, *, gain: Gain = "run_length") -> None:
        self.weights = numbers_of("InformationRate", "weights", weights)
        self.gain = checked_gain("InformationRate", gain)
        self._weights = np.ones(1)

    def __repr__(self) -> str:
        return f"InformationRate({self.weights!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Line the weights up with the fidelities."""
        self._weights = _weights_of("InformationRate", self.weights, self)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The largest weighted rate; of equal ones the first."""
        return np.argmax(rates(gains, costs, self._weights), axis=1)

    def spec(self) -> dict[str, Any]:
        """Weights and gain."""
        return {"weights": self.weights, "gain": self.gain}


class Margin(Policy):
    """The paper's alternative: the cheapest fidelity whose gain is within `delta` of the dearest's.

    For two fidelities this is `alt_decision_rule`: low if |U(low) - U(high)| < delta, else high.

    >>> Margin(0.01)
    Margin(0.01, gain='run_length')
    """

    def __init__(self, delta: float, *, gain: Gain = "run_length") -> None:
        self.delta = finite("Margin", "delta", delta)
        if self.delta < 0.0:
            raise ValueError(f"Margin.delta must be at least 0, not {delta!r}")
        self.gain = checked_gain("Margin", gain)

    def __repr__(self) -> str:
        return f"Margin({self.delta:g}, gain={self.gain!r})"

    def validate(self) -> None:
        """Any fidelities do."""

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The cheapest of those close to the dearest, which is close to itself."""
        rows = np.arange(len(gains))
        dearest = costs.argmax(axis=1)
        near = np.abs(gains - gains[rows, dearest][:, None]) < self.delta
        near[rows, dearest] = True
        return np.argmin(np.where(near, costs, np.inf), axis=1)

    def spec(self) -> dict[str, Any]:
        """Margin and gain."""
        return {"delta": self.delta, "gain": self.gain}


class Net(Policy):
    """argmax of gain - price * cost: a reading is taken if what it tells is worth what it costs.

    `price` is the gain one unit of cost must buy. `calibrate.price_for` finds it on held-out streams for a wanted
    spend; `Budget` learns it while running.

    >>> Net(0.002)
    Net(0.002, gain='joint')
    """

    def __init__(self, price: float, *, gain: Gain = "joint") -> None:
        self.price = _price_of("Net", price)
        self.gain = checked_gain("Net", gain)

    def __repr__(self) -> str:
        return f"Net({self.price:g}, gain={self.gain!r})"

    def validate(self) -> None:
        """Any fidelities do."""

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The largest net gain; of equal ones the first."""
        return np.argmax(gains - self.price * costs, axis=1)

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """As `pick`."""
        return largest_net(gains, self.costs, self.price)

    @property
    def is_net_gain(self) -> bool:
        """It is."""
        return True

    def spec(self) -> dict[str, Any]:
        """Price and gain."""
        return {"price": self.price, "gain": self.gain}


class Soft(Policy):
    """Sample a fidelity with probability proportional to exp(score / temperature): the paper's future work.

    The score is the weighted information rate, or gain - price * cost if a price is given. A low temperature tends to
    the argmax, a high one to a coin.

    >>> Soft(0.1)
    Soft(0.1, weights=None, price=None, gain='run_length')
    """

    def __init__(
        self, temperature: float, *, weights: Weights = None, price: float | None = None, gain: Gain = "run_length"
    ) -> None:
        self.temperature = positive("Soft", "temperature", temperature)
        if weights is not None and price is not None:
            raise ValueError("Soft takes weights (of a rate) or a price (of a net gain), not both")
        self.weights = numbers_of("Soft", "weights", weights)
        self.price = None if price is None else _price_of("Soft", price)
        self.gain = checked_gain("Soft", gain)
        self._weights = np.ones(1)

    def __repr__(self) -> str:
        return f"Soft({self.temperature:g}, weights={self.weights!r}, price={self.price!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Line the weights up with the fidelities."""
        self._weights = _weights_of("Soft", self.weights, self)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The fidelity whose share of [0, 1) the draw fell in."""
        score = rates(gains, costs, self._weights) if self.price is None else gains - self.price * costs
        with np.errstate(over="ignore"):  # far below the best at a low temperature: never
            share = np.exp((score - score.max(axis=1, keepdims=True)) / self.temperature)
        edges = np.cumsum(share, axis=1) / share.sum(axis=1, keepdims=True)
        return np.count_nonzero(draws[:, None] >= edges[:, :-1], axis=1)

    def spec(self) -> dict[str, Any]:
        """All four arguments."""
        return {"temperature": self.temperature, "weights": self.weights, "price": self.price, "gain": self.gain}


def _price_of(owner: str, price: float) -> float:
    value = finite(owner, "price", price)
    if value < 0.0:
        raise ValueError(f"{owner}.price must be at least 0, not {price!r}")
    return value


def _weights_of(owner: str, weights: Weights, policy: Policy) -> Array:
    if weights is None:
        return np.ones(len(policy.fidelities))
    values = by_fidelity(owner, "weights", weights, policy.fidelities, 1.0)
    if (values < 0.0).any():
        raise ValueError(f"{owner}.weights must be at least 0, not {weights!r}")
    return values

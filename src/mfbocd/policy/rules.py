"""Policies that compare a gain with a cost at every tick and learn nothing between ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..belief.gains import Gain, checked_gain
from ..inputs.arguments import not_negative, positive
from .base import Array, Choices, Policy, largest_net
from .per_fidelity import by_fidelity, numbers_of

Weights = Mapping[str, float] | Sequence[float] | None


def rates(gains: Array, costs: Array, weights: Array) -> Array:
    """Return w gain / cost; a reading without cost and gain has rate 0."""
    free = costs == 0.0
    return np.where(free, 0.0, weights * gains / np.where(free, 1.0, costs))


class InformationRate(Policy):
    """Choose the largest gain per cost, the paper's rule.

        argmax_zeta w(zeta) U(zeta) / cost(zeta)

    (equation `decision_rule`), where U is the gain. It is kept for comparison: with an accurate gain it is no better
    than a random baseline at equal spend (docs/deciding.md).

    Parameters
    ----------
    weights : mapping or sequence of float, optional
        Weight w of each fidelity, in order or by name, to reach a wanted spend; all 1 by default.
    gain : {'run_length', 'joint', 'variance', 'change'}, default 'run_length'
        The gain U.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> InformationRate({"imu": 1.0, "gps": 2.5})
    InformationRate({'imu': 1.0, 'gps': 2.5}, gain='run_length')
    """

    rowwise = True

    def __init__(self, weights: Weights = None, *, gain: Gain = "run_length") -> None:
        self.weights = numbers_of("InformationRate", "weights", weights)
        self.gain = checked_gain("InformationRate", gain)
        self._weights = np.ones(1)

    def __repr__(self) -> str:
        return f"InformationRate({self.weights!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Match the weights with the fidelities."""
        self._weights = _weights_of("InformationRate", self.weights, self)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the largest weighted rate, the first at a tie."""
        return np.argmax(rates(gains, costs, self._weights), axis=1)

    def spec(self) -> dict[str, Any]:
        """Return `weights` and `gain`."""
        return {"weights": self.weights, "gain": self.gain}


class Margin(Policy):
    """Choose the cheapest fidelity whose gain is within a margin of that of the most expensive one.

    For two fidelities this is the paper's alternative rule (equation `alt_decision_rule`): the low fidelity if
    |U(low) - U(high)| < delta, else the high one.

    Parameters
    ----------
    delta : float
        The margin, in units of the gain, at least 0.
    gain : {'run_length', 'joint', 'variance', 'change'}, default 'run_length'
        The gain U.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> Margin(0.01)
    Margin(0.01, gain='run_length')
    """

    rowwise = True

    def __init__(self, delta: float, *, gain: Gain = "run_length") -> None:
        self.delta = not_negative("Margin", "delta", delta)
        self.gain = checked_gain("Margin", gain)

    def __repr__(self) -> str:
        return f"Margin({self.delta:g}, gain={self.gain!r})"

    def validate(self) -> None:
        """Accept any fidelities."""

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the cheapest fidelity within the margin of the most expensive one."""
        rows = np.arange(len(gains))
        top = costs.argmax(axis=1)
        near = np.abs(gains - gains[rows, top][:, None]) < self.delta
        near[rows, top] = True
        return np.argmin(np.where(near, costs, np.inf), axis=1)

    def spec(self) -> dict[str, Any]:
        """Return `delta` and `gain`."""
        return {"delta": self.delta, "gain": self.gain}


class Net(Policy):
    """Choose the largest net gain at a fixed price.

        argmax_zeta gain(zeta) - price * cost(zeta)

    A reading is taken if its gain is worth its cost. `Budget` learns the price while running.

    Parameters
    ----------
    price : float
        Units of gain that one unit of cost must buy, at least 0. `calibrate.price_for` finds it on held-out streams
        for a wanted spend.
    gain : {'joint', 'run_length', 'variance', 'change'}, default 'joint'
        The gain that is compared with the cost.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> Net(0.002)
    Net(0.002, gain='joint')
    """

    rowwise = True

    def __init__(self, price: float, *, gain: Gain = "joint") -> None:
        self.price = not_negative("Net", "price", price)
        self.gain = checked_gain("Net", gain)

    def __repr__(self) -> str:
        return f"Net({self.price:g}, gain={self.gain!r})"

    def validate(self) -> None:
        """Accept any fidelities."""

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the largest net gain, the first at a tie."""
        return np.argmax(gains - self.price * costs, axis=1)

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """Return the largest net gain, the first at a tie."""
        return largest_net(gains, self.costs, self.price)

    def spec(self) -> dict[str, Any]:
        """Return `price` and `gain`."""
        return {"price": self.price, "gain": self.gain}


class Soft(Policy):
    """Choose a fidelity at random, with probability proportional to exp(score / temperature).

    The score is the weighted information rate of `InformationRate`, or the net gain of `Net` if a price is given. A
    low temperature approaches the argmax, a high one equal probabilities. The paper suggests it as future work.

    Parameters
    ----------
    temperature : float
        Temperature in units of the score, above 0.
    weights : mapping or sequence of float, optional
        Weight of each fidelity's rate, in order or by name; all 1 by default. Not with `price`.
    price : float, optional
        Price of one unit of cost; makes the score a net gain. Not with `weights`.
    gain : {'run_length', 'joint', 'variance', 'change'}, default 'run_length'
        The gain in the score.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or both `weights` and `price` are given.

    Examples
    --------
    >>> Soft(0.1)
    Soft(0.1, weights=None, price=None, gain='run_length')
    """

    rowwise = True

    def __init__(
        self, temperature: float, *, weights: Weights = None, price: float | None = None, gain: Gain = "run_length"
    ) -> None:
        self.temperature = positive("Soft", "temperature", temperature)
        if weights is not None and price is not None:
            raise ValueError("Soft takes weights (of a rate) or a price (of a net gain), not both")
        self.weights = numbers_of("Soft", "weights", weights)
        self.price = None if price is None else not_negative("Soft", "price", price)
        self.gain = checked_gain("Soft", gain)
        self._weights = np.ones(1)

    def __repr__(self) -> str:
        return f"Soft({self.temperature:g}, weights={self.weights!r}, price={self.price!r}, gain={self.gain!r})"

    def validate(self) -> None:
        """Match the weights with the fidelities."""
        self._weights = _weights_of("Soft", self.weights, self)

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the fidelity whose interval of the cumulative probabilities contains the draw."""
        score = rates(gains, costs, self._weights) if self.price is None else gains - self.price * costs
        with np.errstate(over="ignore"):  # far below the best at a low temperature: probability 0
            share = np.exp((score - score.max(axis=1, keepdims=True)) / self.temperature)
        edges = np.cumsum(share, axis=1) / share.sum(axis=1, keepdims=True)
        return np.count_nonzero(draws[:, None] >= edges[:, :-1], axis=1)

    def spec(self) -> dict[str, Any]:
        """Return the four arguments."""
        return {"temperature": self.temperature, "weights": self.weights, "price": self.price, "gain": self.gain}


def _weights_of(owner: str, weights: Weights, policy: Policy) -> Array:
    if weights is None:
        return np.ones(len(policy.fidelities))
    values = by_fidelity(owner, "weights", weights, policy.fidelities, 1.0)
    if (values < 0.0).any():
        raise ValueError(f"{owner}.weights must be at least 0, not {weights!r}")
    return values

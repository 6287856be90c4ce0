"""The interface of every policy: a choice that is a function of belief, costs and seed."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels.random import uniforms
from ..belief.filter import Filter
from ..belief.gains import Gain, expected_gains
from .fidelity import Fidelity

_SALT = 0  # makes these draws independent of those of resampling at the same tick

Array = NDArray[np.float64]
Choices = NDArray[np.int64]


class Policy(ABC):
    """Base class of all policies: how the next fidelity is chosen.

    A choice is a function of the belief, the costs, the seed and what the policy has learned. Asking again before an
    update gives the same answer, and a replay repeats all choices (on one type of CPU with one set of library
    versions: docs/scale.md, "The same bits").

    Attributes
    ----------
    gain : {'run_length', 'joint', 'variance', 'change'} or None
        The gain that is compared with the cost; None if the choice does not depend on observations.
    fidelities : tuple of Fidelity
        The fidelities the policy is bound to.
    streams : int
        Number of streams that share this policy.
    zeta : ndarray
        Zeta of each fidelity, in order.
    cost : ndarray
        Cost of each fidelity, in order; NaN where it is a function of the raw input.
    costs : tuple of float
        The same as plain numbers.
    priced : bool
        Whether some cost is a function of the raw input.
    shared : bool
        Whether the policy may serve more streams than it is bound to. Its budget may then exceed what these can
        spend.
    rowwise : bool
        Whether `pick` decides each stream from its own gains, costs and draw only.
    learns : bool
        Whether `record_cost` must be called after every tick.

    Notes
    -----
    To add a policy, subclass `Policy` and implement `validate`, `pick` and `spec`. Set `gain`, or implement
    `schedule` if the choices do not depend on observations. Implement `record_cost`, `state` and `restore` if the
    policy learns.

    Examples
    --------
    >>> from mfbocd import Fidelity, Net
    >>> policy = Net(price=0.01).bind([Fidelity("low", zeta=0.1, cost=1), Fidelity("high", zeta=1.0, cost=10)])
    >>> policy.pick_one([0.05, 0.2], seed=0, tick=0)  # net gains .04 and .1
    1
    """

    gain: Gain | None = None
    fidelities: tuple[Fidelity, ...] = ()
    streams: int = 1
    zeta: Array
    cost: Array
    costs: tuple[float, ...]
    priced: bool = False
    shared: bool = False
    rowwise: ClassVar[bool] = False
    learns: bool

    def bind(self, fidelities: Sequence[Fidelity], streams: int = 1) -> Self:
        """Return a copy of this policy for given fidelities.

        Parameters
        ----------
        fidelities : sequence of Fidelity
            The fidelities to choose from.
        streams : int, default 1
            Number of streams that will share the copy.

        Returns
        -------
        Policy
            The bound copy.

        Raises
        ------
        ValueError
            If the policy does not fit these fidelities.
        """
        bound = copy.copy(self)
        bound.streams = streams
        bound.fidelities = tuple(fidelities)
        bound.zeta = np.array([f.zeta for f in fidelities])
        bound.cost = np.array([np.nan if callable(f.cost) else f.cost for f in fidelities])
        bound.costs = tuple(bound.cost.tolist())
        bound.priced = any(callable(f.cost) for f in fidelities)
        bound.learns = type(self).record_cost is not Policy.record_cost
        bound.validate()
        return bound

    def rebound(self, fidelities: Sequence[Fidelity]) -> Self:
        """Return this policy for fidelities with another zeta or cost, with what it has learned.

        Parameters
        ----------
        fidelities : sequence of Fidelity
            The new fidelities, with the same names in the same order.

        Returns
        -------
        Policy
            A bound copy.

        Raises
        ------
        ValueError
            If the policy does not fit these fidelities.
        """
        other = copy.copy(self)
        other.shared = True  # a budget may exceed what a fidelity that became cheaper can spend
        return other.bind(fidelities, self.streams)

    @abstractmethod
    def validate(self) -> None:
        """Match the arguments with `self.fidelities`.

        Raises
        ------
        ValueError
            If they do not fit; the message names the argument.
        """

    @abstractmethod
    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Choose a fidelity for each of n streams.

        Parameters
        ----------
        gains : ndarray
            Expected gain of each stream and fidelity, shape (n, J).
        costs : ndarray
            Cost of each stream and fidelity, shape (n, J).
        draws : ndarray
            One uniform random number in [0, 1) per stream, shape (n,).

        Returns
        -------
        ndarray of int
            Indices of the chosen fidelities, shape (n,).
        """

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """Choose a fidelity for one stream, where no cost is a function.

        Parameters
        ----------
        gains : sequence of float
            Expected gain of each fidelity.
        seed : int
            Seed of the stream.
        tick : int
            Index of the coming tick.

        Returns
        -------
        int
            Index of the chosen fidelity.
        """
        return int(self.pick(np.array([gains]), self.cost[None], draw_uniform([seed], tick))[0])

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices | None:
        """Return the choices in advance, if they do not depend on observations.

        Parameters
        ----------
        seeds : sequence of int
            Seed of each stream.
        first : int
            Index of the first tick.
        ticks : int
            Number of ticks.

        Returns
        -------
        ndarray of int or None
            Indices of shape (ticks, streams); None if the choices depend on observations.
        """
        return None

    def scheduled(self, seeds: Choices, ticks: Choices) -> Choices | None:
        """Return the choices of the coming tick of many streams, if they do not depend on observations.

        Parameters
        ----------
        seeds : ndarray of int
            Seed of each stream, shape (m,).
        ticks : ndarray of int
            Index of the coming tick of each stream, shape (m,).

        Returns
        -------
        ndarray of int or None
            Indices of shape (m,); None if the choices depend on observations.
        """
        found = np.empty(len(seeds), dtype=np.int64)
        for tick in np.unique(ticks).tolist():
            here = ticks == tick
            planned = self.schedule(seeds[here].tolist(), tick, 1)
            if planned is None:
                return None
            found[here] = planned[0]
        return found

    def choose(self, belief: Filter, seed: int, costs: Array | None = None) -> int:
        """Choose the fidelity of the coming tick for one stream.

        Parameters
        ----------
        belief : Filter
            The run-length posterior of the stream.
        seed : int
            Seed of the stream.
        costs : ndarray, optional
            Cost of each fidelity at this tick, shape (J,); needed where a cost is a function of the raw input.

        Returns
        -------
        int
            Index of the chosen fidelity.
        """
        gains = None if self.gain is None else expected_gains(belief, self.zeta, self.gain)
        return self.choose_by(gains, seed, belief.ticks, costs)

    def choose_by(self, gains: Array | None, seed: int, tick: int, costs: Array | None = None) -> int:
        """Choose the fidelity of the coming tick for one stream from gains that are already computed.

        Parameters
        ----------
        gains : ndarray or None
            Expected gain of each fidelity, shape (J,); None if the choice does not depend on observations.
        seed : int
            Seed of the stream.
        tick : int
            Index of the coming tick.
        costs : ndarray, optional
            Cost of each fidelity at this tick, shape (J,); needed where a cost is a function of the raw input.

        Returns
        -------
        int
            Index of the chosen fidelity.
        """
        if gains is None:
            planned = self.schedule([seed], tick, 1)
            assert planned is not None
            return int(planned[0, 0])
        if costs is None:
            return self.pick_one(gains.tolist(), seed, tick)
        return int(self.pick(gains[None], costs[None], draw_uniform([seed], tick))[0])

    def initialize(self, belief: Filter) -> None:  # noqa: B027
        """Set the state before the first tick from what the model predicts; does nothing by default.

        Parameters
        ----------
        belief : Filter
            The run-length posterior before any observation.
        """

    def affords(self, cost: float) -> bool:
        """Tell whether an extra reading may be paid at the coming tick, such as one of a shadow pair.

        Parameters
        ----------
        cost : float
            Cost of the whole tick.

        Returns
        -------
        bool
            True by default.
        """
        return True

    def record_cost(self, costs: Sequence[float] | Array) -> None:  # noqa: B027
        """Learn from the costs of a tick; does nothing by default.

        Parameters
        ----------
        costs : sequence of float or ndarray
            What each stream paid at this tick.
        """

    def for_one_stream(self) -> Policy:
        """Return this policy for one stream that is taken out of the fleet that shares it.

        Returns
        -------
        Policy
            Itself by default.
        """
        return self

    def state(self) -> dict[str, Any]:
        """Return what was learned, as plain values, for saving.

        Returns
        -------
        dict
            Empty for policies that do not learn.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state`.

        Parameters
        ----------
        state : mapping
            A result of `state`.

        Raises
        ------
        ValueError
            If a name or a value cannot belong to this policy.
        """
        known, owner = self.state(), type(self).__name__
        for name, value in state.items():
            if name not in known:
                raise ValueError(f"{owner} has learned no {name!r}, only {', '.join(known) or 'nothing'}")
            if not _like(known[name], value):
                raise ValueError(f"{owner}.{name} must be finite numbers, such as {known[name]!r}, not {value!r}")
        for name, value in state.items():
            setattr(self, name, value)

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values, for saving.

        Returns
        -------
        dict
            Keyword arguments that build an equal policy.
        """


def _like(known: Any, value: Any) -> bool:
    """Tell whether a value can replace a known one: a list of numbers, a count or a number, all finite."""
    if isinstance(known, list):
        return isinstance(value, list) and all(_like(0.0, v) for v in value)
    if isinstance(known, int):
        return type(value) is int and value >= 0
    return type(value) in (int, float) and abs(value) < math.inf


def largest_net(gains: Sequence[float], costs: Sequence[float], price: float) -> int:
    """Return the argmax of gain - price * cost, the first at a tie.

    It uses plain numbers, because numpy takes longer for one row.
    """
    best, index = -np.inf, 0
    for j, (gain, cost) in enumerate(zip(gains, costs, strict=True)):
        net = gain - price * cost
        if net > best:
            best, index = net, j
    return index


def largest_nets(gains: Array, costs: Array, price: float | Array) -> Choices:
    """Return `largest_net` of many streams with gains and costs (n, J), at one price or one price per stream."""
    each = price if isinstance(price, float) else price[:, None]
    found: Choices = (gains - each * costs).argmax(axis=1)
    return found


def draw_uniform(seeds: Sequence[int] | Choices, tick: int | Choices) -> Array:
    """Return one uniform random number per stream for the coming tick.

    A number is a hash of seed and tick, so that a replay repeats it.

    Parameters
    ----------
    seeds : sequence of int
        Seed of each stream.
    tick : int or ndarray of int
        Index of the coming tick, one for all streams or one each.

    Returns
    -------
    ndarray
        Numbers in [0, 1), shape (streams,).
    """
    seed = np.asarray(seeds, dtype=np.int64)
    return uniforms(seed, np.broadcast_to(np.asarray(tick, dtype=np.int64), seed.shape).copy(), _SALT)

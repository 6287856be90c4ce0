"""What every policy offers: a choice that is a function of belief, costs and seed."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels.random import uniform
from ..belief.filter import Filter
from ..belief.gains import Gain, expected_gains
from ..inputs.arguments import finite
from .fidelity import Fidelity

_SALT = 0  # keeps these draws apart from a resampling's at the same tick

Array = NDArray[np.float64]
Choices = NDArray[np.int64]


class Policy(ABC):
    """How the next fidelity is chosen. Asked again before an update, the answer is the same; a replay repeats it.

    The latter holds on one type of CPU with one set of library versions: docs/scale.md, "The same bits".
    """

    gain: Gain | None = None
    """What is weighed against the cost; None if the choice hangs on nothing observed."""

    fidelities: tuple[Fidelity, ...] = ()
    streams: int = 1
    """How many streams share this policy."""
    zeta: Array
    cost: Array
    """Of each fidelity, in order; NaN where it is a function of the raw input."""
    costs: tuple[float, ...]
    """The same as plain numbers."""
    priced: bool = False
    """Whether some cost is a function of the raw input."""
    shared: bool = False
    """Whether it may serve more streams than it is bound to: a budget for all is then more than these can spend."""
    learns: bool
    """Whether what was paid must be told."""

    def bind(self, fidelities: Sequence[Fidelity], streams: int = 1) -> Self:
        """A copy of this policy for these fidelities and so many streams, or an error if it does not fit them."""
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

    @abstractmethod
    def validate(self) -> None:
        """Line the arguments up with `self.fidelities`, raising an error that names what does not fit."""

    @abstractmethod
    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Choices of n streams, shape (n,), from gains and costs (n, J) and a uniform draw each (n,)."""

    def pick_one(self, gains: Sequence[float], seed: int, tick: int) -> int:
        """`pick` for one stream at a tick, where no cost is a function."""
        return int(self.pick(np.array([gains]), self.cost[None], draw_uniform([seed], tick))[0])

    @property
    def is_net_gain(self) -> bool:
        """Whether the pick is `largest_net` at `price`, so that those of many streams can be made at once."""
        return False

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices | None:
        """Choices of shape (ticks, streams) from tick `first` on, if they hang on nothing observed; else None."""
        return None

    def choose(self, belief: Filter, seed: int, costs: Array | None = None) -> int:
        """Index of the fidelity one stream should read at the coming tick."""
        if self.gain is None:
            planned = self.schedule([seed], belief.ticks, 1)
            assert planned is not None
            return int(planned[0, 0])
        gains = expected_gains(belief, self.zeta, self.gain)
        if costs is None:
            return self.pick_one(gains.tolist(), seed, belief.ticks)
        return int(self.pick(gains[None], costs[None], draw_uniform([seed], belief.ticks))[0])

    def initialize(self, belief: Filter) -> None:  # noqa: B027
        """Called once, before the first tick, for policies that begin from what the model expects."""

    def affords(self, cost: float) -> bool:
        """Whether the coming tick may cost this much, for what is read beside the choice."""
        return True

    def record_cost(self, costs: Sequence[float] | Array) -> None:  # noqa: B027
        """Called after every tick with what each stream paid, for policies that learn."""

    @classmethod
    def record_costs(cls, policies: Sequence[Self], costs: Sequence[float]) -> Array | None:
        """`paid` for many streams, each with a policy of its own; those are `alike`.

        Their `state` (n, m) where it is plain numbers.
        """
        for policy, cost in zip(policies, costs, strict=True):
            policy.record_cost((cost,))
        return None

    def batch_key(self) -> tuple[Any, ...]:
        """What policies of a class must have equal to decide and pay together, beside gain and fidelities."""
        return ()

    def for_one_stream(self) -> Policy:
        """This policy for one stream taken out of the fleet that shared it."""
        return self

    def state(self) -> dict[str, Any]:
        """What was learnt, as plain values, for saving."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state`; ValueError for what is none of this policy's."""
        known, owner = self.state(), type(self).__name__
        for name, value in state.items():
            if name not in known:
                raise ValueError(f"{owner} has learnt no {name!r}, only {', '.join(known) or 'nothing'}")
            if not _like(known[name], value):
                raise ValueError(f"{owner}.{name} must be finite numbers, such as {known[name]!r}, not {value!r}")
        for name, value in state.items():
            setattr(self, name, value)

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for saving."""


def _like(known: Any, value: Any) -> bool:
    """Whether a value can stand for a known one: a list of numbers, a count or a number, finite all of them."""
    if isinstance(known, list):
        return isinstance(value, list) and all(_like(0.0, v) for v in value)
    if isinstance(known, int):
        return type(value) is int and value >= 0
    return type(value) in (int, float) and abs(value) < math.inf


def largest_net(gains: Sequence[float], costs: Sequence[float], price: float) -> int:
    """argmax of gain - price * cost, of equal ones the first, in plain numbers: an array of one row takes longer."""
    best, index = -np.inf, 0
    for j, (gain, cost) in enumerate(zip(gains, costs, strict=True)):
        net = gain - price * cost
        if net > best:
            best, index = net, j
    return index


def largest_nets(gains: Array, costs: Array, prices: Sequence[float | None]) -> list[int]:
    """`largest_net` for many streams with gains (n, J) and the same costs (J,)."""
    found: list[int] = (gains - np.array(prices, dtype=float)[:, None] * costs).argmax(axis=1).tolist()
    return found


def draw_uniform(seeds: Sequence[int], tick: int) -> Array:
    """One draw a stream for the coming tick."""
    return np.array([uniform(seed, tick, _SALT) for seed in seeds])


def numbers_of(
    owner: str, field: str, given: Mapping[str, float] | Iterable[float] | None
) -> dict[str, float] | list[float] | None:
    """Numbers in the fidelities' order or by name as plain ones, which can be saved, or an error that names them."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {name: finite(owner, field, v) for name, v in given.items()}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{owner}.{field} must be numbers, one a fidelity, not {given!r}")
    return [finite(owner, field, v) for v in given]


def by_fidelity(
    owner: str,
    field: str,
    given: Mapping[str, float] | Sequence[float],
    fidelities: Sequence[Fidelity],
    absent: float,
) -> Array:
    """One number a fidelity, in their order, from a sequence in that order or a mapping by name."""
    names = [f.name for f in fidelities]
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise ValueError(f"{owner}.{field} names {name!r}, which is none of {', '.join(names)}")
        given = [given.get(name, absent) for name in names]
    values = np.array([finite(owner, field, v) for v in given])
    if values.size != len(names):
        raise ValueError(f"{owner}.{field} must be {len(names)} numbers, one a fidelity, not {given!r}")
    return values

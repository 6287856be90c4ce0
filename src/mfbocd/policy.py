"""Which fidelity to read next: rules that turn what is known into a choice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kernels.random import uniform
from .fidelity import Fidelity
from .filter import Filter
from .models.base import finite

_SALT = 0  # keeps these draws apart from a resampling's at the same tick

Choices = NDArray[np.int64]


class Policy(ABC):
    """How the next fidelity is chosen. A choice is a function of state and seed: asked again, it is the same."""

    @abstractmethod
    def bind(self, fidelities: Sequence[Fidelity]) -> Policy:
        """This policy for these fidelities, or an error if it does not fit them."""

    @abstractmethod
    def choose(self, belief: Filter, seed: int) -> int:
        """Index of the fidelity to read at the coming tick."""

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices | None:
        """Choices of shape (ticks, streams) from tick `first` on, if they hang on nothing observed; else None."""
        return None

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for saving."""


class Always(Policy):
    """Read the same fidelity at every tick; without a name, the one with the largest zeta.

    >>> Always("gps")
    Always('gps')
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._index = 0

    def __repr__(self) -> str:
        return f"Always({self.name!r})"

    def bind(self, fidelities: Sequence[Fidelity]) -> Always:
        """Find the name among the fidelities."""
        names = [f.name for f in fidelities]
        bound = Always(self.name)
        if self.name is None:
            bound._index = max(range(len(names)), key=lambda j: fidelities[j].zeta)
        elif self.name in names:
            bound._index = names.index(self.name)
        else:
            raise ValueError(f"Always.name must be one of {', '.join(names)}, not {self.name!r}")
        return bound

    def choose(self, belief: Filter, seed: int) -> int:
        """The same index every time."""
        return self._index

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """The same index everywhere."""
        return np.full((ticks, len(seeds)), self._index, dtype=np.int64)

    def spec(self) -> dict[str, Any]:
        """The name."""
        return {"name": self.name}


class Random(Policy):
    """Read fidelity j with probability p_j, whatever was seen: the paper's baseline.

    `probabilities` is one number a fidelity, in their order or by name; without it all are equally likely.
    A draw is a hash of the seed and the tick, so `choose` is idempotent and a replay repeats it.

    >>> Random({"imu": 0.7, "gps": 0.3})
    Random({'imu': 0.7, 'gps': 0.3})
    """

    def __init__(self, probabilities: Mapping[str, float] | Sequence[float] | None = None) -> None:
        if isinstance(probabilities, Mapping):
            probabilities = dict(probabilities)
        elif probabilities is not None:
            probabilities = list(probabilities)
        self.probabilities = probabilities
        self._edges = np.ones(1)

    def __repr__(self) -> str:
        return f"Random({self.probabilities!r})"

    def bind(self, fidelities: Sequence[Fidelity]) -> Random:
        """Line the probabilities up with the fidelities."""
        given = self.probabilities
        names = [f.name for f in fidelities]
        if given is None:
            given = [1.0 / len(names)] * len(names)
        elif isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise ValueError(f"Random.probabilities names {name!r}, which is none of {', '.join(names)}")
            given = [given.get(name, 0.0) for name in names]
        p = np.array([finite("Random", "probabilities", v) for v in given])
        if p.size != len(names) or (p < 0.0).any() or abs(p.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"Random.probabilities must be {len(names)} numbers of at least 0 that sum to 1, "
                f"not {self.probabilities!r}"
            )
        bound = Random(self.probabilities)
        bound._edges = np.cumsum(p)[:-1]
        return bound

    def choose(self, belief: Filter, seed: int) -> int:
        """Draw for the coming tick."""
        return int(np.searchsorted(self._edges, uniform(seed, belief.ticks, _SALT), side="right"))

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """The same draws, for many streams and ticks."""
        drawn = [[uniform(seed, tick, _SALT) for seed in seeds] for tick in range(first, first + ticks)]
        return np.searchsorted(self._edges, np.array(drawn).reshape(ticks, len(seeds)), side="right")

    def spec(self) -> dict[str, Any]:
        """The probabilities."""
        return {"probabilities": self.probabilities}


POLICIES: dict[str, type[Policy]] = {"Always": Always, "Random": Random}
"""By name, for loading."""

"""Choices that hang on nothing observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..belief.filter import Filter
from .base import Array, Choices, Policy, by_fidelity, draw_uniform, numbers_of


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

    def validate(self) -> None:
        """Find the name among the fidelities."""
        names = [f.name for f in self.fidelities]
        if self.name is None:
            self._index = int(self.zeta.argmax())
        elif self.name in names:
            self._index = names.index(self.name)
        else:
            raise ValueError(f"Always.name must be one of {', '.join(names)}, not {self.name!r}")

    def choose(self, belief: Filter, seed: int, costs: Array | None = None) -> int:
        """The same index every time; the general way through arrays would cost more than the tick itself."""
        return self._index

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The same index everywhere."""
        return np.full(len(draws), self._index, dtype=np.int64)

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """The same index everywhere."""
        return np.full((ticks, len(seeds)), self._index, dtype=np.int64)

    def scheduled(self, seeds: Choices, ticks: Choices) -> Choices:
        """The same index everywhere."""
        return np.full(len(seeds), self._index, dtype=np.int64)

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
        self.probabilities = numbers_of("Random", "probabilities", probabilities)
        self._edges = np.ones(1)

    def __repr__(self) -> str:
        return f"Random({self.probabilities!r})"

    def validate(self) -> None:
        """Line the probabilities up with the fidelities."""
        count = len(self.fidelities)
        p = np.full(count, 1.0 / count)
        if self.probabilities is not None:
            p = by_fidelity("Random", "probabilities", self.probabilities, self.fidelities, 0.0)
        if (p < 0.0).any() or abs(p.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"Random.probabilities must be numbers of at least 0 that sum to 1, not {self.probabilities!r}"
            )
        self._edges = np.cumsum(p)[:-1]

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """The fidelity whose share of [0, 1) the draw fell in."""
        return np.searchsorted(self._edges, draws, side="right").astype(np.int64)

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """The same draws, for many streams and ticks."""
        drawn = [draw_uniform(seeds, tick) for tick in range(first, first + ticks)]
        return self.pick(np.empty(0), np.empty(0), np.array(drawn).reshape(ticks, len(seeds)))

    def scheduled(self, seeds: Choices, ticks: Choices) -> Choices:
        """The same draws as `schedule`."""
        return self.pick(np.empty(0), np.empty(0), draw_uniform(seeds, ticks))

    def spec(self) -> dict[str, Any]:
        """The probabilities."""
        return {"probabilities": self.probabilities}

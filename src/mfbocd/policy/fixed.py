"""Policies whose choices do not depend on observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..belief.filter import Filter
from .base import Array, Choices, Policy, draw_uniform
from .per_fidelity import by_fidelity, numbers_of


class Always(Policy):
    """Read the same fidelity at every tick.

    Parameters
    ----------
    name : str, optional
        Name of the fidelity; by default the one with the largest zeta.

    Examples
    --------
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
        """Return the index directly; the general method would take longer than the tick itself."""
        return self._index

    def pick(self, gains: Array, costs: Array, draws: Array) -> Choices:
        """Return the same index for every stream."""
        return np.full(len(draws), self._index, dtype=np.int64)

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """Return the same index for every tick and stream."""
        return np.full((ticks, len(seeds)), self._index, dtype=np.int64)

    def scheduled(self, seeds: Choices, ticks: Choices) -> Choices:
        """Return the same index for every stream."""
        return np.full(len(seeds), self._index, dtype=np.int64)

    def spec(self) -> dict[str, Any]:
        """Return `name`."""
        return {"name": self.name}


class Random(Policy):
    """Read fidelity j with probability p_j at every tick, whatever was observed.

    This is the paper's baseline. A draw is a hash of seed and tick, so that `choose` is idempotent and a replay
    repeats it.

    Parameters
    ----------
    probabilities : mapping or sequence of float, optional
        One probability per fidelity, in their order or by name (0 where a name is omitted); equal by default.

    Examples
    --------
    >>> Random({"imu": 0.7, "gps": 0.3})
    Random({'imu': 0.7, 'gps': 0.3})
    """

    def __init__(self, probabilities: Mapping[str, float] | Sequence[float] | None = None) -> None:
        self.probabilities = numbers_of("Random", "probabilities", probabilities)
        self._edges = np.ones(1)

    def __repr__(self) -> str:
        return f"Random({self.probabilities!r})"

    def validate(self) -> None:
        """Match the probabilities with the fidelities."""
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
        """Return the fidelity whose interval of the cumulative probabilities contains the draw."""
        return np.searchsorted(self._edges, draws, side="right").astype(np.int64)

    def schedule(self, seeds: Sequence[int], first: int, ticks: int) -> Choices:
        """Return the choices of these ticks; they depend on seed and tick only."""
        drawn = [draw_uniform(seeds, tick) for tick in range(first, first + ticks)]
        return self.pick(np.empty(0), np.empty(0), np.array(drawn).reshape(ticks, len(seeds)))

    def scheduled(self, seeds: Choices, ticks: Choices) -> Choices:
        """Return the same draws as `schedule`."""
        return self.pick(np.empty(0), np.empty(0), draw_uniform(seeds, ticks))

    def spec(self) -> dict[str, Any]:
        """Return `probabilities`."""
        return {"probabilities": self.probabilities}

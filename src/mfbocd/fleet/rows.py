"""The memory of a fleet: one row per stream."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.state import Array, hypotheses, state_of
from ..inputs.arguments import room_for
from ..models import Model

_FIRST = 16  # capacity of an empty fleet when its first stream is added


class Selected(NamedTuple):
    """Some of the rows, all different."""

    rows: NDArray[np.int64]
    at: NDArray[np.int64] | slice
    """The same as an index: a slice if these are all rows in order, which is several times faster."""


class Rows:
    """The states of n streams in one matrix, and columns for what else belongs to a stream.

    There is memory for `capacity` rows, which doubles when it is used up and is halved when three quarters of it are
    free. A row that is removed is replaced by the last one.

    Parameters
    ----------
    model : Model
        The model of all streams.
    fresh : array
        The state of a stream before its first tick.
    n : int
        Number of streams.
    seed : int
        Stream i has the seed ``seed + i``.
    """

    def __init__(self, model: Model, fresh: Array, n: int, seed: int) -> None:
        self.n = n
        room_for(f"a fleet of {self.n} streams with {8 * fresh.size} bytes each", float(self.n) * fresh.size)
        self.model = model
        self.fresh = fresh
        self.states = np.tile(fresh, (self.n, 1))
        self.seed = seed + np.arange(n)
        self.states[:, layout.SEED] = self.seed
        self.tick = np.zeros(n, dtype=np.int64)
        """Ticks of each stream so far; also in its state, which is far away in memory."""
        self.chosen = np.zeros(n, dtype=np.int64)
        """Index of the fidelity that was chosen last."""
        self.chosen_at = np.full(n, -1)
        """Tick of that choice; -1 if there was none."""
        self.spent = np.zeros(self.n)
        self.offset = np.zeros(self.n)
        self.scale = np.ones(self.n)
        self.has_units = False
        """Whether some row has another offset than 0 or another scale than 1."""

    _COLUMNS = ("states", "seed", "tick", "chosen", "chosen_at", "spent", "offset", "scale")

    @property
    def capacity(self) -> int:
        """Number of rows that memory is allocated for."""
        return len(self.states)

    @property
    def cap(self) -> int:
        """Number of hypotheses that memory is allocated for, the same in every row."""
        return int(self.fresh[layout.CAP])

    def copy(self) -> Rows:
        """Return an independent copy."""
        other = copy.copy(self)
        for name in self._COLUMNS:
            setattr(other, name, getattr(self, name).copy())
        return other

    def reserve(self) -> int | None:
        """Make room for one more row; returns the new capacity if it changed."""
        if self.n < self.capacity:
            return None
        return self._resize(max(2 * self.capacity, _FIRST))

    def _resize(self, capacity: int) -> int:
        for name in self._COLUMNS:
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self.n] = old[: self.n]
            setattr(self, name, new)
        return capacity

    def set(self, row: int, state: Array, seed: int, spent: float, units: tuple[float, float]) -> None:
        """Fill a row; the state must have the layout of `fitted`."""
        self.states[row] = state
        self.states[row, layout.SEED] = seed
        self.seed[row], self.tick[row], self.spent[row] = seed, int(state[layout.TICK]) + 1, spent
        self.chosen_at[row] = -1
        self.offset[row], self.scale[row] = units
        self.has_units = self.has_units or units != (0.0, 1.0)

    def remove(self, row: int) -> int | None:
        """Move the last row into the place of this one; returns the new capacity if it changed."""
        last = self.n - 1
        for name in self._COLUMNS:
            column = getattr(self, name)
            column[row] = column[last]
        self.n = last
        half = self.capacity // 2
        return self._resize(half) if half >= max(2 * self.n, _FIRST) else None

    def fitted(self, state: Array) -> Array:
        """Return the state with the capacity of a row, after enlarging the rows if it needs more."""
        if state[layout.COUNT] >= self.cap:
            self._widen(int(state[layout.COUNT]) + 1)
        return state_of(self.model, state[: layout.HEAD], hypotheses(state), self.cap)

    def make_room(self, rows: NDArray[np.int64], ticks: int) -> None:
        """Make room for `ticks` more hypotheses in these rows, if no pruning bounds their number."""
        if len(rows):
            needed = int(self.states[rows, layout.COUNT].max()) + ticks
            if needed > self.cap:
                self._widen(max(2 * self.cap, needed))

    def _widen(self, count: int) -> None:
        live = int(self.fresh[layout.COLUMNS])
        fresh = state_of(self.model, self.fresh[: layout.HEAD], np.empty((live, 0)), count)
        room_for(f"a fleet of {self.n} streams with {8 * fresh.size} bytes each", float(self.capacity) * fresh.size)
        states = np.tile(fresh, (self.capacity, 1))
        head, cap = layout.HEAD, self.cap
        states[:, : layout.CAP], states[:, layout.CAP + 1 : head] = (
            self.states[:, : layout.CAP],
            self.states[:, layout.CAP + 1 : head],
        )
        end, wide_end = head + live * cap, head + live * int(fresh[layout.CAP])
        wide = states[:, head:wide_end].reshape(self.capacity, live, -1)
        wide[:, :, :cap] = self.states[:, head:end].reshape(self.capacity, live, cap)
        states[:, wide_end:] = self.states[:, end:]
        self.states, self.fresh = states, fresh

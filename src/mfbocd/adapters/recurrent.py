"""Observers with memory: a reading is only valid once they have seen what came before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..inputs.arguments import finite, positive, whole


class Recurrent:
    """An observer whose reading depends on the last `warmup` raws, read only at some ticks.

    `Detector.step` calls `feed(raw)` at every tick at which this observer is not read; whoever drives the loop with
    choose and update does so himself. When it is read again, it first sees what it missed, at most the last `warmup`
    raws, and that is paid for: `cost_of` says how much before it is done. After a longer gap `reset` (if given)
    clears the memory first: what it held is too old.

    A reading is None, missing, until `warmup` raws came before: use it with ``Detector(..., missing="skip")``.

    Parameters
    ----------
    observe: the observer, called with every raw in order; it keeps its own memory.
    warmup: raws a valid reading must have seen before its own.
    cost: of a reading with nothing missed.
    warmup_cost: of one missed raw.
    reset: forgets everything; leave it out if what `observe` saw more than `warmup` raws ago leaves no trace.

    >>> seen = []
    >>> def last_three(raw):
    ...     seen.append(raw)
    ...     return sum(seen[-3:])
    >>> observe = Recurrent(last_three, warmup=2, cost=10, warmup_cost=3)
    >>> for raw in [1, 2, 3, 4]:
    ...     observe.feed(raw)
    >>> observe.missed, observe.cost_of(5)
    (2, 16.0)
    >>> observe(5), seen
    (12.0, [3, 4, 5])
    >>> observe.cost_of(6)
    10.0
    """

    def __init__(
        self,
        observe: Callable[[Any], float | None],
        *,
        warmup: int,
        cost: float,
        warmup_cost: float,
        reset: Callable[[], object] | None = None,
    ) -> None:
        for name, function in (("observe", observe), ("reset", reset)):
            if not callable(function) and not (name == "reset" and function is None):
                raise TypeError(f"Recurrent.{name} must be callable, not {function!r}")
        if finite("Recurrent", "warmup_cost", warmup_cost) < 0.0:
            raise ValueError(f"Recurrent.warmup_cost must be at least 0, not {warmup_cost!r}")
        self.observe = observe
        self.warmup = whole("Recurrent", "warmup", warmup, 0)
        self.cost = positive("Recurrent", "cost", cost)
        self.warmup_cost = float(warmup_cost)
        self.reset = reset
        self._waiting: deque[Any] = deque(maxlen=self.warmup)
        self._gap = 0  # raws not seen since the last reading, also those no longer waiting
        self._warm = 0  # raws in a row the memory has seen, up to `warmup`

    @property
    def missed(self) -> int:
        """Raws the next reading must see first."""
        return len(self._waiting)

    def feed(self, raw: Any) -> None:
        """A raw that is not read at this tick: kept for when it must be seen. Nothing is computed."""
        self._waiting.append(raw)
        self._gap += 1

    def cost_of(self, raw: Any = None) -> float:
        """cost + missed * warmup_cost: what reading at this tick would cost."""
        return self.cost + self.missed * self.warmup_cost

    def __call__(self, raw: Any) -> float | None:
        """See what was missed, then read `raw`; None while fewer than `warmup` raws came before it."""
        if self._gap > self.warmup:
            if self.reset is not None:
                self.reset()
            self._gap = len(self._waiting)  # from here on nothing is missing, should `observe` fail halfway
        while self._waiting:
            self.observe(self._waiting[0])
            self._waiting.popleft()
            self._gap -= 1
            self._warm = min(self._warm + 1, self.warmup)
        self._gap = 0
        reading = self.observe(raw)
        valid = self._warm == self.warmup
        self._warm = min(self._warm + 1, self.warmup)
        return float(reading) if valid and reading is not None else None

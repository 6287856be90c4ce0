"""Observers with memory, whose reading is valid only after they have seen the preceding inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..inputs.arguments import not_negative, positive, whole


class Recurrent:
    """An observer whose reading depends on the last `warmup` raw inputs, read only at some ticks.

    `Detector.step` calls `feed(raw)` at every tick at which this observer is not read; with your own loop of `choose`
    and `update`, call it yourself. When the observer is read again, it first processes the inputs it missed, at most
    the last `warmup`, and that is paid for: `cost_of` returns the cost in advance. After a longer gap `reset`, if
    given, clears the memory first, because its content is too old.

    A reading is None (missing) until `warmup` inputs came before it: use it with ``Detector(..., missing="skip")``.

    Parameters
    ----------
    observe : Callable[[Any], float or None]
        The observer, called with every input in order; it keeps its own memory.
    warmup : int
        Inputs that must precede a valid reading, at least 0.
    cost : float
        Cost of a reading without missed inputs, positive.
    warmup_cost : float
        Cost of processing one missed input, at least 0.
    reset : Callable[[], object] or None
        Clears the memory. None, the default, if inputs more than `warmup` ago have no effect on `observe`.

    Raises
    ------
    TypeError
        If `observe` or `reset` is not callable, or a number has the wrong type.
    ValueError
        If a number is out of range.

    Examples
    --------
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
        self.observe = observe
        self.warmup = whole("Recurrent", "warmup", warmup, 0)
        self.cost = positive("Recurrent", "cost", cost)
        self.warmup_cost = not_negative("Recurrent", "warmup_cost", warmup_cost)
        self.reset = reset
        self._missed_inputs: deque[Any] = deque(maxlen=self.warmup)
        self._gap = 0  # inputs since the last reading, including those no longer stored
        self._warm = 0  # consecutive inputs the memory has seen, up to `warmup`

    @property
    def missed(self) -> int:
        """Number of inputs that the next reading must process first."""
        return len(self._missed_inputs)

    def feed(self, raw: Any) -> None:
        """Store the input of a tick at which the observer is not read; nothing is computed.

        Parameters
        ----------
        raw : Any
            The raw input.
        """
        self._missed_inputs.append(raw)
        self._gap += 1

    def cost_of(self, raw: Any = None) -> float:
        """Return the cost of a reading at this tick: cost + missed * warmup_cost.

        Parameters
        ----------
        raw : Any
            The raw input; not used.

        Returns
        -------
        float
            The cost.
        """
        return self.cost + self.missed * self.warmup_cost

    def __call__(self, raw: Any) -> float | None:
        """Process the missed inputs, then read.

        Parameters
        ----------
        raw : Any
            The raw input.

        Returns
        -------
        float or None
            The reading; None while fewer than `warmup` inputs came before it.
        """
        if self._gap > self.warmup:
            if self.reset is not None:
                self.reset()
            self._gap = len(self._missed_inputs)  # consistent even if `observe` fails halfway
        while self._missed_inputs:
            self.observe(self._missed_inputs[0])
            self._missed_inputs.popleft()
            self._gap -= 1
            self._warm = min(self._warm + 1, self.warmup)
        self._gap = 0
        reading = self.observe(raw)
        valid = self._warm == self.warmup
        self._warm = min(self._warm + 1, self.warmup)
        return float(reading) if valid and reading is not None else None

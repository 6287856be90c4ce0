"""Readings that were rounded to a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import positive, whole
from .base import Array, Model
from .mapped import Mapped


class Rounded(Mapped):
    """Readings that were rounded to a step: a random fraction of it is added before another model sees them.

    A model of continuous readings takes a rounded value that repeats itself for one without noise, and every other
    value for a change. The fraction, between -1/2 and 1/2, follows from the tick alone, so results repeat.

    Parameters
    ----------
    model : Model or mapping
        The model of the readings before rounding, or a table that names it. Its readings must be continuous.
    step : float
        The distance between rounded values, positive.
    start : int, default 0
        Added to the ticks that the fractions follow from.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or the model's readings are not continuous numbers.

    Notes
    -----
    Evidence and gains are those of the model.

    Statistics of a hypothesis: those of `model`, then the number of ticks of the stream.

    Examples
    --------
    >>> from mfbocd.models import GaussianUnknown
    >>> plain, stats = GaussianUnknown(), GaussianUnknown().prior()
    >>> model = Rounded(plain, step=1.0)
    >>> dithered = model.prior()
    >>> for x in [3.0] * 50:
    ...     stats, dithered = plain.update(stats, x, 1.0), model.update(dithered, x, 1.0)
    >>> [round(float(m.predictive(s)[1]), 2) for m, s in ((plain, stats), (model, dithered))]
    [0.22, 0.31]
    """

    uses_ticks = True

    def __init__(self, model: Model | Mapping[str, Any], step: float, start: int = 0) -> None:
        self.step = positive("Rounded", "step", step)
        self.start = whole("Rounded", "start", start, 0)
        self._half = 0.5 * self.step * (1.0 + 1e-9)  # sums with a fraction are rounded
        self._wrap(model)

    def to_inner(self, x: Any, tick: Any) -> Any:
        """Return x plus the fraction of a step."""
        return x + self.step * (_fractions(tick + self.start) - 0.5)

    def to_outer(self, y: Any, tick: Any) -> Any:
        """Return y, or the nearest possible reading: a forecast is not rounded, and half a step is its accuracy."""
        return self.clipped(y)

    def inverse(self, y: Any, tick: Any) -> Any:
        """Return y without the fraction."""
        return y - self.step * (_fractions(tick + self.start) - 0.5)

    def clipped(self, x: Any) -> Any:
        """Return the numbers that are half a step or more inside the domain."""
        if not isinstance(self.model, Mapped):
            return x
        low, high = x - self._half, x + self._half
        lifted, lowered = self.model.clipped(low), self.model.clipped(high)
        x = np.where(lifted > low, lifted + self._half, x)
        return np.where(lowered < high, lowered - self._half, x)

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Tell which readings are possible with every fraction of a step."""
        return self.model.possible(x - self._half) & self.model.possible(x + self._half)

    def _support(self) -> str:
        return f"numbers that are possible for {self.model!r} also half a step, {0.5 * self.step:g}, further"

    def rescaled(self, offset: float, scale: float) -> Rounded:
        """As for any model that has an offset and a scale."""
        return type(self)(self._inner_rescaled(offset, scale), scale * self.step, self.start)

    def spec(self) -> dict[str, Any]:
        """Return the model as its kind and its arguments, the step and the start."""
        return {**super().spec(), "step": self.step, "start": self.start}


def _fractions(tick: Any) -> Array:
    """Return a pseudo-random number in [0, 1) for each tick, always the same (splitmix64)."""
    z = np.asarray(tick).astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53

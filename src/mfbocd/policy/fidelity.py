"""One way to observe a stream: its information and its cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..inputs.arguments import finite, positive, probability

LONGEST = 200
"""Largest length of a name."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Not allowed in a name: control characters, and surrogates, which cannot be written as UTF-8."""


@dataclass(frozen=True)
class Fidelity:
    """One way to observe a stream.

    Parameters
    ----------
    name : str
        Unique name, at most 200 characters without control characters.
    zeta : float
        Weight of a reading relative to a full observation, in [0, 1]: 1 is a full observation, 0 none. A fidelity
        with zeta = 0 is a skip.
    cost : float or callable
        Cost of a reading in any unit, the same for all fidelities; or a function of the raw input that returns it. It
        must be positive; only a skip may cost 0.
    observe : callable, optional
        Function of the raw input that returns the reading; `Detector.step` calls it.
    offset, scale : float
        Systematic error of its readings: the detector uses (x - offset) / scale in place of a reading x, and so do
        steps, traces and plots. `scale` must be positive. 0 and 1, the defaults, change nothing. zeta and the model
        describe corrected readings. Only for models whose readings are one number.

    Attributes
    ----------
    has_correction : bool
        Whether `offset` and `scale` change a reading.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> Fidelity("gps", zeta=1.0, cost=40)
    Fidelity(name='gps', zeta=1.0, cost=40.0)
    >>> Fidelity("imu", zeta=0.1, cost=1, offset=2.0).corrected(9.5)
    7.5
    >>> Fidelity("gps", zeta=2, cost=40)
    Traceback (most recent call last):
    ...
    ValueError: Fidelity.zeta must lie in [0, 1], not 2
    """

    name: str
    zeta: float
    cost: float | Callable[[Any], float]
    observe: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)
    offset: float = 0.0
    scale: float = 1.0
    has_correction: bool = field(init=False, repr=False, compare=False, default=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"Fidelity.name must be a non-empty string, not {self.name!r}")
        if len(self.name) > LONGEST:
            raise ValueError(f"Fidelity.name must be at most {LONGEST} characters, not {len(self.name)}")
        if CONTROL.search(self.name):
            raise ValueError(f"Fidelity.name must have no control characters, not {self.name!r}")
        zeta = probability("Fidelity", "zeta", self.zeta, "[0, 1]")
        if self.observe is not None and not callable(self.observe):
            raise TypeError(f"Fidelity.observe must be callable, not {self.observe!r}")
        object.__setattr__(self, "zeta", zeta)
        object.__setattr__(self, "offset", finite("Fidelity", "offset", self.offset))
        object.__setattr__(self, "scale", positive("Fidelity", "scale", self.scale))
        object.__setattr__(self, "has_correction", (self.offset, self.scale) != (0.0, 1.0))
        if not callable(self.cost):
            object.__setattr__(self, "cost", self._checked(self.cost))

    def __repr__(self) -> str:
        parts = {"name": self.name, "zeta": self.zeta, "cost": self.cost}
        if self.has_correction:
            parts |= {"offset": self.offset, "scale": self.scale}
        return f"Fidelity({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def corrected(self, x: float) -> float:
        """Return a reading without the systematic error of this fidelity: (x - offset) / scale.

        Every entry point corrects readings with this formula once, before the model checks them.

        Parameters
        ----------
        x : float
            The reading; NaN stays NaN.

        Returns
        -------
        float
            The corrected reading.

        Raises
        ------
        ValueError
            If it is too large for a float.

        Examples
        --------
        >>> Fidelity("fahrenheit", zeta=0.5, cost=1, offset=32.0, scale=1.8).corrected(212.0)
        100.0
        """
        if not self.has_correction:
            return x
        value = (x - self.offset) / self.scale
        if math.isinf(value):
            raise ValueError(f"x = {x!r} is too large for offset = {self.offset:g} and scale = {self.scale:g}")
        return value

    def _checked(self, cost: Any) -> float:
        value = finite("Fidelity", "cost", cost)
        if value < 0.0 or (value == 0.0 and self.zeta > 0.0):
            raise ValueError(f"Fidelity.cost must be positive (a skip, zeta = 0, may cost 0), not {cost!r}")
        return value

    def cost_of(self, raw: Any = None) -> float:
        """Return the cost of a reading.

        Parameters
        ----------
        raw : object, optional
            The raw input; used only if the cost is a function.

        Returns
        -------
        float
            The cost.

        Raises
        ------
        ValueError
            If a cost function returns a number that is not positive.

        Examples
        --------
        >>> Fidelity("network", zeta=1, cost=lambda frame: 2.0 * len(frame)).cost_of("a frame")
        14.0
        """
        return self._checked(self.cost(raw)) if callable(self.cost) else self.cost


FULL = Fidelity("full", zeta=1.0, cost=1.0)
"""The one fidelity of ordinary BOCD."""


def name_from(text: str, default: str = "full") -> str:
    """Return a valid name from any text, such as a header of several lines; a valid name stays as it is."""
    return CONTROL.sub(" ", text)[:LONGEST] or default


def checked(fidelities: Iterable[Fidelity] | Fidelity | None) -> tuple[Fidelity, ...]:
    """Return the fidelities as a tuple with unique names; None is the one fidelity of ordinary BOCD."""
    if fidelities is None:
        return (FULL,)
    if isinstance(fidelities, (bool, int, float)):
        hint = f"did you mean hazard={fidelities!r}?"
        raise TypeError(f"fidelities must be Fidelity objects, not {fidelities!r}: {hint}")
    if not isinstance(fidelities, (Fidelity, Iterable)):
        raise TypeError(f"fidelities must be Fidelity objects, not {fidelities!r}")
    found = (fidelities,) if isinstance(fidelities, Fidelity) else tuple(fidelities)
    if not found:
        raise ValueError("fidelities must name at least one way to observe, not none")
    names = set()
    for f in found:
        if not isinstance(f, Fidelity):
            raise TypeError(f"fidelities must be Fidelity objects, not {f!r}")
        if f.name in names:
            raise ValueError(f"fidelities must have different names, but {f.name!r} appears twice")
        names.add(f.name)
    return found


def uncorrected(fidelities: Iterable[Fidelity]) -> tuple[Fidelity, ...]:
    """Return the same fidelities without offset and scale, for readings that are simulated in the model's units."""
    return tuple(replace(f, offset=0.0, scale=1.0) if f.has_correction else f for f in fidelities)


def same_readings(one: Sequence[Fidelity], other: Sequence[Fidelity]) -> bool:
    """Return whether fidelities are the same but for costs, which may change while a stream runs.

    >>> same_readings([Fidelity("gps", zeta=1, cost=40)], [Fidelity("gps", zeta=1, cost=60)])
    True
    """
    first, second = ([(f.name, f.zeta, f.offset, f.scale) for f in fidelities] for fidelities in (one, other))
    return first == second

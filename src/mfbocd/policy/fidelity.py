"""One way to observe a stream: its information and its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..inputs.arguments import finite, probability

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

    Examples
    --------
    >>> Fidelity("gps", zeta=1.0, cost=40)
    Fidelity(name='gps', zeta=1.0, cost=40.0)
    >>> Fidelity("gps", zeta=2, cost=40)
    Traceback (most recent call last):
    ...
    ValueError: Fidelity.zeta must lie in [0, 1], not 2
    """

    name: str
    zeta: float
    cost: float | Callable[[Any], float]
    observe: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

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
        if not callable(self.cost):
            object.__setattr__(self, "cost", self._checked(self.cost))

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

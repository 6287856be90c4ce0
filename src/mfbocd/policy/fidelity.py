"""One way to observe a stream: how much it tells and what it costs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..inputs.arguments import finite, probability

LONGEST = 200
"""Characters of a name at most."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a name must not have: control characters, and halves of a character, which cannot be written as UTF-8."""


@dataclass(frozen=True)
class Fidelity:
    """A way to observe: `name`, `zeta` in [0, 1], `cost` of a reading, and optionally the callable that reads.

    `cost` is a number, or a function of the raw input that returns one. zeta is how much of a perfect reading this
    one is worth: 1 is a full observation, 0 none at all. A fidelity with zeta = 0 is a skip, the only one whose cost
    may be 0. A name has at most 200 characters, and no control characters among them.

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
        """What a reading of `raw` costs.

        >>> Fidelity("network", zeta=1, cost=lambda frame: 2.0 * len(frame)).cost_of("a frame")
        14.0
        """
        return self._checked(self.cost(raw)) if callable(self.cost) else self.cost


FULL = Fidelity("full", zeta=1.0, cost=1.0)
"""The only fidelity of ordinary BOCD."""


def checked(fidelities: Iterable[Fidelity] | Fidelity | None) -> tuple[Fidelity, ...]:
    """The fidelities as a tuple with unique names; None is ordinary BOCD's one."""
    if fidelities is None:
        return (FULL,)
    if isinstance(fidelities, (bool, int, float)):
        raise TypeError(
            f"fidelities must be Fidelity objects, not {fidelities!r}; did you mean hazard={fidelities!r}?"
        )
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

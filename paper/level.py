"""The argument at which a rule reads a wanted share of the ticks at low fidelity."""

from __future__ import annotations

import math
from collections.abc import Callable

NEAR = 0.002  # of the wanted share; closer than held-out streams can tell
HALVINGS = 16


def reach(share: Callable[[float], float], wanted: float, *, low: float = 0.01, high: float = 16.0) -> float:
    """The argument in [low, high] whose share came closest: bisection of its logarithm. `share` falls as it rises.

    >>> round(reach(lambda weight: 1 / (1 + weight), 0.2), 1)
    4.0
    """
    a, b = math.log(low), math.log(high)
    best = (math.inf, 0.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        found = share(math.exp(middle))
        best = min(best, (abs(found - wanted), middle))
        if best[0] <= NEAR:
            break
        a, b = (middle, b) if found > wanted else (a, middle)
    return math.exp(best[1])

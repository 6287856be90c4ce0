"""Gains that do not fall as zeta rises."""

from __future__ import annotations

from .compile import kernel
from .pointer import Array


@kernel
def never_falling(zeta: Array, gains: Array) -> None:
    """Raise each gain to the largest of those at the same or a lower zeta, in place.

    A reading at a higher fidelity can always be used as one at a lower, so it is worth no less. Of a reading with a
    probability model of its own this holds as it is. A tempered likelihood that is normalised for each run length is
    no such model: two hypotheses may predict alike at zeta = 1 and apart at 1/2, and only below is that made good.
    """
    for j in range(zeta.size):
        best = gains[j]
        for k in range(zeta.size):
            # those already raised are no larger than what they stand for
            if zeta[k] <= zeta[j]:
                best = max(best, gains[k])
        gains[j] = best

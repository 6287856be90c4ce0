"""Gains that do not decrease as zeta increases."""

from __future__ import annotations

from .compile import kernel
from .pointer import Array


@kernel
def make_monotone(zeta: Array, gains: Array) -> None:
    """Raise each gain to the largest of those at the same or a lower zeta, in place.

    A reading at a higher fidelity can always be used as one at a lower fidelity, so it is worth no less. For readings
    with a probability model of their own this holds without this function. A tempered likelihood that is normalized
    for each run length is no such model: two hypotheses may predict the same at zeta = 1 and differ at 1/2.
    """
    for j in range(zeta.size):
        best = gains[j]
        for k in range(zeta.size):
            # `gains[k]` may have been raised already, but only to a gain at a zeta that also counts here
            if zeta[k] <= zeta[j]:
                best = max(best, gains[k])
        gains[j] = best

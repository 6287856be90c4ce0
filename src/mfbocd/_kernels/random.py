"""Random numbers without state: a hash of (seed, tick, salt), so that a replay draws the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import kernel, scalar


@scalar
def uniform(seed: int, tick: int, salt: int) -> float:
    """A number in [0, 1) from three integers (splitmix64's finalizer, applied after each)."""
    z = np.uint64(0x9E3779B97F4A7C15)
    for part in (np.uint64(seed), np.uint64(tick), np.uint64(salt)):
        z = (z ^ part) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def uniforms(seed: NDArray[np.int64], tick: NDArray[np.int64], salt: int) -> NDArray[np.float64]:
    """`uniform` of many streams, each at a tick of its own."""
    out = np.empty(seed.size)
    for i in range(seed.size):
        out[i] = uniform(seed[i], tick[i], salt)
    return out

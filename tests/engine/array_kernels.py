"""Kernels that take a pointer or single numbers, for arrays."""

from __future__ import annotations

import numpy as np

from mfbocd._kernels.compile import kernel
from mfbocd._kernels.gamma_ratio import digamma_difference
from mfbocd._kernels.pointer import Array, pointer
from mfbocd._kernels.prune import keep_heaviest, resample


@kernel
def keep_heaviest_of(weight: Array, k: int) -> None:
    """`keep_heaviest` for an array."""
    keep_heaviest(pointer(weight, 0), weight.size, k)


@kernel
def resample_of(weight: Array, k: int, u: float) -> None:
    """`resample` for an array."""
    resample(pointer(weight, 0), weight.size, k, u)


@kernel
def digamma_differences(s: Array, d: float) -> Array:
    """`digamma_difference` of each element of a one-dimensional array."""
    out = np.empty(s.size)
    for i in range(s.size):
        out[i] = digamma_difference(s[i], d)
    return out

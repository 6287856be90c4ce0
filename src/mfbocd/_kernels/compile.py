"""How kernels are compiled: one place for numba's switches.

Every compiled function is explicit and module-level: numba finds a closure over a jitted function, or a jitted
function passed as an argument, in no cache, and would compile it again in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. NaN never enters a kernel: readings are checked before it.
_LOOSE = {"reassoc", "contract", "nsz", "arcp", "nnan"}


def kernel(function: F) -> F:
    """Compile a loop over hypotheses: cached on disk, without the GIL, sums free to be reordered."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)(function))


def scalar(function: F) -> F:
    """Compile a function to be inlined into kernels, which then vectorise: order kept, multiply-adds fused."""
    compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function)
    return cast(F, compiled)

"""How kernels are compiled: one place for numba's switches.

Every compiled function is explicit and module-level: numba finds a closure over a jitted function, or a jitted
function passed as an argument, in no cache, and would compile it again in every process.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. NaN never enters a kernel: readings are checked before it.
_LOOSE = {"reassoc", "contract", "nsz", "arcp", "nnan"}


_SOURCES = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))


def _watched(compiled: Any) -> Any:
    """Make what is cached on disk depend on all files of this folder.

    numba watches only the file a function is in: a kernel would go on calling another file's kernel as it was
    before that changed, and give wrong numbers silently.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:  # None with NUMBA_DISABLE_JIT
        file._source_stamp = (file._source_stamp, _SOURCES)
    return compiled


def kernel(function: F) -> F:
    """Compile a loop over hypotheses: cached on disk, without the GIL, sums free to be reordered.

    Kernels are inlined into one another. Else each that calls one would carry a copy of it, optimised once more and
    so rounding otherwise, and which copy a process calls hangs on what it compiled and what it found in the cache:
    the first process of all would not get the bits of those after it.
    """
    compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE, forceinline=True)(function)
    return cast(F, _watched(compiled))


def scalar(function: F) -> F:
    """Compile a function to be inlined into kernels, which then vectorise: order kept, multiply-adds fused."""
    compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function)
    return cast(F, _watched(compiled))

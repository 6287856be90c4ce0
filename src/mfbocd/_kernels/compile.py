"""How kernels are compiled: one place for numba's switches.

Every compiled function is explicit and module-level: numba finds a closure over a jitted function, or a jitted
function passed as an argument, in no cache, and would compile it again in every process.
"""

from __future__ import annotations

import pickle
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit

COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]
"""False with NUMBA_DISABLE_JIT=1: every kernel is then plain Python, slow, for a debugger to step through."""

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. NaN never enters a kernel: readings are checked before it.
_LOOSE = {"reassoc", "contract", "nsz", "arcp", "nnan"}


_SOURCES = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))


def _watched(compiled: Any) -> Any:
    """Make what is cached on disk depend on all files of this folder.

    numba watches only the file a function is in: a kernel would go on calling another file's kernel as it was
    before that changed, and give wrong numbers silently.
    """
    cache = compiled._cache
    if hasattr(cache, "_cache_file"):  # not of one that is not cached
        cache._cache_file._source_stamp = (cache._cache_file._source_stamp, _SOURCES)
        # A file that cannot be written (a full disk) or read (half of one) is none: numba goes on without it.
        cache._guard_against_spurious_io_errors = lambda: suppress(OSError, EOFError, pickle.PickleError)
    return compiled


_uncached = False


def _compile(function: F, fastmath: set[str]) -> F:
    """Compile for the cache on disk, or for this process alone where nothing can be written."""
    global _uncached
    if not COMPILED:
        return np.errstate(all="ignore")(function)  # compiled code overflows silently
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, "forceinline": True}
    if not _uncached:
        try:
            return cast(F, _watched(njit(cache=True, **options)(function)))
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _uncached = True
            warnings.warn(
                "mfbocd is compiled anew by every process, which takes long: neither its folder nor the home folder "
                "can be written. Let NUMBA_CACHE_DIR name a folder that can be",
                RuntimeWarning,
                stacklevel=2,
            )
    return cast(F, njit(**options)(function))


def kernel(function: F) -> F:
    """Compile a loop over hypotheses: cached on disk, without the GIL, sums free to be reordered.

    Kernels are inlined into one another. Else each that calls one would carry a copy of it, optimised once more and
    so rounding otherwise, and which copy a process calls hangs on what it compiled and what it found in the cache:
    the first process of all would not get the bits of those after it.
    """
    return _compile(function, _LOOSE)


def scalar(function: F) -> F:
    """Compile a function to be inlined into kernels, which then vectorise: order kept, multiply-adds fused."""
    return _compile(function, {"contract"})

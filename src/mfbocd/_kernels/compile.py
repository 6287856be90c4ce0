"""How kernels are compiled: numba's options, and the cache on disk.

numba finds only module-level functions in its cache. A closure over a compiled function, or a compiled function that
receives another as an argument, would be compiled again in every process. `bind` makes module-level copies of a
template instead.
"""

from __future__ import annotations

import pickle
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit

COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]
"""False with NUMBA_DISABLE_JIT=1: every kernel is then plain Python, slow, for a debugger to step through."""

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered so that they vectorize. NaN never enters a kernel: readings are checked before it.
_REORDERED = {"reassoc", "contract", "nsz", "arcp", "nnan"}


def _checksum(files: Iterable[Path]) -> int:
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(files)))


_FOLDER = _checksum(Path(__file__).parent.glob("*.py"))


def _stamped(compiled: Any, sources: int) -> Any:
    """Make the cached code depend on every file of this folder, and on `sources`, the checksum of other files.

    numba checks only the file that a function is in. Without this, a kernel would keep calling the old version of a
    kernel whose file changed, and silently return wrong numbers.
    """
    cache = compiled._cache
    if hasattr(cache, "_cache_file"):  # absent where nothing is cached
        cache._cache_file._source_stamp = (cache._cache_file._source_stamp, _FOLDER, sources)
        # A cache file that cannot be written (full disk) or read (truncated) counts as absent.
        cache._guard_against_spurious_io_errors = lambda: suppress(OSError, EOFError, pickle.PickleError)
    return compiled


_uncached = False


def _compile(function: F, fastmath: set[str], sources: int = 0, inlined: bool = True) -> F:
    """Compile for the cache on disk, or for this process alone where nothing can be written."""
    global _uncached
    if not COMPILED:
        return np.errstate(all="ignore")(function)  # compiled code overflows silently
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, "forceinline": inlined}
    if not _uncached:
        try:
            return cast(F, _stamped(njit(cache=True, **options)(function), sources))
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _uncached = True
            warnings.warn(
                "mfbocd compiles its kernels again in every process, which is slow: neither its folder nor the home "
                "folder is writable. Set NUMBA_CACHE_DIR to a writable folder",
                RuntimeWarning,
                stacklevel=2,
            )
    return cast(F, njit(**options)(function))


def kernel(function: F) -> F:
    """Compile a loop over hypotheses: cached on disk, without the GIL, sums may be reordered.

    Kernels are inlined into one another. Otherwise each caller would carry its own copy of a kernel, optimized again
    and rounding differently, and which copy a process calls would depend on what it compiled and what it found in the
    cache: the first process would not get the same bits as later ones.
    """
    return _compile(function, _REORDERED)


def bind(template: F, **kernels: Callable[..., Any]) -> F:
    """Compile a copy of `template` as a kernel in which the global names in `kernels` stand for those kernels.

    The copy belongs to the module of the first of them, under the template's name. Its code in the cache depends on
    the files of all of them as well, since numba checks only the template's file.
    """
    owner = next(iter(kernels.values())).__module__
    copy = FunctionType(template.__code__, {**template.__globals__, **kernels}, template.__name__)
    copy.__module__ = owner
    copy.__qualname__ = f"{owner}.{template.__name__}"  # names the file in the cache
    copy.__doc__ = template.__doc__
    copy.__annotations__ = template.__annotations__
    files = {Path(str(sys.modules[one.__module__].__file__)) for one in kernels.values()}
    return _compile(cast(F, copy), _REORDERED, _checksum(files))


def scalar(function: F) -> F:
    """Compile a function to be inlined into kernels, which then vectorize: order kept, multiply-adds fused."""
    return _compile(function, {"contract"})


def rare(function: F) -> F:
    """Compile a function that few ticks call, and that adds nothing up: not inlined, since that slows its caller."""
    return _compile(function, set(), inlined=False)


def exact(function: F) -> F:
    """Compile a function whose bits matter: nothing reordered, nothing fused."""
    return _compile(function, set())

"""How threads share the streams of a fleet: a work queue of two integers, changed atomically, without the GIL.

queue[0] is the index of the next stream that no thread has taken, queue[1] the number of finished streams. A thread
that starts late finds fewer streams left and delays nobody. A thread that finds none left waits, for some
microseconds, until all are finished.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from .compile import COMPILED, scalar

BLOCK = 16  # streams taken at a time
WorkQueue = NDArray[np.int64]

if TYPE_CHECKING:

    def _add(queue: WorkQueue, index: int, value: int) -> int:
        """Add to queue[index] atomically; returns the previous value."""

elif not COMPILED:
    _adding = Lock()

    def _add(queue, index, value):
        """Add to queue[index] atomically; returns the previous value."""
        with _adding:
            before = int(queue[index])
            queue[index] = before + value
            return before

else:

    @intrinsic
    def _add(typingctx: Any, queue: Any, index: Any, value: Any) -> Any:
        """Add to queue[index] atomically; returns the previous value."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            where = cgutils.gep_inbounds(builder, data, args[1])
            return builder.atomic_rmw("add", where, args[2], "seq_cst")

        return types.int64(queue, types.int64, types.int64), codegen


# A waiting thread yields its core: on a busy machine the thread it waits for may need it.
if COMPILED:
    _yield = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())
else:
    _yield = partial(time.sleep, 0)  # type: ignore[assignment]


@scalar
def take_block(queue: WorkQueue, n: int) -> tuple[int, int]:
    """The next streams to work on, [low, high); empty once all are finished."""
    low = min(_add(queue, 0, BLOCK), n)
    high = min(low + BLOCK, n)
    if low == high:
        while _add(queue, 1, 0) < n:
            _yield()
    return low, high


@scalar
def stop(queue: WorkQueue, n: int) -> None:
    """Empty the queue of n streams and release the waiting threads: a thread has failed."""
    _add(queue, 0, n)
    _add(queue, 1, n)


@scalar
def mark_done(queue: WorkQueue, count: int) -> None:
    """Count `count` more streams as finished."""
    _add(queue, 1, count)

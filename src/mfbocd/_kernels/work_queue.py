"""How threads share the streams of a fleet: a board with two numbers, changed atomically, without the GIL.

board[0] is the next stream nobody has taken, board[1] how many are done. A thread that wakes late finds fewer
streams left, and delays nobody; a thread with nothing left waits, some microseconds, until all are done.
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
Board = NDArray[np.int64]

if TYPE_CHECKING:

    def _add(board: Board, index: int, value: int) -> int:
        """Add atomically; returns what was there before."""

elif not COMPILED:
    _adding = Lock()

    def _add(board, index, value):
        """Add atomically; returns what was there before."""
        with _adding:
            before = int(board[index])
            board[index] = before + value
            return before

else:

    @intrinsic
    def _add(typingctx: Any, board: Any, index: Any, value: Any) -> Any:
        """Add atomically; returns what was there before."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            where = cgutils.gep_inbounds(builder, data, args[1])
            return builder.atomic_rmw("add", where, args[2], "seq_cst")

        return types.int64(board, types.int64, types.int64), codegen


# While it waits, a thread lets others run: on a busy machine the one it waits for may need its core.
if COMPILED:
    _yield = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())
else:
    _yield = partial(time.sleep, 0)  # type: ignore[assignment]


@scalar
def take(board: Board, n: int) -> tuple[int, int]:
    """The next streams to advance, [low, high); empty when all are done."""
    low = min(_add(board, 0, BLOCK), n)
    high = min(low + BLOCK, n)
    if low == high:
        while _add(board, 1, 0) < n:
            _yield()
    return low, high


@scalar
def stop(board: Board, n: int) -> None:
    """Nobody takes or waits for any more of n streams: one who took some has failed."""
    _add(board, 0, n)
    _add(board, 1, n)


@scalar
def done(board: Board, count: int) -> None:
    """Report `count` streams as advanced."""
    _add(board, 1, count)

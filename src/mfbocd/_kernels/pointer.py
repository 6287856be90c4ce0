"""Bare pointers into an array.

A slice of an array carries a reference count, which costs an atomic increment and decrement: some fifty of them
took two thirds of a tick's time. A pointer costs nothing, has no length and no bounds, and does not keep its array
alive: take one only of an array that the caller of the kernel keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from .compile import COMPILED

Array = NDArray[np.float64]
Pointer = NDArray[np.float64]
"""The type of `pointer` for the type checker: it is indexed like an array."""

if TYPE_CHECKING:

    def pointer(array: Array, offset: int) -> Pointer:
        """The address of array[offset]."""

    def shift(base: Pointer, offset: int) -> Pointer:
        """The address of base[offset]."""

elif not COMPILED:  # views in place of pointers

    def pointer(array, offset):
        """A view of the array from `offset` on."""
        assert array.flags.c_contiguous
        return array.reshape(-1)[offset:]

    def shift(base, offset):
        """A view of the base from `offset` on."""
        return base[offset:]

else:

    @intrinsic
    def pointer(typingctx: Any, array: Any, offset: Any) -> Any:
        """The address of array[offset]."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            return cgutils.gep_inbounds(builder, data, args[1])

        return types.CPointer(types.float64)(array, types.intp), codegen

    @intrinsic
    def shift(typingctx: Any, base: Any, offset: Any) -> Any:
        """The address of base[offset]."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return cgutils.gep_inbounds(builder, args[0], args[1])

        return types.CPointer(types.float64)(base, types.intp), codegen

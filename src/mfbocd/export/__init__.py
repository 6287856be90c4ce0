"""A detector as source code for other systems: C99 for microcontrollers."""

from .firmware import c

__all__ = ["c"]

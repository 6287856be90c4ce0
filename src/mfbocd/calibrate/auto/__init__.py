"""The automatic detector, for series of which nothing is known in advance."""

from .detector import AutoDetector
from .structure import Season, Structure

__all__ = ["AutoDetector", "Season", "Structure"]

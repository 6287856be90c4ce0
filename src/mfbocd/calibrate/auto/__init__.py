"""The automatic detector, for series of which nothing is known in advance."""

from .detector import AutoDetector, auto
from .structure import Season, Structure

__all__ = ["AutoDetector", "Season", "Structure", "auto"]

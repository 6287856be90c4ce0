"""The automatic detector, for series of which nothing is known in advance."""

from .detector import AutoDetector, auto
from .posterior import HAZARD
from .structure import Season, Structure

__all__ = ["HAZARD", "AutoDetector", "Season", "Structure", "auto"]

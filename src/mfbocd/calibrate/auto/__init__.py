"""The automatic detector, for series of which nothing is known in advance."""

from .detector import AutoDetector, auto
from .posterior import HAZARD
from .season import Season
from .structure import Structure

__all__ = ["HAZARD", "AutoDetector", "Season", "Structure", "auto"]

"""The automatic detector, for series of which nothing is known in advance."""

from ...models.fixed_season import Season
from .detector import HAZARD, AutoDetector, auto
from .structure import Structure

__all__ = ["HAZARD", "AutoDetector", "Season", "Structure", "auto"]

"""The automatic detector, for series of which nothing is known in advance."""

from ...models.fixed_season import Season
from .detector import AutoDetector, auto
from .posterior import HAZARD
from .structure import Structure

__all__ = ["HAZARD", "AutoDetector", "Season", "Structure", "auto"]

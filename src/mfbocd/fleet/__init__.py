"""Many streams advanced together."""

from .fleet import Fleet
from .step import Decision, FleetStep

__all__ = ["Decision", "Fleet", "FleetStep"]

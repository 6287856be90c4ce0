"""Many streams advanced together."""

from .fleet import Fleet, FleetStep

__all__ = ["Fleet", "FleetStep"]

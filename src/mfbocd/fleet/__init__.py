"""Many streams advanced together."""

from .alarm import FleetAlarm
from .fleet import Fleet
from .step import Decision, FleetStep

__all__ = ["Decision", "Fleet", "FleetAlarm", "FleetStep"]

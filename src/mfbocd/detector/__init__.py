"""Detection in one stream: choose, observe, update; alarms; save and load."""

from .detector import Detector
from .step import Alarm, Step

__all__ = ["Alarm", "Detector", "Step"]

"""Detection in one stream: choose, observe, update; alarms; save and load."""

from .blocks import BlockDetector
from .detector import Detector
from .step import Alarm, Step

__all__ = ["Alarm", "BlockDetector", "Detector", "Step"]

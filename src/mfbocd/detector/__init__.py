"""Detection in one stream: choose, observe, update; alarms; save and load."""

from ..belief.alarm import Alarm
from .blocks import BlockDetector
from .detector import Detector
from .step import Step

__all__ = ["Alarm", "BlockDetector", "Detector", "Step"]

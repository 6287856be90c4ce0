"""Detection in one stream: choose, observe, update; alarms; save and load."""

from ..belief.alarm import Alarm
from .base import BaseDetector
from .blocks import BlockDetector
from .detector import Detector
from .step import Step

__all__ = ["Alarm", "BaseDetector", "BlockDetector", "Detector", "Step"]

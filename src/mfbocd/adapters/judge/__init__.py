"""A monitor of pass/fail labels that decides which items an expensive judge looks at (docs/judge.md)."""

from .errors import level_rates
from .items import RateChange
from .monitor import JudgeMonitor

__all__ = ["JudgeMonitor", "RateChange", "level_rates"]

"""Finished streams: run a detector over a table, record, plot, score and look back."""

from .change import Change, Changepoint
from .levels import Level
from .regimes import LevelTracker
from .trace import Detail, Trace

__all__ = ["Change", "Changepoint", "Detail", "Level", "LevelTracker", "Trace"]

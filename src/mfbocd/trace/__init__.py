"""Finished streams: run a detector over a table, record, plot, score and look back."""

from .change import Change, Changepoint
from .levels import Level
from .trace import Detail, Trace
from .tracker import LevelTracker

__all__ = ["Change", "Changepoint", "Detail", "Level", "LevelTracker", "Trace"]

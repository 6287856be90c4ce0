"""Finished streams: run a detector over a table, record, plot, score and look back."""

from .change import Change
from .levels import Level
from .trace import Detail, Trace

__all__ = ["Change", "Detail", "Level", "Trace"]

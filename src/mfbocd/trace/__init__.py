"""Finished streams: run a detector over a table, record, plot, score and look back."""

from .levels import Level
from .trace import Change, Detail, Trace

__all__ = ["Change", "Detail", "Level", "Trace"]

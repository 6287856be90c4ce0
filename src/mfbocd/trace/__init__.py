"""Finished streams: run a detector over a table, record, plot, score and look back."""

from .trace import Change, Detail, Trace

__all__ = ["Change", "Detail", "Trace"]

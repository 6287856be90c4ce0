"""Checks of what callers pass in: readings (`readings`) and arguments (`arguments`)."""

"""Checks of what callers pass in: readings and arguments."""

"""Recurring patterns: series for which every structure would need a change every few ticks."""

from __future__ import annotations

from typing import Self

import numpy as np

from ...detector.blocks import BlockDetector
from ..shape import shape_detector
from .rows import Report
from .season import Array

CROWDED = 30
"""With fewer ticks per change than this, the changes are swings of a pattern."""
_MANY = 10  # fewer changes than this are no pattern
_READINGS = 60  # that a block length is estimated from


class Pattern:
    """Watches the shape of blocks of readings instead of single ones (`shape_detector`).

    Parameters
    ----------
    detector : BlockDetector
        The detector of blocks.
    origin : int
        Tick of the stream that it began at.
    """

    def __init__(self, detector: BlockDetector, origin: int) -> None:
        self.detector, self.origin = detector, origin

    @property
    def every(self) -> int:
        """Readings per block."""
        return self.detector.blocks.every

    @classmethod
    def of(cls, x: Array, changes: int, origin: int) -> Self | None:
        """Return the pattern of readings in which a structure found these changes; None if there are too few."""
        if changes < _MANY or x.size >= CROWDED * changes or np.isfinite(x).sum() < _READINGS:
            return None
        pattern = cls(shape_detector(x), origin)
        pattern.feed(x)
        return pattern

    def feed(self, x: Array) -> list[Report]:
        """Take readings and return the changes they reveal."""
        found = []
        for value in x.tolist():
            step = self.detector.update(value)
            if step.changed_at is not None:
                at = self.origin + step.changed_at
                found.append(Report(self.origin + step.tick, at, step.confidence or 0.0))
        return found

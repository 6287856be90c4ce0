"""The result of one rule in one setting at one spend, and the comparison of two of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..framework import Number

CALIBRATION = 0.02
"""Standard error of a delay from that of its threshold, as a share of the delay: about 100 false alarms fix a rate
within 10 %, a threshold within 0.1 nats, and so the evidence of about 6 nats that an alarm needs within 2 %."""


@dataclass(frozen=True)
class Cell:
    """Delays of one rule for one kind of change."""

    setting: str
    change: str
    rule: str
    spend: float
    spent: float
    """Measured on quiet streams."""
    threshold: float
    every: float
    """Ticks per false alarm, measured on other quiet streams than those of the threshold."""
    delays: list[float]
    clear: list[bool]
    """Streams without an alarm in the window before the change."""

    @property
    def number(self) -> Number:
        """Mean delay of the clear streams."""
        return Number.mean_of(self.known)

    @property
    def known(self) -> NDArray[np.float64]:
        """Delays of the clear streams; of all if none is clear."""
        delays, clear = np.array(self.delays), np.array(self.clear)
        return delays[clear] if clear.any() else delays

    @property
    def overall(self) -> Number:
        """Mean delay of all streams."""
        return Number.mean_of(self.delays)

    @property
    def off(self) -> bool:
        """Whether the rule does not reach its spend within a sixth of it."""
        return abs(self.spent - self.spend) > self.spend / 6.0

    @property
    def shown(self) -> str:
        """The delay, with the spend if that is off.

        >>> Cell("", "", "", 0.2, 0.4, 0.0, 0.0, [3.0, 5.0], [True, True]).shown
        '4.0 (2.0) at 40%'
        """
        return f"{short(self.number)} at {self.spent:.0%}" if self.off else short(self.number)

    def later_than(self, other: Cell) -> Number:
        """Mean difference of the delays on the streams that are clear for both, with the error of the thresholds."""
        both = np.array(self.clear) & np.array(other.clear)
        if not both.any():
            both[:] = True
        gap = Number.mean_of((np.array(self.delays) - np.array(other.delays))[both])
        threshold = 2.0 * CALIBRATION * math.hypot(self.number.value, other.number.value)
        return Number(gap.value, math.hypot(gap.two_se or 0.0, threshold))


def found(cells: Iterable[Cell], setting: str, change: str, rule: str, spend: float) -> Cell | None:
    """The cell with this key; a rule without a choice has one for all spends."""
    for cell in cells:
        if (cell.setting, cell.change, cell.rule) == (setting, change, rule) and cell.spend in (spend, 1.0):
            return cell
    return None


def short(number: Number) -> str:
    """With as many digits as a delay deserves.

    >>> short(Number(47.12, 2.31)), short(Number(4.512, 0.12)), short(Number(216.3, 18.0))
    ('47.1 (2.3)', '4.5 (0.1)', '216 (18)')
    """
    places = 0 if number.value >= 100.0 else 1
    if number.two_se is None:
        return f"{number.value:.{places}f}"
    return f"{number.value:.{places}f} ({number.two_se:.{places}f})"

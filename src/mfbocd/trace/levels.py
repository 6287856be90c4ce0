"""The level of the readings before and after a change: as a value, in JSON and in words. `regimes` computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..inputs.display import count_text, percent_text


class Level(NamedTuple):
    """The level of one regime: the mean of its readings, or their median if the series has outliers or a long tail.

    Attributes
    ----------
    mean : float
        The mean of all readings; in a model with trends, the value of the line at the tick of the change.
    low, high : float
        A 95 % confidence interval of `value`; infinite where there are too few readings for one.
    median : float or None
        The median, if the interval is that of the median; else None.
    trusted : bool
        False if the readings are too few for their autocorrelation, so that the interval may be far too narrow.

    Examples
    --------
    >>> level = Level(mean=240.0, low=110.0, high=130.0, median=120.0)
    >>> print(level, level.value, level.statistic)
    median 120 (110 to 130) 120.0 median
    """

    mean: float
    low: float
    high: float
    median: float | None = None
    trusted: bool = True

    @property
    def value(self) -> float:
        """What the interval belongs to: the mean, or the median."""
        return self.mean if self.median is None else self.median

    @property
    def statistic(self) -> str:
        """The name of `value`: "mean" or "median"."""
        return "mean" if self.median is None else "median"

    def __str__(self) -> str:
        name = "" if self.median is None else "median "
        half = 0.5 * (self.high - self.low)
        if not math.isfinite(half):
            return f"{name}{self.value:.4g}"
        form = _form(half, self.value)
        doubt = "" if self.trusted else DOUBT
        return f"{name}{self.value:{form}} ({self.low:{form}} to {self.high:{form}}{doubt})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can represent them.

        Returns
        -------
        dict
            The fields and ``statistic``; None where an end is infinite.
        """
        fields = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }
        return {**fields, "statistic": self.statistic}


DOUBT = ", not to be trusted"
"""Follows an interval from too few readings for their autocorrelation."""


Levels = Level | tuple[Level | None, ...] | None
"""A level; one for each number of a reading that has several, or for each category; None if nothing was read."""


def levels_to_json(levels: Levels) -> Any:
    """Return a level, or several, as JSON can represent them.

    Parameters
    ----------
    levels : Level, tuple or None
        The levels.

    Returns
    -------
    dict, list or None
        What `Level.to_dict` returns, or a list of that.
    """
    if isinstance(levels, Level):
        return levels.to_dict()
    return None if levels is None else [levels_to_json(one) for one in levels]


def show_levels(levels: Levels) -> str:
    """Return a level, or several, in words.

    Parameters
    ----------
    levels : Level, tuple or None
        The levels.

    Returns
    -------
    str
        Such as ``7.12 (7.02 to 7.22)``; ``?`` if nothing was read.
    """
    if isinstance(levels, Level):
        return str(levels)
    return "?" if levels is None else ", ".join(map(show_levels, levels))


def arrow(before: Levels, after: Levels, unit: str = "") -> str:
    """Return the change of a level in words.

    Parameters
    ----------
    before, after : Level, tuple or None
        The levels.
    unit : str, default ''
        Unit of the readings.

    Returns
    -------
    str
        Such as ``7.1 -> 7.9 V``, with as many digits as the difference or the intervals justify. Empty if there is no
        level.

    Examples
    --------
    >>> arrow(Level(7.1234, 7.0, 7.2), Level(7.9321, 7.8, 8.0), "V")
    '7.12 -> 7.93 V'
    >>> arrow(Level(1699999999.0, 1699999998.0, 1700000000.0), Level(1700000500.0, 1700000400.0, 1700000600.0))
    '1699999999 -> 1700000500'
    """
    if before is None and after is None:
        return ""
    if isinstance(before, tuple) and not isinstance(before, Level):
        others = after if isinstance(after, tuple) and not isinstance(after, Level) else (None,) * len(before)
        pairs = [_pair(b, a) for b, a in zip(before, others, strict=True)]
    elif isinstance(after, tuple) and not isinstance(after, Level):
        pairs = [_pair(None, a) for a in after]
    else:
        pairs = [_pair(before, after)]
    several = len(pairs) > 1
    left, right = (", ".join(pair[i] for pair in pairs) for i in (0, 1))
    text = f"({left}) -> ({right})" if several else f"{left} -> {right}"
    if any(level.median is not None for level in (*_all(before), *_all(after))):
        text = f"{'medians' if several else 'median'} {text}"
    return f"{text} {unit}" if unit else text


def describe_change(before: Levels, after: Levels, at: str, confidence: float, delay: int, unit: str = "") -> str:
    """Say what changed, in one line.

    Parameters
    ----------
    before, after : Level, tuple or None
        The levels.
    at : str
        When it changed.
    confidence : float
        P(there was a change).
    delay : int
        Ticks from the change to the alarm.
    unit : str, default ''
        Unit of the readings.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> describe_change(Level(7.1, 7.0, 7.2), Level(7.9, 7.8, 8.0), "08:20", 0.99, 3, "V")
    '7.10 -> 7.90 V at 08:20, 99 % sure, detected 3 ticks later'
    """
    what = arrow(before, after, unit) or "change"
    later = f"{delay} tick{'' if delay == 1 else 's'} later" if delay else "at once"
    return f"{what} at {at}, {percent_text(confidence)} sure, detected {later}"


def _all(levels: Levels) -> list[Level]:
    """Return the levels that there are."""
    if levels is None or isinstance(levels, Level):
        return [] if levels is None else [levels]
    return [level for level in levels if level is not None]


def level_warnings(around: Sequence[tuple[Levels, Levels]]) -> list[str]:
    """Say which intervals cannot be trusted.

    Parameters
    ----------
    around : sequence of tuple
        The levels before and after each change.

    Returns
    -------
    list of str
        A sentence, or nothing.

    Examples
    --------
    >>> level_warnings([(Level(7.1, 7.0, 7.2), Level(7.9, 7.8, 8.0, trusted=False))])
    ['Around 1 change, the readings are too few for their autocorrelation: intervals of levels may be too narrow.']
    """
    count = sum(not all(level.trusted for level in (*_all(left), *_all(right))) for left, right in around)
    if count == 0:
        return []
    return [
        f"Around {count_text(count, 'change')}, the readings are too few for their autocorrelation: intervals of "
        "levels may be too narrow."
    ]


def name_of(around: Sequence[tuple[Levels, Levels]]) -> str:
    """Return what levels are.

    Parameters
    ----------
    around : sequence of tuple
        The levels before and after each change.

    Returns
    -------
    str
        "Levels are means of the readings", or medians, and why.
    """
    if any(level.median is not None for left, right in around for level in (*_all(left), *_all(right))):
        return "Levels are medians of the readings, since some are far from the others"
    return "Levels are means of the readings"


def _pair(before: Level | None, after: Level | None) -> tuple[str, str]:
    known = [level for level in (before, after) if level is not None]
    widths = [0.5 * (level.high - level.low) for level in known]
    scale = min([w for w in widths if math.isfinite(w)], default=0.0)
    if len(known) == 2:
        scale = max(scale, abs(known[1].value - known[0].value))
    form = _form(scale, max((abs(level.value) for level in known), default=0.0))
    left, right = ("?" if level is None else format(level.value, form) for level in (before, after))
    return left, right


def _form(scale: float, size: float) -> str:
    """Return the format that shows a difference with two digits, without an exponent where that is short."""
    if not (0.0 < scale < math.inf and abs(size) < 1e15):
        return "z.6g"
    places = 1 - math.floor(math.log10(scale))
    return "z.4g" if places > 8 else f"z.{max(places, 0)}f"  # z: no negative zero

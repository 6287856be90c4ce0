"""The level of the readings before and after a change: as a value, in JSON and in words. `regimes` computes it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..inputs.display import percent_text


class Level(NamedTuple):
    """The level of one regime: the mean of its readings.

    Attributes
    ----------
    mean : float
        The mean; in a model with trends, the value of the line at the tick of the change.
    low, high : float
        A 95 % confidence interval of the mean; infinite for a single reading of unknown noise.
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        half = 0.5 * (self.high - self.low)
        if not math.isfinite(half):
            return f"{self.mean:.4g}"
        form = _form(half, self.mean)
        return f"{self.mean:{form}} ({self.low:{form}} to {self.high:{form}})"

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields as JSON can represent them.

        Returns
        -------
        dict
            The numbers; None where an end is infinite.
        """
        return {name: value if math.isfinite(value) else None for name, value in self._asdict().items()}


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
        A dictionary with ``mean``, ``low`` and ``high``, or a list of them.
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


def _pair(before: Level | None, after: Level | None) -> tuple[str, str]:
    known = [level for level in (before, after) if level is not None]
    widths = [0.5 * (level.high - level.low) for level in known]
    scale = min([w for w in widths if math.isfinite(w)], default=0.0)
    if len(known) == 2:
        scale = max(scale, abs(known[1].mean - known[0].mean))
    form = _form(scale, max((abs(level.mean) for level in known), default=0.0))
    left, right = ("?" if level is None else format(level.mean, form) for level in (before, after))
    return left, right


def _form(scale: float, size: float) -> str:
    """Return the format that shows a difference with two digits, without an exponent where that is short."""
    if not (0.0 < scale < math.inf and abs(size) < 1e15):
        return "z.6g"
    places = 1 - math.floor(math.log10(scale))
    return "z.4g" if places > 8 else f"z.{max(places, 0)}f"  # z: no negative zero

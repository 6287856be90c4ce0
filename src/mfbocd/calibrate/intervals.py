"""Periods by name, in ticks, from the times of the readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.times import Times

Array = NDArray[np.float64]

SECONDS = {"hourly": 3600.0, "daily": 86_400.0, "weekly": 604_800.0, "yearly": 31_556_952.0}
"""Seconds per period; a year is that of the Gregorian calendar."""
_NEAR = 0.1  # of the median interval: months differ by less from each other
_REGULAR = 0.9  # share of the intervals that must be so near


def period_of(name: str, times: Times | Sequence[Any] | NDArray[Any]) -> float:
    """Convert the name of a period to ticks.

    Parameters
    ----------
    name : str
        "hourly", "daily", "weekly" or "yearly".
    times : sequence
        Times of the readings, in order: numpy datetimes, datetimes, text such as ISO 8601, Unix times, or numbers of
        seconds.

    Returns
    -------
    float
        Ticks per period, for `Seasonal`. A tick is the mean of the intervals, without those that differ from their
        median by more than a tenth: those are gaps.

    Raises
    ------
    TypeError
        If the times are of another type.
    ValueError
        If the name is unknown; if there are fewer than 3 times; if they are not in order; if more than a tenth of the
        intervals are gaps; or if a period has 2 ticks or fewer.

    Examples
    --------
    >>> period_of("daily", ["2024-05-01 00:00", "2024-05-01 00:30", "2024-05-01 01:00"])
    48.0
    >>> months = np.arange("2001-01", "2005-01", dtype="datetime64[M]")
    >>> round(period_of("yearly", months), 2)
    12.0
    """
    if name not in SECONDS:
        raise ValueError(f"period must be one of {', '.join(SECONDS)}, not {name!r}")
    at = _seconds(times)
    if at.size < 3:
        raise ValueError(f'the period "{name}" needs at least 3 times, not {at.size}')
    steps = np.diff(at)
    if not (steps > 0.0).all():
        row = int(np.argmax(~(steps > 0.0))) + 1
        raise ValueError(f"times must increase: row {row} is not after the row before")
    middle = float(np.median(steps))
    regular = np.abs(steps - middle) <= _NEAR * middle
    if regular.mean() < _REGULAR:
        raise ValueError(
            f'the period "{name}" needs readings at equal intervals: {np.mean(~regular):.0%} of the intervals differ '
            f"from their median, {middle:g} s, by more than a tenth"
        )
    ticks = SECONDS[name] / float(steps[regular].mean())
    if ticks <= 2.0 + 1e-6:
        raise ValueError(f'the period "{name}" must have more than 2 ticks, but a tick is {middle:g} s')
    return ticks


def period_in(name: str, times: Times | Sequence[Any] | None) -> float:
    """Return `period_of`, or raise an error if there are no times.

    Parameters
    ----------
    name : str
        The name of the period.
    times : sequence or None
        Times of the readings; None if there are none that can be read.

    Returns
    -------
    float
        Ticks per period.

    Raises
    ------
    ValueError
        If there are no times, or as in `period_of`.
    """
    if times is None or (isinstance(times, Times) and times.at is None):
        raise ValueError(f'the period "{name}" needs readings with timestamps; pass the number of ticks instead')
    return period_of(name, times)


def _seconds(times: Times | Sequence[Any] | NDArray[Any]) -> Array:
    """Return times as seconds since the first."""
    if isinstance(times, np.ndarray) and times.ndim != 1:
        raise ValueError(f"times must be one series, not an array of shape {times.shape}")
    read = times if isinstance(times, Times) else Times.of(times)
    at = read.seconds()
    if at is not None:
        return at
    label = read.labels[read.bad]
    if label is None or label != label:
        raise ValueError("times must not be missing or infinite")
    raise TypeError(f"times must be datetimes, ISO 8601 text or numbers, not {label!r}")

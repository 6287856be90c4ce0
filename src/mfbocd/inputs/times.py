"""Times in the formats of files and indexes: parsed for an axis, and shown as they were written."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_SINCE, _UNTIL = 631_152_000, 4_102_444_800  # 1990 and 2100 in Unix seconds: numbers between them are epochs
_EPOCHS = (1, 1_000, 1_000_000, 1_000_000_000)  # per second; their ranges do not overlap
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_YEARS = range(1900, 2101)  # of numbers that are taken for dates
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: month for month, name in enumerate(_NAMES, 1)}
_UTC = {"z", "utc", "gmt"}
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?"
)
_ZONE = r"(?:\s*(?P<zone>z|[+-]\d\d:?\d\d|[+-]\d\d|[a-z]{3,5}))?"
_DATES = (
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?:(?P=mark)(?P<day>\d{1,2}))?",  # 2025-03-01, 2025-03
    r"(?P<a>\d{1,2})(?P<mark>[-/.])(?P<b>\d{1,2})(?P=mark)(?P<year>\d{4}|\d\d)",  # 01.03.2025, 03/01/25
    r"(?P<day>\d{1,2})[\s/-](?P<name>[a-z]{3,9})\.?[\s,/-]\s*(?P<year>\d{4}|\d\d)",  # 10/Oct/2025
    r"(?P<name>[a-z]{3,9})\.?\s+(?P<day>\d{1,2}),?\s+(?P<year>\d{4})",  # Mar 1, 2025
)
_PATTERNS = (
    *(re.compile(rf"{date}(?:(?:[t:,]|\s)\s*{_CLOCK}{_ZONE})?", re.IGNORECASE) for date in _DATES),
    re.compile(rf"(?P<name>[a-z]{{3}})\s+(?P<day>\d{{1,2}})\s+{_CLOCK}{_ZONE}\s+(?P<year>\d{{4}})", re.IGNORECASE),
)
_CLEAR = 10.0  # how much less regular the steps must be in the order of day and month that is rejected
_WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Times:
    """The times of a series.

    Attributes
    ----------
    labels : sequence
        The times as they were given.
    at : numpy.ndarray or None
        One position per label: datetimes (``datetime64[us]``) as a clock in `zone` shows them, or numbers. None if
        a label is missing or cannot be read.
    zone : str
        The zone of `at`, such as ``UTC+02:00``; empty if the labels do not say, or are numbers of another kind. UTC
        if labels differ in their offsets.
    epoch : bool
        Whether the labels count seconds, milli-, micro- or nanoseconds since 1970.
    warning : str
        What is doubtful about the interpretation; empty if nothing is.
    bad : int
        The first row that is missing or cannot be read; -1 if there is none.
    """

    labels: Sequence[Any]
    at: NDArray[Any] | None
    zone: str = ""
    epoch: bool = False
    warning: str = ""
    bad: int = -1

    @classmethod
    def of(cls, labels: Sequence[Any] | NDArray[Any]) -> Self:
        """Read times; the whole column decides what its labels mean.

        It accepts numbers, datetimes, ISO 8601 (with or without a zone, also ``2025-03``), Unix seconds and
        milli-, micro- or nanoseconds (1990 to 2100), ``20250301``, ``01.03.2025 08:20``, ``03/01/2025 08:20 AM``,
        ``10/Oct/2025:13:55:36 +0200`` and ``1 Mar 2025``.

        Parameters
        ----------
        labels : sequence
            One label per row.

        Returns
        -------
        Times
            The times; `at` is None if a label cannot be read.

        Examples
        --------
        >>> times = Times.of(["2025-03-01T08:20+02:00", "2025-03-01T08:25+02:00"])
        >>> str(times.at[0]), times.zone, times.text(0)
        ('2025-03-01T08:20:00.000000', 'UTC+02:00', '2025-03-01T08:20+02:00')
        >>> Times.of(["1740817200", "1740817500"]).describe(0)
        '1740817200 (2025-03-01 08:20:00 UTC)'
        """
        plain = isinstance(labels, np.ndarray) and labels.dtype.kind in "iuf"
        given: list[Any] = np.asarray(labels).tolist() if plain else list(labels)
        if (bad := next((i for i, label in enumerate(given) if _is_missing(label)), -1)) >= 0:
            return cls(given, None, bad=bad)
        for read in (_numbers, _datetimes, _texts):
            if (found := read(given)) is not None:
                return cls(given, **found)
        return cls(given, None, bad=_first_unreadable(given))

    @property
    def increasing(self) -> bool:
        """Whether the times could be read and never decrease."""
        return self.at is not None and self.first_decrease() < 0

    def first_decrease(self) -> int:
        """Return the first row that is earlier than the one before it.

        Returns
        -------
        int
            The row; -1 if there is none, or the times could not be read.
        """
        if self.at is None or not (back := self.at[1:] < self.at[:-1]).any():
            return -1
        return int(back.argmax()) + 1

    def text(self, row: int) -> str:
        """Return a time as it was written.

        Parameters
        ----------
        row : int
            The row.

        Returns
        -------
        str
            The text of the file. A number is never rounded.
        """
        return written(self.labels[row])

    def describe(self, row: int) -> str:
        """Return a time as it was written, and the date that an epoch stands for.

        Parameters
        ----------
        row : int
            The row.

        Returns
        -------
        str
            The text.
        """
        if not self.epoch or self.at is None:
            return self.text(row)
        fine = bool((self.at != self.at.astype("datetime64[s]")).any())
        when = str(self.at[row].astype("datetime64[ms]" if fine else "datetime64[s]")).replace("T", " ")
        return f"{self.text(row)} ({when} UTC)"

    def seconds(self) -> NDArray[np.float64] | None:
        """Return the times as seconds since the first; numbers that are not epochs are taken for seconds.

        Returns
        -------
        numpy.ndarray or None
            None if the times could not be read.
        """
        if self.at is None or self.at.dtype.kind != "M":
            return None if self.at is None else np.asarray(self.at - self.at[:1], dtype=np.float64)
        return np.asarray((self.at - self.at[:1]) / np.timedelta64(1, "s"))


def written(label: Any) -> str:
    """Return a label as text, with all its digits and its zone.

    Parameters
    ----------
    label : Any
        Text, a number or a datetime.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> written(1740817200.0), written(0.1), written(datetime(2025, 3, 1, 8, 20, tzinfo=UTC))
    ('1740817200', '0.1', '2025-03-01 08:20:00+00:00')
    """
    if isinstance(label, np.datetime64):
        return str(label).replace("T", " ")
    if isinstance(label, (float, np.floating)):
        ordinary = 1e-6 < abs(float(label)) < 1e21
        return np.format_float_positional(label, trim="-") if ordinary else f"{label:.17g}"
    return str(label).strip()


def axis_label(name: str, zone: str) -> str:
    """Return the label of a time axis.

    Parameters
    ----------
    name : str
        What is on the axis.
    zone : str
        Its zone, or an empty text.

    Returns
    -------
    str
        The label.

    Examples
    --------
    >>> axis_label("time", "UTC+02:00"), axis_label("tick", "")
    ('time (UTC+02:00)', 'tick')
    """
    return f"{name} ({zone})" if zone else name


def _is_missing(label: Any) -> bool:
    # NaN and NaT differ from themselves
    return label is None or (isinstance(label, str) and not label.strip()) or bool(label != label)


def _numbers(labels: Sequence[Any]) -> dict[str, Any] | None:
    """Read numbers: dates in digits, epochs, or any others."""
    if any(isinstance(label, (bool, np.bool_, np.datetime64, np.timedelta64)) for label in labels):
        return None
    try:
        at = np.array([int(label) for label in labels if isinstance(label, (int, np.integer)) or label.isdigit()])
        if len(at) != len(labels) or at.dtype.kind == "O":
            raise ValueError
    except (AttributeError, TypeError, ValueError, OverflowError):
        try:
            at = np.array([float(label) for label in labels])
        except (TypeError, ValueError):
            return None
    if not np.isfinite(at).all() or not at.size:
        return None
    if at.dtype.kind == "i" and (days := _from_digits(at)) is not None:
        return {"at": days}
    low, high = float(at.min()), float(at.max())
    for per_second in _EPOCHS:
        if _SINCE * per_second <= low and high <= _UNTIL * per_second:
            micro = at * (1_000_000 // per_second) if per_second <= 1_000_000 else at // 1_000
            return {"at": np.rint(micro).astype(np.int64).astype("datetime64[us]"), "zone": "UTC", "epoch": True}
    return {"at": at}


def _from_digits(at: NDArray[np.int64]) -> NDArray[Any] | None:
    """Read numbers such as 20250301; None if one of them is no date."""
    form = _DIGITS.get(len(str(at[0])))
    if form is None:
        return None
    try:
        found = [datetime.strptime(str(value), form) for value in at.tolist()]
    except ValueError:
        return None
    return _array(found) if all(day.year in _YEARS for day in found) else None


def _datetimes(labels: Sequence[Any]) -> dict[str, Any] | None:
    """Read datetimes and dates of Python, numpy and pandas."""
    if all(isinstance(label, np.datetime64) for label in labels):
        return {"at": np.array(labels).astype("datetime64[us]")}
    if not all(isinstance(label, date) for label in labels):
        return None
    found = [at if isinstance(at, datetime) else datetime(at.year, at.month, at.day) for at in labels]
    zones = {at.tzinfo for at in found}
    return _in_one_zone(found, _zone_name(next(iter(zones))) if len(zones) == 1 else "")


def _zone_name(zone: tzinfo | None) -> str:
    """Return the name of a zone in the database of zones; empty if it has none."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    return str(name) if name else ""


def _texts(labels: Sequence[Any]) -> dict[str, Any] | None:
    """Read text; objects of other types, such as pandas' periods, are read as the text they print."""
    texts = [str(label).strip() for label in labels]
    try:
        return _in_one_zone([datetime.fromisoformat(text) for text in texts])
    except ValueError:
        pass
    parts = [_match(text) for text in texts]
    if not parts or any(part is None for part in parts):
        return None
    kept = [part for part in parts if part is not None]
    month_first, warning = _order(kept)
    names = {(part.get("zone") or "").lower() for part in kept}
    named = next(iter(names)).upper() if len(names) == 1 else ""
    try:
        found = [_datetime(part, month_first, bool(named)) for part in kept]
        read = _in_one_zone(found, named if named.isalpha() and found[0].tzinfo is None else "")
    except ValueError:
        return None
    return None if read is None else read | {"warning": warning}


def _match(text: str) -> dict[str, str | None] | None:
    bare = _WEEKDAY.sub("", text.removeprefix("[").removesuffix("]"), count=1)
    for pattern in _PATTERNS:
        if (found := pattern.fullmatch(bare)) is not None:
            return found.groupdict()
    return None


def _order(parts: Sequence[dict[str, str | None]]) -> tuple[bool, str]:
    """Decide from all dates such as 03/01/2025 whether they begin with the month; also return any warning."""
    if "a" not in parts[0]:
        return False, ""
    pairs = {(int(part["a"] or 0), int(part["b"] or 0)) for part in parts if "a" in part}
    if any(a > 12 for a, _ in pairs):
        return False, ""
    if any(b > 12 for _, b in pairs):
        return True, ""
    if parts[0]["mark"] == ".":  # dates with points begin with the day everywhere
        return False, ""
    if any(part.get("half") for part in parts):  # a clock of 12 hours: the month first
        return True, ""
    gaps = [_irregularity(parts, month_first) for month_first in (True, False)]
    if min(gaps) * _CLEAR < max(gaps) or all(a == b for a, b in pairs):
        return gaps[0] <= gaps[1], ""
    a, b = next((a, b) for a, b in sorted(pairs) if a != b)
    mark, year = parts[0]["mark"], parts[0]["year"]
    return True, (
        f"Dates such as {a:02d}{mark}{b:02d}{mark}{year} may begin with the day or the month; the month was assumed. "
        "Write them as year-month-day to be sure."
    )


def _irregularity(parts: Sequence[dict[str, str | None]], month_first: bool) -> float:
    """Return the largest step relative to the median, of dates read in one order; infinite if they decrease."""
    try:
        found = [_datetime(part, month_first, True) for part in parts]
        steps = np.array([(b - a).total_seconds() for a, b in pairwise(found)] or [0.0])
    except (TypeError, ValueError):
        return math.inf
    usual = float(np.median(steps)) or float(steps.mean())
    return math.inf if (steps < 0.0).any() else float(steps.max()) / usual if usual else 1.0


def _datetime(part: dict[str, str | None], month_first: bool, any_name: bool) -> datetime:
    """Return the datetime of a matched text; a zone that is only a name must be the same in all rows."""
    if (name := part.get("name")) is not None:
        month, day = _MONTHS.get(name[:3].lower(), 0), int(part["day"] or 0)
    elif "a" in part:
        a, b = int(part["a"] or 0), int(part["b"] or 0)
        month, day = (a, b) if month_first else (b, a)
    else:
        month, day = int(part["month"] or 0), int(part["day"] or 1)
    year = int(part["year"] or 0)
    if year < 100:
        year += 2000 if year < 70 else 1900
    hour = int(part["hour"] or 0)
    if half := part["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    micro = int((part["fraction"] or "0").ljust(6, "0")[:6])
    at = datetime(year, month, day, hour, int(part["minute"] or 0), int(part["second"] or 0), micro)
    zone = (part["zone"] or "").lower()
    if zone in _UTC:
        return at.replace(tzinfo=UTC)
    if not zone or zone.isalpha():
        if zone and not any_name:
            raise ValueError(zone)
        return at
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return at.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))


def _in_one_zone(found: Sequence[datetime], name: str = "") -> dict[str, Any] | None:
    """Return datetimes as the clock of their common offset shows them, or in UTC if they differ."""
    offsets = {at.utcoffset() for at in found}
    if None in offsets:
        return {"at": _array(found), "zone": name} if len(offsets) == 1 else None
    if len(offsets) > 1:
        return {"at": _array([at.astimezone(UTC) for at in found]), "zone": "UTC"}
    offset = next(iter(offsets)) or timedelta()
    minutes = round(offset.total_seconds() / 60.0)
    hours = f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"
    return {"at": _array(found), "zone": f"{name}, {hours}" if name and name != hours else hours}


def _array(found: Sequence[datetime]) -> NDArray[Any]:
    return np.array([at.replace(tzinfo=None) for at in found], dtype="datetime64[us]")


def _first_unreadable(labels: Sequence[Any]) -> int:
    """Return the first row that cannot be read on its own; 0 if each row can, but not all in one format."""
    for row, label in enumerate(labels):
        if all(read([label]) is None for read in (_numbers, _datetimes, _texts)):
            return row
    return 0

"""Where on the horizontal axis a tick lies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .shape import TraceLike


class Clock:
    """Positions of a trace's ticks: the ticks themselves, or the times given for them, numbers or datetimes.

    Datetimes with a time zone are shown in UTC.
    """

    def __init__(self, trace: TraceLike, time: Sequence[Any] | NDArray[Any] | None = None) -> None:
        self.first = trace.first
        ticks = len(trace.choice)
        self.at: NDArray[Any] = np.arange(ticks) + trace.first if time is None else _positions(time, ticks)

    @property
    def dated(self) -> bool:
        """Whether positions are datetimes."""
        return self.at.dtype.kind == "M"

    def of(self, tick: Any) -> Any:
        """Positions of ticks; those outside the trace lie at its ends."""
        return self.at[np.clip(np.asarray(tick) - self.first, 0, len(self.at) - 1)]

    def after(self, tick: Any) -> Any:
        """Positions of the ticks that follow; beyond the end of the trace, as far as its last two are apart."""
        rows = np.asarray(tick) - self.first + 1
        return np.append(self.at, self._beyond())[rows]

    def edges(self, ticks: NDArray[np.int64]) -> NDArray[Any]:
        """Borders of cells that begin at these ticks, the last of which ends with the trace."""
        return np.append(self.of(ticks), self._beyond())

    def _beyond(self) -> Any:
        return self.at[-1] + (self.at[-1] - self.at[-2]) if len(self.at) > 1 else self.at[-1] + 1

    def limits(self) -> tuple[Any, Any]:
        """Of the axis: a hundredth beyond the first tick and the end of the last, so that no marker is cut."""
        end = self._beyond()
        pad = (end - self.at[0]) / 100
        return self.at[0] - pad, end + pad

    def words(self, ticks: Any) -> list[str]:
        """The positions of ticks, in words for a table: datetimes to the second unless they are finer."""
        at = self.of(np.asarray(ticks, dtype=np.int64))
        if not self.dated:
            return [f"{value:g}" if isinstance(value, float) else str(value) for value in at.tolist()]
        fine = bool((self.at != self.at.astype("datetime64[s]")).any())
        return [str(t).replace("T", " ") for t in at.astype("datetime64[ms]" if fine else "datetime64[s]")]


def _positions(time: Sequence[Any] | NDArray[Any], ticks: int) -> NDArray[Any]:
    listed = list(time)
    if len(listed) != ticks:
        raise ValueError(f"time must have {ticks} entries, one a tick, not {len(listed)}")
    if any(isinstance(t, datetime) and t.tzinfo is not None for t in listed):
        listed = [t.astimezone(UTC).replace(tzinfo=None) for t in listed]
    at = np.asarray(listed)
    if at.dtype.kind == "M" or (at.dtype.kind == "O" and ticks and isinstance(listed[0], datetime)):
        at = at.astype("datetime64[us]")
        odd = np.isnat(at)
    elif at.dtype.kind in "iuf":
        odd = ~np.isfinite(at)
    elif ticks == 0:
        return np.zeros(0)
    else:
        raise TypeError(f"time must be numbers or datetimes, not {listed[0]!r}")
    if odd.any():
        t = int(odd.argmax())
        raise ValueError(f"time[{t}] must be a finite number or a datetime, not {listed[t]!r}")
    back = at[1:] < at[:-1]
    if back.any():
        t = int(back.argmax()) + 1
        raise ValueError(f"time must not go back, but time[{t}] is {listed[t]!r} after {listed[t - 1]!r}")
    return at

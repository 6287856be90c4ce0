"""Positions of ticks on the horizontal axis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..trace import Trace


class Timeline:
    """Positions of a trace's ticks on the horizontal axis: the ticks themselves, or their times.

    Datetimes with a time zone are shown in UTC.

    Parameters
    ----------
    trace : Trace
        The trace.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick, not decreasing; the tick numbers by default.

    Raises
    ------
    ValueError
        If `time` has the wrong length, decreases, or holds NaN, infinity or NaT.
    TypeError
        If `time` holds neither numbers nor datetimes.
    """

    def __init__(self, trace: Trace, time: Sequence[Any] | NDArray[Any] | None = None) -> None:
        self.first = trace.first
        ticks = len(trace.choice)
        self.at: NDArray[Any] = np.arange(ticks) + trace.first if time is None else _positions(time, ticks)

    @property
    def is_date(self) -> bool:
        """Whether positions are datetimes."""
        return self.at.dtype.kind == "M"

    def position(self, tick: Any) -> Any:
        """Return the positions of ticks; ticks outside the trace are moved to its ends.

        Parameters
        ----------
        tick : Any
            A tick, or an array of them.

        Returns
        -------
        Any
            Positions, with the shape of `tick`.
        """
        return self.at[np.clip(np.asarray(tick) - self.first, 0, len(self.at) - 1)]

    def position_after(self, tick: Any) -> Any:
        """Return the positions of the ticks that follow the given ones.

        Parameters
        ----------
        tick : Any
            A tick of the trace, or an array of them.

        Returns
        -------
        Any
            Positions, with the shape of `tick`. The end of the trace is extended by the distance of its last two
            ticks.
        """
        rows = np.asarray(tick) - self.first + 1
        return np.append(self.at, self._beyond())[rows]

    def edges(self, ticks: NDArray[np.int64]) -> NDArray[Any]:
        """Return the edges of cells that begin at the given ticks.

        Parameters
        ----------
        ticks : numpy.ndarray
            First tick of each cell.

        Returns
        -------
        numpy.ndarray
            One edge more than ticks; the last cell ends with the trace.
        """
        return np.append(self.position(ticks), self._beyond())

    def _beyond(self) -> Any:
        return self.at[-1] + (self.at[-1] - self.at[-2]) if len(self.at) > 1 else self.at[-1] + 1

    def limits(self) -> tuple[Any, Any]:
        """Return the limits of the axis: the trace and 1 % on either side, so that no marker is cut off.

        Returns
        -------
        tuple[Any, Any]
            The lower and the upper limit.
        """
        end = self._beyond()
        pad = (end - self.at[0]) / 100
        return self.at[0] - pad, end + pad

    def labels(self, ticks: Any) -> list[str]:
        """Return the positions of ticks as text for a table.

        Parameters
        ----------
        ticks : Any
            The ticks.

        Returns
        -------
        list[str]
            One text per tick. Datetimes are written to the second, or to the millisecond if any has a fraction.
        """
        at = self.position(np.asarray(ticks, dtype=np.int64))
        if not self.is_date:
            return [f"{value:g}" if isinstance(value, float) else str(value) for value in at.tolist()]
        fine = bool((self.at != self.at.astype("datetime64[s]")).any())
        return [str(t).replace("T", " ") for t in at.astype("datetime64[ms]" if fine else "datetime64[s]")]


def _positions(time: Sequence[Any] | NDArray[Any], ticks: int) -> NDArray[Any]:
    listed = list(time)
    if len(listed) != ticks:
        raise ValueError(f"time must have {ticks} entries, one per tick, not {len(listed)}")
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
        raise ValueError(f"time must not decrease, but time[{t}] is {listed[t]!r} after {listed[t - 1]!r}")
    return at

"""Positions of ticks on the horizontal axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...inputs.times import Times, axis_label
from ..trace import Trace


class Timeline:
    """Positions of a trace's ticks on the horizontal axis: the ticks themselves, or their times.

    Datetimes are drawn as a clock in their own zone shows them, or in UTC if their offsets differ (`Times`).

    Parameters
    ----------
    trace : Trace
        The trace.
    time : Times or Sequence[Any] or numpy.ndarray or None
        One time per tick, not decreasing: numbers, datetimes, or text that `Times` reads; the tick numbers by
        default. `Times` that cannot be drawn label the ticks, which are then the axis.

    Raises
    ------
    ValueError
        If `time` has the wrong length, decreases, or holds NaN, infinity or NaT.
    TypeError
        If `time` holds neither numbers nor datetimes.
    """

    def __init__(self, trace: Trace, time: Times | Sequence[Any] | NDArray[Any] | None = None) -> None:
        self.first = trace.first
        ticks = len(trace.choice)
        self.times = time if time is None or isinstance(time, Times) else Times.of(time)
        if self.times is not None and len(self.times.labels) != ticks:
            raise ValueError(f"time must have {ticks} entries, one per tick, not {len(self.times.labels)}")
        if self.times is not None and self.times is not time:
            _require_increasing(self.times)
        at = self.times.at if self.times is not None and self.times.increasing else None
        self.drawn = at is not None
        self.at: NDArray[Any] = np.arange(ticks) + trace.first if at is None else at

    @property
    def is_date(self) -> bool:
        """Whether positions are datetimes."""
        return self.at.dtype.kind == "M"

    def axis_label(self, name: str | None = None) -> str:
        """Return the label of the axis, with the zone of its times.

        Parameters
        ----------
        name : str or None
            What the times are; "time" by default. Ignored if the ticks are drawn instead of times that are not sorted
            or cannot be read.

        Returns
        -------
        str
            The label.
        """
        if self.times is None:
            return "tick" if name is None else name
        return axis_label("time" if name is None else name, self.times.zone) if self.drawn else "tick"

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
        """Return ticks as text for a table: their times as they were written, or the ticks.

        Parameters
        ----------
        ticks : Any
            The ticks; those outside the trace are moved to its ends.

        Returns
        -------
        list[str]
            One text per tick.
        """
        return [str(tick) if self.times is None else self.times.text(self._row(tick)) for tick in _listed(ticks)]

    def descriptions(self, ticks: Any) -> list[str]:
        """Return ticks as text for a reader: as `labels`, and the dates of Unix times.

        Parameters
        ----------
        ticks : Any
            The ticks; those outside the trace are moved to its ends.

        Returns
        -------
        list[str]
            One text per tick.
        """
        return [str(tick) if self.times is None else self.times.describe(self._row(tick)) for tick in _listed(ticks)]

    def _row(self, tick: int) -> int:
        return min(max(tick - self.first, 0), len(self.at) - 1)


def _listed(ticks: Any) -> list[int]:
    return [int(tick) for tick in np.asarray(ticks, dtype=np.int64).tolist()]


def _require_increasing(times: Times) -> None:
    """Raise for times that cannot be an axis."""
    if times.at is None:
        label = times.labels[times.bad]
        if isinstance(label, str):
            raise TypeError(f"time must be numbers or datetimes, not {label!r}")
        raise ValueError(f"time[{times.bad}] must be a finite number or a datetime, not {label!r}")
    if (row := times.first_decrease()) >= 0:
        label, before = times.labels[row], times.labels[row - 1]
        raise ValueError(f"time must not decrease, but time[{row}] is {label!r} after {before!r}")

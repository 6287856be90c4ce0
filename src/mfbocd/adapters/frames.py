"""Data frames of any library that narwhals supports: pandas, polars, pyarrow and others (extra ``frames``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..detector.detector import Detector
from ..inputs.readings import cells, numbers
from ..trace.run import run as run_table
from ..trace.trace import Trace

Array = NDArray[np.float64]
Frame = TypeVar("Frame")

STEPS = ("choice", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence")
"""Columns of the result after ``tick`` and ``fidelity``: fields of a `Trace`."""


def run(
    detector: Detector,
    frame: Frame,
    *,
    columns: str | Mapping[str, str] | None = None,
    time: str | None = None,
) -> Frame:
    """Run a detector over a data frame and return the steps as a frame of the same library.

    Parameters
    ----------
    detector : Detector
        The detector; it continues from its current state.
    frame : Frame
        One row per tick. A null reading is a missing one.
    columns : str or Mapping[str, str] or None
        The column of each fidelity's readings by the fidelity's name, or the column itself if there is one fidelity.
        By default columns have the fidelities' names; with one fidelity, a frame's only column may have any name.
    time : str or None
        A column to copy to the result as its first column; none by default. An index, if the library has one, is
        kept.

    Returns
    -------
    Frame
        A column ``tick`` and the columns of `Trace.to_frame`, one row per tick.

    Raises
    ------
    ValueError
        If a column does not exist or a reading is not valid; the message names its row and column.
    TypeError
        If `frame` is not a data frame, or a column does not contain numbers.
    ImportError
        If narwhals is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> from mfbocd import Gaussian
    >>> readings = pd.DataFrame({"when": pd.date_range("2024-05-01", periods=5), "level": [0.1, -0.3, 0.2, 6.0, 6.1]})
    >>> steps = run(Detector(Gaussian(0, 9, 1), hazard=0.01), readings, columns="level", time="when")
    >>> steps.loc[steps["alarm"], ["when", "tick", "changed_at"]]
            when  tick  changed_at
    3 2024-05-04     3           3
    """
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError("frames.run needs narwhals: pip install 'mfbocd[frames]'") from None

    try:
        given: Any = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise TypeError(
            f"frame must be an in-memory data frame that narwhals supports, not {type(frame)!r}"
        ) from None
    if detector.model.dimension > 1:
        raise ValueError(
            f"detector must have one number per reading, not {detector.model.dimension}: {detector.model!r}"
        )
    if time is not None and time not in given.columns:
        raise ValueError(f"time must name a column of the frame, {', '.join(given.columns)}, not {time!r}")
    if time is not None and time in ("tick", "fidelity", *STEPS, "outlier"):
        raise ValueError(f"time must not have the name of a result column, {time!r}: rename it")
    column_names = _column_of_each(detector, given.columns, columns, time)
    trace = run_table(detector, np.column_stack([_numbers(given[name], name) for name in column_names]))
    result: dict[str, Any] = {} if time is None else {time: given[time]}
    result |= _steps(trace)
    out: Frame = nw.from_dict(result, backend=given.implementation).to_native()
    index = nw.maybe_get_index(given)
    if index is not None:
        out.index = index  # type: ignore[attr-defined]
    return out


def _column_of_each(
    detector: Detector, available: list[str], columns: str | Mapping[str, str] | None, time: str | None
) -> list[str]:
    """Return the column of each fidelity."""
    names = [f.name for f in detector.fidelities]
    if isinstance(columns, str):
        if len(names) > 1:
            raise ValueError(f"columns must map each of {', '.join(names)} to a column, not be {columns!r}")
        columns = {names[0]: columns}
    if columns is None:
        others = [name for name in available if name != time]
        columns = {names[0]: others[0]} if len(names) == len(others) == 1 else {}
    for name in columns:
        if name not in names:
            raise ValueError(f"columns must name fidelities, {', '.join(names)}, not {name!r}")
    chosen = [columns.get(name, name) for name in names]
    for name, column in zip(names, chosen, strict=True):
        if column not in available:
            raise ValueError(f"frame has no column {column!r} for {name!r}, only {', '.join(available)}")
    return chosen


def _numbers(column: Any, name: str) -> Array:
    """Return a narwhals column as floats, NaN where it is null."""
    import narwhals as nw

    # columns without a numeric type, such as pandas' object columns, are checked cell by cell
    known = column.dtype.is_numeric() or column.dtype in (nw.Boolean, nw.Object, nw.Unknown)
    if not known or column.dtype.is_decimal():
        raise TypeError(f"column {name!r} must contain numbers, not {column.dtype}")
    return numbers(cells(column.to_numpy()), where=lambda i: f"row {i}, column {name!r}")


def _steps(trace: Trace) -> dict[str, Any]:
    names = [*trace.fidelities, None]  # -1, nothing read, selects the last
    return {
        "tick": np.arange(trace.first, trace.first + len(trace)),
        "fidelity": [names[j] for j in trace.choice],
        **{field: getattr(trace, field) for field in STEPS},
        **({} if trace.outlier is None else {"outlier": trace.outlier}),
    }

"""Data frames of any kind that narwhals knows: pandas, polars, pyarrow and more (extra ``frames``)."""

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
"""Columns of the answer, after ``tick`` and ``fidelity``: fields of a `Trace`."""


def run(
    detector: Detector,
    frame: Frame,
    *,
    columns: str | Mapping[str, str] | None = None,
    time: str | None = None,
) -> Frame:
    """Feed a frame's readings to a detector, as `mfbocd.run` does; the steps as a frame of the same kind.

    Parameters
    ----------
    detector: goes on from where it is.
    frame: one row a tick. An empty (null) reading is a missing one.
    columns: by a fidelity's name the column its readings stand in, or that column where there is one fidelity;
        unless told, columns bear the fidelities' names, and of one fidelity a frame's only column needs no name.
    time: a column to carry over as the first of the answer. An index, of a kind that has one, is kept anyway.

    The answer has a column ``tick`` and those of `Trace.to_frame`.

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
        raise TypeError(f"frame must be a data frame in memory that narwhals knows, not {type(frame)!r}") from None
    if detector.model.dimension > 1:
        raise ValueError(
            f"detector must have one number a reading, not {detector.model.dimension}: {detector.model!r}"
        )
    if time is not None and time not in given.columns:
        raise ValueError(f"time must name a column of the frame, {', '.join(given.columns)}, not {time!r}")
    if time is not None and time in ("tick", "fidelity", *STEPS):
        raise ValueError(f"time must not bear the name of a column of the answer, as {time!r} does: rename it")
    where = _placed(detector, given.columns, columns, time)
    trace = run_table(detector, np.column_stack([_numbers(given[name], name) for name in where]))
    answer: dict[str, Any] = {} if time is None else {time: given[time]}
    answer |= _steps(trace)
    out: Frame = nw.from_dict(answer, backend=given.implementation).to_native()
    index = nw.maybe_get_index(given)
    if index is not None:
        out.index = index  # type: ignore[attr-defined]
    return out


def _placed(
    detector: Detector, present: list[str], columns: str | Mapping[str, str] | None, time: str | None
) -> list[str]:
    """The column of each fidelity."""
    names = [f.name for f in detector.fidelities]
    if isinstance(columns, str):
        if len(names) > 1:
            raise ValueError(f"columns must say where each of {', '.join(names)} stands, not just {columns!r}")
        columns = {names[0]: columns}
    if columns is None:
        others = [name for name in present if name != time]
        columns = {names[0]: others[0]} if len(names) == len(others) == 1 else {}
    for name in columns:
        if name not in names:
            raise ValueError(f"columns must name fidelities, {', '.join(names)}, not {name!r}")
    where = [columns.get(name, name) for name in names]
    for name, column in zip(names, where, strict=True):
        if column not in present:
            raise ValueError(f"frame has no column {column!r} for {name!r}, only {', '.join(present)}")
    return where


def _numbers(column: Any, name: str) -> Array:
    """A narwhals column as floats, NaN where it is empty."""
    import narwhals as nw

    # what has no type of its own, as pandas' columns of objects, is judged one by one
    known = column.dtype.is_numeric() or column.dtype in (nw.Boolean, nw.Object, nw.Unknown)
    if not known or column.dtype.is_decimal():
        raise TypeError(f"column {name!r} must hold numbers, not {column.dtype}")
    return numbers(cells(column.to_numpy()), where=lambda i: f"row {i}, column {name!r}")


def _steps(trace: Trace) -> dict[str, Any]:
    names = [*trace.fidelities, None]  # the last is what -1 refers to
    return {
        "tick": np.arange(trace.first, trace.first + len(trace)),
        "fidelity": [names[j] for j in trace.choice],
        **{field: getattr(trace, field) for field in STEPS},
    }

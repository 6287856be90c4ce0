"""Facts about a trace that several plots need."""

from __future__ import annotations

import numpy as np

from ..trace import Detail, Trace


def require_detail(trace: Trace, plot: str) -> Detail:
    """Return the trace's detail.

    Parameters
    ----------
    trace : Trace
        A trace.
    plot : str
        The plot that needs the detail, for the error message.

    Returns
    -------
    Detail
        The detail.

    Raises
    ------
    ValueError
        If the trace was recorded without detail.
    """
    if trace.detail is None:
        raise ValueError(f"{plot} needs a trace with detail: run(detector, table, detail=True)")
    return trace.detail


def is_binary(trace: Trace) -> bool:
    """Return whether every reading is 0 or 1; the mean is then the whole predictive distribution.

    Parameters
    ----------
    trace : Trace
        A trace.

    Returns
    -------
    bool
        False also if there is no reading.
    """
    seen = trace.x[np.isfinite(trace.x)]
    return bool(seen.size) and bool(((seen == 0.0) | (seen == 1.0)).all())


def reading_label(trace: Trace, unit: str = "") -> str:
    """Return what the vertical axis of the readings shows: the name of a single fidelity, and the unit.

    Parameters
    ----------
    trace : Trace
        A trace.
    unit : str
        Unit of the readings.

    Returns
    -------
    str
        Such as "voltage (V)"; "reading" if there are several fidelities or the only one has the default name.
    """
    named = len(trace.fidelities) == 1 and trace.fidelities[0] not in ("", "full")
    name = trace.fidelities[0] if named else "reading"
    return f"{name} ({unit})" if unit else name


def most_expensive(trace: Trace) -> int | None:
    """Return the index of the fidelity with the highest cost.

    Parameters
    ----------
    trace : Trace
        A trace.

    Returns
    -------
    int or None
        None if a cost is not known in advance.
    """
    if not trace.costs or not np.isfinite(trace.costs).all():
        return None
    return int(np.argmax(trace.costs))

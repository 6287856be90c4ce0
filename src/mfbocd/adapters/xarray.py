"""The run-length posterior as labelled arrays of xarray (extra ``xarray``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..inputs.arguments import whole
from ..trace.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

STEPS = {
    "x": "the reading; NaN if missing",
    "cost": "cost of the reading",
    "mean": "E[x_{t+1}] after tick t",
    "map_run_length": "the most probable run length",
    "p_change": "P(change within the alarm's window)",
    "alarm": "whether the alarm fired",
    "changed_at": "at an alarm, the tick at which the new regime most probably began; otherwise -1",
    "confidence": "at an alarm, P(a regime began after the last alarm and within the window); otherwise NaN",
}
"""Variables over ``tick``, each with its meaning (attribute ``long_name``)."""


def posterior(trace: Trace, *, time: Any = None, lengths: int | None = None) -> xr.Dataset:
    """Return the filtered posterior P(r_t = l) of every tick and run length, and the steps.

    Parameters
    ----------
    trace : Trace
        A trace of ``run(..., posterior=True)``.
    time : Any
        Times of the ticks, one per tick, for a coordinate ``time`` along ``tick``; none by default.
    lengths : int or None
        Number of run lengths to keep, the shortest; rows then sum to P(r_t < lengths). All T by default.

    Returns
    -------
    xarray.Dataset
        Dimensions are ``tick`` and ``run_length``. ``posterior`` has both; the steps have ``tick``, with the most
        probable run length as ``map_run_length`` and the fidelity as a coordinate ("" where nothing was read).
        Attributes are the fidelities' names and costs, and the total cost.

    Raises
    ------
    ValueError
        If the trace has no posterior, or `time` or `lengths` is not valid.
    TypeError
        If `lengths` is not an integer.
    ImportError
        If xarray is not installed.

    Examples
    --------
    >>> import mfbocd as mf
    >>> trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1], posterior=True)
    >>> data = posterior(trace)
    >>> data["posterior"].sel(tick=4, run_length=1).round(3).item()
    0.999
    >>> data["posterior"].argmax("run_length").values
    array([0, 1, 2, 0, 1])
    >>> data["changed_at"].where(data["alarm"], drop=True).values
    array([3.])
    """
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("xarray.posterior needs xarray: pip install 'mfbocd[xarray]'") from None

    if trace.posterior is None:
        raise ValueError("trace.posterior is None: use run(..., posterior=True)")
    ticks = len(trace)
    kept = trace.posterior[:, : None if lengths is None else whole("", "lengths", lengths, 1)]
    names = np.array([*trace.fidelities, ""])  # -1, nothing read, selects the last
    coordinates: dict[str, Any] = {
        "tick": np.arange(trace.first, trace.first + ticks),
        "run_length": np.arange(kept.shape[1]),
        "fidelity": ("tick", names[trace.choice]),
    }
    if time is not None:
        when = np.asarray(time)
        if when.shape != (ticks,):
            raise ValueError(f"time must have shape ({ticks},), not {when.shape}")
        coordinates["time"] = ("tick", when)
    variables: dict[str, Any] = {
        "posterior": (("tick", "run_length"), kept, {"long_name": "P(r_t = l | x_1..x_t)"}),
    }
    for name, meaning in STEPS.items():
        values = trace.run_length if name == "map_run_length" else getattr(trace, name)
        variables[name] = ("tick", values, {"long_name": meaning})
    if trace.outlier is not None:
        variables["outlier"] = ("tick", trace.outlier, {"long_name": "P(the reading was an outlier)"})
    # netCDF 3 has no attributes that are lists of strings
    attributes = {"fidelities": ", ".join(trace.fidelities), "costs": list(trace.costs), "spent": trace.spent}
    return xr.Dataset(variables, coords=coordinates, attrs=attributes)

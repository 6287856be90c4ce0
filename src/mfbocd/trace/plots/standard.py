"""The standard figure: every panel the trace has data for, one above the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from . import panels
from .clock import Clock
from .panels import LABEL, Times, plain
from .shape import TraceLike
from .thin import width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 7.0  # inches


def figure(
    trace: TraceLike,
    *,
    time: Times = None,
    unit: str = "",
    xlabel: str = "tick",
    cost_unit: str = "",
    budget: float | None = None,
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> Figure:
    """Readings and prediction, run length, changes, spend, gains; what the trace has no data for is left out.

    Parameters
    ----------
    trace: of `mfbocd.run`; with ``detail=True`` it has the band, the heat map, intervals and gains.
    time: numbers or datetimes, one a tick, for the horizontal axis, which `xlabel` names.
    unit, cost_unit: of the readings and of the costs.
    budget: the average cost a tick that was allowed, drawn beside the spend.
    truth, changes: the true parameter at each tick and the true changes, where they are known.

    Spend is left out of a stream with one fidelity and no budget, and so are the gains: nothing was chosen. Streams
    of more than 2000 ticks are drawn by the lowest and highest of each stretch, as a line below the figure says.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'mfbocd[plot]'") from None

    if len(trace.choice) == 0:
        raise ValueError("trace has no ticks: there is nothing to draw")
    several = len(trace.fidelities) > 1
    drawn: list[tuple[float, Callable[[Axes], None]]] = [
        (3.0, lambda axis: panels.data(axis, trace, time=time, unit=unit, truth=truth, changes=changes))
    ]
    if trace.detail is not None:
        drawn.append((2.0, lambda axis: panels.run_length(axis, trace, time=time)))
    drawn.append((1.3, lambda axis: panels.changes(axis, trace, time=time, changes=changes)))
    if several or budget is not None:
        drawn.append((1.6, lambda axis: panels.spend(axis, trace, time=time, cost_unit=cost_unit, budget=budget)))
    if several and trace.detail is not None:
        drawn.append((1.5, lambda axis: panels.gains(axis, trace, time=time)))
    heights = [height for height, _ in drawn]
    picture = Figure(figsize=(WIDE, sum(heights) + 0.45 * len(drawn)), dpi=150, layout="constrained")
    axes = picture.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (_, draw) in zip(axes, drawn, strict=True):
        draw(axis)
    axes[-1].set_xlim(*Clock(trace, time).limits())
    wide = width(len(trace.choice))
    note = "" if wide == 1 else f"\n(points and lines: the lowest and highest of every {wide} ticks)"
    axes[-1].set_xlabel(plain(xlabel, 80) + note, fontsize=LABEL)
    return picture

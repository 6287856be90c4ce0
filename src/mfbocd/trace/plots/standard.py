"""The standard figure: every panel for which the trace has data, one above the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..trace import Trace
from . import panels
from .panels import LABEL, Times, display_text
from .thin import bin_width
from .timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0  # inches


def figure(
    trace: Trace,
    *,
    time: Times = None,
    unit: str = "",
    xlabel: str | None = None,
    cost_unit: str = "",
    budget: float | None = None,
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> Figure:
    """Draw readings and prediction, run length, changes, spend and gains.

    Panels without data are left out. Spend and gains are left out if there is only one fidelity (spend is kept if
    there is a budget). Streams of more than 2000 ticks are drawn as the lowest and highest value of each bin, which a
    note below the figure states.

    Parameters
    ----------
    trace : Trace
        A trace of `mfbocd.run`. With ``detail=True`` it has the prediction band, the posterior, intervals and gains.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers, datetimes or their text, one per tick, for the horizontal axis; the tick numbers by default.
    unit : str
        Unit of the readings.
    xlabel : str or None
        Label of the horizontal axis, to which the zone of the times is added; by default "time", or "tick" without
        `time`.
    cost_unit : str
        Unit of the costs.
    budget : float or None
        Allowed average cost per tick, drawn with the spend.
    truth : Sequence[float] or numpy.ndarray or None
        The true parameter at each tick, if it is known.
    changes : Sequence[int] or numpy.ndarray or None
        Ticks of the true changes, if they are known.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, not yet shown or saved.

    Raises
    ------
    ValueError
        If the trace has no ticks, or `time` or `truth` does not have one entry per tick.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import mfbocd as mf
    >>> trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    >>> len(figure(trace, changes=[3]).axes)
    2
    """
    try:
        import matplotlib  # noqa: F401

        from .notebook import ShownFigure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'mfbocd[plot]'") from None

    if len(trace.choice) == 0:
        raise ValueError("trace must have at least one tick, not none")
    several = len(trace.fidelities) > 1
    timeline = Timeline(trace, time)
    time = timeline.times  # read once for all panels
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
    picture = ShownFigure(figsize=(WIDTH, sum(heights) + 0.45 * len(drawn)), dpi=150, layout="constrained")
    axes = picture.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (_, draw) in zip(axes, drawn, strict=True):
        draw(axis)
    axes[-1].set_xlim(*timeline.limits())
    wide = bin_width(len(trace.choice))
    note = "" if wide == 1 else f"\n(points and lines: the lowest and highest of every {wide} ticks)"
    axes[-1].set_xlabel(display_text(timeline.axis_label(xlabel), 80) + note, fontsize=LABEL)
    return picture

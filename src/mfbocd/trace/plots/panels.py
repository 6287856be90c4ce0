"""The panels of the standard figure; each draws on the axes it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...inputs.times import Times as ReadTimes
from ..trace import Trace
from .queries import is_binary, most_expensive, reading_label, require_detail
from .style import ALARM, BAND, GREY, INK, MEAN, SPEND, fidelity_styles
from .thin import extremes
from .timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Times = ReadTimes | Sequence[Any] | NDArray[Any] | None

SMALL, LABEL = 9.0, 10.0  # points, legible in a figure 7 inches wide that is shown 600 pixels wide
LOWEST_SHOWN = 1e-4  # probability at which the heat map fades into the background
LEGEND_WIDTH, HANDLE = 76, 7  # characters that fit into a row of a legend; those a symbol and its gap take
STRIP = 0.06  # distance between 0 or 1 and the first row of binary readings, and between rows


def data(
    axis: Axes,
    trace: Trace,
    *,
    time: Times = None,
    unit: str = "",
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """Draw the readings by fidelity, the prediction made before each, and the changes found.

    Readings that are all 0 or 1 are drawn in rows below 0 and above 1, one row per fidelity; the line is then P(x =
    1). A missing reading is a small mark on the lower edge.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        The axes to draw on.
    trace : Trace
        The trace; the prediction band needs its detail.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick; the tick numbers by default.
    unit : str
        Unit of the readings.
    truth : Sequence[float] or numpy.ndarray or None
        The true parameter at each tick, if it is known.
    changes : Sequence[int] or numpy.ndarray or None
        Ticks of the true changes, if they are known.

    Raises
    ------
    ValueError
        If `truth` or `time` does not have one entry per tick.

    Examples
    --------
    >>> import mfbocd as mf
    >>> from matplotlib.figure import Figure
    >>> axis = Figure().subplots()
    >>> data(axis, mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0]), unit="bar")
    >>> axis.get_ylabel()
    'reading (bar)'
    """
    timeline = Timeline(trace, time)
    binary = is_binary(trace)
    if trace.detail is not None and not binary:
        at = timeline.position_after(trace.detail.tick)
        label = f"{trace.detail.level:.0%} band"
        axis.fill_between(at, trace.detail.low, trace.detail.high, color=BAND, lw=0, label=label, zorder=1)
    for j, f in enumerate(fidelity_styles(trace)):
        values = np.where(trace.choice == j, trace.x, np.nan)
        rows = extremes(values)
        drawn = values[rows] + (STRIP * (j + 1) * np.where(values[rows] > 0.5, 1.0, -1.0) if binary else 0.0)
        axis.plot(
            timeline.at[rows],
            drawn,
            f.marker,
            color=f.colour,
            mfc="none" if f.open else f.colour,
            ms=_size(len(trace.choice), f.marker),
            mew=1.0 if f.open else 0.0,
            label=display_text(f.name),
            zorder=3,
        )
    if truth is not None:
        known = np.asarray(truth, dtype=np.float64)
        if known.shape != trace.choice.shape:
            raise ValueError(f"truth must have {len(trace.choice)} entries, one per tick, not shape {known.shape}")
        rows = extremes(known)
        axis.plot(timeline.at[rows], known[rows], color=GREY, lw=1.6, ls=(0, (4, 1.5)), label="truth", zorder=3.5)
    rows = extremes(trace.mean)
    label = "predicted P(x = 1)" if binary else "predicted mean"
    at = timeline.position_after(rows + trace.first)
    axis.plot(at, trace.mean[rows], color=MEAN, lw=1.2, label=label, zorder=4)
    absent = extremes(np.where(np.isnan(trace.x), 0.0, np.nan))
    if absent.size:
        edge = axis.get_xaxis_transform()
        style: dict[str, Any] = {"color": GREY, "ms": 7, "mew": 1.0, "transform": edge, "label": "no reading"}
        axis.plot(timeline.at[absent], np.full(absent.size, 0.02), "|", **style)
    _mark_changes(axis, trace, timeline, changes)
    if binary:
        reach = STRIP * (len(trace.fidelities) + 1)
        axis.set_ylim(-reach, 1 + reach)
        axis.set_yticks([0, 0.5, 1])
    _format_axis(axis, timeline, display_text(reading_label(trace, unit), 40))


def run_length(axis: Axes, trace: Trace, *, time: Times = None) -> None:
    """Draw the filtered run-length posterior, on a log scale down to 1e-4, and its most probable value.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        The axes to draw on.
    trace : Trace
        A trace with detail.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick; the tick numbers by default.

    Raises
    ------
    ValueError
        If the trace has no detail.
    """
    from matplotlib.colors import LogNorm

    detail = require_detail(trace, "run_length")
    timeline = Timeline(trace, time)
    mesh = axis.pcolormesh(
        timeline.edges(detail.tick),
        detail.length,
        detail.weight.T,
        norm=LogNorm(LOWEST_SHOWN, 1.0),
        cmap=_shades(),
        rasterized=True,
    )
    rows = extremes(trace.run_length.astype(np.float64))
    axis.plot(timeline.at[rows], trace.run_length[rows] + 0.5, ".", color=ALARM, ms=1.6, label="most probable")
    seen = np.flatnonzero((detail.weight >= LOWEST_SHOWN).any(axis=0))
    axis.set_ylim(0, detail.length[seen[-1] + 1] if seen.size else 1)
    bar = axis.figure.colorbar(mesh, cax=axis.inset_axes((1.012, 0.0, 0.016, 1.0)), extend="min")
    bar.set_ticks([1e-4, 1e-2, 1.0], labels=["0.0001", "0.01", "1"])
    bar.ax.tick_params(labelsize=SMALL, colors=INK, length=2)
    bar.set_label("probability", fontsize=SMALL, color=INK)
    _format_axis(axis, timeline, "run length (ticks)")


def changes(
    axis: Axes,
    trace: Trace,
    *,
    time: Times = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """Draw P(change within the alarm's window), the alarms, and the changes with their credible intervals.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        The axes to draw on.
    trace : Trace
        The trace; the intervals need its detail.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick; the tick numbers by default.
    changes : Sequence[int] or numpy.ndarray or None
        Ticks of the true changes, if they are known.
    """
    timeline = Timeline(trace, time)
    rows = extremes(trace.p_change)
    axis.plot(timeline.at[rows], trace.p_change[rows], color=INK, lw=1.2, label="P(recent change)")
    fired = np.flatnonzero(trace.alarm)
    style: dict[str, Any] = {"color": ALARM, "mec": "white", "ms": 8, "label": "alarm", "zorder": 5, "clip_on": False}
    axis.plot(timeline.at[fired], trace.confidence[fired], "v", **style)
    _mark_changes(axis, trace, timeline, changes)
    axis.set_ylim(0, 1.05)
    axis.set_yticks([0, 0.5, 1])
    _format_axis(axis, timeline, "probability")


def spend(
    axis: Axes,
    trace: Trace,
    *,
    time: Times = None,
    cost_unit: str = "",
    budget: float | None = None,
) -> None:
    """Draw the accumulated cost, with the budget and the cost of always reading the most expensive fidelity.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        The axes to draw on.
    trace : Trace
        The trace.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick; the tick numbers by default.
    cost_unit : str
        Unit of the costs.
    budget : float or None
        Allowed average cost per tick.
    """
    timeline = Timeline(trace, time)
    ticks = np.arange(1, len(trace.choice) + 1)
    spent = np.cumsum(trace.cost)
    rows = extremes(spent)
    high = most_expensive(trace)
    if high is not None and len(trace.fidelities) > 1:
        always = trace.costs[high] * ticks
        label = f"always {display_text(trace.fidelities[high])}: {format_amount(always[-1])}"
        axis.plot(timeline.at[rows], always[rows], color=GREY, lw=1.6, ls=":", label=label)
    axis.plot(timeline.at[rows], spent[rows], color=SPEND, lw=2.4, label=f"spent: {format_amount(spent[-1])}")
    if budget is not None:
        allowed = budget * ticks
        label = f"budget: {format_amount(allowed[-1])}"
        axis.plot(timeline.at[rows], allowed[rows], color=INK, lw=1.1, ls="--", label=label)
    axis.set_ylim(bottom=0)
    _format_axis(axis, timeline, "spent" + (f" ({display_text(cost_unit)})" if cost_unit else ""))


def gains(axis: Axes, trace: Trace, *, time: Times = None) -> None:
    """Draw the expected gain of each fidelity before the choice, on a log scale; zeros are left out.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        The axes to draw on.
    trace : Trace
        A trace with detail.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick; the tick numbers by default.

    Raises
    ------
    ValueError
        If the trace has no detail.
    """
    detail = require_detail(trace, "gains")
    timeline = Timeline(trace, time)
    for j, f in enumerate(fidelity_styles(trace)):
        shown_gains = np.where(detail.gains[:, j] > 0.0, detail.gains[:, j], np.nan)
        rows = extremes(shown_gains)
        style: dict[str, Any] = {"color": f.colour, "ls": f.line, "lw": 1.2, "label": display_text(f.name)}
        axis.plot(timeline.at[rows], shown_gains[rows], **style)
    if (detail.gains > 0.0).any():
        axis.set_yscale("log")
    _format_axis(axis, timeline, f"gain ({gain_unit(detail.gain)})")


def format_amount(value: float) -> str:
    """Return a cost as text: with thousands separators, or with four significant digits if it is below 1000.

    Parameters
    ----------
    value : float
        The cost.

    Returns
    -------
    str
        The text.
    """
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def gain_unit(gain: str) -> str:
    """Return the unit of a gain.

    Parameters
    ----------
    gain : str
        Name of the gain.

    Returns
    -------
    str
        "variance" for the variance gain, "nats" for every other.
    """
    return "variance" if gain == "variance" else "nats"


def _mark_changes(axis: Axes, trace: Trace, timeline: Timeline, changes: Sequence[int] | NDArray[Any] | None) -> None:
    """Mark the changes found, with their credible intervals, and the true changes."""
    found = trace.changed_at[trace.alarm]
    if not found.size and changes is None:
        return
    edge = axis.get_xaxis_transform()
    if found.size:
        thin = 1.1 if found.size <= 50 else 0.5
        at = timeline.position(found)
        axis.vlines(at, 0, 1, color=ALARM, lw=thin, transform=edge, zorder=2, label="change found")
    if found.size and trace.detail is not None:
        low, high = axis.convert_xunits(timeline.position(trace.detail.began.T))  # type: ignore[no-untyped-call]
        spans = list(zip(low, high - low, strict=True))
        style: dict[str, Any] = {"color": ALARM, "alpha": 0.22, "lw": 0, "transform": edge, "zorder": 1.5}
        axis.broken_barh(spans, (0, 1), label=f"{trace.detail.level:.0%} interval", **style)
    if changes is not None and len(changes):
        style = {"color": INK, "ms": 7, "transform": edge, "zorder": 6, "clip_on": False}
        axis.plot(timeline.position(changes), np.zeros(len(changes)), "^", label="true change", **style)


def _format_axis(axis: Axes, timeline: Timeline, ylabel: str) -> None:
    axis.set_ylabel(ylabel, fontsize=LABEL, color=INK)
    axis.tick_params(labelsize=SMALL, colors=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
    from matplotlib.lines import Line2D

    if timeline.is_date:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=7)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        axis.ticklabel_format(axis="x", style="plain", useOffset=False)
    if axis.get_yscale() == "linear":
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}"))
    handles, labels = axis.get_legend_handles_labels()
    if not handles:
        return
    legend = axis.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=_columns(labels),
        fontsize=SMALL,
        frameon=False,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.6,
        labelcolor=INK,
    )
    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):
            handle.set_markersize(6.0)


def _columns(labels: Sequence[str]) -> int:
    """Return how many legend entries fit side by side; a legend wider than its axes would shrink them."""
    for rows in range(1, len(labels)):
        columns = -(-len(labels) // rows)
        stacks = np.array_split(np.array([len(label) for label in labels]), columns)
        if sum(int(stack.max()) + HANDLE for stack in stacks) <= LEGEND_WIDTH:
            return columns
    return 1


def _shades() -> Any:
    from matplotlib import colormaps

    return colormaps["Blues"].with_extremes(under="white", bad="white")


def _size(ticks: int, marker: str) -> float:
    """Return a marker size at which markers do not hide each other."""
    base = 4.5 if ticks <= 400 else 3.2 if ticks <= 2000 else 2.0
    return base + 0.6 if marker == "x" else base


def display_text(text: str, most: int = 28) -> str:
    """Return text so that matplotlib shows it literally and on one line.

    A dollar sign would begin a formula, and a leading underscore would hide a legend entry.

    Parameters
    ----------
    text : str
        The text.
    most : int
        Characters to show at most; 28 by default.

    Returns
    -------
    str
        The escaped and shortened text.
    """
    short = text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    shown = short.replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{shown}" if shown.startswith("_") else shown

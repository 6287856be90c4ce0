"""The panels of the standard figure as interactive plotly figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..trace.plots.panels import LOWEST_SHOWN, STRIP, gain_unit
from ..trace.plots.queries import is_binary, most_expensive, reading_label, require_detail
from ..trace.plots.style import ALARM, BAND, GREY, INK, MEAN, SPEND, fidelity_styles
from ..trace.plots.thin import bin_width, extremes
from ..trace.plots.timeline import Timeline
from ..trace.trace import Trace

HEAT = 512  # columns of the heat map: more would enlarge the file without a visible difference
PAPER, EDGE, GRID = "#ffffff", "#999999", "#eeeeee"
MOST_SHAPES = 300  # changes that are drawn with their intervals: a browser takes long to draw more shapes
HOVER = "%{y:.5g}"
SHADES = [[0.0, "#f0f6fc"], [0.25, "#c9dff1"], [0.5, "#85bcdc"], [0.75, "#2f7fbc"], [1.0, "#08306b"]]


def data(
    trace: Trace,
    timeline: Timeline,
    unit: str,
    truth: Sequence[float] | NDArray[Any] | None,
    changes: Sequence[int] | NDArray[Any] | None,
) -> Any:
    """Return the figure of the readings by fidelity, the prediction made before each, and the changes found."""
    binary = is_binary(trace)
    shown: list[dict[str, Any]] = []
    if trace.detail is not None and not binary:
        at = timeline.position_after(trace.detail.tick)
        edge = {"x": at, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        shown.append({**edge, "y": trace.detail.high, "showlegend": False, "legendgroup": "band"})
        name = f"{trace.detail.level:.0%} band"
        filled = {"fill": "tonexty", "fillcolor": BAND, "legendgroup": "band"}
        shown.append({**edge, **filled, "y": trace.detail.low, "name": name})
    for j, f in enumerate(fidelity_styles(trace)):
        values = np.where(trace.choice == j, trace.x, np.nan)
        rows = extremes(values)
        strip = STRIP * (j + 1) * np.where(values[rows] > 0.5, 1.0, -1.0) if binary else 0.0
        marker: dict[str, Any] = {"color": f.colour, "symbol": f.symbol, "size": 6 if f.open else 5}
        if f.open:
            marker |= {"line": {"color": f.colour, "width": 1.4}}
        texts = timeline.labels(rows + trace.first)
        hover = {
            "customdata": list(zip(values[rows].tolist(), map(escape, texts), strict=True)),
            "hovertemplate": "%{customdata[0]:.5g} at %{customdata[1]}",
        }
        place = {"x": timeline.at[rows], "y": values[rows] + strip, "mode": "markers"}
        shown.append({**place, **hover, "marker": marker, "name": escape(f.name)})
    if truth is not None:
        known = np.asarray(truth, dtype=np.float64)
        rows = extremes(known)
        shown.append(_line(timeline.at[rows], known[rows], "truth", GREY, 2, "dash"))
    rows = extremes(trace.mean)
    name = "predicted P(x = 1)" if binary else "predicted mean"
    shown.append(_line(timeline.position_after(rows + trace.first), trace.mean[rows], name, MEAN, 1.5))
    absent = extremes(np.where(np.isnan(trace.x), 0.0, np.nan))
    if absent.size:
        marker = {"symbol": "line-ns", "size": 9, "line": {"color": GREY, "width": 1.2}}
        place = {"x": timeline.at[absent], "y": np.full(absent.size, 0.02), "yaxis": "y2", "mode": "markers"}
        shown.append({**place, "marker": marker, "name": "no reading", "hovertemplate": "no reading at %{x}"})
    figure = _figure(shown, timeline, escape(reading_label(trace, unit)), height=420)
    _mark_changes(figure, trace, timeline, changes)
    return figure


def run_length(trace: Trace, timeline: Timeline) -> Any:
    """Return the heat map of the filtered run-length posterior, on a log scale."""
    detail = require_detail(trace, "run_length")
    step = -(-len(detail.tick) // HEAT)
    weight = detail.weight[::step]
    seen = np.flatnonzero((weight >= LOWEST_SHOWN).any(axis=0))
    bins = int(seen[-1]) + 1 if seen.size else 1
    shades = weight[:, :bins].T.astype(np.float32)
    logs = np.log10(shades, where=shades >= LOWEST_SHOWN, out=np.full(shades.shape, np.nan, dtype=np.float32))
    heat = {
        "type": "heatmap",
        "x": timeline.edges(detail.tick[::step]),
        "y": detail.length[: bins + 1],
        "z": logs,
        "customdata": shades,
        "zmin": np.log10(LOWEST_SHOWN),
        "zmax": 0.0,
        "colorscale": SHADES,
        "colorbar": {"tickvals": [-4, -2, 0], "ticktext": ["0.0001", "0.01", "1"]}
        | {"orientation": "h", "thickness": 8, "len": 0.4, "outlinewidth": 0}
        | {
            "x": 1.0,
            "xanchor": "right",
            "y": 1.0,
            "yanchor": "bottom",
            "ypad": 4,
            "tickangle": 0,
            "tickfont": {"size": 11},
        },
        "hovertemplate": "run length %{y} at %{x}: P = %{customdata:.2g}<extra></extra>",
    }
    rows = extremes(trace.run_length.astype(np.float64))
    marker = {"color": ALARM, "size": 2.5}
    place = {"x": timeline.at[rows], "y": trace.run_length[rows], "mode": "markers"}
    likely = {**place, "marker": marker, "name": "most probable", "hovertemplate": "%{y} ticks at %{x}"}
    figure = _figure([heat, likely], timeline, "run length (ticks)", height=340)
    figure.update_layout(legend={"itemsizing": "constant"})  # its own points are too small to be visible there
    return figure


def changes(trace: Trace, timeline: Timeline, known: Sequence[int] | NDArray[Any] | None) -> Any:
    """Return the figure of P(change within the alarm's window) and the alarms."""
    rows = extremes(trace.p_change)
    line = _line(timeline.at[rows], trace.p_change[rows], "P(recent change)", INK, 1.5)
    fired = extremes(np.where(trace.alarm, trace.confidence, np.nan))
    marker = {"color": ALARM, "symbol": "triangle-down", "size": 12, "line": {"color": PAPER, "width": 1}}
    place = {"x": timeline.at[fired], "y": trace.confidence[fired], "mode": "markers", "cliponaxis": False}
    hover = "alarm at %{customdata[1]}<br>P = %{y:.1%}, changed at %{customdata[0]}<extra></extra>"
    labels = (map(escape, timeline.labels(ticks)) for ticks in (trace.changed_at[fired], fired + trace.first))
    when = list(zip(*labels, strict=True))
    alarms = {**place, "marker": marker, "customdata": when, "name": "alarm", "hovertemplate": hover}
    figure = _figure([line, alarms], timeline, "probability", height=280)
    figure.update_yaxes(range=[0, 1.06], tickvals=[0, 0.5, 1])
    figure.update_layout(hovermode="x")  # with "closest" the line would hide the alarm marker on it
    _mark_changes(figure, trace, timeline, known)
    return figure


def spend(trace: Trace, timeline: Timeline, cost_unit: str, budget: float | None) -> Any:
    """Return the figure of the accumulated cost, the budget, and the cost of the most expensive fidelity alone."""
    ticks = np.arange(1, len(trace.choice) + 1)
    spent = np.cumsum(trace.cost)
    rows = extremes(spent)
    high = most_expensive(trace)
    shown = []
    if high is not None and len(trace.fidelities) > 1:
        name = f"always {escape(trace.fidelities[high])}"
        shown.append(_line(timeline.at[rows], trace.costs[high] * ticks[rows], name, GREY, 2, "dot"))
    shown.append(_line(timeline.at[rows], spent[rows], "spent", SPEND, 3))
    if budget is not None:
        shown.append(_line(timeline.at[rows], budget * ticks[rows], "budget", INK, 1.3, "dash"))
    figure = _figure(shown, timeline, "spent" + (f" ({escape(cost_unit)})" if cost_unit else ""), height=300)
    figure.update_yaxes(rangemode="tozero")
    return figure


def gains(trace: Trace, timeline: Timeline) -> Any:
    """Return the figure of the expected gain of each fidelity, on a log scale."""
    detail = require_detail(trace, "gains")
    shown = []
    for j, f in enumerate(fidelity_styles(trace)):
        shown_gains = np.where(detail.gains[:, j] > 0.0, detail.gains[:, j], np.nan)
        rows = extremes(shown_gains)
        shown.append(_line(timeline.at[rows], shown_gains[rows], escape(f.name), f.colour, 1.5, f.dash))
    figure = _figure(shown, timeline, f"gain ({gain_unit(detail.gain)})", height=300)
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    return figure


def _line(x: Any, y: Any, name: str, colour: str, width: float, dash: str = "solid") -> dict[str, Any]:
    line = {"color": colour, "width": width, "dash": dash}
    return {"x": x, "y": y, "mode": "lines", "line": line, "name": name, "hovertemplate": f"{HOVER} at %{{x}}"}


def _figure(shown: Sequence[dict[str, Any]], timeline: Timeline, ylabel: str, height: int) -> Any:
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    axis = {"showline": True, "linecolor": EDGE, "ticks": "outside", "tickcolor": EDGE, "zeroline": False}
    font = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": INK}
    return go.Figure(
        [{"type": "scatter", **trace} for trace in shown],
        {
            "template": "none",
            "height": height,
            "font": font,
            "margin": {"l": 64, "r": 40, "t": 30, "b": 40},
            "paper_bgcolor": PAPER,
            "plot_bgcolor": PAPER,
            "hovermode": "closest",
            "hoverlabel": {"bgcolor": PAPER, "font": font},
            "modebar": {"orientation": "v", "bgcolor": PAPER, "color": EDGE, "activecolor": INK},  # in the margin
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
            "xaxis": {**axis, "automargin": True, "exponentformat": "none"}
            | {"range": _plain(np.array(timeline.limits()))},
            "yaxis": {**axis, "automargin": True, "title": {"text": ylabel, "standoff": 8}, "gridcolor": GRID},
            "yaxis2": {"range": [0, 1], "overlaying": "y", "visible": False, "fixedrange": True},
            "showlegend": True,
        },
    )


def _mark_changes(figure: Any, trace: Trace, timeline: Timeline, known: Sequence[int] | NDArray[Any] | None) -> None:
    """Mark the changes found, with their credible intervals, and the true changes."""
    shapes: list[dict[str, Any]] = []
    across = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    fired = np.flatnonzero(trace.alarm)
    if fired.size > MOST_SHAPES:
        _mark_many(figure, timeline, trace.changed_at[fired])
        return _mark_known(figure, timeline, known)
    if trace.detail is not None:
        for low, high in _plain(timeline.position(trace.detail.began)):
            shapes.append({**across, "type": "rect", "x0": low, "x1": high, "fillcolor": ALARM, "opacity": 0.2})
            shapes[-1]["line"] = {"width": 0}
    for at in _plain(timeline.position(trace.changed_at[fired])):
        shapes.append({**across, "type": "line", "x0": at, "x1": at, "line": {"color": ALARM, "width": 1.4}})
    figure.update_layout(shapes=shapes)
    key: dict[str, Any] = {"x": [None], "y": [None], "hoverinfo": "skip"}
    if fired.size:
        figure.add_scatter(**key, mode="lines", line={"color": ALARM, "width": 1.4}, name="change found")
    if fired.size and trace.detail is not None:
        square = {"color": ALARM, "opacity": 0.25, "size": 12, "symbol": "square"}
        figure.add_scatter(**key, mode="markers", marker=square, name=f"{trace.detail.level:.0%} interval")
    _mark_known(figure, timeline, known)


def _mark_many(figure: Any, timeline: Timeline, ticks: NDArray[np.int64]) -> None:
    """Draw a line at each change, as one trace; at most one in each column of the drawing."""
    width = bin_width(len(timeline.at))
    at = timeline.position(ticks[np.unique((ticks - timeline.first) // width, return_index=True)[1]])
    x = np.repeat(at, 3)
    y = np.tile([0.0, 1.0, np.nan], len(at))
    line = {"color": ALARM, "width": 0.6}
    figure.add_scatter(x=x, y=y, yaxis="y2", mode="lines", line=line, name="change found", hoverinfo="skip")


def _mark_known(figure: Any, timeline: Timeline, known: Sequence[int] | NDArray[Any] | None) -> None:
    if known is not None and len(known):
        figure.add_scatter(
            x=timeline.position(known),
            y=np.zeros(len(known)),
            yaxis="y2",
            mode="markers",
            marker={"color": INK, "symbol": "triangle-up", "size": 10},
            name="true change",
            cliponaxis=False,
            hovertemplate="true change at %{x}<extra></extra>",
        )


def _plain(at: NDArray[Any]) -> list[Any]:
    """Return positions as plotly's shapes take them: datetimes as text."""
    return at.astype(str).tolist() if at.dtype.kind == "M" else at.tolist()  # type: ignore[no-any-return]

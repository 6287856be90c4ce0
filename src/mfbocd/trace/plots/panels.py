"""The panels: each draws one thing on axes it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .clock import Clock
from .shape import TraceLike, binary, dearest, detail_of
from .style import ALARM, BAND, GREY, INK, MEAN, SPEND, looks
from .thin import extremes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Times = Sequence[Any] | NDArray[Any] | None

SMALL, LABEL = 9.0, 10.0  # points, legible in a figure 7 inches wide that is shown 600 pixels wide
FAINTEST = 1e-4  # probability at which the heat map fades into the background
FITS, HANDLE = 76, 7  # characters a row of a legend has room for; those that a symbol and the gap after it take
STRIP = 0.06  # how far from 0 and 1 each fidelity's row of binary readings lies


def data(
    axis: Axes,
    trace: TraceLike,
    *,
    time: Times = None,
    unit: str = "",
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """The readings, marked by fidelity, with the prediction made before each and the changes found.

    Readings that are all 0 or 1 are drawn in rows below 0 and above 1, one a fidelity; the line between is then
    P(x = 1). A missing reading is a tick on the lower edge. `truth` is the true parameter at each tick, `changes`
    the true changes.
    """
    clock = Clock(trace, time)
    two = binary(trace)
    if trace.detail is not None and not two:
        at = clock.after(trace.detail.tick)
        label = f"{trace.detail.level:.0%} band"
        axis.fill_between(at, trace.detail.low, trace.detail.high, color=BAND, lw=0, label=label, zorder=1)
    for j, look in enumerate(looks(trace)):
        values = np.where(trace.choice == j, trace.x, np.nan)
        rows = extremes(values)
        drawn = values[rows] + (STRIP * (j + 1) * np.where(values[rows] > 0.5, 1.0, -1.0) if two else 0.0)
        axis.plot(
            clock.at[rows],
            drawn,
            look.marker,
            color=look.colour,
            mfc="none" if look.open else look.colour,
            ms=_size(len(trace.choice), look.marker),
            mew=1.0 if look.open else 0.0,
            label=plain(look.name),
            zorder=3,
        )
    if truth is not None:
        known = np.asarray(truth, dtype=np.float64)
        if known.shape != trace.choice.shape:
            raise ValueError(f"truth must have {len(trace.choice)} entries, one a tick, not shape {known.shape}")
        rows = extremes(known)
        axis.plot(clock.at[rows], known[rows], color=GREY, lw=1.6, ls=(0, (4, 1.5)), label="truth", zorder=3.5)
    rows = extremes(trace.mean)
    label = "predicted P(x = 1)" if two else "predicted mean"
    axis.plot(clock.after(rows + trace.first), trace.mean[rows], color=MEAN, lw=1.2, label=label, zorder=4)
    absent = extremes(np.where(np.isnan(trace.x), 0.0, np.nan))
    if absent.size:
        edge = axis.get_xaxis_transform()
        style: dict[str, Any] = {"color": GREY, "ms": 7, "mew": 1.0, "transform": edge, "label": "no reading"}
        axis.plot(clock.at[absent], np.full(absent.size, 0.02), "|", **style)
    _mark(axis, trace, clock, changes)
    if two:
        reach = STRIP * (len(trace.fidelities) + 1)
        axis.set_ylim(-reach, 1 + reach)
        axis.set_yticks([0, 0.5, 1])
    _dress(axis, clock, "reading" + (f" ({plain(unit)})" if unit else ""))


def run_length(axis: Axes, trace: TraceLike, *, time: Times = None) -> None:
    """The filtered posterior of the run length, on a log scale down to 1e-4, and its most probable value."""
    from matplotlib.colors import LogNorm

    detail = detail_of(trace, "run_length")
    clock = Clock(trace, time)
    mesh = axis.pcolormesh(
        clock.edges(detail.tick),
        detail.length,
        detail.weight.T,
        norm=LogNorm(FAINTEST, 1.0),
        cmap=_shades(),
        rasterized=True,
    )
    rows = extremes(trace.run_length.astype(np.float64))
    axis.plot(clock.at[rows], trace.run_length[rows] + 0.5, ".", color=ALARM, ms=1.6, label="most probable")
    seen = np.flatnonzero((detail.weight >= FAINTEST).any(axis=0))
    axis.set_ylim(0, detail.length[seen[-1] + 1] if seen.size else 1)
    bar = axis.figure.colorbar(mesh, cax=axis.inset_axes((1.012, 0.0, 0.016, 1.0)), extend="min")
    bar.set_ticks([1e-4, 1e-2, 1.0], labels=["0.0001", "0.01", "1"])
    bar.ax.tick_params(labelsize=SMALL, colors=INK, length=2)
    bar.set_label("probability", fontsize=SMALL, color=INK)
    _dress(axis, clock, "run length (ticks)")


def changes(
    axis: Axes,
    trace: TraceLike,
    *,
    time: Times = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> None:
    """P(a change within the alarm's window), each alarm, and when the change was, with its credible interval.

    `changes` are the true ones, where they are known.
    """
    clock = Clock(trace, time)
    rows = extremes(trace.p_change)
    axis.plot(clock.at[rows], trace.p_change[rows], color=INK, lw=1.2, label="P(recent change)")
    fired = np.flatnonzero(trace.alarm)
    style: dict[str, Any] = {"color": ALARM, "mec": "white", "ms": 8, "label": "alarm", "zorder": 5, "clip_on": False}
    axis.plot(clock.at[fired], trace.confidence[fired], "v", **style)
    _mark(axis, trace, clock, changes)
    axis.set_ylim(0, 1.05)
    axis.set_yticks([0, 0.5, 1])
    _dress(axis, clock, "probability")


def spend(
    axis: Axes,
    trace: TraceLike,
    *,
    time: Times = None,
    cost_unit: str = "",
    budget: float | None = None,
) -> None:
    """What was spent so far; what the budget, an average cost a tick, allowed; what the dearest alone would cost."""
    clock = Clock(trace, time)
    ticks = np.arange(1, len(trace.choice) + 1)
    spent = np.cumsum(trace.cost)
    rows = extremes(spent)
    high = dearest(trace)
    if high is not None and len(trace.fidelities) > 1:
        always = trace.costs[high] * ticks
        label = f"always {plain(trace.fidelities[high])}: {amount(always[-1])}"
        axis.plot(clock.at[rows], always[rows], color=GREY, lw=1.6, ls=":", label=label)
    axis.plot(clock.at[rows], spent[rows], color=SPEND, lw=2.4, label=f"spent: {amount(spent[-1])}")
    if budget is not None:
        allowed = budget * ticks
        axis.plot(clock.at[rows], allowed[rows], color=INK, lw=1.1, ls="--", label=f"budget: {amount(allowed[-1])}")
    axis.set_ylim(bottom=0)
    _dress(axis, clock, "spent" + (f" ({plain(cost_unit)})" if cost_unit else ""))


def gains(axis: Axes, trace: TraceLike, *, time: Times = None) -> None:
    """What a reading at each fidelity was expected to tell, before one was chosen; on a log scale, without zeros."""
    detail = detail_of(trace, "gains")
    clock = Clock(trace, time)
    for j, look in enumerate(looks(trace)):
        told = np.where(detail.gains[:, j] > 0.0, detail.gains[:, j], np.nan)
        rows = extremes(told)
        style: dict[str, Any] = {"color": look.colour, "ls": look.line, "lw": 1.2, "label": plain(look.name)}
        axis.plot(clock.at[rows], told[rows], **style)
    if (detail.gains > 0.0).any():
        axis.set_yscale("log")
    _dress(axis, clock, f"gain ({gain_unit(detail.gain)})")


def amount(value: float) -> str:
    """A cost in words: thousands apart, four digits of what is small."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def gain_unit(gain: str) -> str:
    """Nats, but for the gain in variance."""
    return "variance" if gain == "variance" else "nats"


def _mark(axis: Axes, trace: TraceLike, clock: Clock, changes: Sequence[int] | NDArray[Any] | None) -> None:
    """The changes found, each with its credible interval, and the true ones."""
    found = trace.changed_at[trace.alarm]
    if not found.size and changes is None:
        return
    edge = axis.get_xaxis_transform()
    if found.size:
        thin = 1.1 if found.size <= 50 else 0.5
        axis.vlines(clock.of(found), 0, 1, color=ALARM, lw=thin, transform=edge, zorder=2, label="change found")
    if found.size and trace.detail is not None:
        low, high = axis.convert_xunits(clock.of(trace.detail.began.T))  # type: ignore[no-untyped-call]
        spans = list(zip(low, high - low, strict=True))
        style: dict[str, Any] = {"color": ALARM, "alpha": 0.22, "lw": 0, "transform": edge, "zorder": 1.5}
        axis.broken_barh(spans, (0, 1), label=f"{trace.detail.level:.0%} interval", **style)
    if changes is not None and len(changes):
        style = {"color": INK, "ms": 7, "transform": edge, "zorder": 6, "clip_on": False}
        axis.plot(clock.of(changes), np.zeros(len(changes)), "^", label="true change", **style)


def _dress(axis: Axes, clock: Clock, ylabel: str) -> None:
    axis.set_ylabel(ylabel, fontsize=LABEL, color=INK)
    axis.tick_params(labelsize=SMALL, colors=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
    from matplotlib.lines import Line2D

    if clock.dated:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=7)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
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
    """As many as fit side by side; a legend wider than its axes would push them together."""
    for rows in range(1, len(labels)):
        columns = -(-len(labels) // rows)
        stacks = np.array_split(np.array([len(label) for label in labels]), columns)
        if sum(int(stack.max()) + HANDLE for stack in stacks) <= FITS:
            return columns
    return 1


def _shades() -> Any:
    from matplotlib import colormaps

    return colormaps["Blues"].with_extremes(under="white", bad="white")


def _size(ticks: int, marker: str) -> float:
    """Markers small enough not to hide each other."""
    base = 4.5 if ticks <= 400 else 3.2 if ticks <= 2000 else 2.0
    return base + 0.6 if marker == "x" else base


def plain(text: str, most: int = 28) -> str:
    """Text as matplotlib shows it: no dollar begins a formula, no leading underscore hides it, and not too long."""
    short = text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    shown = short.replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{shown}" if shown.startswith("_") else shown

"""The four figures of the machine-sound experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .machines import Array, Fidelities, Machine, Streams

LOW, HIGH = "#D55E00", "#0072B2"
GREY = "#999999"


def _grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, NDArray[Any]]:
    figure = Figure(figsize=(width * columns + 0.6, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, np.asarray(axes)


def scatter(names: Sequence[str], results: Sequence[dict[str, Any]]) -> Figure:
    """Random against information-based switching, one point per stream, one column per machine."""
    figure, axes = _grid(2, len(names), 2.6, 2.6)
    for j, (name, result) in enumerate(zip(names, results, strict=True)):
        for i, measure in enumerate(("MSE", "L1")):
            axis: Axes = axes[i, j]
            x, y = (np.array(result[rule][measure]) for rule in ("RN", "IG"))
            top = 1.03 * max(x.max(), y.max(), 1e-9)
            axis.plot([0, top], [0, top], color="black", linewidth=0.9)
            axis.scatter(x, y, s=9, color=HIGH, alpha=0.35, linewidths=0)
            axis.plot(x.mean(), y.mean(), "+", color=LOW, markersize=11, markeredgewidth=2)
            axis.set(xlim=(0, top), ylim=(0, top), aspect="equal")
            axis.text(0.97, 0.04, f"{(y < x).mean():.0%} under", transform=axis.transAxes, ha="right", fontsize=9)
            axis.locator_params(nbins=4)
            if i == 0:
                axis.set_title(f"machine {name}", fontsize=10)
            if j == 0:
                axis.set_ylabel(f"{_measure(measure)}, information")
            axis.set_xlabel(f"{_measure(measure)}, random")
    return figure


def _measure(name: str) -> str:
    return "$L_1$" if name == "L1" else name


def rates(score: Array, anomalous: NDArray[np.bool_], at: Array) -> tuple[Array, Array]:
    """FPR and FNR of "score > threshold" at these thresholds.

    >>> fpr, fnr = rates(np.array([1.0, 3.0, 2.0, 4.0]), np.array([False, False, True, True]), np.array([2.5]))
    >>> fpr, fnr
    (array([0.5]), array([0.5]))
    """
    fpr = (score[~anomalous][:, None] > at).mean(axis=0)
    fnr = (score[anomalous][:, None] <= at).mean(axis=0)
    return fpr, fnr


def thresholds(machines: Sequence[Machine], found: Sequence[Fidelities]) -> Figure:
    """FPR and FNR of held-out clips against the threshold, with the chosen one."""
    figure, axes = _grid(2, len(machines), 2.6, 1.9, sharey=True)
    for j, (machine, fidelities) in enumerate(zip(machines, found, strict=True)):
        for i, (kind, colour) in enumerate((("low", LOW), ("high", HIGH))):
            axis: Axes = axes[i, j]
            score = np.median(machine.scores[i], axis=1)[machine.held_out]
            at = np.linspace(score.min(), score.max(), 400)
            fpr, fnr = rates(score, machine.anomalous[machine.held_out], at)
            axis.plot(at, fpr, color=colour, label="FPR")
            axis.plot(at, fnr, color="black", linewidth=1.0, label="FNR")
            axis.axvline(fidelities.thresholds[i], color=GREY, linestyle="--", linewidth=1.2)
            axis.text(0.97, 0.5, f"AUC {fidelities.auc[i]:.2f}", transform=axis.transAxes, ha="right", fontsize=8)
            axis.set_xlabel("threshold of the median score" if i else "")
            axis.locator_params(axis="x", nbins=4)
            if i == 0:
                axis.set_title(f"machine {machine.name}", fontsize=10)
            if j == 0:
                axis.set_ylabel(f"{kind} fidelity\nrate")
                axis.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.04))
    return figure


def examples(machines: Sequence[Machine]) -> Figure:
    """Scores of five clips per machine, normal and damaged in turn, at both fidelities."""
    figure, axes = _grid(len(machines), 1, 8.6, 1.5)
    for machine, axis in zip(machines, axes[:, 0], strict=True):
        kinds = [np.flatnonzero(machine.used & (machine.anomalous == kind)) for kind in (False, True)]
        shown = [kinds[i % 2][(i // 2) % len(kinds[i % 2])] for i in range(5)]
        for i, clip in enumerate(shown):
            low, high = (scores[clip] for scores in machine.scores)
            axis.plot(i + _middles(high.size), high, "o", color=HIGH, markersize=2.6, alpha=0.6)
            axis.plot(i + _middles(low.size), low, "x", color=LOW, markersize=6, markeredgewidth=1.6)
            kind = "damaged" if machine.anomalous[clip] else "normal"
            axis.text(
                i + 0.5, 1.0, kind, transform=axis.get_xaxis_transform(), ha="center", fontsize=8, color="#555555"
            )
        for edge in range(1, 5):
            axis.axvline(edge, color="#CC3311", linestyle="--", linewidth=1.0)
        axis.set(xlim=(0, 5), xticks=[], ylabel=f"machine {machine.name}\nscore")
    axes[0, 0].plot([], [], "x", color=LOW, markeredgewidth=1.6, label="low fidelity")
    axes[0, 0].plot([], [], "o", color=HIGH, markersize=3.5, label="high fidelity")
    axes[0, 0].legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.12))
    axes[-1, 0].set_xlabel("time: five clips, one after the other")
    return figure


def _middles(parts: int) -> Array:
    """Of this number of equal parts of [0, 1]."""
    return np.asarray((np.arange(parts) + 0.5) / parts)


def readings(machines: Sequence[Machine], drawn: Sequence[Streams]) -> Figure:
    """The readings of one stream per machine, with the truth."""
    figure, axes = _grid(len(machines), 1, 8.6, 1.25, sharex=True)
    for machine, streams, axis in zip(machines, drawn, axes[:, 0], strict=True):
        truth, table = streams.truth[:, 0], streams.tables[:, 0]
        ticks = np.arange(len(truth))
        axis.step(ticks, truth, where="mid", color="black", linewidth=0.9, label="truth")
        # a little above and below the truth, so that both are visible
        axis.plot(ticks, table[:, 1] + 0.14, "o", color=HIGH, markersize=2.8, label="high fidelity")
        axis.plot(ticks, table[:, 0] - 0.14, "x", color=LOW, markersize=3.6, label="low fidelity")
        axis.set(ylim=(-0.4, 1.4), xlim=(-1, len(truth)), yticks=[0, 1], ylabel=f"machine {machine.name}")
    axes[0, 0].legend(frameon=False, fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    axes[-1, 0].set_xlabel("tick")
    return figure

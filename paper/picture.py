"""One stream of the numerical experiment as the paper draws it: readings and prediction above, run length below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mfbocd.detector.detector import Detector
from mfbocd.policy import Always

from .numerical import HAZARD, MODEL, WAYS, Array, Followed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

LOW, HIGH, GREEN, INK = "#E69F00", "#0072B2", "#009E73", "#222222"
FAINTEST = 1e-4  # probability at which the heat map fades into the background
DEVIATIONS = 2.0  # half width of the band


@dataclass(frozen=True)
class Drawing:
    """What is drawn of one stream under one rule."""

    title: str
    table: Array
    theta: Array
    followed: Followed


def deviation(table: Array, followed: Followed) -> Array:
    """Standard deviation of the next full-fidelity reading after each tick, in the order `followed` read them."""
    detector = Detector(MODEL, WAYS, HAZARD, policy=Always(), prune=None, alarm=None)
    found = []
    for readings, j in zip(table, followed.choice.tolist(), strict=True):
        detector.update(float(readings[j]), WAYS[j].name)
        found.append(detector.variance)
    return np.sqrt(found)


def data(axis: Axes, drawing: Drawing) -> None:
    """Readings by fidelity, low orange crosses and high blue circles, with the predicted mean and its band."""
    choice, mean = drawing.followed.choice, drawing.followed.mean
    tick = np.arange(len(choice))
    x = drawing.table[tick, choice]
    width = DEVIATIONS * deviation(drawing.table, drawing.followed)
    # the prediction made after tick t is of tick t + 1
    axis.fill_between(tick + 1, mean - width, mean + width, color="#dddddd", lw=0, label="2 sd band")
    for j, marker, colour in ((0, "x", LOW), (1, "o", HIGH)):
        mine = choice == j
        label = f"{WAYS[j].name} fidelity"
        axis.plot(tick[mine], x[mine], marker, color=colour, mfc="none", ms=3.2, mew=0.8, label=label)
    axis.plot(tick, drawing.theta, color=GREEN, lw=1.4, ls="--", label="true theta")
    axis.plot(tick + 1, mean, color=INK, lw=1.1, label="predicted mean")
    axis.set_title(f"{drawing.title}: {100 * (choice == 0).mean():.0f} % low", fontsize=10)
    axis.set_ylabel("reading")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)


def run_length(axis: Axes, drawing: Drawing) -> QuadMesh:
    """The filtered run-length posterior on a log scale."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    weight = drawing.followed.posterior.T / (1.0 - HAZARD)
    seen = int(np.flatnonzero((weight >= FAINTEST).any(axis=1))[-1]) + 1
    edges = np.arange(weight.shape[1] + 1) - 0.5
    mesh = axis.pcolormesh(
        edges,
        np.arange(seen + 1),
        weight[:seen],
        norm=LogNorm(FAINTEST, 1.0),
        cmap=colormaps["Greys"].with_extremes(under="white"),
        rasterized=True,
    )
    axis.set_ylabel("run length")
    axis.set_xlabel("tick")
    axis.spines[["top", "right"]].set_visible(False)
    return mesh

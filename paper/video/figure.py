"""The picture of the video stream: readings, predictive means, run-length posteriors, and frames if given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from .runs import Engine, Play
from .scene import Scene
from .segmentation import Mask, Pixels

LOW, HIGH, BLACK, GREEN = "#D55E00", "#0072B2", "#000000", "#009E73"
FLOOR = 1e-4  # smallest probability that the heat map shows


class Shown(NamedTuple):
    """A frame with the mask of each network."""

    tick: int
    image: Pixels
    high: Mask
    low: Mask


def figure(
    scene: Scene, plays: Sequence[tuple[str, Play]], engine: Engine, strip: Sequence[Shown] = (), wanted: int = -1
) -> Figure:
    """One column per run: readings and predictive mean above, run-length posterior below; frames on top.

    The masks of `strip` show the class `wanted`; thick frames mark what the last run read.
    """
    made = Figure(figsize=(13.0, 5.6 + (3.6 if strip else 0.0)), layout="constrained")
    bottom: Any = made
    if strip:
        parts: Any = made.subfigures(2, 1, height_ratios=(3.6, 5.6))
        _frames(parts[0], strip, plays[-1][1], wanted)
        bottom = parts[1]
    axes = bottom.subplots(2, len(plays), sharex=True, sharey="row", height_ratios=(1.0, 1.4), squeeze=False)
    for column, (name, one) in enumerate(plays):
        _readings(axes[0, column], one, name, engine)
        shown = _posterior(axes[1, column], scene, one)
    axes[0, 0].set_ylabel("reading, predictive mean")
    axes[1, 0].set_ylabel("run length (frames)")
    bottom.colorbar(shown, ax=list(axes[1]), label="P(run length)", pad=0.01)
    handles = [
        *axes[0, -1].get_legend_handles_labels()[0],
        *axes[1, 0].get_legend_handles_labels()[0],
    ]
    bottom.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return made


def _readings(axes: Axes, one: Play, name: str, engine: Engine) -> None:
    ticks = np.arange(len(one.x))
    for index, colour, mark, label in ((0, LOW, "x", "low fidelity"), (1, HIGH, "o", "high fidelity")):
        read = one.choice == index
        style: dict[str, Any] = {"facecolors": "none", "edgecolors": colour} if mark == "o" else {"color": colour}
        axes.scatter(ticks[read], one.x[read], s=16, marker=mark, linewidths=0.9, label=label, **style)
    shown = slice(1 if engine == "as published" else 0, None)  # that code starts from e times the prior mean
    axes.plot(ticks[shown], one.mean[shown], color=BLACK, linewidth=1.2, label="predictive mean")
    axes.set_title(name, fontsize=10)
    axes.set_ylim(-0.08, 1.08)


def _posterior(axes: Axes, scene: Scene, one: Play) -> Any:
    deep = int(np.flatnonzero((one.posterior > FLOOR).any(axis=0)).max()) + 1
    shown = axes.imshow(
        np.maximum(one.posterior[:, :deep].T, FLOOR),
        origin="lower",
        aspect="auto",
        cmap="Greys",
        norm=LogNorm(FLOOR, 1.0),
        interpolation="nearest",
        extent=(-0.5, len(one.x) - 0.5, -0.5, deep - 0.5),
    )
    for i, change in enumerate(scene.changes):
        axes.axvline(change, color=GREEN, linewidth=0.8, linestyle="--", label="" if i else "change by the label")
    axes.set_xlabel("frame")
    return shown


def _frames(top: Any, strip: Sequence[Shown], active: Play, wanted: int) -> None:
    axes = top.subplots(3, len(strip), squeeze=False)
    for column, shown in enumerate(strip):
        rows = (shown.image, shown.high == wanted, shown.low == wanted)
        for row, (name, picture) in enumerate(zip(("frame", "high", "low"), rows, strict=True)):
            ax = axes[row, column]
            if row:
                colour = np.array([0x00, 0x72, 0xB2] if row == 1 else [0xD5, 0x5E, 0x00])
                ax.imshow(np.where(picture[:, :, None], colour, 235).astype(np.uint8), aspect="auto")
            else:
                ax.imshow(picture, aspect="auto")
                ax.set_title(f"frame {shown.tick}", fontsize=9)
            used = row == (2 if active.choice[shown.tick] == 0 else 1)
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set_linewidth(3.0 if used else 0.3)
            if column == 0:
                ax.set_ylabel(name)

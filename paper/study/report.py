"""The frontier as a table and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .families import FAMILIES
from .follow import Scores
from .frontier import DEFAULT, Cell, to_csv

NEAR = 0.65  # share of low fidelity the summary is read at
NAMES = {"rate": "paper's rate", "margin": "margin", "soft": "soft", "net": "net", "budget": "budget"}


def write(out: Path, cells: Sequence[Cell], setting: dict[str, Any]) -> None:
    """frontier.csv, frontier.md and frontier.png."""
    to_csv(out / "frontier.csv", cells)
    (out / "frontier.md").write_text(markdown(cells, setting))
    picture(out / "frontier.png", cells)


def markdown(cells: Sequence[Cell], setting: dict[str, Any]) -> str:
    """The case for the default in one page: what it saves at equal spend, and every case where it loses."""
    families = list(dict.fromkeys(c.family for c in cells))
    command = f"mfbocd study frontier --streams {setting['streams']} --seed {setting['seed']}"
    lines = [
        "# What choosing saves",
        "",
        f"Made by `{command}`. Every policy runs on the same streams as a coin with",
        "the same share of low-fidelity readings, so both spend the same. MSE and L1 are to the run that reads high",
        "fidelity at every tick; a ratio below 1 is better than the coin. `net` has its price tuned on held-out",
        "streams (on the stream itself where there is only one), `budget` learns it from a cold start. In brackets",
        "two standard errors.",
        "",
        f"## At about {NEAR:.0%} low fidelity: MSE ratio / L1 ratio",
        "",
    ]
    here = {(c.family, c.rule, c.gain): c for c in cells if c.target == NEAR}
    columns = list(dict.fromkeys((c.rule, c.gain) for c in cells))
    lines.append("| stream | " + " | ".join(f"{NAMES[r]}, {g}" for r, g in columns) + " |")
    lines.append("|---" * (len(columns) + 1) + "|")
    for f in families:
        row = [_ratios(here.get((f, r, g))) for r, g in columns]
        lines.append(f"| {f} | " + " | ".join(row) + " |")
    lines += ["", f"## The default, {NAMES[DEFAULT[0]]} with the {DEFAULT[1]} gain, at every level", ""]
    lines.append("| stream | low | MSE | ratio | L1 | ratio | MSE to truth | delay | false in 1000 |")
    lines.append("|---" * 9 + "|")
    mine = [c for c in cells if (c.rule, c.gain) == DEFAULT]
    for c in mine:
        lines.append(
            f"| {c.family} | {c.low:.0%} | {_both(c, 'mse')} | {c.ratio['mse']:.2f} | {_both(c, 'l1')} | "
            f"{c.ratio['l1']:.2f} | {_both(c, 'truth')} | {_both(c, 'delay')} | {_both(c, 'false')} |"
        )
    lines += ["", "## Where the default loses", ""]
    lines += [
        "Every measure whose mean is worse than the coin's, with two standard errors of the paired difference (of a",
        "single stream: two standard deviations of one run of the coin). `false` is false alarms in 1000 ticks.",
        "",
    ]
    lost = [(c, m) for c in mine for m in Scores.MEASURES if c.difference[m][0] > 0.0]
    for clear in (True, False):
        lines += ["**Beyond that error:**" if clear else "**Within it:**", ""]
        rows = [(c, m) for c, m in lost if (c.difference[m][0] > c.difference[m][1]) == clear]
        for c, m in rows:
            lines.append(
                f"- {c.family} at {c.low:.0%} low: {m} by {c.difference[m][0]:.3g} +- {c.difference[m][1]:.2g}"
            )
        lines += [] if rows else ["- none"]
        lines.append("")
    lines += ["## The streams", ""]
    lines += [f"- `{f}`: {FAMILIES[f]().about}" for f in families]
    return "\n".join(lines) + "\n"


def _ratios(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.ratio['mse']:.2f} / {cell.ratio['l1']:.2f}"


def _both(cell: Cell, measure: str) -> str:
    mean, error = cell.scores[measure]
    shown = f"{mean:.3g}" if math.isnan(error) else f"{mean:.3g} ({error:.2g})"
    return f"{shown}, coin {cell.coin[measure][0]:.3g}"


def picture(path: Path, cells: Sequence[Cell]) -> None:
    """Error to the all-high run against the share of low fidelity: the default, the paper's rule and a coin."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    families = list(dict.fromkeys(c.family for c in cells))
    columns = min(4, len(families))
    rows = -(-len(families) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.1 * columns, 2.7 * rows), squeeze=False)
    drawn = (
        (("budget", "joint"), "default: budget, joint gain", "#0072B2", "o-"),
        (("net", "joint"), "net, price tuned", "#56B4E9", "s--"),
        (("rate", "run_length"), "the paper's rate rule", "#D55E00", "^-"),
    )
    for axis, family in zip(axes.ravel(), families, strict=False):
        coin = sorted({(c.low, c.coin["mse"][0]) for c in cells if c.family == family})
        axis.plot([100 * x for x, _ in coin], [y for _, y in coin], color="0.45", lw=2.5, label="coin, equal spend")
        for key, label, colour, style in drawn:
            mine = sorted((c.low, *c.scores["mse"]) for c in cells if c.family == family and (c.rule, c.gain) == key)
            if mine:
                x, y, e = zip(*mine, strict=True)
                errors = [0.0 if math.isnan(v) else v for v in e]
                axis.errorbar(
                    [100 * v for v in x], y, yerr=errors, fmt=style, color=colour, label=label, ms=4, lw=1.4
                )
        axis.set_title(family, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
    for axis in axes.ravel()[len(families) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("read at low fidelity, %")
    for axis in axes[:, 0]:
        axis.set_ylabel("MSE to all-high run")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(path, dpi=150)
    plt.close(figure)

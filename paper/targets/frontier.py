"""Error against spend for every gain and rule: what choosing saves, and where it does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mfbocd.belief.gains import GAINS, Gain
from mfbocd.policy import Random

from ..framework import Job, Number, Options, Picture, Result, Row, grid, target
from ..streams.families import FAMILIES
from ..streams.follow import Scores, follow
from ..streams.tuning import policies_for

Array = NDArray[np.float64]
Runs = list[dict[str, list[float]]]
"""Scores of random choice as JSON holds them, one item per share in SHARES."""

LEVELS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
SHARES = tuple(np.round(np.linspace(0.05, 0.99, 20), 4).tolist())
"""Shares of low fidelity at which random choice is run; between them its scores are interpolated per stream."""
RULES = {"rate": "paper's rate", "margin": "margin", "soft": "soft", "net": "net", "budget": "budget"}
DEFAULT = ("budget", "joint")
NEAR = 0.65  # share of low fidelity of the summary
FULL, QUICK = 200, 20


@dataclass(frozen=True)
class Cell:
    """One policy at one spend on one family: means over streams, with two standard errors."""

    family: str
    rule: str
    gain: str
    target: float
    low: float
    streams: int
    scores: dict[str, tuple[float, float]]
    """Mean and two standard errors of each measure."""
    random: dict[str, tuple[float, float]]
    """The same of random choice at the same share of low fidelity on the same streams."""
    difference: dict[str, tuple[float, float]]
    """Mean of the paired differences, with two standard errors."""

    def ratio(self, measure: str) -> float:
        """Mean divided by that of random choice."""
        random = self.random[measure][0]
        return self.scores[measure][0] / random if random else math.nan


@target("frontier", paper="ours", title="What choosing saves", takes=("family",), page="frontier")
def frontier(options: Options) -> Result:
    """Every rule, gain, family and level, in parts."""
    families = options.given.get("family") or tuple(FAMILIES)
    unknown = [f for f in families if f not in FAMILIES]
    if unknown:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {unknown[0]!r}")
    streams, seed = options.count(FULL, QUICK), options.seed
    levels: tuple[float, ...] = LEVELS
    rules, gains = tuple(RULES), GAINS
    if options.quick:
        rules, gains, levels = ("rate", "budget"), ("run_length", "joint"), (0.35, 0.65)
    draws: dict[str, Job] = {f"random-{f}": (random_runs, (f, streams, seed)) for f in families}
    runs = options.finish(draws, {"streams": streams})
    groups: dict[str, Job] = {
        f"{f}-{r}-{g}": (group, (f, r, g, levels, streams, seed, runs[f"random-{f}"]))
        for f in families
        for r in rules
        for g in gains
    }
    found = options.finish(groups, {"streams": streams, "levels": levels})
    return page([Cell(**cell) for name in groups for cell in found[name]], streams, seed)


# --- the experiment ----------------------------------------------------------------------------------------------


def random_runs(name: str, streams: int, seed: int) -> Runs:
    """Scores of random choice at every share in SHARES."""
    family = FAMILIES[name]()
    drawn = family.streams(streams, first=seed)
    runs = [follow(family, Random([p, 1.0 - p]), drawn, seed) for p in SHARES]
    return [{m: getattr(r, m).tolist() for m in ("low", *Scores.MEASURES)} for r in runs]


def at_share(runs: Runs, share: float, measure: str) -> Array:
    """The score of random choice on each stream, at a share between two that were run."""
    shares = np.array([np.mean(r["low"]) for r in runs])
    rows = np.array([r[measure] for r in runs])
    i = int(np.clip(np.searchsorted(shares, share), 1, len(shares) - 1))
    t = float(np.clip((share - shares[i - 1]) / (shares[i] - shares[i - 1]), 0.0, 1.0))
    return np.asarray((1.0 - t) * rows[i - 1] + t * rows[i])


def group(
    name: str, rule: str, gain: Gain, levels: Sequence[float], streams: int, seed: int, runs: Runs
) -> list[dict[str, Any]]:
    """The cells of one rule and gain on one family, compared with the `runs` of random choice."""
    family = FAMILIES[name]()
    # a rule without random draws does the same on every copy of a single stream
    count = 1 if family.single and rule != "soft" else streams
    drawn = family.streams(count, first=seed)
    cells = []
    for level, policy in zip(levels, policies_for(family, rule, gain, levels, count), strict=True):
        scores = follow(family, policy, drawn, seed)
        low = float(scores.low.mean())
        mine, random, difference = {}, {}, {}
        for measure in Scores.MEASURES:
            a, b = getattr(scores, measure), at_share(runs, low, measure)
            mine[measure], random[measure] = _mean(a), _mean(b)
            mean, error = _mean(a - b)
            # on a single stream there is one run, compared with the spread of single random runs
            difference[measure] = (mean, error * math.sqrt(b.size) if count == 1 else error)
        cells.append(asdict(Cell(name, rule, gain, level, low, count, mine, random, difference)))
    return cells


def _mean(values: Array) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if known.size == 0:
        return math.nan, math.nan
    found = Number.mean_of(known)
    return found.value, math.nan if found.two_se is None else found.two_se


# --- the page ----------------------------------------------------------------------------------------------------


def page(cells: Sequence[Cell], streams: int, seed: int) -> Result:
    """What the default saves at equal spend, and every case where it does not."""
    families = list(dict.fromkeys(c.family for c in cells))
    protocol = [
        f"{streams} streams of each family with seeds from {seed} on. Every policy runs on the same streams as "
        "random choice with the same share of low-fidelity readings, so both spend the same.",
        "MSE and L1 are to the run that reads high fidelity at every tick; a ratio below 1 is better than random. In "
        "brackets two standard errors.",
        "`net` has its price tuned on held-out streams (on the stream itself if there is only one), `budget` learns "
        "it from a cold start.",
        *(f"`{f}`: {FAMILIES[f]().about}." for f in families),
    ]
    caption = "MSE to the run that always reads high fidelity, against the share of low fidelity."
    mine = [c for c in cells if (c.rule, c.gain) == DEFAULT]
    sections = [
        (f"At about {NEAR:.0%} low fidelity: MSE ratio / L1 ratio", near(cells)),
        (f"The default, {RULES[DEFAULT[0]]} with the {DEFAULT[1]} gain, at every level", levels_table(mine)),
        ("Where the default is worse than random", losses(mine)),
    ]
    picture = Picture("frontier", caption, figure(cells))
    return Result(headline(mine), protocol, figures=[picture], sections=sections, more=rows(cells))


def headline(cells: Sequence[Cell]) -> str:
    """How often the default is better than random choice, and worse."""
    parts = []
    for what, measure in (("MSE", "mse"), ("L1", "l1")):
        gaps = [c.difference[measure] for c in cells]
        better = sum(mean < -error for mean, error in gaps)
        worse = sum(mean > error for mean, error in gaps)
        parts.append(
            f"{what} on {better} of {len(gaps)} combinations of stream and level and a higher one on {worse}"
        )
    ratio = np.median([c.ratio("mse") for c in cells if c.target == NEAR])
    return (
        f"At equal spend the default has, beyond two standard errors, a lower {', a lower '.join(parts)}. At about "
        f"{NEAR:.0%} low fidelity its MSE is {ratio:.2f} times that of random choice (median over streams)."
    )


def near(cells: Sequence[Cell]) -> str:
    """Every rule and gain at one level."""
    here = {
        (c.family, c.rule, c.gain): f"{c.ratio('mse'):.2f} / {c.ratio('l1'):.2f}" for c in cells if c.target == NEAR
    }
    columns = list(dict.fromkeys((c.rule, c.gain) for c in cells))
    families = dict.fromkeys(c.family for c in cells)
    return grid(
        ["stream", *(f"{RULES[r]}, {g}" for r, g in columns)],
        [[f, *(here.get((f, r, g), "") for r, g in columns)] for f in families],
    )


def levels_table(cells: Sequence[Cell]) -> str:
    """All measures of these cells."""

    def both(cell: Cell, measure: str) -> str:
        mean, error = cell.scores[measure]
        shown = f"{mean:.3g}" if math.isnan(error) else f"{mean:.3g} ({error:.2g})"
        return f"{shown}, random {cell.random[measure][0]:.3g}"

    lines = []
    for c in cells:
        line = [c.family, f"{c.low:.0%}", both(c, "mse"), f"{c.ratio('mse'):.2f}", both(c, "l1")]
        lines.append([*line, f"{c.ratio('l1'):.2f}", *(both(c, m) for m in ("truth", "delay", "false"))])
    heads = ["stream", "low", "MSE", "ratio", "L1", "ratio", "MSE to truth", "delay", "false in 1000"]
    return grid(heads, lines)


def losses(cells: Sequence[Cell]) -> str:
    """Every measure of these cells that is worse than that of random choice."""
    lines = [
        "Every measure whose mean is worse than that of random choice, with two standard errors of the paired "
        "difference (of a single stream: two standard deviations of one random run). `false` is false alarms in 1000 "
        "ticks.",
        "",
    ]
    lost = [(c, m) for c in cells for m in Scores.MEASURES if c.difference[m][0] > 0.0]
    for clear in (True, False):
        lines += ["**Beyond that error:**" if clear else "**Within it:**", ""]
        found = [(c, m) for c, m in lost if (c.difference[m][0] > c.difference[m][1]) == clear]
        for c, m in found:
            mean, error = c.difference[m]
            lines.append(f"- {c.family} at {c.low:.0%} low: {m} by {mean:.3g} +- {error:.2g}")
        lines += ["" if found else "- none\n"]
    return "\n".join(lines)


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Every number of every cell."""
    made = []
    for c in cells:
        keys = {"family": c.family, "rule": c.rule, "gain": c.gain, "target_low": c.target, "low": f"{c.low:.4f}"}
        for kind, of in (("", c.scores), (" of random", c.random), (" minus random", c.difference)):
            made += [Row(f"{m}{kind}", Number(*of[m]), keys=keys | {"streams": c.streams}) for m in Scores.MEASURES]
    return made


def figure(cells: Sequence[Cell]) -> Figure:
    """MSE against the share of low fidelity: the default, the paper's rule and random choice."""
    families = list(dict.fromkeys(c.family for c in cells))
    columns = min(4, len(families))
    made = Figure(figsize=(3.1 * columns, 2.7 * -(-len(families) // columns)), layout="constrained")
    axes = made.subplots(-(-len(families) // columns), columns, squeeze=False)
    drawn = (
        (("budget", "joint"), "default: budget, joint gain", "#0072B2", "o-"),
        (("net", "joint"), "net, price tuned", "#56B4E9", "s--"),
        (("rate", "run_length"), "the paper's rate rule", "#D55E00", "^-"),
    )
    for axis, family in zip(axes.flat, families, strict=False):
        random = sorted({(100 * c.low, c.random["mse"][0]) for c in cells if c.family == family})
        axis.plot(*zip(*random, strict=True), color="0.45", lw=2.5, label="random, equal spend")
        for key, label, colour, style in drawn:
            mine = sorted(
                (100 * c.low, *c.scores["mse"]) for c in cells if (c.family, c.rule, c.gain) == (family, *key)
            )
            if mine:
                x, y, e = zip(*mine, strict=True)
                axis.errorbar(x, y, yerr=np.nan_to_num(e), fmt=style, color=colour, label=label, ms=4, lw=1.4)
        axis.set_title(family, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
    for axis in axes.flat[len(families) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("read at low fidelity, %")
    for axis in axes[:, 0]:
        axis.set_ylabel("MSE to all-high run")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return made

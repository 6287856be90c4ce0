"""The page of an ablation, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .ablation import QUICK, TRIALS, TUNING, Column, Measured, Pair
from .target import AGREES, Number, Options, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = (("MSE", "mse"), ("L1", "l1"))
RULES = (("random", "#E69F00", "x"), ("information", "#0072B2", "o"))
GREY = "0.45"

CAPTION = (
    "Error to the run that always reads high fidelity, against the share of low fidelity: squares as printed in the "
    "paper, lines ours, bars two standard errors."
)

Named = tuple[str, Column]
"""A column with the name its engine goes by on the page."""


def rows(columns: Sequence[Named]) -> list[Row]:
    """Every number the paper printed, beside ours."""
    made = []
    for name, column in columns:
        setting = column.setting
        for (what, measure), text in zip(MEASURES, setting.only, strict=True):
            keys = {"LF %": "all", "low": "100.0 %", "rule": "LF only"}
            made.append(Row(what, _mean(column.only, measure), Number.printed(text), name, keys))
        for pair, (_, *texts) in zip(column.pairs, setting.printed, strict=True):
            for i, (what, measure) in enumerate(MEASURES):
                for k, (rule, *_) in enumerate(RULES):
                    got = getattr(pair, rule)
                    keys = {"LF %": str(pair.level), "low": f"{100 * np.mean(got.low):.1f} %", "rule": rule}
                    made.append(Row(what, _mean(got, measure), Number.printed(texts[2 * i + k]), name, keys))
    return made


def headline(columns: Sequence[Named]) -> str:
    """Where information does not beat the coin, and how near the paper's numbers are."""
    told, near = [], []
    failed = False
    for name, column in columns:
        parts = [f"in {what} {_against(column.pairs, measure)}" for what, measure in MEASURES]
        told.append(f"{name}: {', '.join(parts)}")
        failed |= any(p.outcome(m) != "better" for p in column.pairs for _, m in MEASURES)
        made = rows([(name, column)])
        near.append(f"{sum((row.apart or 0.0) <= AGREES for row in made)} of {len(made)} ({name})")
    verb = "does not beat a coin everywhere" if failed else "beats a coin at every level"
    return f"Information-based switching {verb}. {'; '.join(told)}. Printed numbers that agree: {', '.join(near)}."


def _against(pairs: Sequence[Pair], measure: str) -> str:
    """At how many levels the rule is better and worse than the coin beyond two standard errors."""
    outcomes = {p.level: p.outcome(measure) for p in pairs}
    better = sum(found == "better" for found in outcomes.values())
    worse = [str(level) for level, found in outcomes.items() if found == "worse"]
    text = f"better at {better} of {len(outcomes)} levels"
    return f"{text} and worse at {len(worse)} ({', '.join(worse)} % low)" if worse else text


def paired(columns: Sequence[Named]) -> tuple[str, str]:
    """The rule less the coin on the same streams, as a section."""
    lines = [
        "Mean of information less random on the same streams, with two standard errors; negative is better.",
        "",
        "| engine | LF % | low | weight | MSE | | L1 | |",
        "|---" * 8 + "|",
    ]
    for name, column in columns:
        for pair in column.pairs:
            cells = [name, str(pair.level), f"{100 * pair.low:.1f} %", f"{pair.weight:.3f}"]
            for _, measure in MEASURES:
                cells += [str(pair.difference(measure)), pair.outcome(measure)]
            lines.append("| " + " | ".join(cells) + " |")
    return "Information against the coin, paired", "\n".join(lines)


def listed(column: Column) -> str:
    """A column's numbers alone, as a small table."""
    lines = ["| LF % | rule | MSE | L1 |", "|---|---|---|---|", _line("all", "LF only", column.only)]
    for pair in column.pairs:
        lines += [_line(str(pair.level), rule, getattr(pair, rule)) for rule, *_ in RULES]
    return "\n".join(lines)


def _line(level: str, rule: str, got: Measured) -> str:
    return f"| {level} | {rule} | {_mean(got, 'mse')} | {_mean(got, 'l1')} |"


def _mean(got: Measured, measure: str) -> Number:
    return Number.mean_of(getattr(got, measure))


def protocol(options: Options) -> tuple[str, ...]:
    """What holds for both ablations."""
    trials = options.count(TRIALS, QUICK)
    return (
        f"{trials} trials (streams with seeds from {options.seed} on). The paper varied costs it does not list; here "
        "each printed share of low fidelity is reached by the weight of the high fidelity (costs 1 and 2), tuned by "
        f"bisection on {min(TUNING, trials)} held-out streams with other seeds. The share it then came to on the "
        "trials is in the table.",
        "Rule: argmax of weight * gain / cost, the gain that of the run length.",
        "Random: a coin tossed at every tick, biased to the share of low fidelity the rule came to on that stream.",
        "LF only: ordinary BOCD (zeta = 1) on low-fidelity data. Errors are to ordinary BOCD on high-fidelity data.",
        "MSE is of the predicted means. L1 is the paper's, over the whole matrix of the NEXT point's run length, "
        "whose first column is the hazard in both runs: 1 - h times the L1 of the filtered posteriors, which the "
        "library reports.",
        "In brackets two standard errors over trials. Information and the coin are compared by paired differences.",
    )


def figure(columns: Sequence[Named]) -> Figure:
    """MSE and L1 against the share of low fidelity: the paper's points and ours, a column an engine."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(1.0 + 3.9 * len(columns), 6.4), layout="constrained")
    axes = made.subplots(2, len(columns), sharex=True, sharey="row", squeeze=False)
    for k, (name, column) in enumerate(columns):
        for i, (what, measure) in enumerate(MEASURES):
            _panel(axes[i, k], column, i, measure)
            axes[i, 0].set_ylabel(f"{what} to the all-high run")
        axes[0, k].set_title(name, fontsize=11)
        axes[1, k].set_xlabel("read at low fidelity, %")
    for i in range(2):
        axes[i, 0].set_ylim(bottom=0.0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return made


def _panel(axis: Axes, column: Column, i: int, measure: str) -> None:
    printed = column.setting.printed
    axis.axhline(_mean(column.only, measure).value, color=GREY, lw=1.4, label="LF only, ours")
    theirs = Number.printed(column.setting.only[i]).value
    axis.axhline(theirs, color=GREY, lw=1.2, ls=":", label="LF only, the paper's")
    for k, (rule, colour, marker) in enumerate(RULES):
        got = [getattr(pair, rule) for pair in column.pairs]
        ours = [_mean(g, measure) for g in got]
        shares = [100.0 * float(np.mean(g.low)) for g in got]
        errors = [n.two_se or 0.0 for n in ours]
        values = [n.value for n in ours]
        axis.errorbar(shares, values, errors, color=colour, marker=marker, lw=1.5, ms=5, label=f"{rule}, ours")
        shown = [Number.printed(str(row[1 + 2 * i + k])) for row in printed]
        axis.errorbar(
            [row[0] for row in printed],
            [n.value for n in shown],
            [n.two_se or 0.0 for n in shown],
            color=colour,
            marker="s",
            ls="none",
            ms=6,
            mfc="none",
            elinewidth=0.8,
            alpha=0.75,
            label=f"{rule}, the paper's",
        )
    axis.grid(alpha=0.25)

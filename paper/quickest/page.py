"""Tables, figure and findings of the quickest study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..framework import Number, Row, grid
from .cells import Cell, found, short
from .fleets import CASES
from .rules import FOCUS, OPTIMAL, OURS, RULES, SUSPICIOUS, WATCHING
from .settings import MAIN, ON_OR_OFF, PLAIN, SHOWN

DUTIES = (0.5, 0.25, 0.1)
BEFORE = "budget, joint"
"""The default that the study compares ours with."""


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _shown(cells: Sequence[Cell], setting: str, changes: Sequence[str], rule: str, spend: float) -> str:
    """Delays for several kinds of change, separated by slashes."""
    mine = [found(cells, setting, change, rule, spend) for change in changes]
    return " / ".join("-" if cell is None else cell.shown for cell in mine) if any(mine) else ""


# --- findings ----------------------------------------------------------------------------------------------------


def headline(cells: Sequence[Cell]) -> str:
    """Ours against random choice for 1 sd in the main setting, at 5 and 20 %."""
    parts = []
    for spend in (0.05, 0.2):
        mine, random = (found(cells, MAIN, "1 sd", rule, spend) for rule in (OURS, "random"))
        if mine is not None and random is not None:
            a, b = mine.number.value, random.number.value
            parts.append(f"{a:.0f} ticks at {spend:.0%} spend (random choice {b:.0f})")
    if not parts:
        return "This run does not have the rules of the summary."
    return f"`{OURS}` finds a change of one standard deviation after {' and '.join(parts)}."


def summary_table(cells: Sequence[Cell]) -> str:
    """Ours relative to random choice and to the CUSUM that knows both levels, for 1 sd at 5 and 20 %."""
    rows = []
    for setting in SHOWN:
        for spend in (0.05, 0.2):
            names = (OURS, "random", OPTIMAL.name, SUSPICIOUS.name)
            mine, random, best, knows = (found(cells, setting, "1 sd", rule, spend) for rule in names)
            if mine is None or random is None or best is None or knows is None:
                continue
            a, b = mine.number.value, random.number.value
            rows.append(
                [
                    f"{SHOWN[setting]}, {spend:.0%} spend",
                    mine.shown,
                    f"{a / b:.2f}",
                    f"{best.number.value / b:.2f}",
                    f"{mine.overall.value / random.overall.value:.2f}",
                    f"{a / knows.number.value:.2f}",
                ]
            )
    if not rows:
        return "This run does not have the rules of the summary."
    heads = ["1 sd", "delay", "/ random", "optimal rule / random", "/ random, all streams", "/ CUSUM"]
    return (
        f"Mean delay of `{OURS}`, and its ratio to that of random choice and of the CUSUM. The CUSUM and the optimal "
        "rule know both levels. The ratio of the optimal rule is the smallest that any rule can reach (see "
        "Protocol).\n\n" + grid(heads, rows)
    )


def findings(cells: Sequence[Cell]) -> str:
    """Ours against every rule without knowledge of the change, counted."""
    lines = []
    for rule in _rivals(cells):
        signs = [gap.sign for _, _, gap in _gaps(cells, rule)]
        if signs:
            lines.append(
                f"- Against {rule}: quicker on {signs.count(-1)} of {len(signs)} combinations of setting, change and "
                f"spend, slower on {signs.count(1)}, no clear difference on {signs.count(0)}."
            )
    for rule in (OPTIMAL.name, SUSPICIOUS.name, "2E-CUSUM, both levels known", "DE-CuSum, both levels known"):
        ratios = [mine.number.value / other.number.value for mine, other, _ in _gaps(cells, rule)]
        if ratios:
            low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
            lines.append(
                f"- Against {rule} (users do not know them): our delay is {middle:.2f} times its delay (median of "
                f"{len(ratios)} combinations; {low:.2f} to {high:.2f})."
            )
    return "\n".join(lines) if lines else "- none"


def _rivals(cells: Sequence[Cell]) -> list[str]:
    """Rules at a chosen spend that know no more than ours."""
    here = _distinct(cell.rule for cell in cells if cell.setting != "fleet")
    return [r for r in here if r != OURS and not RULES[r].oracle and not RULES[r].fixed]


def _gaps(cells: Sequence[Cell], rule: str) -> list[tuple[Cell, Cell, Number]]:
    """Ours, the other rule and the difference, wherever both reach the same spend."""
    pairs = []
    for mine in cells:
        if mine.rule == OURS:
            other = found(cells, mine.setting, mine.change, rule, mine.spend)
            if other is not None and not other.off:
                pairs.append((mine, other, mine.later_than(other)))
    return pairs


def losses(cells: Sequence[Cell]) -> str:
    """Every combination in which ours is slower than a rule that knows no more."""
    lines = [
        "Every combination in which our delay is longer than that of a rule without knowledge of the change, by more "
        "than two standard errors (of the paired difference and of both thresholds).",
        "",
    ]
    lost = []
    for rule in _rivals(cells):
        for mine, other, gap in _gaps(cells, rule):
            if gap.sign > 0:
                where = f"{mine.setting}, {mine.change}, {mine.spend:.0%} spend"
                lost.append(
                    f"- {where}: {short(mine.number)} against {short(other.number)} of {rule}, later by {short(gap)}"
                )
    return "\n".join([*lines, *(sorted(lost) or ["- none"])])


# --- tables ------------------------------------------------------------------------------------------------------


def main_table(cells: Sequence[Cell], setting: str, *, overall: bool = False) -> str:
    """Every rule at every spend for changes of 1 and 2 sd; the rules without a choice stand alone below."""
    here = [c for c in cells if c.setting == setting and c.change in ("1 sd", "2 sd")]
    spends = sorted({c.spend for c in here} - {1.0})
    rows, alone = [], []
    for rule in _distinct(c.rule for c in here):
        line = []
        for spend in [1.0] if RULES[rule].fixed else spends:
            pair = [found(here, setting, change, rule, spend) for change in ("1 sd", "2 sd")]
            line.append(" / ".join("-" if c is None else short(c.overall) if overall else c.shown for c in pair))
        if RULES[rule].fixed:
            alone.append(f"{rule[0].upper()}{rule[1:]}: {line[0]}.")
        else:
            rows.append([rule, *line])
    return grid(["1 sd / 2 sd", *(f"{s:.0%}" for s in spends)], rows) + "\n\n" + " ".join(alone)


def check_table(cells: Sequence[Cell], setting: str) -> str:
    """Measured ticks per false alarm and measured spend of one setting."""
    here = [c for c in cells if c.setting == setting and c.change == "1 sd"]
    spends = sorted({c.spend for c in here} - {1.0})
    rows = []
    for rule in _distinct(c.rule for c in here):
        mine = [found(here, setting, "1 sd", rule, s) for s in ([1.0] if RULES[rule].fixed else spends)]
        rows.append([rule, *("-" if c is None else f"{c.every:.0f}, {c.spent:.1%}" for c in mine)])
    rows = [[*row, *[""] * (len(spends) + 1 - len(row))] for row in rows]
    return grid(["ticks per false alarm, spend", *(f"{s:.0%}" for s in spends)], rows)


def settings_table(cells: Sequence[Cell], spend: float) -> str:
    """Every setting and change at one spend."""
    here = [c for c in cells if c.setting not in (*ON_OR_OFF, "fleet") and c.spend in (spend, 1.0)]
    rules = _distinct(c.rule for c in here)
    rows = [
        [f"{setting}, {change}", *(_shown(here, setting, [change], rule, spend) for rule in rules)]
        for setting, change in dict.fromkeys((c.setting, c.change) for c in here)
    ]
    return grid(["setting, change", *rules], rows)


def declared_table(rates: Sequence[tuple[str, str, float, float]]) -> str:
    """Ticks per false alarm of settings and rules whose threshold was calibrated in the main setting."""
    columns = list(dict.fromkeys((setting, spend) for setting, _, spend, _ in rates))
    found = {(setting, rule, spend): every for setting, rule, spend, every in rates}
    table = grid(
        ["ticks per false alarm", *(f"{setting}, {spend:.0%}" for setting, spend in columns)],
        [
            [rule, *(f"{found[setting, rule, spend]:.0f}" for setting, spend in columns)]
            for rule in dict.fromkeys(rule for _, rule, _, _ in rates)
        ],
    )
    return (
        "The thresholds are those of the main setting, where zeta and hazard are correct and a false alarm comes "
        f"every 2,000 ticks.\n\n{table}"
    )


def duty_table(cells: Sequence[Cell]) -> str:
    """Read or skip: our policies with and without knowledge of the change, next to DE-CuSum."""
    names = {"duty": "", "duty-known": "; level before, direction and size known"}
    rows = []
    for setting, added in names.items():
        here = [c for c in cells if c.setting == setting]
        for rule in _distinct(c.rule for c in here):
            if setting != "duty" and RULES[rule].oracle:
                continue  # the same as above
            mine = [found(here, setting, "0.75 sd", rule, d) for d in DUTIES]
            shown = ["" if c is None else c.shown for c in mine]
            every = shown[0] if RULES[rule].fixed else ""
            rows.append([f"{rule}{added}", *(["", "", ""] if every else shown), every])
    return grid(["0.75 sd up, one false alarm per 500 ticks", *(f"{d:.0%} read" for d in DUTIES), "all read"], rows)


def plain_table(cells: Sequence[Cell]) -> str:
    """Every tick read: the filter, FOCuS, and the CUSUM that knows everything."""
    here = [c for c in cells if c.setting == PLAIN]
    changes = _distinct(c.change for c in here)
    rules = [r for r in ("always high", FOCUS.name, WATCHING.name) if any(c.rule == r for c in here)]
    rows = [[rule, *(_shown(here, PLAIN, [change], rule, 1.0) for change in changes)] for rule in rules]
    return grid(["every tick read, one false alarm per 500 ticks", *changes], rows)


def fleet_table(cells: Sequence[Cell]) -> str:
    """The four cases of the fleet."""
    here = [c for c in cells if c.setting == "fleet"]
    rows = []
    for rule in _distinct(c.rule for c in here):
        mine = [next((c for c in here if (c.rule, c.change) == (rule, case)), None) for case in CASES]
        every = next(c.every for c in here if c.rule == rule)
        rows.append([rule, *("-" if c is None else short(c.number) for c in mine), f"{every:.0f}"])
    return grid(["policy; statistic", *CASES, "ticks per false alarm"], rows)


def rows_of(cells: Sequence[Cell]) -> list[Row]:
    """Every number of every cell."""
    made = []
    for c in cells:
        keys = {"setting": c.setting, "change": c.change, "rule": c.rule, "spend": c.spend, "streams": len(c.delays)}
        missed = Number(float(np.mean(~np.array(c.clear))))
        numbers = {
            "delay": c.number,
            "delay of all streams": c.overall,
            "not clear": missed,
            "spent": Number(c.spent),
        }
        numbers |= {"ticks per false alarm": Number(c.every), "threshold": Number(c.threshold)}
        made += [Row(what, number, keys=keys) for what, number in numbers.items()]
    return made


# --- figure ------------------------------------------------------------------------------------------------------

LINES = (
    ("random", "random choice", "0.45", "o-"),
    (BEFORE, "budget, joint gain", "#56B4E9", "s-"),
    ("budget, change", "budget, change gain", "#0072B2", "o-"),
    (SUSPICIOUS.name, "CUSUM that knows both levels", "#009E73", "^--"),
)


def figure(cells: Sequence[Cell]) -> Figure:
    """Delay against spend for changes of 1 and 2 sd; reading everything at high fidelity is a line."""
    made = Figure(figsize=(8.4, 3.4), layout="constrained")
    axes = made.subplots(1, 2)
    for axis, change in zip(axes, ("1 sd", "2 sd"), strict=True):
        here = [c for c in cells if c.setting == MAIN and c.change == change]
        for rule, label, colour, style in LINES:
            mine = sorted((100.0 * c.spend, c.number.value, c.number.two_se or 0.0) for c in here if c.rule == rule)
            if mine:
                x, y, e = zip(*mine, strict=True)
                axis.errorbar(x, y, yerr=e, fmt=style, color=colour, label=label, ms=4, lw=1.5)
        high = next((c.number.value for c in here if c.rule == "always high"), None)
        if high is not None:
            axis.axhline(high, color="0.2", lw=1.0, ls=":", label="always high fidelity")
        axis.set_title(f"change of {change.replace('sd', 'noise sd')}", fontsize=10)
        axis.set_xlabel("read at high fidelity, %")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("mean delay, ticks")
    handles, labels = axes[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return made

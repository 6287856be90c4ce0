"""What both ablation tables share: the information-based rule, random choice of the same share, low fidelity only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mfbocd.datasets import simulate
from mfbocd.models import Bernoulli, Gaussian
from mfbocd.policy import Always, InformationRate
from mfbocd.policy.fidelity import Fidelity

from . import published
from .framework import Number, Options, Row, grid
from .published import CORRECTED, LIBRARY, PUBLISHED
from .streams.families import Drawn, Family
from .streams.follow import Choices, Scores, follow, planned
from .streams.tuning import HELD_OUT, reach, share_low

Array = NDArray[np.float64]

PAPER = "library, paper's predictive"
PARTS = {LIBRARY: "library", PAPER: "predictive", PUBLISHED: "published", CORRECTED: "corrected"}
"""Names of the engines' parts."""
LOW, HIGH = Fidelity("low", 0.5, 1.0), Fidelity("high", 1.0, 2.0)
PLAIN = Fidelity("low", 1.0, 1.0)
"""Low-fidelity data treated as if it were high: ordinary BOCD."""
TRIALS, QUICK, TUNING = 200, 16, 100
MEASURES = (("MSE", "mse"), ("L1", "l1"))
RULES = (("random", "#E69F00", "x"), ("information", "#0072B2", "o"))
GREY = "0.45"
CAPTION = (
    "Error to the run that always reads high fidelity, against the share of low fidelity: squares as printed in the "
    "paper, lines ours, bars two standard errors."
)


@dataclass(frozen=True)
class Setting:
    """A table of the paper: the experiment, and what was printed."""

    model: Gaussian | Bernoulli
    ticks: int
    hazard: float
    only: tuple[str, str]
    """Low fidelity only, as printed: MSE and L1."""
    printed: Sequence[tuple[int, str, str, str, str]]
    """LF %, MSE of random, of information, L1 of random, of information."""
    engines: Sequence[str] = (LIBRARY, PUBLISHED)

    def draw(self, engine: str, seed: int) -> Drawn:
        """One stream of two columns, low then high."""
        settings: dict[str, Any] = {"ticks": self.ticks, "seed": seed}
        if isinstance(self.model, Bernoulli):
            made = simulate.bernoulli(self.model, (LOW, HIGH), self.hazard, low="miss", **settings)
        elif engine in (PUBLISHED, CORRECTED):
            made = published.draw(self.model, (LOW, HIGH), self.hazard, **settings)
        else:
            made = simulate.gaussian(self.model, (LOW, HIGH), self.hazard, **settings)
        return Drawn(made.table, made.theta, made.changes)

    def family(self, engine: str) -> Family:
        """The streams of an engine, with the model it filters them with."""
        model = self.model
        if engine == PAPER and isinstance(model, Bernoulli):
            model = Bernoulli(model.alpha, model.beta, predictive="paper")
        return Family("ablation", model, (LOW, HIGH), self.hazard, lambda seed: self.draw(engine, seed))


class Measured(NamedTuple):
    """One number per trial."""

    low: list[float]
    """Share of ticks read at low fidelity."""
    mse: list[float]
    l1: list[float]

    def mean(self, measure: str) -> Number:
        """Over the trials."""
        return Number.mean_of(getattr(self, measure))


@dataclass(frozen=True)
class Pair:
    """Information and random choice at one level, on the same streams."""

    level: int
    weight: float
    """Of the high fidelity, tuned on held-out streams."""
    information: Measured
    random: Measured

    @property
    def low(self) -> float:
        """Share of low fidelity that the rule used."""
        return float(np.mean(self.information.low))

    def difference(self, measure: str) -> Number:
        """Information minus random, paired by stream."""
        return Number.mean_of(np.subtract(getattr(self.information, measure), getattr(self.random, measure)))

    def outcome(self, measure: str) -> str:
        """Of the rule against random choice, beyond two standard errors."""
        return ("no different", "worse", "better")[self.difference(measure).sign]


@dataclass(frozen=True)
class Column:
    """One engine's table."""

    engine: str
    setting: Setting
    only: Measured
    """Low fidelity only."""
    pairs: Sequence[Pair]
    """In the order of the printed levels."""

    def levels(self, measure: str, outcome: str) -> list[int]:
        """Those at which the rule is "better" or "worse" than random choice."""
        return [pair.level for pair in self.pairs if pair.outcome(measure) == outcome]


Named = tuple[str, Column]
"""A column with the name of its engine on the page."""


# --- the experiment ----------------------------------------------------------------------------------------------


def compare(setting: Setting, options: Options) -> list[Column]:
    """Every engine at every level, in parts."""
    trials = options.count(TRIALS, QUICK)
    tuning = min(TUNING, trials)
    engines = [PUBLISHED] if options.as_published else list(setting.engines)
    work: dict[str, Any] = {}
    for engine in engines:
        name = f"{PARTS[engine]}-{setting.ticks}"
        work[f"{name}-only"] = (low_only, (setting, engine, trials, options.seed))
        for level, *_ in setting.printed:
            work[f"{name}-{level}"] = (at_level, (setting, engine, level, trials, tuning, options.seed))
    found = iter(options.finish(work, {"trials": trials, "tuning": tuning, "setting": repr(setting)}).values())
    columns = []
    for engine in engines:
        only = Measured(**next(found))
        pairs = []
        for (level, *_), part in zip(setting.printed, found, strict=False):
            pairs.append(Pair(level, part["weight"], Measured(**part["information"]), Measured(**part["random"])))
        columns.append(Column(engine, setting, only, pairs))
    return columns


def at_level(setting: Setting, engine: str, level: int, trials: int, tuning: int, seed: int) -> dict[str, Any]:
    """Tune the weight on held-out streams, run the rule on the trials, then random choice with each trial's share."""
    held_out = [setting.draw(engine, HELD_OUT + seed + i).table for i in range(tuning)]
    weight = reach(lambda w: _share(setting, engine, w, held_out), level / 100.0)
    drawn = [setting.draw(engine, seed + i) for i in range(trials)]
    if engine in (PUBLISHED, CORRECTED):
        chosen = [_chosen(setting, engine, weight, d.table) for d in drawn]
        mine = given_choices(setting, engine, chosen, drawn, seed)
    else:
        mine = _measured(setting, follow(setting.family(engine), InformationRate([1.0, weight]), drawn, seed))
    random = given_choices(setting, engine, random_choices(mine.low, setting.ticks, level, seed), drawn, seed)
    return {"weight": weight, "information": mine._asdict(), "random": random._asdict()}


def low_only(setting: Setting, engine: str, trials: int, seed: int) -> dict[str, list[float]]:
    """Ordinary BOCD on low-fidelity data."""
    drawn = [setting.draw(engine, seed + i) for i in range(trials)]
    if engine in (PUBLISHED, CORRECTED):
        low = np.zeros(setting.ticks, dtype=np.int64)
        return _published(setting, engine, drawn, (1.0, 1.0), [low] * trials)._asdict()
    family = replace(setting.family(engine), fidelities=(PLAIN, HIGH))
    return _measured(setting, follow(family, Always("low"), drawn, seed))._asdict()


def random_choices(shares: Sequence[float], ticks: int, level: int, seed: int) -> list[Choices]:
    """For each trial, low fidelity at each tick with the probability given for that trial."""
    draws = [np.random.default_rng((seed + i, level)).random(ticks) for i in range(len(shares))]
    return [np.where(u < share, 0, 1).astype(np.int64) for u, share in zip(draws, shares, strict=True)]


def given_choices(
    setting: Setting, engine: str, choices: list[Choices], drawn: Sequence[Drawn], seed: int
) -> Measured:
    """Choices made beforehand."""
    if engine in (PUBLISHED, CORRECTED):
        return _published(setting, engine, drawn, (LOW.zeta, HIGH.zeta), choices)
    return _measured(setting, follow(setting.family(engine), planned(np.stack(choices, axis=1)), drawn, seed))


def _share(setting: Setting, engine: str, weight: float, tables: Sequence[Array]) -> float:
    if engine in (PUBLISHED, CORRECTED):
        return float(np.mean([_chosen(setting, engine, weight, table) == 0 for table in tables]))
    return share_low(setting.family(engine), InformationRate([1.0, weight]), tables)


def _chosen(setting: Setting, engine: str, weight: float, table: Array) -> Choices:
    zeta, rates = (LOW.zeta, HIGH.zeta), (1.0 / LOW.cost_of(), weight / HIGH.cost_of())
    correct = engine == CORRECTED
    return published.run(setting.model, zeta, setting.hazard, table, rates=rates, correct=correct).choice


def _published(
    setting: Setting, engine: str, drawn: Sequence[Drawn], zeta: tuple[float, float], choices: Sequence[Choices]
) -> Measured:
    tables = [d.table for d in drawn]
    errors = published.errors(setting.model, zeta, setting.hazard, tables, choices, correct=engine == CORRECTED)
    return Measured([float(np.mean(c == 0)) for c in choices], *errors)


def _measured(setting: Setting, scores: Scores) -> Measured:
    """With the paper's L1, of the run length of the next point: 1 - h times that of the filtered posterior."""
    l1 = (1.0 - setting.hazard) * scores.l1
    return Measured(scores.low.tolist(), scores.mse.tolist(), l1.tolist())


# --- the page ----------------------------------------------------------------------------------------------------


def rows(columns: Sequence[Named]) -> list[Row]:
    """Every number the paper printed, with ours."""
    made = []
    for name, column in columns:
        setting = column.setting
        for (what, measure), text in zip(MEASURES, setting.only, strict=True):
            keys = {"LF %": "all", "low": "100.0 %", "rule": "LF only"}
            made.append(Row(what, column.only.mean(measure), Number.printed(text), name, keys))
        for pair, (_, *texts) in zip(column.pairs, setting.printed, strict=True):
            for i, (what, measure) in enumerate(MEASURES):
                for k, (rule, *_) in enumerate(RULES):
                    got = getattr(pair, rule)
                    keys = {"LF %": str(pair.level), "low": f"{100 * np.mean(got.low):.1f} %", "rule": rule}
                    made.append(Row(what, got.mean(measure), Number.printed(texts[2 * i + k]), name, keys))
    return made


def headline(columns: Sequence[Named]) -> str:
    """Where information does not beat random choice, and how many of the paper's numbers agree."""
    parts, near = [], []
    failed = False
    for name, column in columns:
        outcomes = []
        for what, measure in MEASURES:
            better, worse = (column.levels(measure, outcome) for outcome in ("better", "worse"))
            text = f"in {what} better at {len(better)} of {len(column.pairs)} levels"
            text += f" and worse at {len(worse)} ({', '.join(map(str, worse))} % low)" if worse else ""
            outcomes.append(text)
            failed |= len(better) < len(column.pairs)
        parts.append(f"{name}: {', '.join(outcomes)}")
        made = rows([(name, column)])
        near.append(f"{sum(row.agrees for row in made)} of {len(made)} ({name})")
    verb = "does not always beat" if failed else "always beats"
    first = f"Information-based switching {verb} the random baseline at equal spend."
    return f"{first} {'; '.join(parts)}. Printed numbers that agree: {', '.join(near)}."


def paired(columns: Sequence[Named]) -> tuple[str, str]:
    """The rule minus random choice on the same streams, as a section."""
    cells = []
    for name, column in columns:
        for pair in column.pairs:
            line: list[object] = [name, pair.level, f"{100 * pair.low:.1f} %", f"{pair.weight:.3f}"]
            for _, measure in MEASURES:
                line += [pair.difference(measure), pair.outcome(measure)]
            cells.append(line)
    text = "Mean of information minus random on the same streams, with two standard errors; negative is better."
    table = grid(["engine", "LF %", "low", "weight", "MSE", "", "L1", ""], cells)
    return "Information against random choice, paired", f"{text}\n\n{table}"


def listed(column: Column) -> str:
    """A column's numbers alone, as a small table."""
    runs = [("all", "LF only", column.only)]
    runs += [(str(pair.level), rule, getattr(pair, rule)) for pair in column.pairs for rule, *_ in RULES]
    cells = [[level, rule, *(got.mean(measure) for _, measure in MEASURES)] for level, rule, got in runs]
    return grid(["LF %", "rule", "MSE", "L1"], cells)


def protocol(options: Options) -> tuple[str, ...]:
    """What holds for both ablations."""
    trials = options.count(TRIALS, QUICK)
    return (
        f"{trials} trials (streams with seeds from {options.seed} on). The paper varied costs that it does not list; "
        "here each printed share of low fidelity is reached by the weight of the high fidelity (costs 1 and 2), "
        f"tuned by bisection on {min(TUNING, trials)} held-out streams with other seeds. The table gives the share "
        "that resulted on the trials.",
        "Rule: argmax of weight * gain / cost, with the gain about the run length.",
        "Random: at every tick low fidelity with a probability equal to the share of low fidelity that the rule used "
        "on that stream.",
        "LF only: ordinary BOCD (zeta = 1) on low-fidelity data. Errors are to ordinary BOCD on high-fidelity data.",
        "MSE is of the predicted means. L1 is the paper's, over the whole matrix of the NEXT point's run length, "
        "whose first column is the hazard in both runs: 1 - h times the L1 of the filtered posteriors, which the "
        "library reports.",
        "In brackets two standard errors over trials. Information and random are compared by paired differences.",
    )


def figure(columns: Sequence[Named]) -> Figure:
    """MSE and L1 against the share of low fidelity: the paper's points and ours, one column per engine."""
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
    axis.axhline(column.only.mean(measure).value, color=GREY, lw=1.4, label="LF only, ours")
    theirs = Number.printed(column.setting.only[i]).value
    axis.axhline(theirs, color=GREY, lw=1.2, ls=":", label="LF only, the paper's")
    for k, (rule, colour, marker) in enumerate(RULES):
        got = [getattr(pair, rule) for pair in column.pairs]
        ours = [g.mean(measure) for g in got]
        shares = [100.0 * float(np.mean(g.low)) for g in got]
        style: dict[str, Any] = {"color": colour, "marker": marker, "lw": 1.5, "ms": 5, "label": f"{rule}, ours"}
        axis.errorbar(shares, [n.value for n in ours], [n.two_se or 0.0 for n in ours], **style)
        shown = [Number.printed(str(row[1 + 2 * i + k])) for row in printed]
        style = {
            "color": colour,
            "marker": "s",
            "ls": "none",
            "ms": 6,
            "mfc": "none",
            "elinewidth": 0.8,
            "alpha": 0.75,
        }
        levels, values = [row[0] for row in printed], [n.value for n in shown]
        axis.errorbar(levels, values, [n.two_se or 0.0 for n in shown], label=f"{rule}, the paper's", **style)
    axis.grid(alpha=0.25)

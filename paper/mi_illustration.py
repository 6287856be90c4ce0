"""Choosing by information rate beside a coin: the paper's `fig:mi_illustration`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mfbocd.policy import InformationRate

from . import picture
from .numerical import (
    CORRECTED,
    ENGINES,
    TICKS,
    Scores,
    beside_coin,
    coin,
    coin_of,
    column,
    difference,
    engines,
    follow,
    held,
    many,
    stream,
)
from .target import Number, Options, Result, Row, Target, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL, QUICK = 200, 20
NAMES = {coin_of("rate"): "random", "rate": "information rate"}
MEASURES = ("MSE", "L1")


def run(options: Options) -> Result:
    """Both on many streams, and one stream drawn."""
    count = options.count(FULL, QUICK)
    made = engines(options)
    found = many(options, count, dict.fromkeys(made))
    figures = []
    for engine in (each for each in made if each != CORRECTED):
        stem = "mi-illustration" if engine == "library" else "mi-illustration-as-published"
        save(_figure(options.seed, engine), options, stem)
        figures.append((stem, _caption(engine)))
    return Result(
        headline=headline(found),
        protocol=protocol(options, count),
        rows=rows(found),
        figures=figures,
        sections=[("The claim", claim(found)), *([("Why the engines differ", WHY)] if len(made) > 1 else [])],
    )


def rows(found: Mapping[str, Sequence[Scores]]) -> list[Row]:
    """Share of low fidelity, MSE and L1 of both, and their paired differences."""
    told = []
    for engine, scores in found.items():
        for rule, name in NAMES.items():
            low = Number.mean_of(100.0 * column(scores, rule, "low"))
            told.append(Row("low fidelity, %", low, engine=engine, keys={"switching": name}))
            for measure in MEASURES:
                value = Number.mean_of(column(scores, rule, measure))
                told.append(Row(measure, value, engine=engine, keys={"switching": name}))
        for measure in MEASURES:
            gap = difference(scores, coin_of("rate"), "rate", measure)
            told.append(Row(measure, gap, engine=engine, keys={"switching": "random minus information rate"}))
    return told


def headline(found: Mapping[str, Sequence[Scores]]) -> str:
    """First the engines under which choosing does not beat the coin."""
    told = [(engine, *beside_coin(scores, "rate", "information-based switching")) for engine, scores in found.items()]
    told.sort(key=lambda item: item[1])
    return " ".join(f"{engine.capitalize()}: {sentence}" for engine, _, sentence in told)


def claim(found: Mapping[str, Sequence[Scores]]) -> str:
    """What the paper says, and whether it held."""
    lines = [
        'The paper says of its one stream that random switching "has both higher MSE and L1 metrics". Over many:',
        "",
    ]
    for engine, scores in found.items():
        for measure in MEASURES:
            gap = difference(scores, coin_of("rate"), "rate", measure)
            better = (column(scores, coin_of("rate"), measure) > column(scores, "rate", measure)).mean()
            lines.append(
                f"- {engine}, {measure}: the claim {held(gap)}; random minus information rate is {gap}, above 0 on "
                f"{better:.0%} of {len(scores)} streams."
            )
    return "\n".join(lines)


WHY = """\
As published, precisions are overwritten before the means are updated, so with both fidelities in a run every mean is
weighted with a wrong precision; `published, correct updates` is the same code without this mistake. The gain is
integrated with 50 Gauss-Hermite nodes that are never moved to where the data are, so it is right only for readings
near 0; the predicted mean mixes statistics that know the newest reading with run-length weights that do not; and
streams are drawn with standard deviations where the paper writes variances, so theta spreads more (sd 3, not the root
of 3) and low fidelity is noisier (sd 2, not the root of 2) than the model believes."""


def protocol(options: Options, count: int) -> list[str]:
    """What was done."""
    return [
        "Prior N(1, 3), noise variance 1, zeta 1/2 and 1, costs 1 and 2, "
        f"{TICKS} ticks, hazard 1/100, as the paper says; exact filter.",
        f"{count} streams, seeds {options.seed} to {options.seed + count - 1}; the figure shows the first. The "
        "paper shows one stream and prints no numbers.",
        "Information rate: gain about the run length divided by cost, weights 1 (the paper names none).",
        "Random: on each stream low fidelity with a probability equal to the share that information rate used on "
        "that stream, as the paper does.",
        "MSE: of the predicted mean to that of the run that always reads high fidelity. L1: sum of absolute "
        "differences of the paper's whole run-length matrices, which hold the run length of the next point; it is "
        "1 - h times the L1 of the filtered posteriors.",
        "Low fidelity has variance 2: the paper writes the variance zeta / sigma^2, which would be less, and says "
        "that low fidelity has twice the variance.",
        "In brackets two standard errors over streams; differences are paired.",
    ]


def _caption(engine: str) -> str:
    return (
        f"One stream ({engine}): random switching (left) and information rate (right). Orange crosses are low, blue "
        "circles high fidelity; grey is the band of two standard deviations about the predicted mean. Below, the "
        "run-length posterior on a log scale."
    )


def _figure(seed: int, engine: str) -> Figure:
    from matplotlib.figure import Figure

    drawn = stream(seed, ENGINES[engine])
    active = follow(drawn.table, InformationRate(), seed, engine)
    random = follow(drawn.table, coin(float((active.choice == 0).mean())), seed, engine)
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row", gridspec_kw={"height_ratios": [1.2, 1]})
    for above, below, title, followed in zip(*axes, NAMES.values(), (random, active), strict=True):
        drawing = picture.Drawing(title, drawn.table, drawn.theta, followed)
        picture.data(above, drawing)
        mesh = picture.run_length(below, drawing)
    for axis in axes[:, 1]:
        axis.set_ylabel("")
    figure.colorbar(mesh, ax=axes, label="probability", extend="min", shrink=0.42, anchor=(0.0, 0.0), pad=0.01)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False, fontsize=9
    )
    return figure


TARGET = Target(
    name="mi-illustration",
    paper="fig:mi_illustration",
    title="Choosing by information rate beside a coin",
    run=run,
)

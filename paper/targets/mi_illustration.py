"""Information rate against random choice: the paper's `fig:mi_illustration`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from mfbocd.policy import InformationRate

from .. import numerical
from ..framework import Number, Options, Picture, Result, Row, target
from ..numerical import ENGINES, Scores, beside_random, column, difference, outcome, random_of
from ..published import CORRECTED, LIBRARY

FULL, QUICK = 200, 20
NAMES = {random_of("rate"): "random", "rate": "information rate"}
MEASURES = ("MSE", "L1")
WHY = """\
As published, precisions are overwritten before the means are updated, so with both fidelities in a run every mean is
weighted with a wrong precision; `published, correct updates` is the same code without this mistake. The gain is
integrated with 50 Gauss-Hermite nodes that are never moved to where the data are, so it is accurate only for readings
near 0. The predicted mean combines statistics that include the newest reading with run-length weights that do not.
Streams are drawn with standard deviations where the paper writes variances, so theta varies more (sd 3, not the root
of 3) and low fidelity is noisier (sd 2, not the root of 2) than the model assumes."""


@target("mi-illustration", paper="fig:mi_illustration", title="Information rate against random choice")
def mi_illustration(options: Options) -> Result:
    """Both on many streams, and one stream drawn."""
    count = options.count(FULL, QUICK)
    engines = numerical.engines(options)
    found = numerical.many(options, count, dict.fromkeys(engines))
    pictures = []
    for engine in (each for each in engines if each != CORRECTED):
        stem = "mi-illustration" if engine == LIBRARY else "mi-illustration-as-published"
        pictures.append(Picture(stem, _caption(engine), _figure(options.seed, engine)))
    return Result(
        headline(found),
        protocol(options, count),
        rows(found),
        pictures,
        [("The claim", claim(found)), *([("Why the engines differ", WHY)] if len(engines) > 1 else [])],
    )


def rows(found: Mapping[str, Sequence[Scores]]) -> list[Row]:
    """Share of low fidelity, MSE and L1 of both, and their paired differences."""
    made = []
    for engine, scores in found.items():
        for rule, name in NAMES.items():
            low = Number.mean_of(100.0 * column(scores, rule, "low"))
            made.append(Row("low fidelity, %", low, engine=engine, keys={"switching": name}))
            for measure in MEASURES:
                value = Number.mean_of(column(scores, rule, measure))
                made.append(Row(measure, value, engine=engine, keys={"switching": name}))
        for measure in MEASURES:
            gap = difference(scores, random_of("rate"), "rate", measure)
            made.append(Row(measure, gap, engine=engine, keys={"switching": "random minus information rate"}))
    return made


def headline(found: Mapping[str, Sequence[Scores]]) -> str:
    """First the engines under which the rule does not beat the random baseline."""
    parts = [(e, *beside_random(scores, "rate", "information-based switching")) for e, scores in found.items()]
    parts.sort(key=lambda item: item[1])
    return " ".join(f"{engine.capitalize()}: {sentence}" for engine, _, sentence in parts)


def claim(found: Mapping[str, Sequence[Scores]]) -> str:
    """The paper's statement, and whether it holds."""
    lines = [
        'The paper says of its one stream that random switching "has both higher MSE and L1 metrics". Over many:',
        "",
    ]
    for engine, scores in found.items():
        for measure in MEASURES:
            gap = difference(scores, random_of("rate"), "rate", measure)
            better = (column(scores, random_of("rate"), measure) > column(scores, "rate", measure)).mean()
            lines.append(
                f"- {engine}, {measure}: the claim {outcome(gap)}; random minus information rate is {gap}, above 0 "
                f"on {better:.0%} of {len(scores)} streams."
            )
    return "\n".join(lines)


def protocol(options: Options, count: int) -> list[str]:
    """How it was done."""
    return [
        "Prior N(1, 3), noise variance 1, zeta 1/2 and 1, costs 1 and 2, "
        f"{numerical.TICKS} ticks, hazard 1/100, as in the paper; exact filter.",
        f"{count} streams, seeds {options.seed} to {options.seed + count - 1}; the figure shows the first. The "
        "paper shows one stream and prints no numbers.",
        "Information rate: gain about the run length divided by cost, weights 1 (the paper gives none).",
        "Random: on each stream low fidelity with a probability equal to the share that information rate used on "
        "that stream, as in the paper.",
        "MSE: of the predicted mean to that of the run that always reads high fidelity. L1: sum of absolute "
        "differences of the paper's whole run-length matrices, which hold the run length of the next point; it is "
        "1 - h times the L1 of the filtered posteriors.",
        "Low fidelity has variance 2: the paper writes the variance zeta / sigma^2, which would be smaller, and says "
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
    drawn = numerical.stream(seed, ENGINES[engine])
    active = numerical.follow(drawn.table, InformationRate(), seed, engine)
    random = numerical.follow(drawn.table, numerical.random(float((active.choice == 0).mean())), seed, engine)
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row", gridspec_kw={"height_ratios": [1.2, 1]})
    for above, below, title, followed in zip(*axes, NAMES.values(), (random, active), strict=True):
        drawing = numerical.Drawing(title, drawn.table, drawn.theta, followed)
        numerical.draw_data(above, drawing)
        mesh = numerical.draw_run_length(below, drawing)
    for axis in axes[:, 1]:
        axis.set_ylabel("")
    numerical.add_colour_bar(figure, mesh, axes)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False, fontsize=9
    )
    return figure

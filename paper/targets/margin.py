"""The margin rule, and how often it switches: the paper's `fig:margin_comparison`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from mfbocd.policy import Margin

from .. import numerical
from ..framework import Job, Number, Options, Picture, Result, Row, target
from ..numerical import ENGINES, TICKS, Scores, beside_random, column, difference, outcome, random_of

FULL, QUICK = 200, 20
HELD_OUT, HELD_OUT_QUICK = 32, 8  # streams
RULES = {
    "margin": "margin",
    "rate": "information rate",
    "default": "default (budget, joint gain)",
    random_of("rate"): "random at information rate's share",
    random_of("margin"): "random at margin's share",
    random_of("default"): "random at the default's share",
}
BARS = {
    "margin": ("margin", "#D55E00"),
    "rate": ("information rate", "#0072B2"),
    random_of("rate"): ("random", "#8a8a8a"),
    "default": ("default", "#009E73"),
}


@target("margin", paper="fig:margin_comparison", title="The margin rule, and how often it switches")
def margin(options: Options) -> Result:
    """Tune the margin, run the rules, draw one stream."""
    count, held_out = options.count(FULL, QUICK), HELD_OUT_QUICK if options.quick else HELD_OUT
    engines = numerical.engines(options)
    work: dict[str, Job] = {
        f"tune-{numerical.stem(e)}": (numerical.tune, (options.seed, held_out, TICKS, e)) for e in engines
    }
    tuned = dict(zip(engines, options.finish(work, {"held": held_out, "ticks": TICKS}).values(), strict=True))
    found = numerical.many(options, count, {e: (t["delta"], numerical.spend(t["wanted"])) for e, t in tuned.items()})
    caption = (
        f"One stream under the margin rule ({engines[0]}): orange crosses are low, blue circles high fidelity; "
        "below, the run-length posterior on a log scale. Right: the fraction of ticks at which the choice differs "
        "from the tick before, with two standard errors."
    )
    return Result(
        headline(found),
        protocol(options, count, held_out, tuned),
        rows(found),
        [Picture("margin", caption, _figure(options.seed, engines[0], tuned[engines[0]]["delta"], found))],
        [("The claim", claim(found))],
    )


def rows(found: Mapping[str, Sequence[Scores]]) -> list[Row]:
    """Every measure of every rule, and by how much the margin rule switches more."""
    made = []
    for engine, scores in found.items():
        for rule, name in RULES.items():
            for measure, label, unit in (
                ("low", "low fidelity, %", 100.0),
                ("switching", "ticks that switch, %", 100.0),
                ("MSE", "MSE", 1.0),
                ("L1", "L1", 1.0),
            ):
                value = Number.mean_of(unit * column(scores, rule, measure))
                made.append(Row(label, value, engine=engine, keys={"rule": name}))
        for rule in ("rate", random_of("margin"), "default"):
            gap = difference(scores, "margin", rule, "switching")
            percent = Number(100.0 * gap.value, None if gap.two_se is None else 100.0 * gap.two_se)
            keys = {"rule": f"margin minus {RULES[rule]}"}
            made.append(Row("ticks that switch, %", percent, engine=engine, keys=keys))
    return made


def headline(found: Mapping[str, Sequence[Scores]]) -> str:
    """First the rules that do not beat the random baseline, then whether the margin rule switches more often."""
    parts = []
    for engine, scores in found.items():
        for rule, name in (("margin", "the margin rule"), ("rate", "the rate rule")):
            won, sentence = beside_random(scores, rule, name)
            parts.append((won, f"{engine.capitalize()}: {sentence}"))
    parts.sort(key=lambda item: item[0])
    return " ".join([sentence for _, sentence in parts] + [_switching(e, scores) for e, scores in found.items()])


def _switching(engine: str, scores: Sequence[Scores]) -> str:
    rate = {rule: Number.mean_of(100.0 * column(scores, rule, "switching")) for rule in ("margin", "rate")}
    gap = difference(scores, "margin", "rate", "switching")
    word = ("about as often as", "more often than", "less often than")[gap.sign]
    return (
        f"{engine.capitalize()}: the margin rule switches {word} the rate rule, at {rate['margin']} % of the ticks "
        f"against {rate['rate']} %: the paper's claim that it switches more {outcome(gap)}."
    )


def claim(found: Mapping[str, Sequence[Scores]]) -> str:
    """The paper's statement, and whether it holds."""
    statement = (
        'The paper says that with a margin "the model would frequently switch between fidelities" and that the '
        '"information rate was more stable"; it gives no numbers.'
    )
    lines = [statement, ""]
    for engine, scores in found.items():
        more = (column(scores, "margin", "switching") > column(scores, "rate", "switching")).mean()
        lines.append(f"- {_switching(engine, scores)} It switches more on {more:.0%} of {len(scores)} streams.")
    return "\n".join(lines)


def protocol(options: Options, count: int, held_out: int, tuned: Mapping[str, Mapping[str, float]]) -> list[str]:
    """How it was done."""
    lines = [
        f"Prior N(1, 3), noise variance 1, zeta 1/2 and 1, costs 1 and 2, {TICKS} ticks, hazard 1/100, exact "
        f"filter: the setting of `mi-illustration`. {count} streams, seeds {options.seed} to "
        f"{options.seed + count - 1}.",
        "Margin: low fidelity if the two gains about the run length differ by less than delta, else high. The "
        "paper does not give delta.",
    ]
    for engine, t in tuned.items():
        lines.append(
            f"Delta ({engine}) is {t['delta']:.4g} nats, by bisection on {held_out} held-out streams: there the "
            f"margin rule reads {t['reached']:.1%} at low fidelity, the rate rule {t['wanted']:.1%}."
        )
    return [
        *lines,
        "Each rule has its own random baseline, which reads low fidelity with the probability that the rule used on "
        "the same stream; the figure shows that of the rate rule. The default is the library's `Budget` with the "
        "joint gain at the rate rule's average spend on the held-out streams; it learns its price on each stream "
        "from a cold start and is not part of the paper.",
        "Switching: the fraction of ticks, without the first, at which the choice differs from the tick before. "
        "Random choice with share p switches at 2 p (1 - p) of them.",
        "MSE and L1 are to the run that always reads high fidelity; L1 compares the paper's run-length matrices, "
        "and is 1 - h times that of the filtered posteriors.",
        "As published: means weighted with precisions that were overwritten too early, gains from 50 quadrature "
        "nodes fixed near 0, the predicted mean from stale weights, streams drawn with standard deviations in place "
        "of variances. Published, correct updates: the same without the first of these. The default's choices are "
        "the library's under every engine.",
        "In brackets two standard errors over streams; differences are paired.",
    ]


def _figure(seed: int, engine: str, delta: float, found: Mapping[str, Sequence[Scores]]) -> Figure:
    drawn = numerical.stream(seed, ENGINES[engine])
    followed = numerical.follow(drawn.table, Margin(delta), seed, engine)
    drawing = numerical.Drawing("margin", drawn.table, drawn.theta, followed)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplot_mosaic(
        [["data", "bars"], ["lengths", "bars"]], width_ratios=[2.1, 1], height_ratios=[1.2, 1]
    )
    numerical.draw_data(axes["data"], drawing)
    axes["data"].sharex(axes["lengths"])
    axes["data"].tick_params(labelbottom=False)
    mesh = numerical.draw_run_length(axes["lengths"], drawing)
    numerical.add_colour_bar(figure, mesh, [axes["data"], axes["lengths"]])
    figure.legend(
        *axes["data"].get_legend_handles_labels(), loc="outside upper left", ncols=5, frameon=False, fontsize=9
    )
    axis = axes["bars"]
    for i, (of, scores) in enumerate(found.items()):
        for j, (rule, (name, colour)) in enumerate(BARS.items()):
            value = Number.mean_of(100.0 * column(scores, rule, "switching"))
            place = i * (len(BARS) + 1) + j
            axis.bar(place, value.value, yerr=value.two_se, color=colour, capsize=3, label=None if i else name)
        axis.text(
            i * (len(BARS) + 1) + 1.5,
            -0.02,
            of.replace(" ", "\n"),
            ha="center",
            va="top",
            transform=axis.get_xaxis_transform(),
        )
    axis.set_xticks([])
    axis.set_ylabel("ticks that switch, %")
    axis.set_ylim(bottom=0, top=1.25 * float(np.max(axis.get_ylim())))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)
    return figure

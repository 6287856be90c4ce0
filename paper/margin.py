"""The margin rule, and how often it switches: the paper's `fig:margin_comparison`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mfbocd.policy import Margin

from . import picture
from .numerical import (
    ENGINES,
    TICKS,
    Scores,
    beside_coin,
    coin_of,
    column,
    difference,
    engines,
    follow,
    held,
    many,
    sign,
    spend,
    stem,
    stream,
    tune,
)
from .study.parts import Job
from .target import Number, Options, Result, Row, Target, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL, QUICK = 200, 20
HELD, HELD_QUICK = 32, 8
RULES = {
    "margin": "margin",
    "rate": "information rate",
    "default": "default (budget, joint gain)",
    coin_of("rate"): "coin at information rate's share",
    coin_of("margin"): "coin at margin's share",
    coin_of("default"): "coin at the default's share",
}
BARS = {
    "margin": ("margin", "#D55E00"),
    "rate": ("information rate", "#0072B2"),
    coin_of("rate"): ("coin", "#8a8a8a"),
    "default": ("default", "#009E73"),
}


def run(options: Options) -> Result:
    """The margin is tuned, the rules are run, one stream is drawn."""
    count = options.count(FULL, QUICK)
    count_held = HELD_QUICK if options.quick else HELD
    made = engines(options)
    tuning: dict[str, Job] = {f"tune-{stem(e)}": (tune, (options.seed, count_held, TICKS, e)) for e in made}
    tuned = dict(zip(made, options.finish(tuning, {"held": count_held, "ticks": TICKS}).values(), strict=True))
    found = many(options, count, {e: (t["delta"], spend(t["wanted"])) for e, t in tuned.items()})
    save(_figure(options.seed, made[0], tuned[made[0]]["delta"], found), options, "margin")
    return Result(
        headline=headline(found),
        protocol=protocol(options, count, count_held, tuned),
        rows=rows(found),
        figures=[
            (
                "margin",
                f"One stream under the margin rule ({made[0]}): orange crosses are low, blue circles high fidelity; "
                "below, the run-length posterior on a log scale. Right: the fraction of ticks at which the choice "
                "differs from the tick before, with two standard errors.",
            )
        ],
        sections=[("The claim", claim(found))],
    )


def rows(found: Mapping[str, Sequence[Scores]]) -> list[Row]:
    """Every measure of every rule, and by how much the margin rule switches more."""
    told = []
    for engine, scores in found.items():
        for rule, name in RULES.items():
            for measure, label, unit in (
                ("low", "low fidelity, %", 100.0),
                ("switching", "ticks that switch, %", 100.0),
                ("MSE", "MSE", 1.0),
                ("L1", "L1", 1.0),
            ):
                value = Number.mean_of(unit * column(scores, rule, measure))
                told.append(Row(label, value, engine=engine, keys={"rule": name}))
        for rule in ("rate", coin_of("margin"), "default"):
            gap = difference(scores, "margin", rule, "switching")
            percent = Number(100.0 * gap.value, None if gap.two_se is None else 100.0 * gap.two_se)
            told.append(
                Row("ticks that switch, %", percent, engine=engine, keys={"rule": f"margin minus {RULES[rule]}"})
            )
    return told


def headline(found: Mapping[str, Sequence[Scores]]) -> str:
    """First the rules that do not beat the coin, then whether the margin rule switches more often."""
    told = []
    for engine, scores in found.items():
        for rule, name in (("margin", "the margin rule"), ("rate", "the rate rule")):
            won, sentence = beside_coin(scores, rule, name)
            told.append((won, f"{engine.capitalize()}: {sentence}"))
    told.sort(key=lambda item: item[0])
    return " ".join([sentence for _, sentence in told] + [_switching(e, scores) for e, scores in found.items()])


def _switching(engine: str, scores: Sequence[Scores]) -> str:
    rate = {rule: Number.mean_of(100.0 * column(scores, rule, "switching")) for rule in ("margin", "rate")}
    gap = difference(scores, "margin", "rate", "switching")
    word = ("about as often as", "more often than", "less often than")[sign(gap)]
    return (
        f"{engine.capitalize()}: the margin rule switches {word} the rate rule, at {rate['margin']} % of the ticks "
        f"against {rate['rate']} %: the paper's claim that it switches more {held(gap)}."
    )


def claim(found: Mapping[str, Sequence[Scores]]) -> str:
    """What the paper says, and whether it held."""
    said = (
        'The paper says that with a margin "the model would frequently switch between fidelities" and that the '
        '"information rate was more stable"; it gives no numbers.'
    )
    lines = [said, ""]
    for engine, scores in found.items():
        more = (column(scores, "margin", "switching") > column(scores, "rate", "switching")).mean()
        lines.append(f"- {_switching(engine, scores)} It switches more on {more:.0%} of {len(scores)} streams.")
    return "\n".join(lines)


def protocol(options: Options, count: int, count_held: int, tuned: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What was done."""
    lines = [
        f"Prior N(1, 3), noise variance 1, zeta 1/2 and 1, costs 1 and 2, {TICKS} ticks, hazard 1/100, exact "
        f"filter: the setting of `mi-illustration`. {count} streams, seeds {options.seed} to "
        f"{options.seed + count - 1}.",
        "Margin: low fidelity if the two gains about the run length differ by less than delta, else high. The "
        "paper does not give delta.",
    ]
    for engine, t in tuned.items():
        lines.append(
            f"Delta ({engine}) is {t['delta']:.4g} nats, by bisection on {count_held} held-out streams: there the "
            f"margin rule reads {t['reached']:.1%} at low fidelity, the rate rule {t['wanted']:.1%}."
        )
    return [
        *lines,
        "Each rule has a coin of its own, which reads low fidelity with the probability that the rule used on the "
        "same stream; the figure shows the rate rule's. The default is the library's `Budget` with the joint gain "
        "at the rate rule's average spend on the held-out streams, learnt from a cold start on each stream; it is "
        "not the paper's.",
        "Switching: the fraction of ticks, the first left out, at which the choice differs from the tick before. A "
        "coin of share p switches at 2 p (1 - p) of them.",
        "MSE and L1 are to the run that always reads high fidelity; L1 compares the paper's run-length matrices, "
        "and is 1 - h times that of the filtered posteriors.",
        "As published: means weighted with precisions that were overwritten too early, gains by 50 quadrature nodes "
        "fixed near 0, the predicted mean from stale weights, streams drawn with standard deviations for variances. "
        "Published, correct updates: the same without the first of these. The default's choices are the library's "
        "under every engine.",
        "In brackets two standard errors over streams; differences are paired.",
    ]


def _figure(seed: int, engine: str, delta: float, found: Mapping[str, Sequence[Scores]]) -> Figure:
    from matplotlib.figure import Figure

    drawn = stream(seed, ENGINES[engine])
    drawing = picture.Drawing("margin", drawn.table, drawn.theta, follow(drawn.table, Margin(delta), seed, engine))
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplot_mosaic(
        [["data", "bars"], ["lengths", "bars"]], width_ratios=[2.1, 1], height_ratios=[1.2, 1]
    )
    picture.data(axes["data"], drawing)
    axes["data"].sharex(axes["lengths"])
    axes["data"].tick_params(labelbottom=False)
    mesh = picture.run_length(axes["lengths"], drawing)
    figure.colorbar(mesh, ax=[axes["data"], axes["lengths"]], label="probability", extend="min", shrink=0.42,
                    anchor=(0.0, 0.0), pad=0.01)  # fmt: skip
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


TARGET = Target(
    name="margin",
    paper="fig:margin_comparison",
    title="The margin rule, and how often it switches",
    run=run,
)

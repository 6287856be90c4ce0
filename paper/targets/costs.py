"""The cost of a decision next to that of a reading: the paper's flop analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from mfbocd import datasets

from ..framework import Number, Options, Picture, Result, Row, grid, target
from ..operations import HYPOTHESES, PARTS, Timed, count, times

TICKS = (1, 2, 10, 100, 171, 1000, 10_000)
FRAMES = 171
PARTICLES = 10_000
REPEATS, REPEATS_QUICK = 101, 15
FLOPS = 2  # a multiply-add is two operations, as the paper counts MobileNets


class Network(NamedTuple):
    """An observation model, and the flops of one evaluation."""

    name: str
    flops: float
    source: str


def published_flops(hypotheses: int) -> int:
    """32 t + 1, for one gain of one fidelity.

    >>> sum(published_flops(t) for t in range(171))
    465291
    """
    return 32 * hypotheses + 1


def networks() -> list[Network]:
    """The paper's, and those behind the readings that the library ships."""
    found = [
        Network("MobileNetV3-large (CamVid, high)", 36.86e9, "the paper's table"),
        Network("MobileNetV3-small (CamVid, low)", 19.48e9, "the paper's table"),
        Network("MicroNet-AD(M) (MIMII, high)", 124.7e6, "the paper's table"),
        Network("two-layer FC (MIMII, low)", 0.5e6, "the paper's table"),
        Network("smallest MobileNet", 82e6, "the paper's text"),
    ]
    for f in datasets.camvid_fence().fidelities:
        found.append(Network(f.name, FLOPS * 1e9 * f.cost_of(), "run here, 2 flops per multiply-add"))
    window = min(datasets.toycar(1, 0).fidelities, key=lambda f: f.cost_of())
    found.append(Network("autoencoder, one window", FLOPS * window.cost_of(), "run here, 2 flops per multiply-add"))
    return found


def counted_rows() -> list[Row]:
    """The formula and the count at each t, for the predictives and for the whole gain."""
    rows = []
    for t in TICKS:
        tally = count(t)
        formula = Number.printed(str(published_flops(t)))
        for what, ours in (
            ("the two predictives, and one subtraction", tally.of("predictive") + 1),
            ("the whole gain", sum(tally.of(part) for part in PARTS)),
        ):
            rows.append(Row(what, Number(float(ours), text=str(ours)), formula, keys={"hypotheses": t}))
    return rows


def arithmetic_rows() -> list[Row]:
    """The paper's sums, from the factors it prints."""
    gain = float(published_flops(PARTICLES))
    frames = float(sum(published_flops(t) for t in range(FRAMES)))
    ticks = float(sum(published_flops(t) for t in range(200)))
    checks = [
        ("sum of 32 t + 1, t = 0 .. 170, one fidelity", frames, "465291"),
        ("the same of both fidelities", 2.0 * frames, "465291"),
        ("the same in billions", frames / 1e9, "0.00046"),
        ("10,000 particles, million flops per gain", gain / 1e6, "0.32"),
        ("smallest MobileNet, 82 million flops, over two gains", 82e6 / (2.0 * gain), "140"),
        ("MIMII: sum of 32 t + 1, t = 0 .. 199, one fidelity, million flops (IG less RN in the table)",
         ticks / 1e6, "0.64"),
        ("MIMII, low fidelity only: 200 x 0.5", 200 * 0.5, "100"),
        ("CamVid, cost of high over low: 36.7 / 19.5", 36.7 / 19.5, "1.9"),
        ("CamVid, low only: 171 x 19.5, as written", FRAMES * 19.5, "3333"),
        ("CamVid, low only: 171 x 19.48, the table's", FRAMES * 19.48, "3333"),
        ("CamVid, high only: 171 x 36.9, as written", FRAMES * 36.9, "6303"),
        ("CamVid, high only: 171 x 36.89, the appendix's", FRAMES * 36.89, "6303"),
        ("CamVid, high only: 171 x 36.86, the table's", FRAMES * 36.86, "6303"),
        ("CamVid, both: 0.00046 + 85 x 19.5 + 86 x 36.7, as written", 0.00046 + 85 * 19.5 + 86 * 36.7, "4827"),
        ("CamVid, both: with the table's 19.48 and 36.86", 0.00046 + 85 * 19.48 + 86 * 36.86, "4827"),
        ("CamVid, both: with 19.5 and 36.86", 0.00046 + 85 * 19.5 + 86 * 36.86, "4827"),
    ]  # fmt: skip
    return [Row(what, Number(ours, text=_digits(ours)), Number.printed(theirs)) for what, ours, theirs in checks]


def _digits(value: float) -> str:
    return f"{value:.6g}" if value < 1e6 else f"{value:.0f}"


@target("costs", paper="the flop analysis", title="The cost of a decision next to that of a reading")
def costs(options: Options) -> Result:
    """Counted, checked and measured."""
    counted, checks, known = counted_rows(), arithmetic_rows(), networks()
    repeats = REPEATS_QUICK if options.quick else REPEATS
    measured = times(repeats, options.seed)
    protocol = [
        "Counted: `mi_xr` of the beta-Bernoulli, computed hypothesis by hypothesis with numbers that count every "
        "addition, subtraction, multiplication and division; a log, an exp and a lgamma count as one each. The paper "
        "does not say what it counts.",
        "t is the number of hypotheses in the sum; the counts depend neither on zeta nor on the data.",
        "The column `published` of the rows with a number of hypotheses is 32 t + 1; of the others it is what the "
        "paper prints, and ours is the same sum from the factors it gives.",
        f"Measured: one call of the library's gain of one fidelity, from Python, median of {repeats} batches. Times "
        "depend on the machine and have no verdict.",
        "`--as-published` changes nothing here.",
    ]
    pictures = [
        Picture("costs", "Operations of one gain and of one evaluation of several networks.", _figure(known)),
        Picture(
            "costs-measured",
            "Time of one gain on this machine, and of one evaluation of a small network.",
            _measured_figure(measured),
        ),
    ]
    sections = [
        ("Where 32 t + 1 comes from", derivation()),
        ("Compared with the networks", compared(known)),
        ("Measured on this machine", measured_text(measured)),
    ]
    return Result(headline(counted, checks, known), protocol, [*counted, *checks], pictures, sections)


def growth(part: str | None = None) -> tuple[float, float]:
    """Slope and intercept of the count in t, from two counts; it is exactly linear (tested)."""
    a, b = (count(t) for t in (100, 200))
    at = [t.of(part) if part else sum(t.of(p) for p in PARTS) for t in (a, b)]
    slope = (at[1] - at[0]) / 100
    return slope, at[0] - 100 * slope


def headline(counted: Sequence[Row], checks: Sequence[Row], known: Sequence[Network]) -> str:
    """The count, the sums that do not come out, and a decision next to the paper's small video network."""
    slope, rest = growth()
    predictive, _ = growth("predictive")
    agreed = [row.verdict.startswith("agrees") for row in counted]
    equals = "equals" if all(agreed[0::2]) else "does not equal"
    whole = "and also" if all(agreed[1::2]) else "but not"
    printed = dict.fromkeys(str(row.published) for row in checks)
    right = {str(row.published) for row in checks if row.verdict.startswith("agrees")}
    wrong = [
        f"{text} ({next(r.ours for r in checks if str(r.published) == text)})"
        for text in printed
        if text not in right
    ]
    small = next(n for n in known if "V3-small" in n.name)
    share = 2 * (slope * FRAMES + rest) / small.flops
    sums = f"{len(right)} of {len(printed)} sums the paper prints come out from factors it gives"
    return (
        f"The paper's 32 t + 1 flops per gain {equals} the cost of the two predictives ({predictive:g} per "
        f"hypothesis) and one subtraction, {whole} that of the whole gain, counted here as {slope:g} t + {rest:g}. "
        f"{sums}{'; not ' + ', '.join(wrong) if wrong else ''}. A decision between two fidelities at {FRAMES} "
        f"hypotheses takes {share:.1e} of one evaluation of the paper's low-fidelity video network."
    )


def derivation() -> str:
    """The operations that give 32."""
    one = count(1)
    by_kind = {k: one.count["predictive", k] for k in ("add", "sub", "lgamma", "exp")}
    slopes = {part: growth(part) for part in PARTS}
    slope, rest = growth()
    shown = ", ".join(f"{name} {_line(*line)}" for name, line in slopes.items())
    names = {"add": "additions", "sub": "subtractions", "lgamma": "lgammas", "exp": "exps"}
    kinds = ", ".join(f"{n} {names[k]}" for k, n in by_kind.items())
    each = one.of("predictive")
    return (
        "The paper gives no derivation. A predictive is exp(log B(a + zeta x, b + zeta (1 - x)) - log B(a, b)), "
        "with log B(u, v) = lgamma(u) + lgamma(v) - lgamma(u + v). For one hypothesis and both outcomes that is "
        f"{kinds}: {each} operations if a lgamma or an exp counts as one, so {each} t; the 1 may be the final "
        "subtraction. This is our interpretation; the paper does not explain the number.\n\n"
        "What it omits: weighting and summing the predictives, and the logs and products of the entropies. "
        f"By part: {shown}; in total {_line(slope, rest)}. The growth is exactly linear in t; if pruning keeps at "
        f"most K hypotheses, the cost is at most {_line(slope, rest).replace('t', 'K')} at every tick."
    )


def _line(slope: float, rest: float) -> str:
    terms = [f"{slope:g} t"] * bool(slope) + [f"{'-' if rest < 0 else '+'} {abs(rest):g}"] * bool(rest)
    return " ".join(terms).removeprefix("+ ")


def compared(known: Sequence[Network]) -> str:
    """One evaluation of each network in decisions."""
    slope, rest = growth()
    cells = []
    for n in known:
        decisions = [f"{n.flops / (2 * (slope * t + rest)):,.3g}" for t in (FRAMES, PARTICLES)]
        cells.append([n.name, f"{n.flops:.4g}", n.source, *decisions])
    return (
        "How many decisions between two fidelities (two gains, counted in full) cost as much as one evaluation of a "
        "network:\n\n" + grid(["network", "flops", "source", f"at {FRAMES} hypotheses", f"at {PARTICLES:,}"], cells)
    )


def measured_text(measured: Sequence[Timed]) -> str:
    """The times, and their growth."""
    kinds = list(dict.fromkeys(m.what for m in measured if m.hypotheses))
    at = {(m.what, m.hypotheses): m.ns for m in measured}
    cells = [[k, *(f"{at[kind, k] / 1e3:.3g}" for kind in kinds)] for k in HYPOTHESES]
    lines = ["Microseconds per gain of one fidelity:", "", grid(["hypotheses", *kinds], cells), ""]
    for kind in kinds:
        slope = np.polyfit(HYPOTHESES, [at[kind, k] for k in HYPOTHESES], 1)[0]
        lines.append(f"- {kind}: {slope:.3g} ns per hypothesis, by least squares.")
    others = [m for m in measured if not m.hypotheses]
    lines += [f"- {m.what}: {m.ns / 1e3:.3g} microseconds per evaluation, one thread." for m in others]
    if not others:
        lines.append("- No network was timed: that needs onnx and onnxruntime.")
    lines += [
        "",
        "With one hypothesis nearly all of the time is that of the call from Python. The Gaussian merges nearly "
        "equal hypotheses before it integrates, so its time grows more slowly than their number.",
    ]
    return "\n".join(lines)


def _figure(known: Sequence[Network]) -> Figure:
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    axis = figure.subplots()
    slope, rest = growth()
    axis.loglog(TICKS, [slope * t + rest for t in TICKS], color="#0072B2", lw=2, label="the whole gain, counted")
    formula = [published_flops(t) for t in TICKS]
    axis.loglog(TICKS, formula, "o", mfc="none", color="#D55E00", label="the paper's 32 t + 1")
    for i, n in enumerate(sorted(known, key=lambda n: n.flops)):
        axis.axhline(n.flops, color="0.75", lw=0.8, zorder=1)
        # side by side: some networks are too close to write one above the other
        axis.text(1.1 * 15.0 ** (i % 3), n.flops, n.name, fontsize=7.5, va="bottom", color="0.3")
    axis.set_xlabel("hypotheses")
    axis.set_ylabel("flops")
    axis.set_ylim(top=2e11)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def _measured_figure(measured: Sequence[Timed]) -> Figure:
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axis = figure.subplots()
    kinds = list(dict.fromkeys(m.what for m in measured if m.hypotheses))
    for kind, colour, marker in zip(kinds, ("#0072B2", "#009E73"), "os", strict=True):
        mine = [m for m in measured if m.what == kind]
        x, y = [m.hypotheses for m in mine], [m.ns / 1e3 for m in mine]
        axis.loglog(x, y, marker=marker, color=colour, lw=1.6, label=kind)
    for m in measured:
        if not m.hypotheses:
            axis.axhline(m.ns / 1e3, color="#D55E00", lw=1.2, ls="--", label=m.what)
    axis.set_xlabel("hypotheses")
    axis.set_ylabel("microseconds")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return figure

"""What the CamVid page says in words, computed from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mfbocd.trace.metrics import detection

from .camvid_runs import BUDGET, CHANCE, EQUAL, FAIR, FULL, HIGH, LOW, MEASURES, QUICK, RATE, RIVAL, Told, against
from .scene import Scene
from .single import Engine, alarm, plain, play
from .target import Options

KEY = (
    "in brackets: its error to the coin's mean, the difference in standard deviations of one run of the coin, and "
    "which share of the coin's runs are as good"
)


def headline(told: Told) -> str:
    """The paper's rule against both coins, then our default; what is lost comes first."""
    rate = f"the paper's rule ({told.scores[RATE].low:.0%} low fidelity)"
    compared = (
        (rate, "the fair coin (50%)", against(told, RATE, FAIR)),
        (rate, "a coin of its own spend", against(told, RATE, EQUAL)),
        (f"our Budget ({told.scores[BUDGET].low:.0%})", "that coin of equal spend", against(told, BUDGET, EQUAL)),
    )
    lost: dict[str, list[str]] = {}
    won: dict[str, list[str]] = {}
    for who, coin, measures in compared:
        for beats, said in ((False, lost), (True, won)):
            which = [f"{what} ({one})" for what, one in measures.items() if one.beats == beats]
            if which:
                said.setdefault(who, []).append(f"{coin} in {' and '.join(which)}")
    losses = [f"{who} does not beat {', nor '.join(coins)}" for who, coins in lost.items()]
    wins = [f"{who} beats {', and '.join(coins)}" for who, coins in won.items()]
    return f"On this one stream {'; '.join([*losses, *wins])} ({KEY})."


def summary(scene: Scene, told: Told, engine: Engine) -> str:
    """All runs in one table."""
    lines = [
        f"Engine: {engine}. In brackets the standard deviation of one run of the coin. `as good` is the share of "
        "the runs of the coin named beside it that have no larger error.",
        "",
        f"| run | low | {scene.unit} | MSE | L1 | changes found | false alarms | as good (MSE / L1) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in told.scores.items():
        cells = [name, f"{one.low:.0%}", f"{one.spent:.1f}", f"{one.mse:.3g}", f"{one.l1:.3g}"]
        cells += [f"{one.found:.0f} of {len(scene.changes)}", f"{one.false:.0f}"]
        if name in RIVAL:
            beside = against(told, name, RIVAL[name])
            cells.append(" / ".join(f"{b.as_good:.1%}" for b in beside.values()) + f" of the {RIVAL[name]}")
        else:
            cells.append("-")
        lines.append("| " + " | ".join(cells) + " |")
    for name, runs in told.coins.items():
        cells = [name, f"{runs['low'].mean():.0%}", f"{runs['spent'].mean():.1f}"]
        cells += [f"{runs['mse'].mean():.3g} ({runs['mse'].std(ddof=1):.2g})"]
        cells += [f"{runs['l1'].mean():.3g} ({runs['l1'].std(ddof=1):.2g})"]
        cells += [f"{runs['found'].mean():.1f} of {len(scene.changes)}", f"{runs['false'].mean():.1f}", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def changes(scene: Scene, told: Told, engine: Engine) -> str:
    """Changes with an alarm of their own, at two levels of being sure."""
    within = alarm(scene.hazard).within
    at = ", ".join(map(str, scene.changes)) or "none"
    lines = [
        f"Frames at which the label changes: {at}. An alarm is raised where a change "
        f"in the last {within} frames (half a mean regime) is 90 % sure, or 50 %; it finds a change if it comes "
        f"within {within} frames of it.",
        "",
        "| run | alarms at 90 % | found | alarms at 50 % | found |",
        "|---|---|---|---|---|",
    ]
    for name, column in ((HIGH, 1), (LOW, 0), (RATE, None), (BUDGET, None)):
        cells = [name]
        for sure in (0.9, 0.5):
            if column is None:
                one = play(scene, told.policies[name], engine, sure=sure)
            else:
                one = plain(scene, column, engine, sure)
            found = detection(one.alarms, scene.changes, within=within)
            cells += [", ".join(map(str, one.alarms)) or "none", f"{found.found} of {len(scene.changes)}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims(told: Told) -> str:
    """The paper's sentences about this stream, each with what came out."""
    s = told.scores
    fair = against(told, RATE, FAIR)

    def held(yes: bool) -> str:
        return "holds here" if yes else "does not hold here"

    better = {what: one.mine < one.mean for what, one in fair.items()}
    lower = {what: getattr(s[RATE], field) < getattr(s[LOW], field) for field, what in MEASURES.items()}
    counts = f"{s[HIGH].found:.0f} against {s[LOW].found:.0f}"
    return "\n".join(
        [
            "- High fidelity alone captures more of the labelled changes than low fidelity alone: "
            f"{held(s[HIGH].found > s[LOW].found)} ({counts}, at 90 %).",
            f"- MF-BOCD has a better predictive mean than low fidelity alone: {held(lower['MSE'])} "
            f"({s[RATE].mse:.3g} against {s[LOW].mse:.3g}); a better run-length posterior: {held(lower['L1'])} "
            f"({s[RATE].l1:.3g} against {s[LOW].l1:.3g}).",
            f"- MF-BOCD has a better predictive mean than the randomised version: {held(better['MSE'])} "
            f"({fair['MSE']}); a better run-length posterior: {held(better['L1'])} ({fair['L1']}). The paper does "
            f"not say how many runs of its coin it compares with ({KEY}).",
        ]
    )


def sums(found: Sequence[tuple[float, float]]) -> str:
    """Which costs a frame the paper's totals come from."""
    pairs = "; ".join(f"{low:g} and {high:g}" for low, high in found) or "none"
    return (
        "The paper prints 19.48, 19.5 (low) and 36.86, 36.89, 36.9, 36.7 (high) billion flops a frame. The costs "
        f"of two decimals that give all three totals, 3333, 6303 and 4827, are: {pairs}. The 465,291 flops of "
        "deciding are the sum of 32 t + 1 over t = 0..170, for one fidelity; a decision weighs two, and the first "
        "has one run length to weigh, not none. Either way it is nothing beside the networks."
    )


def engines_differ(told: Mapping[Engine, Told]) -> str:
    """What the published code does otherwise, and what it changes here."""
    a, b = told["library"].scores[RATE], told["as published"].scores[RATE]
    return (
        "The published code's Bernoulli predictive at zeta below 1 is not normalised (its two values sum to more "
        "than one), and its predictive mean mixes the statistics after a reading with the run-length weights from "
        f"before it. On this stream the paper's rule has, with the library, MSE {a.mse:.3g} and L1 {a.l1:.3g} at "
        f"{a.low:.0%} low fidelity, and as published MSE {b.mse:.3g} and L1 {b.l1:.3g} at {b.low:.0%}. Rows of both "
        "are in the table."
    )


def caption(scene: Scene, engine: Engine, own: bool) -> str:
    """Of the figure."""
    frames = (
        "Top: some frames and the masks of both networks; a thick frame marks the one that was read. " if own else ""
    )
    return (
        f"{frames}Upper row: binarised readings ({scene.thing} in view or not; low fidelity orange crosses, high "
        "blue circles) and the predictive mean (black line). Lower row: filtered run-length posterior, log scale, "
        f"with the labelled changes (green). Engine: {engine}."
    )


def protocol(scene: Scene, told: Told, options: Options) -> list[str]:
    """How it was done."""
    low, high = (f.cost_of() for f in scene.fidelities)
    reached = (high - told.tuned.achieved) / (high - low)
    tuning = sum(len(t) for t in scene.tuning)
    return [
        *scene.protocol,
        "The paper's rule reads the fidelity with the largest w * gain / cost, the gain by its equation mi_xr. The "
        f"weight of the high fidelity, {told.tuned.value:.4g}, was tuned to half low fidelity on the {tuning} other "
        f"frames ({len(scene.tuning)} sequence{'s' if len(scene.tuning) > 1 else ''}); there it reads {reached:.0%} "
        f"at low fidelity, on the stream {told.scores[RATE].low:.0%}.",
        "So the fair coin spends something else than the rule: a second coin reads low fidelity with the "
        "probability the rule did. Our default, Budget, is run at what the rule spent and at half low fidelity.",
        "All low and all high are ordinary BOCD, zeta 1. Filters are exact (nothing pruned). MSE is of the "
        "predictive mean and L1 of the run-length posterior, both to the all-high run; L1 is the paper's, over the "
        "whole matrix of predicted run lengths, which is 1 - hazard times that of the filtered posteriors.",
        f"Each coin is run {options.count(FULL, QUICK)} times with the seeds from {options.seed} on. There is one "
        "stream, so a run of a rule is judged by the spread of single runs of the coin: it beats the coin if at most "
        f"{CHANCE:.1%} of the coin's runs are as good.",
    ]

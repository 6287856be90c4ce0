"""What the page of the machine-sound experiment says: its first line, its protocol, its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .machines import HAZARD, Fidelities, Machine
from .mimii_rows import MEASURES, RULES, TICKS, Played
from .target import Number, Options

TOYCAR = [
    "ToyCar stands in for MIMII and the MLPerf Tiny autoencoder for the paper's two networks, which are on no "
    "package registry: the same task (four machines, normal or damaged, an anomaly score a clip), other machines, "
    "other networks. A number that differs from the published one is expected; an order that differs is news.",
    "High fidelity is the median reconstruction error of all 196 windows of a clip (103.6 million flops), low "
    "that of 4 windows (2.1 million), where the paper has two networks of 124.7 and 0.5 million. One window (0.53 "
    "million) has the paper's ratio but hardly tells on machine 3, so the main table has 4, as the study of the "
    "library does, and a section has 1.",
]
ONE_WINDOW = (
    "Low fidelity is one window of 196: 0.53 against 103.6 million flops, about the paper's 0.5 against 124.7. "
    "All else is as above."
)
ENGINES = (
    "The paper's own code mixes the updated means with the run-length weights from before the reading, pairs them "
    "one run length apart, starts from a weight of e, not 1, and uses a predictive whose two values do not sum to "
    "one at zeta < 1, which leaks into the run-length posterior and the gain. The library normalises it and mixes "
    "with the weights after the reading. LF reads at zeta = 1 and has the same L1 in both. The weight of high "
    "fidelity is tuned in each. Budget is the library's alone."
)


def protocol(trials: int, tuning: int, options: Options) -> list[str]:
    """What holds wherever the clips are from."""
    return [
        "Every second clip of each condition is held out: the threshold of each fidelity, where FNR = FPR, and zeta, "
        "P(low reads 1 | high reads 1), are theirs. Streams draw on the other clips. The paper says cross-validation "
        "data, not how many.",
        f"{trials} streams a machine (the paper: 500), seeds {options.seed} to {options.seed + trials - 1}, of "
        f"{TICKS} ticks: the published operations of HF are 200 times 124.7 million, of LF 200 times 0.5.",
        f"theta is drawn from Beta(1, 1) at a change, a change comes with probability 1/{1 / HAZARD:.0f}, y_t ~ "
        "Bernoulli(theta_t), and the clip is a random one of kind y_t, with replacement. The paper states neither "
        "the hazard nor the prior; the detector has the same two.",
        "LF is plain detection (zeta = 1) on low readings. IG is the paper's rule, the run-length gain per cost, "
        f"with the weight of high fidelity tuned on {tuning} further streams of the same clips to the published "
        "share of low fidelity. RN reads low exactly as often as IG did on the same stream, at random ticks: the "
        "published operations of the two differ by the deciding alone. Budget is the library's default (joint "
        "gain, price learnt while running) with the average spend of IG on that stream as its budget; what it "
        "spent in fact is in its Ops.",
        "MSE is of the predicted mean to that of the run at high fidelity throughout; L1 compares the whole "
        "run-length matrices in the paper's shifted convention, which is 1 - hazard times that of the filtered "
        "posteriors.",
        "Ops are readings, two flops a multiply-add, and for IG the deciding by the paper's formula, 32 t + 1 "
        "summed over t = 0 .. 199: the gain of ONE fidelity, as the paper counts it; both cost twice that, and "
        "the joint gain of Budget, whose row has readings alone, more. The published IG - RN is .64, once .63, "
        "each a difference of two rounded numbers.",
        "Better or worse than the coin means: the mean paired difference on the same streams is beyond two of its "
        "standard errors. Budget seldom spends its budget to the unit: its coin reads low as often as it did.",
    ]


def compact(played: Sequence[Played]) -> str:
    """A line a machine and measure, with the paired difference of information and coin."""
    rules = played[0].rules
    heads = ["machine", "measure", *rules, "IG - RN", "LF %"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for each in played:
        for measure in MEASURES:
            cells = [each.machine.name, measure, *(str(each.mean(rule, measure)) for rule in rules)]
            cells += [str(each.beyond_coin("IG", measure)), f"{100.0 * each.of('IG', 'low').mean():.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def order(means: Mapping[str, float]) -> str:
    """Names by rising mean.

    >>> order({"LF": 3.0, "RN": 2.0, "IG": 1.0})
    'IG < RN < LF'
    """
    return " < ".join(sorted(means, key=lambda name: means[name]))


def carries_over(played: Sequence[Played]) -> str:
    """The order of the three rules, published and ours, machine by machine."""
    lines = ["| machine | measure | published order | ours | IG - RN, paired | |", "|---|---|---|---|---|---|"]
    same = dict.fromkeys(MEASURES, 0)
    claimed = dict.fromkeys(MEASURES, 0)
    wanted = "IG < RN < LF"
    for each in played:
        for measure in MEASURES:
            theirs = {rule: each.printed(measure, rule) for rule in RULES[:3]}
            told = order({rule: n.value for rule, n in theirs.items() if n is not None}) or "-"
            ours = order({rule: each.mean(rule, measure).value for rule in RULES[:3]})
            same[measure] += ours == wanted
            claimed[measure] += told == wanted
            difference = each.beyond_coin("IG", measure)
            verdict = {-1: "better than the coin", 0: "no different", 1: "worse than the coin"}[_sign(difference)]
            lines.append(f"| {each.machine.name} | {measure} | {told} | {ours} | {difference} | {verdict} |")
    known = any(each.machine.published is not None for each in played)
    counts = [
        f"in {measure} on {same[measure]} of {len(played)} machines"
        + (f" (published means: {claimed[measure]} of {len(played)})" if known else "")
        for measure in MEASURES
    ]
    lead = "Of other machines and networks, levels do not carry over; an order may. " if known else ""
    return f"{lead}The means are in the order {wanted} {' and '.join(counts)}.\n\n" + "\n".join(lines)


def _sign(difference: Number) -> int:
    """-1 or 1 where the difference is beyond two standard errors."""
    if abs(difference.value) <= (difference.two_se or 0.0):
        return 0
    return 1 if difference.value > 0.0 else -1


def headline(played: Sequence[Played], as_published: bool, clips: bool) -> str:
    """Where information did not beat the coin, then where it did, then the library's default."""
    signs = {m: {each.machine.name: _sign(each.beyond_coin("IG", m)) for each in played} for m in MEASURES}
    lost, worse, won = (
        {m: [name for name, sign in signs[m].items() if sign in kinds] for m in MEASURES}
        for kinds in ((0, 1), (1,), (-1,))
    )
    many = len(played)
    what = "Information-based switching" + (", by the paper's own code," if as_published else "")
    if any(lost.values()):
        text = f"{what} does not beat a coin of the same spend {where(lost, many, every='any of the')}"
        text += f", and is worse {where(worse, many)}" if any(worse.values()) else ""
        text += f"; it beats it {where(won, many)}." if any(won.values()) else "; it beats it nowhere."
    else:
        text = f"{what} beats a coin of the same spend {where(won, many)}."
    if "Budget" in played[0].rules:
        better = {m: [e.machine.name for e in played if _sign(e.beyond_coin("Budget", m)) < 0] for m in MEASURES}
        text += f" The library's default beats a coin of its spend {where(better, many) or 'nowhere'}."
    return text if clips else f"{text} (ToyCar standing in for MIMII.)"


def where(names: Mapping[str, Sequence[str]], many: int, every: str = "all") -> str:
    """Measures and machines in words; measures with the same machines are named together.

    >>> where({"MSE": ["1", "3"], "L1": ["2"]}, 4)
    'in MSE on machines 1 and 3 and in L1 on machine 2'
    >>> where({"MSE": ["1", "2"], "L1": ["1", "2"]}, 2)
    'in MSE and L1 on all 2 machines'
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for measure, found in names.items():
        if found:
            groups.setdefault(tuple(found), []).append(measure)
    parts = []
    for found, measures in groups.items():
        listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
        on = (
            f"{every} {many} machines"
            if len(found) == many > 1
            else f"machine{'s' if len(found) > 1 else ''} {listed}"
        )
        parts.append(f"in {' and '.join(measures)} on {on}")
    return " and ".join(parts)


def machines_table(machines: Sequence[Machine], found: Sequence[Fidelities]) -> str:
    """What the held-out clips said."""
    lines = [
        "| machine | clips held out | clips heard | AUC low | AUC high | zeta of low | flops low | flops high |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each, told in zip(machines, found, strict=True):
        low, high = (f"{f / 1e6:.3g} million" for f in each.flops)
        lines.append(
            f"| {each.name} | {each.held.sum()} | {each.heard.sum()} | {told.auc[0]:.2f} | {told.auc[1]:.2f} "
            f"| {told.zeta:.3f} | {low} | {high} |"
        )
    return "\n".join(lines)

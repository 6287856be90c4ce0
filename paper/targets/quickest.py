"""How soon a change is found at equal spend and equal false-alarm rates, next to the peers of the field."""

from __future__ import annotations

from typing import Any

from ..framework import Job, Options, Picture, Result, target
from ..quickest import page as pages
from ..quickest.cells import Cell
from ..quickest.fleets import POLICIES, TRAS, Scale, policy_cells, tras_cells
from ..quickest.measure import Size, measure, ticks_per_alarm
from ..quickest.real import REAL
from ..quickest.rules import KEPT, OURS, RULES, SUSPICIOUS, rules_of
from ..quickest.settings import MAIN, ON_OR_OFF, SHOWN, SYNTHETIC, TWO, WIDE

SETTINGS = {**SYNTHETIC, **REAL, **ON_OR_OFF}
FLEET = "fleet"
FULL, QUICK = 400, 24
PRECISE = {MAIN: 5, WIDE: 5, "duty": 5, "duty-known": 5}
"""Settings with a multiple of the streams, because they are compared with published delays or give the headline."""
TICKS, QUICK_TICKS = 4000, 500  # of every quiet stream after its lead
MISDECLARED = ("zeta-too-high", "hazard-x5", "hazard-/5")
CHECKED = ("random", *(name for name in RULES if name.startswith("budget")))
QUICK_SETTINGS = (MAIN, "duty", FLEET)
QUICK_RULES = ("random", OURS, "always high", SUSPICIOUS.name, "DE-CuSum, both levels known")


@target("quickest", paper="ours", title="How soon a change is found", takes=("family",), page="quickest")
def quickest(options: Options) -> Result:
    """Every rule in every setting, in parts."""
    known = (*SETTINGS, FLEET)
    names = options.given.get("family") or (QUICK_SETTINGS if options.quick else known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"family must be one of {', '.join(known)}, not {unknown[0]!r}")
    streams, seed = options.count(FULL, QUICK), options.seed
    ticks = QUICK_TICKS if options.quick else TICKS
    work: dict[str, Job] = {}
    for name in names:
        if name == FLEET:
            work |= fleet_jobs(streams, seed, options.quick)
            continue
        setting = SETTINGS[name]()
        changed = streams_of(name, streams, options.quick)
        for rule in rules_of(setting):
            if options.quick and rule.name not in QUICK_RULES:
                continue
            for spend in (1.0,) if rule.fixed else TWO if options.quick and name == MAIN else setting.spends:
                part = f"{name}-{rule.name}-{spend:g}".replace("/", "over").replace(" ", "_")
                work[part] = (cells_of, (name, rule.name, spend, changed, ticks, seed))
    found = options.finish(work, {"streams": streams})
    cells = [Cell(**cell) for part in work for cell in found[part]]
    checks: dict[str, Job] = {
        f"declared-{name}-{cell.rule}-{cell.spend:g}".replace("/", "over").replace(" ", "_"): (
            as_declared,
            (name, cell.rule, cell.spend, cell.threshold, streams, ticks, seed),
        )
        for name in MISDECLARED
        if name in names
        for cell in cells
        if (cell.setting, cell.change) == (MAIN, "1 sd") and cell.rule in CHECKED and cell.spend in TWO
    }
    rates = options.finish(checks, {"streams": streams}) if checks else {}
    declared = [(c[1][0], c[1][1], c[1][2], rates[part]) for part, c in checks.items()]
    return result(cells, declared, streams, seed, options.quick)


def streams_of(name: str, streams: int, quick: bool) -> int:
    """Number of streams with a change in a setting."""
    return PRECISE[name] * streams if name in PRECISE and not quick else max(streams // 2, 2)


def cells_of(name: str, rule: str, spend: float, streams: int, ticks: int, seed: int) -> list[dict[str, Any]]:
    """One rule in one setting at one spend; a threshold takes a quarter as many false alarms as streams, or more."""
    setting = SETTINGS[name]()
    size = Size(quiet=max(streams // 8, 2), ticks=ticks, changed=streams)
    return measure(setting, rule, spend, size, seed)


def as_declared(name: str, rule: str, spend: float, threshold: float, streams: int, ticks: int, seed: int) -> float:
    """Ticks per false alarm where the declaration is wrong and the threshold is that of a correct one."""
    setting = SETTINGS[name]()
    size = Size(quiet=max(streams // 8, 2), ticks=ticks, changed=0)
    return ticks_per_alarm(setting, rule, spend, threshold, size, seed)


def fleet_jobs(streams: int, seed: int, quick: bool) -> dict[str, Job]:
    """A job for each policy of a fleet."""
    scale = Scale(quiet=max(streams // 40, 1), ticks=2000 if quick else 10_000, changed=max(streams // 6, 2))
    policies = ["round robin"] if quick else list(POLICIES)
    jobs: dict[str, Job] = {f"fleet-{p}".replace(" ", "_"): (policy_cells, (p, scale, seed)) for p in policies}
    return jobs | {f"fleet-{name}".replace(" ", "_"): (tras_cells, (name, scale, seed)) for name in TRAS}


def result(
    cells: list[Cell], declared: list[tuple[str, str, float, float]], streams: int, seed: int, quick: bool
) -> Result:
    """Findings first, then the tables."""
    here = list(dict.fromkeys(c.setting for c in cells))
    precise, other = streams_of(MAIN, streams, quick), streams_of("", streams, quick)
    protocol = [
        "The delay counts the ticks of the new regime up to the alarm, that of the alarm included. A change that is "
        "not found counts as found at the end (1,000 ticks; 500 in the real settings, 600 in the fleet). The tables "
        "show the mean over the streams without an alarm in the window before the change, as the theory does; the "
        "tables of all streams are below. In brackets two standard errors.",
        "The threshold of every rule is calibrated on its own quiet streams: one false alarm per 2,000 ticks, or 500 "
        "in the real settings and where ticks are read or skipped. At least "
        f"{max(precise // 8, 2) * 2} false alarms determine a threshold in {', '.join(PRECISE)}, and at least "
        f"{max(other // 8, 2) * 2} in the others.",
        f"{precise} streams with a change in {', '.join(PRECISE)}, {other} in the others; first seed {seed}. "
        "Designs and thresholds are chosen on other seeds than those that are scored.",
        "Spend is the average cost as a position between the cheapest fidelity (0 %) and the most expensive one "
        "(100 %), on quiet streams. Random and periodic choice mix these two.",
        "A rule that cannot be tuned to the spend is shown with the spend it reaches, and is not compared.",
        f"Filters have a window of 200 ticks and keep {KEPT} run lengths (Resample).",
        "The CUSUM and the optimal rule read the expensive fidelity while their statistic exceeds a level that is "
        "tuned to the spend. They, 2E-CUSUM and DE-CuSum know both levels, TRAS the level before and the size, FOCuS "
        "the level before. The statistic of the optimal rule is the odds of a change (Shiryaev); for one direction "
        "of change, value iteration shows that no rule is quicker at the same spend and false alarms. "
        "2E-CUSUM follows the description in its abstract; the text of the paper was not available.",
        *(f"`{name}`: {SETTINGS[name]().about}." for name in here if name in SETTINGS),
    ]
    sections = [("Ours, random choice and what is possible", pages.summary_table(cells))]
    sections.append(("Findings", pages.findings(cells)))
    numbered = [name for name in SHOWN if name in here]
    sections += [(f"{SHOWN[name]}: delay against spend", pages.main_table(cells, name)) for name in numbered]
    sections.append(("Where ours is slower", pages.losses(cells)))
    others = [c for c in cells if c.setting in (*SYNTHETIC, *REAL)]
    if others:
        sections += [(f"Every setting at {s:.0%} spend", pages.settings_table(others, s)) for s in (0.05, 0.2)]
    if declared:
        sections.append(("False alarms after a wrong declaration", pages.declared_table(declared)))
    if "duty" in here:
        sections.append(("Read or skip", pages.duty_table(cells)))
    if "plain" in here:
        sections.append(("Every tick read", pages.plain_table(cells)))
    if FLEET in here:
        sections.append(("One hundred streams, ten readings per tick", pages.fleet_table(cells)))
    for name in numbered:
        sections.append((f"{SHOWN[name]}: all streams", pages.main_table(cells, name, overall=True)))
        sections.append((f"{SHOWN[name]}: false alarms and spend", pages.check_table(cells, name)))
    caption = "Mean delay until a change is found, against spend, at one false alarm per 2,000 ticks."
    figures = [Picture("quickest", caption, pages.figure(cells))] if MAIN in here else []
    return Result(pages.headline(cells), protocol, figures=figures, sections=sections, more=pages.rows_of(cells))

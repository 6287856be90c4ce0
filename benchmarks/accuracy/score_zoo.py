"""False alarms and delays on the zoo, per kind, and delays at one false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .common import Cache, error, markdown, yes
from .methods import Alarm, Method
from .zoo import CHANGED, CHANGES, DESIGN, QUIET, TICKS, Series, series

WITHIN = 200
"""An alarm in these ticks from a change on detects it."""
MARGIN = 20
"""A method that looks ahead has no delay; it finds a change by placing one within this distance."""
ALLOWED = 0.5
"""False alarms per 1,000 ticks: one per 2,000."""
LEAST = 20
"""Fewest quiet series per background for a threshold: at 0.5 per 1,000 ticks they have 12 false alarms."""
CALIBRATION = DESIGN[50:]
"""Seeds of the quiet series on which thresholds of peers are set; never those of judging."""


@dataclass(frozen=True)
class Score:
    """What the alarms on one series are worth."""

    delays: tuple[float, ...]
    """One per change, in ticks; WITHIN for a missed one."""
    missed: int
    false: int


def score(s: Series, alarms: Sequence[Alarm], online: bool = True) -> Score:
    """Match each change with the first alarm within WITHIN ticks of it.

    Later alarms in these ticks are false, as are those before the first change. Without delays (`online` false) a
    change is matched with the nearest position within MARGIN ticks, and its delay is NaN.
    """
    free = sorted(a.at if online else a.changed_at for a in alarms)
    delays, missed = [], 0
    for change in s.changes:
        if online:
            hit = next((t for t in free if change <= t < change + WITHIN), None)
        else:
            near = [t for t in free if abs(t - change) <= MARGIN]
            hit = min(near, key=lambda t: abs(t - change)) if near else None
        if hit is None:
            missed += 1
            delays.append(float(WITHIN))
        else:
            free.remove(hit)
            delays.append(float(hit - change) if online else math.nan)
    return Score(tuple(delays), missed, len(free))


def scores(
    method: Method, kind: str, seeds: Iterable[int], cache: Cache, ticks: int = TICKS, threshold: float | None = None
) -> list[Score]:
    """Run a method on series of one kind."""
    drawn = [series(kind, seed, ticks) for seed in seeds]
    return [score(s, cache.detect(method, s.x, threshold=threshold), method.online) for s in drawn]


def rate(found: Sequence[Score], ticks: int) -> tuple[float, float]:
    """Return false alarms per 1,000 ticks and their standard error over the seeds."""
    counts = np.array([f.false for f in found]) * 1000.0 / ticks
    return float(counts.mean()), error(counts)


def delay(found: Sequence[Score]) -> tuple[float, float]:
    """Return the mean delay, with missed changes as WITHIN ticks, and the share of missed changes."""
    late = np.concatenate([f.delays for f in found])
    return float(late.mean()), sum(f.missed for f in found) / late.size


def calibrate(method: Method, kind: str, target: float, seeds: Sequence[int], cache: Cache, ticks: int) -> float:
    """Return the lowest threshold with at most `target` false alarms per 1,000 ticks on quiet series of this kind.

    NaN if there is none. By bisection on a log scale: alarms become rarer as the threshold rises, nearly always.
    """
    allowed = target * ticks * len(seeds) / 1000.0

    def rare(threshold: float) -> bool:
        false = 0
        for seed in seeds:  # one at a time: a low threshold is rejected by the first series
            false += scores(method, kind, [seed], cache, ticks, threshold)[0].false
            if false > allowed:
                return False
        return True

    low, high = (math.log(limit) for limit in method.range)
    if not rare(math.exp(high)):
        return math.nan
    for _ in range(9):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rare(math.exp(middle)) else (middle, high)
    return math.exp(high)


def false_alarm_table(
    methods: Sequence[Method], seeds: Sequence[int], cache: Cache, ticks: int, kinds: Sequence[str]
) -> str:
    """False alarms on quiet series: one row per kind."""
    rows = []
    over = dict.fromkeys((m.name for m in methods), 0)
    for kind in kinds:
        row = [kind]
        for method in methods:
            mean, se = rate(scores(method, kind, seeds, cache, ticks), ticks)
            over[method.name] += mean > ALLOWED
            row.append(f"{mean:.2f} ({se:.2f})")
        rows.append(row)
        cache.save()
    rows.append(["kinds above 0.5", *(str(count) for count in over.values())])
    rows.append(["looks ahead", *(yes(method.looks_ahead) for method in methods)])
    return markdown(["quiet series", *(m.name for m in methods)], rows)


def delay_table(
    methods: Sequence[Method], seeds: Sequence[int], cache: Cache, ticks: int, changed: Sequence[str]
) -> str:
    """Delays at the defaults: one row per kind of change, over all backgrounds that allow it."""
    rows = []
    for change in CHANGES:
        kinds = [kind for kind in changed if kind.endswith("/" + change)]
        if not kinds:
            continue
        row = [change]
        for method in methods:
            found = [f for kind in kinds for f in scores(method, kind, seeds, cache, ticks)]
            mean, missed = delay(found)
            false, _ = rate(found, ticks)
            row.append(f"{f'{mean:.0f}' if method.online else '-'} / {missed:.0%} / {false:.2f}")
        rows.append(row)
        cache.save()
    rows.append(["looks ahead", *(yes(method.looks_ahead) for method in methods)])
    return markdown(["change", *(m.name for m in methods)], rows)


def equal_rate_table(
    first: Method,
    peers: Sequence[Method],
    seeds: Sequence[int],
    cache: Cache,
    ticks: int,
    fixed: float | None = None,
    changed: Sequence[str] | None = None,
) -> str:
    """Delays of `first` as it is, and of peers at a false-alarm rate, one row per kind.

    The rate is that of `first`, at least ALLOWED, or `fixed`. Kinds in which `first` itself exceeds ALLOWED (or
    `fixed`) do not count as good, however short its delays are.
    """
    rows = []
    backgrounds = QUIET if changed is None else tuple(dict.fromkeys(kind.partition("/")[0] for kind in changed))
    changed = CHANGED if changed is None else changed
    good = total = 0
    quiet_seeds = CALIBRATION[: max(len(seeds), LEAST)]
    for background in backgrounds:
        own, _ = rate(scores(first, background, quiet_seeds, cache, ticks), ticks)
        target = max(own, ALLOWED) if fixed is None else fixed
        quiet = own <= (ALLOWED if fixed is None else fixed)
        levels = {p.name: calibrate(p, background, target, quiet_seeds, cache, ticks) for p in peers}
        for kind in (k for k in changed if k.startswith(background + "/")):
            mine = scores(first, kind, seeds, cache, ticks)
            row = [kind, f"{own:.2f}", f"{target:.2f}", _delay_cell(mine)]
            theirs = []
            for peer in peers:
                level = levels[peer.name]
                if math.isnan(level):
                    row.append("not that rare")
                    continue
                theirs.append(scores(peer, kind, seeds, cache, ticks, level))
                row.append(_delay_cell(theirs[-1]))
            best = min(theirs, key=lambda found: delay(found)[0], default=None)
            value, se = ratio(mine, best) if best else (math.nan, 0.0)
            total += 1
            good += quiet and not value > 1.2
            rows.append([*row, (f"{value:.2f} ({se:.2f})" if best else "-") if quiet else "too many alarms"])
        cache.save()
    rows.append([f"quiet enough, and within 1.2 of the best peer: {good} of {total}", *[""] * (len(peers) + 4)])
    header = ["kind", f"rate of {first.name}", "rate of peers", first.name, *(p.name for p in peers)]
    return markdown([*header, "ratio (standard error)"], rows)


def _delay_cell(found: Sequence[Score]) -> str:
    mean, missed = delay(found)
    return f"{mean:.0f} / {missed:.0%}"


def ratio(mine: Sequence[Score], theirs: Sequence[Score]) -> tuple[float, float]:
    """Return the ratio of the mean readings needed (delay + 1) on the same changes, and its standard error."""
    a, b = (np.concatenate([f.delays for f in found]) + 1.0 for found in (mine, theirs))
    value = float(a.mean() / b.mean())
    return value, error(a - value * b) / float(b.mean())


def report(
    methods: Sequence[Method],
    seeds: Sequence[int],
    cache: Cache,
    ticks: int = TICKS,
    fixed: float | None = None,
    kinds: Sequence[str] | None = None,
) -> None:
    """Print the tables of these kinds, quiet and changed ones; of all by default.

    `fixed` is the false-alarm rate of the last table, by default that of the first method.
    """
    which = f"seeds {seeds[0]} to {seeds[-1]}, {ticks} ticks"
    shown = [*QUIET, *CHANGED] if kinds is None else kinds
    quiet, changed = [k for k in shown if "/" not in k], [k for k in shown if "/" in k]
    if quiet:
        print(f"\n### False alarms per 1,000 ticks of quiet series (standard error); {which}\n", flush=True)
        print(false_alarm_table(methods, seeds, cache, ticks, quiet), flush=True)
    if not changed:
        return
    print(f"\n### At the defaults: mean delay (missed = {WITHIN}) / missed / false alarms per 1,000; {which}\n")
    print(delay_table(methods, seeds, cache, ticks, changed), flush=True)
    peers = [m for m in methods[1:] if m.online and not math.isnan(m.threshold)]
    if peers:
        print(f"\n### At the same false-alarm rate: mean delay / missed; {which}\n")
        target = f"the rate of {methods[0].name} there or {ALLOWED} per 1,000 ticks, whichever is higher"
        if fixed is not None:
            target = f"{fixed} per 1,000 ticks; {methods[0].name} is as it is"
        print(
            f"Thresholds of the peers are set per background on quiet series of seeds from {CALIBRATION[0]} on, to "
            f"{target}. The ratio is of the readings needed (delay + 1) to those of the best peer.\n"
        )
        some = None if kinds is None else changed
        print(equal_rate_table(methods[0], peers, seeds, cache, ticks, fixed, some), flush=True)

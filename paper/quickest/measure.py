"""One rule in one setting at one spend: design and threshold on some seeds, delays and false alarms on others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .rules import RULES
from .settings import Drawn, Setting

JUDGED = 500_000  # added to the seeds of the streams that are scored
CLOSE = 0.04  # of the logarithm of the wanted number of false alarms
START = 4.0
TRIES = 7


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    quiet: int
    """Quiet streams, for the thresholds and again for the measured rate."""
    ticks: int
    """Ticks of each after its lead."""
    changed: int
    """Streams with a change."""


def threshold_for(count: Callable[[float], int], wanted: float) -> float:
    """The threshold with the wanted number of false alarms.

    Bisection in log odds; since false alarms become about e times rarer with each unit, the next try is where this
    leads, if that lies inside the bracket. The last step interpolates the logarithm of the number.

    >>> round(threshold_for(lambda x: round(1000 * math.exp(-x)), 100.0), 1)
    2.3
    """
    low, high = (-6.0, math.inf), (30.0, -math.inf)
    x = START
    for _ in range(TRIES):
        off = math.log((count(x) + 0.5) / (wanted + 0.5))
        if abs(off) <= CLOSE:
            return x
        if off > 0.0:
            low = (x, off)
        else:
            high = (x, off)
        x += max(min(off, 3.0), -3.0)
        if not low[0] < x < high[0]:
            x = 0.5 * (low[0] + high[0])
    if math.isinf(low[1]) or math.isinf(high[1]):
        return x
    return low[0] + (high[0] - low[0]) * low[1] / (low[1] - high[1])


def measure(setting: Setting, name: str, spend: float, size: Size, seed: int) -> list[dict[str, Any]]:
    """The cells of one rule at one spend, one for each kind of change.

    A rule that knows the size of the change has a design and a threshold for each; for every other rule they are
    shared. `delays` has one number per stream, or per change where there is one stream; `clear` marks those without
    an alarm in the window before the change.
    """
    rule = RULES[name]
    cells = []
    ready: tuple[float, float, float, float] | None = None
    for change in setting.changed:
        if rule.sized and change not in setting.ratio:
            continue
        if ready is None or rule.sized:
            ready = _prepared(setting, name, change, spend, size, seed)
        design, threshold, spent, every = ready
        drawn = setting.changed[change](seed + JUDGED, size.changed)
        run = rule.run(setting, change, design, drawn, threshold, seed + JUDGED)
        delays = run.delays(drawn, setting.wait)
        clear = ~run.alarm[max(setting.lead - setting.within, 0) : setting.lead].any(axis=0)
        if setting.single:
            delays, clear = delays.mean(axis=0), np.ones(len(drawn.changes), dtype=bool)
        cells.append(
            {
                "setting": setting.name,
                "change": change,
                "rule": name,
                "spend": spend,
                "spent": spent,
                "threshold": threshold,
                "every": every,
                "delays": delays.ravel().tolist(),
                "clear": clear.tolist(),
            }
        )
    return cells


def ticks_per_alarm(setting: Setting, name: str, spend: float, threshold: float, size: Size, seed: int) -> float:
    """Ticks per false alarm of a rule of the library with a given threshold, on the seeds that are scored."""
    quiet = Drawn(setting.quiet(seed + JUDGED, size.quiet, setting.lead + size.ticks), ())
    run = RULES[name].run(setting, "", spend, quiet, threshold, seed + JUDGED)
    return size.quiet * size.ticks / max(int(run.alarm[setting.lead :].sum()), 1)


def _prepared(
    setting: Setting, name: str, change: str, spend: float, size: Size, seed: int
) -> tuple[float, float, float, float]:
    """Design and threshold, and on other seeds the spend and the ticks per false alarm."""
    rule, lead, ticks = RULES[name], setting.lead, setting.lead + size.ticks
    quiet = Drawn(setting.quiet(seed, size.quiet, ticks), ())

    counted, threshold = size.quiet * size.ticks, START
    # an alarm restarts the statistic of a peer, and with it what the peer spends: later rounds correct that
    for _ in range(3 if rule.sized and not rule.fixed else 1):
        design = rule.design(setting, change, spend, threshold, seed)
        threshold = threshold_for(
            lambda x, d=design: int(rule.run(setting, change, d, quiet, x, seed).alarm[lead:].sum()),  # type: ignore[misc]
            counted / setting.every,
        )
    other = Drawn(setting.quiet(seed + JUDGED, size.quiet, ticks), ())
    judged = rule.run(setting, change, design, other, threshold, seed + JUDGED)
    return design, threshold, judged.spent(setting, lead), counted / max(int(judged.alarm[lead:].sum()), 1)

"""One hundred streams of which ten can be read per tick: delay until the fleet's alarm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd import Alarm, Fleet, Gaussian, Resample
from mfbocd.belief.gains import Gain
from mfbocd.policy import Always, Budget, Policy
from mfbocd.policy.fidelity import Fidelity

from .measure import JUDGED
from .peers import top_r_adaptive
from .rules import KEPT, NEVER

Array = NDArray[np.float64]

STREAMS, READS = 100, 10
EVERY, WITHIN, LEAD, WAIT = 2000.0, 200, 1000, 600
CASES = {
    "1 stream, 1 sd": (1, 1.0),
    "5 streams, 1 sd": (5, 1.0),
    "1 stream, 2 sd": (1, 2.0),
    "5 streams, 2 sd": (5, 2.0),
}
TOP = 5
COMPENSATION = {1.0: 0.02, 2.0: 0.05}
"""Of TRAS by the size it assumes: the best of 0.02, 0.05, 0.1 and 0.2 on other streams; so is TOP of 1, 5 and 10."""


@dataclass(frozen=True)
class Scale:
    """How much is simulated."""

    quiet: int
    """Quiet fleets, for the threshold and again for the measured rate."""
    ticks: int
    """Ticks of each after its lead."""
    changed: int
    """Fleets with a change, in each case."""


def quiet(seed: int, index: int, ticks: int) -> Array:
    """Readings (T, STREAMS) of N(0, 1)."""
    return np.random.default_rng([seed, index, 0]).normal(size=(ticks, STREAMS))


def shifted(seed: int, index: int, case: str) -> Array:
    """WAIT further ticks, in which some streams are shifted up or down."""
    changing, size = CASES[case]
    rng = np.random.default_rng([seed, index, 1])
    x = rng.normal(size=(WAIT, STREAMS))
    who = rng.permutation(STREAMS)[:changing]
    x[:, who] += size * np.where(rng.random(changing) < 0.5, 1.0, -1.0)
    return x


# --- policies of the library -------------------------------------------------------------------------------------

STATISTICS = ("sum", "largest")
"""Over the streams."""
FIDELITIES = (Fidelity("skip", 0.0, 0.0), Fidelity("read", 1.0, 1.0))


class Watch:
    """A fleet and the statistics of its alarms; without a policy, round robin. `size` is that of a known change."""

    def __init__(self, policy: Policy | None, seed: int, size: float | None = None) -> None:
        self.robin = policy is None
        self.fleet = Fleet(
            STREAMS,
            Gaussian(0, 1, 1),
            FIDELITIES,
            1 / 1000,
            policy=policy or Always("skip"),
            alarm=Alarm(WITHIN, 1.0, before=None if size is None else 0.0, at_least=size),
            prune=Resample(KEPT),
            seed=seed,
            threads=1,
        )

    def copy(self) -> Watch:
        """An independent copy."""
        other = copy.copy(self)
        other.fleet = Fleet.from_bytes(self.fleet.to_bytes())
        return other

    def statistics(self, readings: Array) -> tuple[float, float]:
        """Advance by one tick and return the STATISTICS of log(1 + odds of a change in the window)."""
        if self.robin:
            turn = np.arange(STREAMS) - int(self.fleet.ticks[0]) * READS
            choice = (turn % STREAMS < READS).astype(np.int64)
        else:
            choice = self.fleet.choose()
        step = self.fleet.update(np.where(choice == 1, readings, 0.0), choice)
        return step.statistic, float(-np.log1p(-min(step.p_change.max(), 1.0 - 1e-16)))

    def path(self, x: Array, until: Sequence[float] = (np.inf, np.inf)) -> Array:
        """The statistics at each tick, (T, 2), up to the tick at which both have exceeded their `until`."""
        found: list[tuple[float, float]] = []
        open_ = {0, 1}
        for readings in x:
            found.append(self.statistics(readings))
            open_ -= {k for k in open_ if found[-1][k] > until[k]}
            if not open_:
                break
        return np.array(found)


GAINS: tuple[Gain, ...] = ("joint", "change")
SIZE_KNOWN = f"budget of exactly {READS}, change, size known"
POLICIES: dict[str, Callable[[], Policy | None]] = {
    "round robin": lambda: None,
    **{f"budget on average, {gain}": partial(Budget, float(READS), gain=gain) for gain in GAINS},
    **{f"budget of exactly {READS}, {gain}": partial(Budget, reads=READS, gain=gain) for gain in GAINS},
    SIZE_KNOWN: partial(Budget, reads=READS, gain="change"),
}
"""The last one also knows the level before the change and its size, as TRAS does."""


def alarms(path: Array, threshold: float) -> list[int]:
    """Ticks at which the path exceeds the threshold, counted again only WITHIN ticks after the last.

    >>> alarms(np.array([0.0, 2.0, 2.0, 0.0]), 1.0)
    [1]
    """
    found: list[int] = []
    for t in np.flatnonzero(path > threshold).tolist():
        if not found or t > found[-1] + WITHIN:
            found.append(t)
    return found


def ticks_per_alarm(paths: list[Array], threshold: float) -> float:
    """Ticks per alarm; those in which none can be counted again are left out."""
    counts = [len(alarms(path[LEAD:], threshold)) for path in paths]
    total = sum(path.size - LEAD for path in paths) - WITHIN * sum(counts)
    return max(total, 1) / max(sum(counts), 0.5)


def threshold_of(paths: list[Array]) -> float:
    """The threshold with one false alarm per EVERY ticks."""
    low, high = 0.0, max(float(path.max()) for path in paths)
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if ticks_per_alarm(paths, middle) >= EVERY else (middle, high)
    return high


def policy_cells(name: str, scale: Scale, seed: int) -> list[dict[str, Any]]:
    """The four cases of one policy of the library."""
    if name != SIZE_KNOWN:
        return _cells(name, None, list(CASES), scale, seed)
    sizes = sorted({size for _, size in CASES.values()})
    return [
        cell for size in sizes for cell in _cells(name, size, [c for c in CASES if CASES[c][1] == size], scale, seed)
    ]


def _cells(name: str, size: float | None, cases: list[str], scale: Scale, seed: int) -> list[dict[str, Any]]:
    make, ticks = POLICIES[name], LEAD + scale.ticks
    paths = {
        s: [Watch(make(), s + i, size).path(quiet(s, i, ticks)) for i in range(scale.quiet)]
        for s in (seed, seed + JUDGED)
    }
    thresholds = [threshold_of([path[:, k] for path in paths[seed]]) for k in range(2)]
    delays: dict[str, list[list[float]]] = {case: [] for case in cases}
    clear: list[list[bool]] = []
    for i in range(scale.changed):
        ready = Watch(make(), seed + JUDGED + i, size)
        before = ready.path(quiet(seed + JUDGED, scale.quiet + i, LEAD))
        clear.append((before[-WITHIN:].max(axis=0) <= thresholds).tolist())
        for case in cases:
            above = ready.copy().path(shifted(seed + JUDGED, i, case), thresholds) > thresholds
            delays[case].append(np.where(above.any(axis=0), above.argmax(axis=0) + 1.0, WAIT).tolist())
    cells = []
    for k, statistic in enumerate(STATISTICS):
        every = ticks_per_alarm([path[:, k] for path in paths[seed + JUDGED]], thresholds[k])
        for case in cases:
            found, free = [d[k] for d in delays[case]], [c[k] for c in clear]
            cells.append(_cell(case, f"{name}; {statistic}", thresholds[k], every, found, free))
    return cells


def _cell(
    case: str, name: str, threshold: float, every: float, delays: list[float], clear: list[bool]
) -> dict[str, Any]:
    cell = {"setting": "fleet", "change": case, "rule": name, "spend": READS / STREAMS, "spent": READS / STREAMS}
    return {**cell, "threshold": threshold, "every": every, "delays": delays, "clear": clear}


# --- TRAS --------------------------------------------------------------------------------------------------------

TRAS = {"TRAS, size known": lambda size: size, "TRAS, wrong size": lambda size: 3.0 - size}
"""The size that it assumes; a wrong one is 2 where the change has 1, and 1 where it has 2."""


def tras_cells(name: str, scale: Scale, seed: int) -> list[dict[str, Any]]:
    """The four cases of TRAS; it knows the level before the change."""
    cells = []
    ready: dict[float, tuple[float, float]] = {}
    for case, (_, size) in CASES.items():
        assumed = TRAS[name](size)
        if assumed not in ready:
            threshold = _tras_threshold(assumed, scale, seed)
            ready[assumed] = threshold, _every(_tras_counts(assumed, threshold, scale, seed + JUDGED), scale)
        threshold, every = ready[assumed]
        delays, clear = [], []
        for i in range(scale.changed):
            x = np.concatenate([quiet(seed + JUDGED, scale.quiet + i, LEAD), shifted(seed + JUDGED, i, case)])
            alarm = _tras(x, LEAD, assumed, threshold, seed + i)
            found = np.flatnonzero(alarm[LEAD:])
            delays.append(float(found[0] + 1 if found.size else WAIT))
            clear.append(not alarm[LEAD - WITHIN : LEAD].any())
        cells.append(_cell(case, name, threshold, every, delays, clear))
    return cells


def _tras(x: Array, after: int, size: float, threshold: float, seed: int) -> NDArray[np.bool_]:
    breaks = 1e-9 * np.random.default_rng(seed).random(STREAMS)
    return top_r_adaptive(x, after, size, COMPENSATION[size], READS, TOP, threshold, breaks)[0]


def _tras_counts(size: float, threshold: float, scale: Scale, seed: int) -> int:
    ticks = LEAD + scale.ticks
    runs = (_tras(quiet(seed, i, ticks), NEVER, size, threshold, seed + i) for i in range(scale.quiet))
    return sum(int(alarm[LEAD:].sum()) for alarm in runs)


def _every(count: int, scale: Scale) -> float:
    return scale.quiet * scale.ticks / max(count, 0.5)


def _tras_threshold(size: float, scale: Scale, seed: int) -> float:
    low, high = 4.0, 60.0
    for _ in range(10):
        middle = 0.5 * (low + high)
        often = _every(_tras_counts(size, middle, scale, seed), scale) < EVERY
        low, high = (middle, high) if often else (low, middle)
    return high

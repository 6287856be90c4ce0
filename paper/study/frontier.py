"""Error against spend for every gain and rule: what choosing saves, and where it does not."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd.belief.gains import GAINS, Gain
from mfbocd.calibrate import average_spend
from mfbocd.policy import Budget, InformationRate, Margin, Net, Policy, Random, Soft

from .families import FAMILIES, Family
from .follow import Scores, follow
from .parts import Job, finish

Array = NDArray[np.float64]

LEVELS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
COIN = tuple(np.round(np.linspace(0.05, 0.99, 20), 4).tolist())
"""Shares of low fidelity the random policy is run at; between them its scores are interpolated, stream by stream."""
TUNING = 16  # held-out streams a rule's argument is tuned on
GRID = np.linspace(-14.0, 6.0, 33)  # log arguments tried
DEFAULT = ("budget", "joint")


@dataclass(frozen=True)
class Cell:
    """One policy at one spend on one family: means over streams, with two standard errors."""

    family: str
    rule: str
    gain: str
    target: float
    low: float
    streams: int
    scores: dict[str, tuple[float, float]]
    """Mean and two standard errors of each measure."""
    coin: dict[str, tuple[float, float]]
    """The same of the random policy at the same share of low fidelity on the same streams."""
    ratio: dict[str, float]
    """Mean over the random policy's mean."""
    difference: dict[str, tuple[float, float]]
    """Mean of the paired differences, with two standard errors."""


def makers(ways: tuple[Any, Any], gain: Gain) -> dict[str, tuple[Callable[[float], Policy], bool]]:
    """Each rule as a function of the one argument that sets its spend, and whether spending rises with it."""
    dearer = ways[1].cost_of() - ways[0].cost_of()
    return {
        "rate": (lambda w: InformationRate([1.0, w], gain=gain), True),
        "margin": (lambda delta: Margin(delta, gain=gain), False),
        "net": (lambda price: Net(price / dearer, gain=gain), False),
        # half the price of going from low to high: neither an argmax nor a coin
        "soft": (lambda price: Soft(0.5 * price, price=price / dearer, gain=gain), False),
    }


def tuned(family: Family, rule: str, gain: Gain, levels: Sequence[float]) -> list[Policy]:
    """The rule at arguments that give these shares of low fidelity on held-out streams."""
    make, rising = makers(family.fidelities, gain)[rule]
    tables = [s.table for s in family.streams(1 if family.single else TUNING, first=1_000_000)]
    low_cost, high_cost = (f.cost_of() for f in family.fidelities)
    options: dict[str, Any] = {"prune": None, "missing": "raise", "threads": 1}

    def share(log: float) -> float:
        spend = average_spend(make(math.exp(log)), family.model, family.fidelities, family.hazard, tables, **options)
        return (high_cost - spend) / (high_cost - low_cost)

    shares = np.array([share(g) for g in GRID])
    if rising:
        shares = -shares  # so that both rise along the grid
    found = []
    for level in levels:
        wanted = -level if rising else level
        i = int(np.clip(np.searchsorted(np.maximum.accumulate(shares), wanted), 1, GRID.size - 1))
        low, high = GRID[i - 1], GRID[i]
        best = min(((abs(shares[k] - wanted), GRID[k]) for k in (i - 1, i)), key=lambda pair: pair[0])
        for _ in range(7):
            middle = 0.5 * (low + high)
            value = -share(middle) if rising else share(middle)
            best = min(best, (abs(value - wanted), middle), key=lambda pair: pair[0])
            low, high = (middle, high) if value < wanted else (low, middle)
        found.append(make(math.exp(best[1])))
    return found


def policies(
    family: Family, rule: str, gain: Gain, levels: Sequence[float], streams: int
) -> list[Policy | list[Policy]]:
    """What to run at each level: one policy for all streams, or one each where it learns."""
    if rule != "budget":
        return list(tuned(family, rule, gain, levels))
    low, high = (f.cost_of() for f in family.fidelities)
    return [[Budget(level * low + (1.0 - level) * high, gain=gain) for _ in range(streams)] for level in levels]


def coin(family: Family, streams: int, seed: int) -> dict[float, Scores]:
    """The random policy's scores at every share in COIN."""
    drawn = family.streams(streams, first=seed)
    return {p: follow(family, Random([p, 1.0 - p]), drawn, seed) for p in COIN}


def at_share(runs: dict[float, Scores], share: float, measure: str) -> Array:
    """The random policy's score of each stream at a share between two that were run."""
    shares = np.array([float(r.low.mean()) for r in runs.values()])
    rows = np.array([getattr(r, measure) for r in runs.values()])
    i = int(np.clip(np.searchsorted(shares, share), 1, len(shares) - 1))
    t = float(np.clip((share - shares[i - 1]) / (shares[i] - shares[i - 1]), 0.0, 1.0))
    return np.asarray((1.0 - t) * rows[i - 1] + t * rows[i])


def group(
    name: str, rule: str, gain: Gain, levels: Sequence[float], streams: int, seed: int, runs: dict[float, Scores]
) -> list[Cell]:
    """All levels of one rule and gain on one family, beside the random policy's `runs`."""
    family = FAMILIES[name]()
    # A rule with no draws of its own does the same on every copy of a single stream.
    count = 1 if family.single and rule != "soft" else streams
    drawn = family.streams(count, first=seed)
    cells = []
    for level, policy in zip(levels, policies(family, rule, gain, levels, count), strict=True):
        scores = follow(family, policy, drawn, seed)
        low = float(scores.low.mean())
        mine, theirs, ratio, difference = {}, {}, {}, {}
        for measure in Scores.MEASURES:
            a, b = getattr(scores, measure), at_share(runs, low, measure)
            mine[measure], theirs[measure] = _mean(a), _mean(b)
            ratio[measure] = mine[measure][0] / theirs[measure][0] if theirs[measure][0] else math.nan
            mean, error = _mean(a - b)
            # of a single stream there is one run, to be judged by how much one run of the coin varies
            difference[measure] = (mean, error * math.sqrt(b.size) if count == 1 else error)
        cells.append(Cell(name, rule, gain, level, low, count, mine, theirs, ratio, difference))
    return cells


def _mean(values: Array) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if known.size == 0:
        return math.nan, math.nan
    error = 2.0 * float(known.std(ddof=1)) / math.sqrt(known.size) if known.size > 1 else math.nan
    return float(known.mean()), error


def frontier(
    out: Path,
    *,
    families: Iterable[str] = tuple(FAMILIES),
    rules: Iterable[str] = ("rate", "margin", "soft", "net", "budget"),
    gains: Iterable[Gain] = GAINS,
    levels: Sequence[float] = LEVELS,
    streams: int = 200,
    seed: int = 1,
    jobs: int = -1,
    progress: bool = True,
) -> list[Cell]:
    """Run what is missing under `out`, and write frontier.csv, frontier.md and frontier.png there."""
    from .report import write

    folder = out / "groups"
    drawn = {"streams": streams, "seed": seed}
    setting = {"levels": list(levels), **drawn}
    wanted = [(f, r, g) for f in families for r in rules for g in gains]
    tosses: dict[str, Job] = {f"coin-{f}": (_toss, (f, streams, seed)) for f, _, _ in wanted}
    coins = finish(tosses, folder, drawn, jobs=jobs, progress=progress)
    groups: dict[str, Job] = {
        "-".join(key): (_group, (*key, tuple(levels), streams, seed, coins[f"coin-{key[0]}"])) for key in wanted
    }
    found = finish(groups, folder, setting, jobs=jobs, progress=progress)
    cells = [Cell(**cell) for name in groups for cell in found[name]]
    write(out, cells, setting)
    return cells


Rows = list[dict[str, list[float]]]
"""The coin's scores as JSON holds them, one item a share in COIN."""


def _toss(name: str, streams: int, seed: int) -> Rows:
    runs = coin(FAMILIES[name](), streams, seed)
    return [{field.name: getattr(r, field.name).tolist() for field in fields(r)} for r in runs.values()]


def _group(
    name: str, rule: str, gain: Gain, levels: Sequence[float], streams: int, seed: int, coins: Rows
) -> list[dict[str, Any]]:
    runs = {p: Scores(**{m: np.array(v) for m, v in rows.items()}) for p, rows in zip(COIN, coins, strict=True)}
    return [asdict(cell) for cell in group(name, rule, gain, levels, streams, seed, runs)]


def to_csv(path: Path, cells: Iterable[Cell]) -> None:
    """One row a cell."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        heads = [
            f"{m}{part}" for m in Scores.MEASURES for part in ("", "_2se", "_random", "_ratio", "_diff", "_diff_2se")
        ]
        writer.writerow(["family", "rule", "gain", "target_low", "low", "streams", *heads])
        for c in cells:
            row: list[Any] = [c.family, c.rule, c.gain, c.target, f"{c.low:.4f}", c.streams]
            for m in Scores.MEASURES:
                values = (*c.scores[m], c.coin[m][0], c.ratio[m], *c.difference[m])
                row += [f"{v:.6g}" for v in values]
            writer.writerow(row)

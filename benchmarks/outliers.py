"""Streams with outliers: precision and recall of the alarms of models with and without an explanation for them.

``python -m benchmarks.outliers [design|judged]``. A stream is normal within regimes of random level and standard
deviation; 2 % of its readings are moved by 5 to 20 standard deviations. Seeds 0..49 are for design, seeds 1000..1049
for judging (the default).

The kind of stream is that of the comparison of robust BOCD methods, whose best method reaches a precision of .907 and
a recall of .883, and a Gaussian of unknown variance a precision of .533. Its ten series are not here: these streams
are simulated, and the numbers can be compared in kind only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf

Array = NDArray[np.float64]

TICKS = 600
SHORTEST, MEAN_LENGTH = 40, 150  # ticks of a regime
RATE = 0.02
HAZARD = 1 / 200
MARGIN = 10  # ticks between a change and the tick that an alarm reports
SEEDS = {"design": range(50), "judged": range(1000, 1050)}
PRIOR = (0.0, 0.05, 1.0, 1.0)
"""Mean, count, shape and scale: levels some four standard deviations apart, of which little is known."""

MODELS: dict[str, Callable[[], mf.Model]] = {
    "GaussianUnknown": lambda: mf.GaussianUnknown(*PRIOR),
    "Outliers(GaussianUnknown)": lambda: mf.Outliers(mf.GaussianUnknown(*PRIOR), RATE),
    "StudentTUnknown": lambda: mf.StudentTUnknown(*PRIOR),
}


class Stream(NamedTuple):
    """Readings, the first tick of every regime but the first, and which readings are outliers."""

    x: Array
    changes: list[int]
    outlier: NDArray[np.bool_]


def stream(seed: int) -> Stream:
    """Simulate one stream: each change is one of level, of standard deviation, or of both."""
    rng = np.random.default_rng(seed)
    level, sd, start = rng.normal(0.0, 4.0), np.exp(rng.uniform(-0.7, 0.7)), 0
    x, changes, size = np.empty(TICKS), [], np.empty(TICKS)
    while True:
        end = start + SHORTEST + int(rng.exponential(MEAN_LENGTH - SHORTEST))
        if end > TICKS - SHORTEST:
            end = TICKS
        x[start:end], size[start:end] = rng.normal(level, sd, end - start), sd
        if end == TICKS:
            break
        changes.append(end)
        start, kind = end, rng.choice(["level", "level", "sd", "both"])
        if kind != "sd":
            level += sd * rng.choice([-1.0, 1.0]) * rng.uniform(2.0, 6.0)
        if kind != "level":
            sd *= rng.uniform(2.5, 4.0) ** (-1.0 if sd > 1.0 else 1.0)
    outlier = rng.random(TICKS) < RATE
    x = x + np.where(outlier, rng.choice([-1.0, 1.0], TICKS) * rng.uniform(5.0, 20.0, TICKS) * size, 0.0)
    return Stream(x, changes, outlier)


def hits(changes: Sequence[int], found: Sequence[int], margin: int = MARGIN) -> int:
    """Count the changes that an alarm reports within the margin; an alarm counts for one change only.

    >>> hits([100, 200], [98, 103, 240])
    1
    """
    free, count = list(found), 0
    for change in changes:
        close = [at for at in free if abs(at - change) <= margin]
        if close:
            free.remove(min(close, key=lambda at: abs(at - change)))
            count += 1
    return count


class Score(NamedTuple):
    """Totals over the streams of a table."""

    precision: float
    recall: float
    alarms: int
    changes: int
    flagged: float
    """Share of the outliers with P(outlier) above 1/2 when they were read; NaN if the model reports none."""


def score(make: Callable[[], mf.Model], seeds: Iterable[int]) -> Score:
    """Return precision and recall of the alarms over the streams of these seeds."""
    alarms = changes = right = 0
    flagged: list[bool] = []
    for seed in seeds:
        given = stream(seed)
        trace = mf.run(mf.Detector(make(), hazard=HAZARD), given.x)
        found = [change.changed_at for change in trace.changes]
        alarms += len(found)
        changes += len(given.changes)
        right += hits(given.changes, found)
        if trace.outlier is not None:
            flagged += (trace.outlier[given.outlier] > 0.5).tolist()
    share = float(np.mean(flagged)) if flagged else float("nan")
    return Score(right / max(alarms, 1), right / max(changes, 1), alarms, changes, share)


def main(which: str = "judged") -> None:
    """Print one row per model."""
    print(f"{len(SEEDS[which])} streams of {TICKS} ticks ({which} seeds), {100 * RATE:g} % outliers of 5 to 20 sd")
    print(f"{'':28s}{'precision':>10s}{'recall':>8s}{'alarms':>8s}{'changes':>9s}{'outliers flagged':>18s}")
    for name, make in MODELS.items():
        row = score(make, SEEDS[which])
        flagged = "" if np.isnan(row.flagged) else f"{row.flagged:.3f}"
        print(f"{name:28s}{row.precision:10.3f}{row.recall:8.3f}{row.alarms:8d}{row.changes:9d}{flagged:>18s}")


if __name__ == "__main__":
    main(*sys.argv[1:2])

"""Streaming anomaly detection (Numenta Anomaly Benchmark): the score of its paper (Lavin and Ahmad 2015).

Every labelled anomaly has a window. The first detection in a window earns sigma(y) / sigma(-1), where y runs from -1
at the window's first row to 0 at its end and sigma(y) = 2 / (1 + exp(5 y)) - 1; a window without detection costs the
weight of a false negative. A detection outside costs the weight of a false positive times -sigma(y), with y the
distance to the end of the last window in widths of that window (sigma = -1 from 3 on, or if there was no window).
The first 15 % of a file, at most 750 rows, are not scored. One threshold for all files maximizes the score, which is
then normalized: 0 without any detection, 100 for the first row of every window and nothing else.

The files at even positions of the sorted names are the design half, on which thresholds are chosen. The features and
the length of the blocks of `block_surprise` come from an earlier study of all 58 files, so the judge half is not
entirely new to it.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .common import data_folder, markdown, yes
from .methods import Array, Times

PROFILES = {  # weights of a true positive, a false positive and a false negative
    "standard": (1.0, 0.11, 1.0),
    "reward_low_FP": (1.0, 0.22, 1.0),
    "reward_low_FN": (1.0, 0.11, 2.0),
}
PUBLISHED = {
    "Bayesian changepoint": 17.7,
    "windowed Gaussian": 39.6,
    "random cut forest": 51.7,
    "HTM": 70.0,
    "ARTime": 74.9,
}
"""Standard profile on all 58 files; a checkout has 31, and results per file are not available."""
EVENT = 0.98
"""Calibrated score at which an event begins."""
Scores = Callable[[Array, Times], Array]
"""Anomaly scores in [0, 1], one per row, each from the readings up to that row."""


@dataclass(frozen=True)
class File:
    """One file."""

    name: str
    times: Sequence[str]
    x: Array
    windows: Sequence[tuple[int, int]]
    """First and last row of each."""


@dataclass(frozen=True)
class Scorer:
    """Something that gives every row an anomaly score."""

    name: str
    looks_ahead: bool
    scores: Scores


@dataclass(frozen=True)
class Points:
    """The rows of all files that are scored."""

    worth: Array
    """sigma for each row: in (0, 1] within a window, negative outside."""
    window: NDArray[np.int64]
    """Index of its window among all windows, or -1."""
    windows: int


def probation(rows: int) -> int:
    """Return how many rows at the start are not scored."""
    return min(math.floor(0.15 * rows), 750)


def sigma(y: float) -> float:
    """Return the value of a detection at relative position y."""
    return -1.0 if y >= 3.0 else 2.0 / (1.0 + math.exp(5.0 * y)) - 1.0


def worth(rows: int, windows: Sequence[tuple[int, int]]) -> Array:
    """Return what a detection at each row is worth, before weights."""
    out = np.full(rows, -1.0)
    for k, (first, last) in enumerate(windows):
        width = last - first + 1
        for i in range(first, last + 1):
            out[i] = sigma(-(last - i + 1) / width) / sigma(-1.0)
        end = windows[k + 1][0] if k + 1 < len(windows) else rows
        for i in range(last + 1, end):
            out[i] = sigma((i - last) / max(width - 1, 1))
    return out


def points(files: Iterable[File]) -> Points:
    """Collect the scored rows of all files. A window that lies in the probation does not count."""
    values, owners, count = [], [], 0
    for file in files:
        start = probation(file.x.size)
        owner = np.full(file.x.size, -1)
        for first, last in file.windows:
            if last >= start:
                owner[first : last + 1] = count
                count += 1
        values.append(worth(file.x.size, file.windows)[start:])
        owners.append(owner[start:])
    return Points(np.concatenate(values), np.concatenate(owners), count)


def sweep(scored: Points, scores: Array, profile: str) -> tuple[float, float]:
    """Return the best normalized score over all thresholds, and the threshold that rows of detections reach."""
    hit, false, missed = PROFILES[profile]
    order = np.argsort(-scores, kind="stable")
    best_of = np.full(scored.windows, -missed)
    total = null = -missed * scored.windows
    best, threshold = null, math.inf
    ranked = scores[order]
    for rank, i in enumerate(order):
        w = scored.window[i]
        if w < 0:
            total += false * scored.worth[i]
        elif hit * scored.worth[i] > best_of[w]:
            total += hit * scored.worth[i] - best_of[w]
            best_of[w] = hit * scored.worth[i]
        if total > best and (rank + 1 == order.size or ranked[rank + 1] < ranked[rank]):
            best, threshold = total, float(ranked[rank])
    return normalized(best, scored.windows, profile), threshold


def score_at(scored: Points, scores: Array, profile: str, threshold: float) -> float:
    """Return the normalized score of the rows that reach a given threshold."""
    hit, false, missed = PROFILES[profile]
    detected = scores >= threshold
    outside = detected & (scored.window < 0)
    inside = detected & (scored.window >= 0)
    best_of = np.full(scored.windows, -missed)
    np.maximum.at(best_of, scored.window[inside], hit * scored.worth[inside])
    return normalized(best_of.sum() + false * scored.worth[outside].sum(), scored.windows, profile)


def normalized(score: float, windows: int, profile: str) -> float:
    """Return the score on the scale from 0 (no detection) to 100 (the first row of every window)."""
    hit, _, missed = PROFILES[profile]
    null, perfect = -missed * windows, hit * windows
    return float(100.0 * (score - null) / (perfect - null))


def load(folder: Path, count: int | None = None) -> list[File]:
    """Return the files, or the first `count` of them."""
    out = []
    for name, windows in list(json.loads((folder / "windows.json").read_text()).items())[:count]:
        with (folder / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        times = [row["timestamp"] for row in rows]
        stamps = np.array(times, dtype="datetime64[us]")
        limits = np.array(windows, dtype="datetime64[us]").reshape(-1, 2)
        places = [
            (int(np.searchsorted(stamps, a)), int(np.searchsorted(stamps, b, side="right")) - 1) for a, b in limits
        ]
        out.append(File(name, times, np.array([float(row["value"]) for row in rows]), places))
    return out


def windowed_gaussian(x: Array, times: Times, size: int = 1000) -> Array:
    """1 - the tail probability of a reading under the mean and standard deviation of the last `size` ones."""
    out = np.zeros(x.size)
    total = np.concatenate([[0.0], np.cumsum(x - x[0])])
    square = np.concatenate([[0.0], np.cumsum((x - x[0]) ** 2)])
    for t in range(1, x.size):
        a = max(t - size, 0)
        mean = (total[t] - total[a]) / (t - a)
        var = (square[t] - square[a]) / (t - a) - mean**2
        z = abs(x[t] - x[0] - mean) / (math.sqrt(var) if var > 1e-12 else 1e-6)
        out[t] = 1.0 - 0.5 * math.erfc(z / math.sqrt(2.0))
    return out


def blind(x: Array, times: Times) -> Array:
    """Fire every 9 % of the file, from the end of the probation on, whatever the readings are.

    Other phases score between 12 and 26 on the 31 files (standard profile).
    """
    out = np.zeros(x.size)
    out[probation(x.size) :: max(round(0.09 * x.size), 1)] = 1.0
    return out


def p_change(x: Array, times: Times) -> Array:
    """P(change) of the automatic detector."""
    from mfbocd.calibrate.auto import AutoDetector

    return np.asarray(AutoDetector().run(x).p_change)


def surprise(x: Array, times: Times) -> Array:
    """-log density of one family, its prior from the standardized readings of the probation, mapped to [0, 1]."""
    from mfbocd.calibrate.draft import guess_with_reasons
    from mfbocd.io.config import Config

    first = x[: probation(x.size)]
    z = (x - first.mean()) / (first.std() or 1.0)
    detector = Config.parse({"model": guess_with_reasons(z[: first.size]).spec}).detector(missing="skip")
    evidence = np.empty(x.size)
    for t, value in enumerate(z.tolist()):
        detector.update(value)
        evidence[t] = detector.log_evidence
    loss = -np.diff(evidence, prepend=0.0)
    out: Array = 0.5 + 0.5 * loss / (1.0 + np.abs(loss))
    return out


def block_surprise(x: Array, times: Times) -> Array:
    """Calibrated surprise of blocks of 24 readings: the score of a block that begins an event, on its last row."""
    from mfbocd.calibrate import AnomalyScore, anomaly_detector

    detector, anomaly = anomaly_detector(x[: probation(x.size)]), AnomalyScore(EVENT)
    out = np.zeros(x.size)
    for t, value in enumerate(x.tolist()):
        step = detector.update(value)
        if step.surprise is not None:
            found = anomaly.update(step.surprise)
            out[t] = found.score if found.detected else 0.0
    return out


def scorers() -> list[Scorer]:
    """What is compared; none looks ahead beyond the probation, where nothing is scored."""
    return [
        Scorer("block surprise, calibrated", False, block_surprise),
        Scorer("P(change)", False, p_change),
        Scorer("-log density", False, surprise),
        Scorer("windowed Gaussian", False, windowed_gaussian),
        Scorer("blind, every 9 %", False, blind),
    ]


def rows_of(scorer: Scorer, files: Sequence[File]) -> list[Array]:
    """Return the scores of the rows of each file that are scored."""
    results = [scorer.scores(file.x, file.times) for file in files]
    for file, result in zip(files, results, strict=True):
        if result.shape != file.x.shape or not ((result >= 0.0) & (result <= 1.0)).all():
            raise ValueError(f"scores of {scorer.name} must be one number in [0, 1] per row of {file.name}")
    return [r[probation(r.size) :] for r in results]


def evaluate(scorer: Scorer, files: Sequence[File]) -> dict[str, tuple[float, float]]:
    """Return the normalized score and the threshold for each profile."""
    kept = np.concatenate(rows_of(scorer, files))
    scored = points(files)
    return {profile: sweep(scored, kept, profile) for profile in PROFILES}


@dataclass(frozen=True)
class Halves:
    """Normalized scores at the threshold that is best on the design half."""

    threshold: float
    design: float
    judge: float
    both: float
    best: float
    """On all files, with the threshold that is best on all of them, as NAB chooses it."""


def halves(scorer: Scorer, files: Sequence[File]) -> dict[str, Halves]:
    """Choose thresholds on the files at even positions of the sorted names, and apply them to all."""
    rows = rows_of(scorer, files)
    order = sorted(range(len(files)), key=lambda i: files[i].name)
    parts = [order[::2], order[1::2], order]
    scored = [points(files[i] for i in part) for part in parts]
    kept = [np.concatenate([rows[i] for i in part]) for part in parts]
    out = {}
    for profile in PROFILES:
        _, level = sweep(scored[0], kept[0], profile)
        at = (score_at(s, k, profile, level) for s, k in zip(scored, kept, strict=True))
        out[profile] = Halves(level, *at, sweep(scored[2], kept[2], profile)[0])
    return out


def report(compared: Sequence[Scorer], count: int | None = None) -> None:
    """Print the score of every profile."""
    files = load(data_folder("nab"), count)
    rows = []
    for scorer in compared:
        found = halves(scorer, files)
        cells = (f"{h.design:.1f} / {h.judge:.1f} / {h.both:.1f}" for h in found.values())
        standard = found["standard"]
        tail = f"{standard.threshold:.6g}", f"{standard.best:.1f}"
        rows.append([scorer.name, yes(scorer.looks_ahead), *cells, *tail])
    windows = points(files).windows
    print(f"\n### NAB: score on {len(files)} files with {windows} windows: design half / judge half / all\n")
    print(
        "One threshold for all files. It was chosen on the design half (even positions of the sorted names), for "
        "each profile, and applied to the judge half and to all files. The last column chooses it on all files, as "
        "NAB does. The features and the length of the blocks come from an earlier study of all files.\n"
    )
    print(markdown(["score", "looks ahead", *PROFILES, "threshold (standard)", "standard, NAB's choice"], rows))
    known = ", ".join(f"{name} {value}" for name, value in PUBLISHED.items())
    print(f"\nPublished on all 58 files, per-file results not available (standard): {known}.", flush=True)

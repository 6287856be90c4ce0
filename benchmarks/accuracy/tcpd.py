"""Annotated real series: covering and F1 of default settings, beside BOCPD as published and no change at all.

``python -m benchmarks.accuracy [FOLDER]``: FOLDER holds the series of the Turing Change Point Dataset as JSON, and
``annotations.json``. Scores are those of van den Burg and Williams (2020, arXiv:2003.06222).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.adapters.sklearn import Segmenter
from mfbocd.trace.hindsight import hindsight

Array = NDArray[np.float64]
Marks = Sequence[set[int]]
MARGIN = 5


def f1(marked: Marks, found: Sequence[int], margin: int = MARGIN) -> float:
    """F1 with a margin: precision against the union of the annotators, recall averaged over them; 0 is in every set.

    Each mark is matched by at most one detection.
    """
    sets = [{0, *marks} for marks in marked]
    detected = {0, *found}

    def hits(truth: set[int], guess: set[int]) -> int:
        free = set(guess)
        count = 0
        for t in sorted(truth):
            close = sorted((abs(t - g), g) for g in free if abs(t - g) <= margin)
            if close:
                count += 1
                free.remove(close[0][1])
        return count

    precision = hits(set().union(*sets), detected) / len(detected)
    recall = float(np.mean([hits(s, detected) / len(s) for s in sets]))
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def covering(marked: Marks, found: Sequence[int], ticks: int) -> float:
    """How well the found segments cover each annotator's, by the Jaccard index, averaged over annotators."""

    def segments(marks: set[int] | Sequence[int]) -> list[set[int]]:
        edges = [0, *sorted({m for m in marks if 0 < m < ticks}), ticks]
        return [set(range(a, b)) for a, b in pairwise(edges)]

    mine = segments(found)

    def cover(theirs: list[set[int]]) -> float:
        return sum(len(s) * max(len(s & m) / len(s | m) for m in mine) for s in theirs) / ticks

    return float(np.mean([cover(segments(marks)) for marks in marked]))


def series(folder: Path) -> dict[str, tuple[Array, list[set[int]]]]:
    """Each series, z-scored as in the benchmark, (T, d), with the annotators' marks."""
    marks = json.loads((folder / "annotations.json").read_text())
    out = {}
    for path in sorted(folder.glob("*.json")):
        loaded = json.loads(path.read_text())
        if "series" not in loaded:
            continue
        x = np.array([s["raw"] for s in loaded["series"]], dtype=float).T
        x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)
        out[loaded["name"]] = (x, [set(m) for m in marks[loaded["name"]].values()])
    return out


def ours(x: Array) -> list[int]:
    """The default for a finished series, no setting: `Segmenter()`, which looks back on an online filter."""
    return Segmenter().fit_predict(x).tolist()


def online(x: Array) -> list[int]:
    """The same model while running: the changes its alarms report, each by what was known at the alarm."""
    model = Segmenter().fit(x).model_
    trace = mf.run(mf.Detector(model, hazard=mf.Learned()), x if x.shape[1] > 1 else x[:, 0])
    return [change.changed_at for change in trace.changes]


def published(x: Array) -> list[int]:
    """R ocp's default: Normal-inverse-gamma with a = b = k = 1 about 0, lambda 100, max-product; first column."""
    model = mf.GaussianUnknown(mean=0, count=1, shape=1, scale=1)
    return hindsight(mf.Detector(model, hazard=1 / 100, prune=None), x[:, 0]).segmentation()


METHODS: dict[str, Callable[[Array], list[int]]] = {
    "none": lambda x: [],
    "BOCPD, default": published,
    "mfbocd": ours,
    "mfbocd, online": online,
}
GOALS = {"covering": 0.672, "F1": 0.698}  # binary segmentation's published default, offline, over all series


def main() -> None:
    root = Path(__file__).resolve().parents[3]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "shared" / "data" / "tcpd"
    if not folder.is_dir():
        raise SystemExit(
            f"{folder}: no such folder; name the one with the series: python -m benchmarks.accuracy FOLDER"
        )
    loaded = series(folder)
    scores = np.empty((len(METHODS), len(loaded), 2))
    print("covering / F1, default settings")
    print(f"{'':22s}" + "".join(f"{name:>18s}" for name in METHODS))
    for k, (name, (x, marks)) in enumerate(loaded.items()):
        for m, find in enumerate(METHODS.values()):
            found = find(x)
            scores[m, k] = covering(marks, found, len(x)), f1(marks, found)
        print(f"{name:22s}" + "".join(f"{c:9.3f} / {f:.3f} " for c, f in scores[:, k]), flush=True)
    mean = scores.mean(axis=1)
    print(f"{'mean':22s}" + "".join(f"{c:9.3f} / {f:.3f} " for c, f in mean))
    control = [not name.startswith("quality_control") for name in loaded]
    some = scores[:, control].mean(axis=1)
    print(f"{'without the controls':22s}" + "".join(f"{c:9.3f} / {f:.3f} " for c, f in some))
    base, mine = scores[1], scores[2]
    for j, (measure, goal) in enumerate(GOALS.items()):
        gap = mine[:, j] - base[:, j]
        error = 2.0 * gap.std(ddof=1) / np.sqrt(gap.size)
        met = "met" if mean[2, j] > goal else "MISSED"
        print(f"{measure}: {gap.mean():+.3f} ({error:.3f}) beside default BOCPD; goal {goal}: {met}")


if __name__ == "__main__":
    main()

"""Annotated real series: covering and F1 of default settings, beside BOCPD as published and no change at all.

``python -m benchmarks.accuracy [FOLDER]``: FOLDER holds the series of the Turing Change Point Dataset as JSON, and
``annotations.json``. Scores are those of van den Burg and Williams (2020, arXiv:2003.06222).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
        return [set(range(a, b)) for a, b in zip(edges, edges[1:], strict=False)]

    mine = segments(found)

    def cover(theirs: list[set[int]]) -> float:
        return sum(len(s) * max(len(s & m) / len(s | m) for m in mine) for s in theirs) / ticks

    return float(np.mean([cover(segments(marks)) for marks in marked]))


def series(folder: Path) -> dict[str, tuple[Array, list[set[int]]]]:
    """Each series, z-scored as in the benchmark, (T, d), with the annotators' marks."""
    marks = json.loads((folder / "annotations.json").read_text())
    out = {}
    for path in sorted(folder.glob("*.json")):
        held = json.loads(path.read_text())
        if "series" not in held:
            continue
        x = np.array([s["raw"] for s in held["series"]], dtype=float).T
        x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)
        out[held["name"]] = (x, [set(m) for m in marks[held["name"]].values()])
    return out

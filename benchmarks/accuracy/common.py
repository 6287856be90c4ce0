"""Shared by the benchmarks: data folders, Markdown tables, the cache of peers' results, segment scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np

from .methods import Alarm, Array, Method, Times

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "out" / "accuracy"
Marks = Sequence[Iterable[int]]
"""The changes that each annotator marks."""


class MissingDataError(Exception):
    """The data of a benchmark is not on this machine."""


def data_folder(name: str) -> Path:
    """Return the folder of a data set, ``../shared/data/NAME`` of this checkout."""
    folder = ROOT.parent / "shared" / "data" / name
    if not folder.is_dir():
        raise MissingDataError(f"{name}: no folder shared/data/{name} next to the checkout")
    return folder


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def yes(value: bool) -> str:
    """Return the word for a table."""
    return "yes" if value else "no"


def error(values: Array) -> float:
    """Return the standard error of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0


class Cache:
    """Results of peers by method, version, threshold and readings, in ``out/accuracy``. Ours always run."""

    def __init__(self, folder: Path = CACHE) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, list[list[int]]]] = {}
        self._stamp: dict[str, str] = {}
        self._changed: set[str] = set()
        self._code = hashlib.sha256((Path(__file__).parent / "peers.py").read_bytes()).hexdigest()[:12]

    def detect(self, method: Method, x: Array, times: Times = None, threshold: float | None = None) -> list[Alarm]:
        """Return ``method.detect(...)``, from the cache if possible."""
        if not method.package:
            return method.detect(x, times, threshold)
        known = self._load(method)
        level = method.threshold if threshold is None else threshold
        key = hashlib.sha256(f"{level:.9g}".encode() + np.ascontiguousarray(x).tobytes()).hexdigest()[:24]
        if key not in known:
            known[key] = [list(alarm) for alarm in method.detect(x, times, threshold)]
            self._changed.add(method.name)
        return [Alarm(*alarm) for alarm in known[key]]

    def save(self) -> None:
        """Write what is new."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in self._changed:
            path = self._folder / f"{name}.json"
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps({"stamp": self._stamp[name], "alarms": self._known[name]}))
            partial.replace(path)
        self._changed.clear()

    def _load(self, method: Method) -> dict[str, list[list[int]]]:
        if method.name not in self._known:
            stamp = self._stamp[method.name] = f"{method.package} {version(method.package)} {self._code}"
            path = self._folder / f"{method.name}.json"
            stored = json.loads(path.read_text()) if path.is_file() else {}
            self._known[method.name] = stored["alarms"] if stored.get("stamp") == stamp else {}
        return self._known[method.name]


def f1(marked: Marks, found: Iterable[int], margin: int = 5) -> float:
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


def covering(marked: Marks, found: Iterable[int], ticks: int) -> float:
    """How well the found segments cover each annotator's, by the Jaccard index, averaged over annotators."""

    def segments(marks: Iterable[int]) -> list[tuple[int, int]]:
        return list(pairwise([0, *sorted({m for m in marks if 0 < m < ticks}), ticks]))

    mine = np.array(segments(found))

    def cover(theirs: list[tuple[int, int]]) -> float:
        total = 0.0
        for a, b in theirs:
            both = np.maximum(np.minimum(mine[:, 1], b) - np.maximum(mine[:, 0], a), 0)
            either = (mine[:, 1] - mine[:, 0]) + (b - a) - both
            total += (b - a) * float((both / either).max())
        return total / ticks

    return float(np.mean([cover(segments(marks)) for marks in marked]))

"""Changes of shape (Time Series Segmentation Benchmark): covering.

A line of ``desc.txt`` is the name of a series, a window size that its authors suggest (not used), and the changes.
Published on all 75 series, of which a checkout has 38: BOCD .449, PELT .581, ClaSP .855 (offline). Results per series
are not available, so published means are not comparable with the rows of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .common import Cache, covering, data_folder, error, markdown, yes
from .methods import Array, Method, none


def load(folder: Path, count: int | None = None) -> dict[str, tuple[Array, list[int]]]:
    """Return the series with their true changes; the first `count` only, if given."""
    out = {}
    for line in (folder / "desc.txt").read_text().split()[:count]:
        name, _window, *changes = line.split(",")
        out[name] = (np.loadtxt(folder / f"{name}.txt", dtype=float), [int(c) for c in changes])
    return out


def report(methods: Sequence[Method], cache: Cache, count: int | None = None) -> None:
    """Print mean covering, the paired difference to no change at all, and alarms per series."""
    loaded = load(data_folder("tssb"), count)
    rows = []
    base = np.array([covering([changes], [], len(x)) for x, changes in loaded.values()])
    for method in [*methods, none()]:
        results, alarms = [], []
        for x, changes in loaded.values():
            found = [alarm.changed_at for alarm in cache.detect(method, x)]
            results.append(covering([changes], found, len(x)))
            alarms.append(len(found))
        cache.save()
        gap = np.array(results) - base
        difference = f"{gap.mean():+.3f} ({error(gap):.3f})" if method.name != "none" else "-"
        mean = f"{np.mean(results):.3f}"
        rows.append([method.name, yes(method.looks_ahead), mean, difference, f"{np.mean(alarms):.1f}"])
    true = np.mean([len(changes) for _, changes in loaded.values()])
    print(f"\n### TSSB: covering on {len(loaded)} series ({true:.1f} true changes each); paired (standard error)\n")
    print(markdown(["method", "looks ahead", "covering", "minus none", "alarms per series"], rows))
    print(
        "\nPublished on all 75 series, per-series results not available: BOCD .449, PELT .581, ClaSP .855.",
        flush=True,
    )

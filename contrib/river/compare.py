"""``python contrib/river/compare.py``: `BOCD` beside river's detectors, for PULL_REQUEST.md."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from river import base, drift

STREAMS = 30
BEFORE = 1000  # values before the change
AFTER = 300
CHANGES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "level +1 sd": lambda z: z + 1,
    "level +3 sd": lambda z: z + 3,
    "ramp of +3 sd over 100 values": lambda z: z + np.minimum(np.arange(z.size) / 100, 1) * 3,
    "variance x9": lambda z: 3 * z,
    "variance /9": lambda z: z / 3,
}


def install() -> type[base.DriftDetector]:
    """Load `bocd.py` as the module of river that it is going to be, and return its class."""
    name = "river.drift.bocd"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("bocd.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    drift.BOCD = module.BOCD  # type: ignore[attr-defined]
    kind: type[base.DriftDetector] = module.BOCD
    return kind


def drifts(detector: base.DriftDetector, stream: NDArray[np.float64]) -> list[int]:
    """Return the indices at which drifts are detected."""
    found = []
    for i, x in enumerate(stream.tolist()):
        detector.update(x)
        if detector.drift_detected:
            found.append(i)
    return found


def main() -> None:
    """Print the table."""
    detectors = [install(), drift.ADWIN, drift.PageHinkley, drift.KSWIN]
    print(f"| {STREAMS} streams, N(0, 1) | {' | '.join(kind.__name__ for kind in detectors)} |")
    print("|---" * (len(detectors) + 1) + "|")
    false, seconds = dict.fromkeys(detectors, 0), dict.fromkeys(detectors, 0.0)
    for name, change in CHANGES.items():
        cells = []
        for kind in detectors:
            rng, delays = np.random.default_rng(1), []
            for _ in range(STREAMS):
                z = rng.normal(size=BEFORE + AFTER)
                stream = np.concatenate([z[:BEFORE], change(z[BEFORE:])])
                detector = kind(seed=1) if kind is drift.KSWIN else kind()
                began = time.process_time()
                found = drifts(detector, stream)
                seconds[kind] += time.process_time() - began
                false[kind] += sum(i < BEFORE for i in found)
                delays += [i - BEFORE for i in found if i >= BEFORE][:1]
            missed = f", {STREAMS - len(delays)} missed" if len(delays) < STREAMS else ""
            cells.append(f"{np.median(delays):.0f}{missed}" if delays else "all missed")
        print(f"| {name}: median delay | {' | '.join(cells)} |")
    streams = len(CHANGES) * STREAMS
    rates = [f"{false[kind] / streams:.2f}" for kind in detectors]
    print(f"| false alarms in 1000 values | {' | '.join(rates)} |")
    times = [f"{seconds[kind] / streams / (BEFORE + AFTER) * 1e6:.1f}" for kind in detectors]
    print(f"| microseconds per value | {' | '.join(times)} |")


if __name__ == "__main__":
    main()

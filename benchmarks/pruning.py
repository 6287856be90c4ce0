"""What pruning costs in accuracy and saves in time: ``python -m benchmarks.pruning``.

Each pruning runs beside the exact filter on the same streams. L1 is the mean over ticks of sum_l |P - P_exact|
(at most 2); the errors of the mean (in units of the noise's standard deviation) and of P(change within 50) are root
mean squares.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import mfbocd as mf

MODEL = mf.Gaussian(0, 9, 1)
TICKS = 5000

PRUNINGS: dict[str, Any] = {
    "None (exact)": None,
    "Threshold(1e-4)": mf.Threshold(1e-4),
    "Threshold(1e-8)": mf.Threshold(1e-8),
    "TopK(64)": mf.TopK(64),
    "TopK(128)": mf.TopK(128),
    "TopK(256)": mf.TopK(256),
    "TopK(512)": mf.TopK(512),
    "TopK(64, slack=0)": mf.TopK(64, slack=0),
    "Resample(64)": mf.Resample(64),
    "Resample(256)": mf.Resample(256),
    "Threshold(1e-8), TopK(256)": (mf.Threshold(1e-8), mf.TopK(256)),
    "Threshold(1e-8), Resample(256): default": (mf.Threshold(1e-8), mf.Resample(256)),
    "Resample(512)": mf.Resample(512),
}

STREAMS: dict[str, Callable[[int], np.ndarray]] = {
    "changes every 100": lambda s: mf.simulate.gaussian(MODEL, hazard=1 / 100, ticks=TICKS, seed=s).table,
    "changes every 500": lambda s: mf.simulate.gaussian(MODEL, hazard=1 / 500, ticks=TICKS, seed=s).table,
    "no change": lambda s: np.random.default_rng(s).normal(size=(TICKS, 1)),
}
HAZARD = {"changes every 100": 1 / 100, "changes every 500": 1 / 500, "no change": 1 / 250}


def follow(prune: Any, table: np.ndarray, hazard: float) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Posterior (T, T), (mean, P(change)) a tick, most hypotheses held, seconds without keeping posteriors."""
    detector = mf.Detector(MODEL, hazard=hazard, prune=prune)
    posterior = np.zeros((len(table), len(table)), dtype=np.float32)
    told, most = np.empty((len(table), 2)), 0
    for t, x in enumerate(table[:, 0].tolist()):
        step = detector.update(x)
        told[t] = step.mean, step.p_change
        length, weight = detector.run_length
        posterior[t, length] = weight
        most = max(most, length.size)
    start = time.perf_counter()
    mf.run(mf.Detector(MODEL, hazard=hazard, prune=prune), table)
    return posterior, told, most, time.perf_counter() - start


def main() -> None:
    print(f"Gaussian(0, 9, 1), {TICKS} ticks, seed 1; time is for the whole stream with mf.run")
    for name, make in STREAMS.items():
        table, hazard = make(1), HAZARD[name]
        exact, truth, _, _ = follow(None, table, hazard)
        print(f"\n{name}, hazard {hazard:g}")
        heads = f"{'mean L1':>10s}{'worst L1':>10s}{'mean':>10s}{'P(change)':>11s}"
        print(f"{'prune=':42s}{'most held':>10s}{heads}{'ms':>8s}")
        for label, prune in PRUNINGS.items():
            posterior, got, most, seconds = follow(prune, table, hazard)
            l1 = np.array([np.abs(a - b).sum() for a, b in zip(posterior, exact, strict=True)])
            mean, change = np.sqrt(np.mean((got - truth) ** 2, axis=0))
            errors = f"{l1.mean():10.1e}{l1.max():10.1e}{mean:10.1e}{change:11.1e}"
            print(f"{label:42s}{most:10d}{errors}{1e3 * seconds:8.1f}")


if __name__ == "__main__":
    main()

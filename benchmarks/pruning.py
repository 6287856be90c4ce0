"""What pruning costs in accuracy and saves in time: ``python -m benchmarks.pruning``.

Each pruning runs beside the exact filter on the same streams. L1 is the mean over ticks of sum_l |P - P_exact|
(at most 2); the errors of the mean (in units of the noise's standard deviation) and of P(change within 200) are root
mean squares.

The second part counts changes. Every stream has one, and its readings may lie far from the prior: a regime that
begins there is improbable at first, however well it fits. A change counts as found if an alarm fires after it, as
late if that is more than five ticks after the exact filter's. Part three is the time and the size of one tick.
"""

from __future__ import annotations

import itertools
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
    "Threshold(1e-8), TopK(256)": (mf.Threshold(1e-8), mf.TopK(256)),
    "Threshold(1e-8), Resample(256)": (mf.Threshold(1e-8), mf.Resample(256)),
    "Resample(128)": mf.Resample(128),
    "Resample(256): default": mf.Resample(256),
    "Resample(512)": mf.Resample(512),
}

STREAMS: dict[str, Callable[[int], np.ndarray]] = {
    "changes every 100": lambda s: mf.simulate.gaussian(MODEL, hazard=1 / 100, ticks=TICKS, seed=s).table,
    "changes every 500": lambda s: mf.simulate.gaussian(MODEL, hazard=1 / 500, ticks=TICKS, seed=s).table,
    "no change": lambda s: np.random.default_rng(s).normal(size=(TICKS, 1)),
    "far from the prior, steps of 1 every 500": lambda s: np.random.default_rng(s).normal(
        25.0 + np.arange(TICKS)[:, None] // 500 % 2
    ),
}
HAZARD = {
    "changes every 100": 1 / 100,
    "changes every 500": 1 / 500,
    "no change": 1 / 250,
    "far from the prior, steps of 1 every 500": 1 / 500,
}


COUNTED = (
    "Threshold(1e-8)",
    "Threshold(1e-8), Resample(256)",
    "TopK(256)",
    "Resample(128)",
    "Resample(256): default",
)
WITHIN = 400  # the alarm's window here: a small change far from the prior takes hundreds of ticks to show
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def drawn_normal(rng: np.random.Generator, level: np.ndarray) -> np.ndarray:
    return rng.normal(level, 1.0)


def drawn_counts(rng: np.random.Generator, level: np.ndarray) -> np.ndarray:
    return rng.poisson(level).astype(float)


def drawn_flags(rng: np.random.Generator, level: np.ndarray) -> np.ndarray:
    return (rng.random(level.size) < level).astype(float)


def drawn_times(rng: np.random.Generator, level: np.ndarray) -> np.ndarray:
    return rng.exponential(level)


# Of each family: how readings are drawn, and the levels before and after the change.
CHANGES: dict[str, tuple[Any, Draw, list[tuple[float, float]]]] = {
    "Gaussian, 0 to 15 prior sds off": (
        MODEL,
        drawn_normal,
        [(3.0 * d, 3.0 * d + shift) for d in (0.0, 3.0, 8.0, 10.0, 15.0) for shift in (0.5, 1.0, 2.0, 3.0)],
    ),
    "GaussianUnknown, a tight prior": (
        mf.GaussianUnknown(0, 1, 20, 20),
        drawn_normal,
        [(level, level + shift) for level in (0.0, 5.0, 10.0, 20.0) for shift in (0.5, 1.0, 2.0, 3.0)],
    ),
    "Poisson, prior mean 10": (
        mf.Poisson(100, 10),
        drawn_counts,
        [(rate, rate * by) for rate in (10.0, 30.0, 60.0) for by in (0.7, 1.1, 1.3, 2.0)],
    ),
    "Bernoulli, prior mean 0.99": (
        mf.Bernoulli(99, 1),
        drawn_flags,
        [(p, q) for p in (0.99, 0.5, 0.1) for q in (0.8, 0.3, 0.02)],
    ),
    "Exponential, prior mean 1": (
        mf.Exponential(20, 20),
        drawn_times,
        [(mean, mean * by) for mean in (1.0, 10.0, 100.0) for by in (0.5, 1.5, 3.0)],
    ),
}
PLACES = ((60, 400), (300, 800), (1500, 2200))  # tick of the change, ticks in all
HAZARDS = (1e-2, 1e-4, 1e-6)


def first_alarm(model: Any, prune: Any, hazard: float, x: np.ndarray, at: int) -> tuple[int | None, float]:
    """Ticks from the change to the first alarm after it, None if there is none, and the log evidence."""
    detector = mf.Detector(model, hazard=hazard, prune=prune, alarm=mf.Alarm(within=WITHIN))
    late = np.flatnonzero(mf.run(detector, x).alarm[at:])
    return (int(late[0]) if late.size else None), detector.log_evidence


def count_changes(seeds: int = 2) -> None:
    """Changes the exact filter finds, and of those how many each pruning finds late or not at all."""
    runs = len(PLACES) * len(HAZARDS) * seeds
    print(f"\nOne change a stream: at {', '.join(str(at) for at, _ in PLACES)}, hazard ", end="")
    print(f"{', '.join(f'{h:g}' for h in HAZARDS)}, {seeds} seeds; window {WITHIN}")
    for name, (model, draw, levels) in CHANGES.items():
        found = 0
        missed, late = dict.fromkeys(COUNTED, 0), dict.fromkeys(COUNTED, 0)
        worst = dict.fromkeys(COUNTED, 0.0)
        for (before, after), (at, ticks), hazard, seed in itertools.product(levels, PLACES, HAZARDS, range(seeds)):
            level = np.where(np.arange(ticks) < at, before, after)
            x = draw(np.random.default_rng(seed), level)
            exact, evidence = first_alarm(model, None, hazard, x, at)
            found += exact is not None
            for label in COUNTED:
                delay, other = first_alarm(model, PRUNINGS[label], hazard, x, at)
                worst[label] = max(worst[label], abs(other - evidence))
                if exact is not None:
                    missed[label] += delay is None
                    late[label] += delay is not None and delay > exact + 5
        print(f"\n{name}: {len(levels) * runs} streams, the exact filter finds {found}")
        print(f"{'prune=':42s}{'missed':>10s}{'late':>10s}{'log evidence off by at most':>30s}")
        for label in COUNTED:
            print(f"{label:42s}{missed[label]:10d}{late[label]:10d}{worst[label]:30.2g}")


def cost_of_a_tick(ticks: int = 1000) -> None:
    """Number of hypotheses, time of `update` and of `choose` between two fidelities, and bytes when saved."""
    rng = np.random.default_rng(0)
    level = np.repeat(rng.normal(size=ticks // 150 + 1), 150)[:ticks]
    streams: dict[str, tuple[Any, np.ndarray]] = {
        "Gaussian": (MODEL, rng.normal(3.0 * level)),
        "GaussianUnknown": (mf.GaussianUnknown(0, 0.1, 2, 2), rng.normal(3.0 * level)),
        "Poisson": (mf.Poisson(2, 0.2), rng.poisson(np.exp(level + 1.5)).astype(float)),
        "Bernoulli": (mf.Bernoulli(1, 1), (rng.random(ticks) < 1 / (1 + np.exp(-3 * level))).astype(float)),
        "Exponential": (mf.Exponential(2, 1), rng.exponential(np.exp(level))),
    }
    fidelities = [mf.Fidelity("low", 0.3, 1), mf.Fidelity("high", 1, 5)]
    print(f"\nA tick, changes every 150; every third reading high, {ticks} ticks")
    print(f"{'family':18s}{'prune=':34s}{'mean count':>10s}{'update us':>11s}{'choose us':>11s}{'bytes':>8s}")
    for name, (model, x) in streams.items():
        for label in ("Threshold(1e-8), Resample(256)", "Resample(128)", "Resample(256): default"):
            detector = mf.Detector(model, fidelities, 1 / 150, prune=PRUNINGS[label])
            spent, count = np.zeros((2, ticks)), 0
            for t, value in enumerate(x.tolist()):
                start = time.perf_counter()
                detector.choose()
                middle = time.perf_counter()
                detector.update(value, "low" if t % 3 else "high")
                spent[:, t] = time.perf_counter() - middle, middle - start
                count += len(detector.run_length.weight)
            update, choose = 1e6 * np.median(spent, axis=1)
            size = len(detector.to_bytes())
            print(f"{name:18s}{label:34s}{count / ticks:10.0f}{update:11.1f}{choose:11.1f}{size:8d}")


def follow(prune: Any, table: np.ndarray, hazard: float) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Posterior (T, T), (mean, P(change)) per tick, most hypotheses, seconds without keeping posteriors."""
    detector = mf.Detector(MODEL, hazard=hazard, prune=prune)
    posterior = np.zeros((len(table), len(table)), dtype=np.float32)
    reported, most = np.empty((len(table), 2)), 0
    for t, x in enumerate(table[:, 0].tolist()):
        step = detector.update(x)
        reported[t] = step.mean, step.p_change
        length, weight = detector.run_length
        posterior[t, length] = weight
        most = max(most, length.size)
    start = time.perf_counter()
    mf.run(mf.Detector(MODEL, hazard=hazard, prune=prune), table)
    return posterior, reported, most, time.perf_counter() - start


def main() -> None:
    print(f"Gaussian(0, 9, 1), {TICKS} ticks, seed 1; time is for the whole stream with mf.run")
    for name, make in STREAMS.items():
        table, hazard = make(1), HAZARD[name]
        exact, truth, _, _ = follow(None, table, hazard)
        print(f"\n{name}, hazard {hazard:g}")
        heads = f"{'mean L1':>10s}{'worst L1':>10s}{'mean':>10s}{'P(change)':>11s}"
        print(f"{'prune=':42s}{'most':>10s}{heads}{'ms':>8s}")
        for label, prune in PRUNINGS.items():
            posterior, got, most, seconds = follow(prune, table, hazard)
            l1 = np.array([np.abs(a - b).sum() for a, b in zip(posterior, exact, strict=True)])
            mean, change = np.sqrt(np.mean((got - truth) ** 2, axis=0))
            errors = f"{l1.mean():10.1e}{l1.max():10.1e}{mean:10.1e}{change:11.1e}"
            print(f"{label:42s}{most:10d}{errors}{1e3 * seconds:8.1f}")
    count_changes()
    cost_of_a_tick()


if __name__ == "__main__":
    main()

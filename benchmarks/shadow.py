"""A cheap sensor that is worse than declared, with and without shadow pairs: ``python -m benchmarks.shadow``.

The cheap sensor has a true zeta of 0.1 and costs 1, the good one costs 40, and the budget is 8 per tick. Declared is
0.1 ("right") or 0.2 ("twice too high"); or 0.1 is right until the middle of the stream, where it falls to 0.025
("degrades"). The level is constant: every alarm is false. A pair is read at every 20th tick. Errors are two standard
errors over the streams; seeds 1000.. are used, no number was tuned on them.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf

Array = NDArray[np.float64]

TICKS, STREAMS, FIRST_SEED = 4000, 40, 1000
EVERY, BUDGET, HAZARD = 20, 8.0, 1 / 250
TRUE, DEGRADED = 0.1, 0.025
CASES = {"right": (0.1, TRUE), "twice too high": (0.2, TRUE), "degrades": (0.1, DEGRADED)}


class Result(NamedTuple):
    """One stream: false alarms in each half, the tick of the warning, the learned zeta and the cost per tick."""

    alarms: tuple[int, int]
    warned: int | None
    zeta: float
    spent: float


def table(case: str, seed: int, ticks: int = TICKS) -> Array:
    """Return the readings of both sensors of a constant level."""
    rng = np.random.default_rng([seed, *case.encode()])
    after = CASES[case][1]
    zeta = np.where(np.arange(ticks) < ticks // 2, TRUE, after)
    return np.stack([rng.normal(0.0, 1.0 / np.sqrt(zeta)), rng.normal(size=ticks)], axis=1)


def detector(declared: float, shadow: bool = False, learn: bool = False) -> mf.Detector:
    """Return the detector that is compared."""
    ways = [mf.Fidelity("cheap", declared, 1.0), mf.Fidelity("good", 1.0, 40.0)]
    return mf.Detector(
        mf.Gaussian(0, 9, 1), ways, HAZARD, policy=mf.Budget(BUDGET), shadow=EVERY if shadow else None, learn=learn
    )


def measured(case: str, seed: int, shadow: bool, learn: bool, ticks: int = TICKS) -> Result:
    """Run one stream."""
    one = detector(CASES[case][0], shadow, learn)
    trace = mf.run(one, table(case, seed, ticks))
    half = ticks // 2
    warned = None
    if shadow and one.shadow["cheap"].warning is not None:
        warned = one.shadow["cheap"].warning.pairs * EVERY - 1
    fired = int(trace.alarm[:half].sum()), int(trace.alarm[half:].sum())
    return Result(fired, warned, one.fidelities[0].zeta, one.spent / ticks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=STREAMS, help="streams per row (default %(default)s)")
    streams = parser.parse_args().streams
    print(
        "| zeta declared | pairs | false alarms in 1000 ticks, first half | second half | warned | at tick | zeta |"
    )
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        for name, shadow, learn in (("none", False, False), ("warn", True, False), ("learn", True, True)):
            found = [measured(case, FIRST_SEED + k, shadow, learn) for k in range(streams)]
            halves = [_rate(np.array([r.alarms[half] for r in found]) * 2000 / TICKS) for half in (0, 1)]
            ticks = [r.warned for r in found if r.warned is not None]
            when = f"{np.median(ticks):.0f}" if ticks else ""
            zeta = f"{np.median([r.zeta for r in found]):.3f}"
            warned = f"{len(ticks)} of {streams}" if shadow else ""
            print(f"| {case} | {name} | {halves[0]} | {halves[1]} | {warned} | {when} | {zeta} |", flush=True)
            spent = np.array([r.spent for r in found])
            assert abs(spent.mean() / BUDGET - 1) < 0.02, spent.mean()


def _rate(values: Array) -> str:
    return f"{values.mean():.2f} ± {2 * values.std(ddof=1) / np.sqrt(values.size):.2f}"


if __name__ == "__main__":
    main()

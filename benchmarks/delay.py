"""How soon each detector sees a change, at one rate of false alarms: ``python -m benchmarks.delay``.

Every detector has one number that makes it more or less ready to alarm; on quiet streams it is set so that a false
alarm comes every EVERY ticks, then streams with one change are run. A change not seen in WAIT ticks counts as WAIT.
The models' own priors draw the streams: the Bayesian ones know them, river's detectors need no model.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf

Array = NDArray[np.float64]

QUIET, CHANGED = 60, 200  # streams
LONG, AT, WAIT = 800, 100, 200  # ticks of a quiet stream, of the change, and waited for
EVERY = 500.0
HAZARD = 1 / 200
WITHIN = 200  # chosen among 20 to 1000 on other streams than these; shorter ones miss small changes

MODELS: dict[str, mf.Model] = {
    "Gaussian": mf.Gaussian(0, 4, 1),
    "GaussianUnknown": mf.GaussianUnknown(0, 0.25, 5, 5),
    "Bernoulli": mf.Bernoulli(1, 1),
    "Poisson": mf.Poisson(4, 1),
    "Exponential": mf.Exponential(3, 2),
    "Gamma": mf.Gamma(3, 3, 2),
    "Binomial": mf.Binomial(10, 2, 2),
    "Categorical": mf.Categorical([1, 1, 1, 1]),
    "StudentT": mf.StudentT(0, 4, 1, 4),
    "Trend": mf.Trend(count=(0.25, 400), shape=5, scale=5),
    "Autoregressive": mf.Autoregressive(1, count=(0.25, 4), shape=5, scale=5),
}

Alarms = Callable[[Array, float], list[list[int]]]
"""Ticks at which a detector alarms on each of some streams (columns), with a readiness between 0 and 1."""


def ours(model: mf.Model) -> Alarms:
    def alarms(x: Array, ready: float) -> list[list[int]]:
        fleet = mf.Fleet(x.shape[1], model, hazard=HAZARD, alarm=mf.Alarm(WITHIN, 1.0 - ready))
        fired = np.array([fleet.update(row).alarm for row in x])
        return [np.flatnonzero(column).tolist() for column in fired.T]

    return alarms


def each(make: Callable[[float], Callable[[float], bool]]) -> Alarms:
    """A detector for each stream: `make` returns a function that takes a reading and returns whether it alarms."""

    def alarms(x: Array, ready: float) -> list[list[int]]:
        fired = []
        for column in x.T.tolist():
            alarms = make(ready)
            fired.append([t for t, value in enumerate(column) if alarms(value)])
        return fired

    return alarms


def windowed(make: Callable[[], Callable[[float], Any]]) -> Alarms:
    """`mfbocd.Alarm` on a peer's posterior; theirs is of the next point's run length, so one more tick is recent."""

    def one(ready: float) -> Callable[[float], bool]:
        posterior, t, since = make(), -1, 0

        def alarms(value: float) -> bool:
            nonlocal t, since
            t += 1
            mass = sum(posterior(value)[: min(WITHIN + 1, t - since + 1)])
            if t > since and mass >= 1.0 - ready:
                since = t
                return True
            return False

        return alarms

    return each(one)


def rust(prior: Any, cast: Callable[[float], Any]) -> Alarms:
    """`changepoint`."""
    import changepoint

    def make() -> Callable[[float], Any]:
        detector = changepoint.Bocpd(prior(), 1 / HAZARD)
        return lambda value: detector.step(cast(value))

    return windowed(make)


def fast(model: Any) -> Alarms:
    """`fast-bocpd`."""
    import fast_bocpd

    def make() -> Callable[[float], Any]:
        hazard = fast_bocpd.ConstantHazard(1 / HAZARD)
        detector = fast_bocpd.BOCPD(model(), hazard, max_run_length=LONG + 1)
        return lambda value: detector.update(value)[0]

    return windowed(make)


def river(make: Callable[[float], Any]) -> Alarms:
    def one(ready: float) -> Callable[[float], bool]:
        detector = make(ready)

        def alarms(value: float) -> bool:
            detector.update(value)
            return bool(detector.drift_detected)

        return alarms

    return each(one)


def rivers() -> dict[str, Alarms]:
    from river import drift

    return {
        "ADWIN": river(lambda r: drift.ADWIN(delta=max(r, 1e-12), clock=1)),
        "PageHinkley": river(lambda r: drift.PageHinkley(threshold=1e4 * (1e-6 / 1e4) ** r, delta=0.005)),
        "KSWIN": river(lambda r: drift.KSWIN(alpha=max(r, 1e-12), window_size=60, stat_size=25, seed=1)),
    }


def peers(name: str) -> dict[str, Alarms]:
    import changepoint
    import fast_bocpd

    if name == "GaussianUnknown":
        return {
            "changepoint": rust(lambda: changepoint.NormalInvGamma(0.0, 4.0, 5.0, 5.0), float),
            "fast-bocpd": fast(lambda: fast_bocpd.GaussianNIG(0.0, 0.25, 5.0, 5.0)),
        }
    if name == "Bernoulli":
        return {
            "changepoint": rust(lambda: changepoint.BetaBernoulli(1.0, 1.0), bool),
            "fast-bocpd": fast(lambda: fast_bocpd.BernoulliBeta(1.0, 1.0)),
        }
    if name == "Poisson":
        return {"changepoint": rust(lambda: changepoint.PoissonGamma(4.0, 1.0), int)}
    return {}


def readiness(alarms: Alarms, quiet: Array) -> tuple[float, float]:
    """The readiness at which false alarms come every EVERY ticks, by bisection, and how often they then came."""
    low, high = -30.0, 30.0  # log odds
    best = (np.nan, 0.0)  # nan: at no readiness are they so few
    for _ in range(12):
        middle = 0.5 * (low + high)
        share = float(1.0 / (1.0 + np.exp(-middle)))
        count = sum(map(len, alarms(quiet, share)))
        low, high = (low, middle) if count * EVERY > quiet.size else (middle, high)
        if count * EVERY <= quiet.size:
            best = (quiet.size / max(count, 1), share)
    return best[1], best[0]


def delays(alarms: Alarms, ready: float, changed: Array) -> Array:
    """Ticks from the change to the first alarm after it."""
    late = [[t - AT for t in fired if t >= AT] for fired in alarms(changed, ready)]
    return np.array([min(after[0], WAIT) if after else WAIT for after in late], dtype=float)


def compared(name: str) -> str:
    """One family's table."""
    warnings.simplefilter("ignore")
    model = MODELS[name]
    quiet = np.stack([model.sample(np.random.default_rng(s), LONG) for s in range(QUIET)], axis=1)
    changed = np.stack(
        [
            np.concatenate([model.sample(np.random.default_rng([s, k]), n) for k, n in ((1, AT), (2, WAIT))])
            for s in range(CHANGED)
        ],
        axis=1,
    )
    lines = [f"{name}: {model!r}"]
    first: Array | None = None
    for who, alarms in {"mfbocd": ours(model), **peers(name), **rivers()}.items():
        ready, every = readiness(alarms, quiet)
        late = delays(alarms, ready, changed)
        line = f"  {who:12s}{late.mean():7.1f} ({_two(late):4.1f})  median {np.median(late):5.1f}"
        line += f"  false every {every:5.0f}"
        if first is None:
            first = late
        else:
            gap = late - first
            line += f"  later by {gap.mean():+6.1f} ({_two(gap):.1f})"
        lines.append(line)
    return "\n".join(lines)


def _two(values: Array) -> float:
    return float(2.0 * values.std(ddof=1) / np.sqrt(values.size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", choices=[[], *MODELS], help="all unless named")
    names = parser.parse_args().families or list(MODELS)
    print(
        f"Mean ticks to notice a change (two standard errors), one false alarm every {EVERY:.0f} ticks.", flush=True
    )
    with ProcessPoolExecutor() as pool:
        for table in pool.map(compared, names):
            print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()

"""How soon each detector sees a change, at one rate of false alarms: ``python -m benchmarks.delay``.

Every detector has one number that makes it more or less ready to alarm; on quiet streams it is set so that a false
alarm comes every EVERY ticks, then streams with one change are run. A change not seen in WAIT ticks counts as WAIT.
The models' own priors draw the streams: the Bayesian ones know them, river's detectors need no model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf

Array = NDArray[np.float64]

QUIET, CHANGED = 40, 60  # streams
LONG, AT, WAIT = 800, 100, 200  # ticks of a quiet stream, of the change, and waited for
EVERY = 500.0
HAZARD = 1 / 200
WITHIN = 50

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

Alarms = Callable[[Array, float], list[int]]
"""Ticks at which a detector alarms on a stream, with a readiness between 0 and 1: more is more ready."""


def ours(model: mf.Model) -> Alarms:
    def alarms(x: Array, ready: float) -> list[int]:
        detector = mf.Detector(model, hazard=HAZARD, alarm=mf.Alarm(WITHIN, 1.0 - ready))
        return [c.tick for c in mf.run(detector, x).changes]

    return alarms


def rust(prior: Any, cast: Callable[[float], Any]) -> Alarms:
    """`changepoint`: its posterior is of the next point's run length, so one more tick counts as recent."""
    import changepoint

    def alarms(x: Array, ready: float) -> list[int]:
        detector, fired, since = changepoint.Bocpd(prior(), 1 / HAZARD), [], 0
        for t, value in enumerate(x.tolist()):
            recent = sum(detector.step(cast(value))[: min(WITHIN + 1, t - since + 1)])
            if t - since > 0 and recent >= 1.0 - ready and t > since:
                fired.append(t)
                since = t
        return fired

    return alarms


def fast(model: Any) -> Alarms:
    """`fast-bocpd`, likewise."""
    import fast_bocpd

    def alarms(x: Array, ready: float) -> list[int]:
        hazard = fast_bocpd.ConstantHazard(1 / HAZARD)
        detector, fired, since = fast_bocpd.BOCPD(model(), hazard, max_run_length=len(x) + 1), [], 0
        for t, value in enumerate(x.tolist()):
            posterior, _ = detector.update(value)
            if t > since and posterior[: min(WITHIN + 1, t - since + 1)].sum() >= 1.0 - ready:
                fired.append(t)
                since = t
        return fired

    return alarms


def river(make: Callable[[float], Any]) -> Alarms:
    def alarms(x: Array, ready: float) -> list[int]:
        detector, fired = make(ready), []
        for t, value in enumerate(x.tolist()):
            detector.update(value)
            if detector.drift_detected:
                fired.append(t)
        return fired

    return alarms


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


def readiness(alarms: Alarms, quiet: list[Array]) -> tuple[float, float]:
    """The readiness at which false alarms come every EVERY ticks, by bisection, and how often they then came."""
    low, high = -30.0, 30.0  # log odds
    watched = sum(len(x) for x in quiet)
    best = (np.inf, 0.0)
    for _ in range(14):
        middle = 0.5 * (low + high)
        share = float(1.0 / (1.0 + np.exp(-middle)))
        count = sum(len(alarms(x, share)) for x in quiet)
        low, high = (low, middle) if count * EVERY > watched else (middle, high)
        if count * EVERY <= watched:
            best = (watched / max(count, 1), share)
    return best[1], best[0]


def delays(alarms: Alarms, ready: float, changed: list[Array]) -> Array:
    """Ticks from the change to the first alarm after it."""
    out = []
    for x in changed:
        late = [t - AT for t in alarms(x, ready) if t >= AT]
        out.append(min(late[0], WAIT) if late else WAIT)
    return np.array(out, dtype=float)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"Mean ticks to notice a change (two standard errors), one false alarm every {EVERY:.0f} ticks.")
    for name, model in MODELS.items():
        quiet = [model.sample(np.random.default_rng(s), LONG) for s in range(QUIET)]
        changed = [
            np.concatenate([model.sample(np.random.default_rng([s, k]), n) for k, n in ((1, AT), (2, WAIT))])
            for s in range(CHANGED)
        ]
        print(f"\n{name}: {model!r}")
        rows = {"mfbocd": ours(model), **peers(name), **rivers()}
        first: Array | None = None
        for who, alarms in rows.items():
            ready, every = readiness(alarms, quiet)
            late = delays(alarms, ready, changed)
            first = late if first is None else first
            error = 2.0 * late.std(ddof=1) / np.sqrt(late.size)
            gap = late - first
            beside = (
                "" if late is first else f"  {gap.mean():+7.1f} ({2.0 * gap.std(ddof=1) / np.sqrt(gap.size):.1f})"
            )
            print(f"  {who:12s}{late.mean():7.1f} ({error:4.1f})  false every {every:6.0f}{beside}", flush=True)


if __name__ == "__main__":
    main()

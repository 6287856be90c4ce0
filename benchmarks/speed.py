"""Speed against peers, in one run on the same data: ``python -m benchmarks.speed`` (``make bench``).

Peers are used through their quickest public call. Neither `changepoint` nor `fast-bocpd` nor `bocd` has a Gaussian
with known variance: beside ours, their Gaussian is the nearest they offer, with unknown variance, which is more work
a hypothesis (a Student-t predictive). "Unknown" compares that very model, with the same prior; the Bernoulli is the
same everywhere. "numpy" is the same recursion as ours, vectorized over hypotheses with preallocated arrays.
"""

from __future__ import annotations

import gc
import itertools
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import mfbocd as mf
from mfbocd._kernels.template import ONE_ROW
from mfbocd.belief.gains import CODE

TICKS, LAMBDA = 2000, 250.0
GOALS: list[tuple[str, bool]] = []


def goal(text: str, met: bool) -> str:
    GOALS.append((text, met))
    return "met" if met else "MISSED"


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least of several times, in seconds: noise only ever adds."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


# --- the filter alone, exact ------------------------------------------------------------------------------------


def ours(model: mf.Model, x: np.ndarray) -> Callable[[], Any]:
    return lambda: mf.run(mf.Detector(model, hazard=1 / LAMBDA, prune=None), x)


def numpy_gaussian(x: np.ndarray) -> Callable[[], Any]:
    def call() -> None:
        n, h = len(x), 1 / LAMBDA
        weight, count, mean = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
        weight[0] = 1.0
        for t in range(n):
            if t:
                weight[: t + 1] *= 1 - h
                weight[t] = h
            count[t], mean[t] = 1 / 9, 0.0
            w, c, m = weight[: t + 1], count[: t + 1], mean[: t + 1]
            r = 1.0 / (c + 1.0)
            k = c * r
            d = x[t] - m
            w *= np.sqrt(k) * np.exp(-0.5 * k * d * d)
            w /= w.sum()
            m += r * d
            c += 1.0
            weight[t + 1] = 0.0

    return call


def numpy_bernoulli(x: np.ndarray) -> Callable[[], Any]:
    def call() -> None:
        n, h = len(x), 1 / LAMBDA
        weight, a, b = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
        weight[0] = 1.0
        for t in range(n):
            if t:
                weight[: t + 1] *= 1 - h
                weight[t] = h
            a[t] = b[t] = 1.0
            w = weight[: t + 1]
            hit = a[: t + 1] if x[t] else b[: t + 1]
            w *= hit / (a[: t + 1] + b[: t + 1])
            w /= w.sum()
            hit += 1.0
            weight[t + 1] = 0.0

    return call


def numpy_unknown(x: np.ndarray) -> Callable[[], Any]:
    def call() -> None:
        n, h = len(x), 1 / LAMBDA
        weight, mean, scale = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
        weight[0] = 1.0
        # count and shape depend on the age of a hypothesis alone, oldest first
        age = np.arange(n, -1.0, -1.0)
        count, shape = 1.0 + age, 1.0 + 0.5 * age
        rise = np.array([math.lgamma(a + 0.5) - math.lgamma(a) for a in shape.tolist()])
        base = np.exp(rise) * np.sqrt(count / (2.0 * np.pi * (count + 1.0)))
        for t in range(n):
            if t:
                weight[: t + 1] *= 1 - h
                weight[t] = h
            mean[t], scale[t] = 0.0, 1.0
            w, m, b, now = weight[: t + 1], mean[: t + 1], scale[: t + 1], slice(n - t, n + 1)
            k = count[now]
            d = x[t] - m
            lift = 0.5 * k / (k + 1.0) * d * d
            w *= base[now] / np.sqrt(b) * np.exp(-(shape[now] + 0.5) * np.log1p(lift / b))
            w /= w.sum()
            m += d / (k + 1.0)
            b += lift
            weight[t + 1] = 0.0

    return call


def rust(prior: Any, values: list[Any]) -> Callable[[], Any]:
    import changepoint

    def call() -> None:
        detector = changepoint.Bocpd(prior, LAMBDA)
        for value in values:
            detector.step(value)

    return call


def fast(model: Any, x: np.ndarray) -> Callable[[], Any]:
    import fast_bocpd

    return lambda: fast_bocpd.BOCPD(model, fast_bocpd.ConstantHazard(LAMBDA), max_run_length=len(x)).batch_update(x)


def bocd_gaussian(x: np.ndarray) -> Callable[[], Any]:
    import bocd

    def call() -> None:
        hazard = bocd.ConstantHazard(LAMBDA)
        detector = bocd.BayesianOnlineChangePointDetection(hazard, bocd.StudentT(mu=0, kappa=1, alpha=1, beta=1))
        for value in x:
            detector.update(value)

    return call


def filters() -> None:
    import changepoint
    import fast_bocpd

    rng = np.random.default_rng(0)
    gaussian = np.concatenate([rng.normal(m, 1, TICKS // 4) for m in (0, 3, -1, 2)])
    bernoulli = np.concatenate([(rng.random(TICKS // 4) < p).astype(float) for p in (0.2, 0.8, 0.5, 0.1)])
    runs: dict[str, dict[str, Callable[[], Any]]] = {
        "Bernoulli": {
            "mfbocd": ours(mf.Bernoulli(1, 1), bernoulli),
            "changepoint": rust(changepoint.BetaBernoulli(1.0, 1.0), [bool(v) for v in bernoulli]),
            "fast-bocpd": fast(fast_bocpd.BernoulliBeta(1.0, 1.0), bernoulli),
            "numpy": numpy_bernoulli(bernoulli),
        },
        "Gaussian": {
            "mfbocd": ours(mf.Gaussian(0, 9, 1), gaussian),
            "changepoint": rust(changepoint.NormalInvGamma(0.0, 1.0, 1.0, 1.0), gaussian.tolist()),
            "fast-bocpd": fast(fast_bocpd.GaussianNIG(0.0, 1.0, 1.0, 1.0), gaussian),
            "bocd": bocd_gaussian(gaussian),
            "numpy": numpy_gaussian(gaussian),
        },
        "Unknown": {
            "mfbocd": ours(mf.GaussianUnknown(0, 1, 1, 1), gaussian),
            "changepoint": rust(changepoint.NormalInvGamma(0.0, 1.0, 1.0, 1.0), gaussian.tolist()),
            "fast-bocpd": fast(fast_bocpd.GaussianNIG(0.0, 1.0, 1.0, 1.0), gaussian),
            "bocd": bocd_gaussian(gaussian),
            "numpy": numpy_unknown(gaussian),
        },
    }
    goals = {"Bernoulli": (15.0, 25.0), "Gaussian": (15.0, 25.0), "Unknown": (1.0, 1.0)}
    print(f"Filter alone, exact, T = {TICKS}, best of 5; ours also reports mean, MAP, P(change) and alarm each tick")
    for family, peers in runs.items():
        peers["mfbocd"]()  # compiled or loaded before the clock starts
        base = best(peers["mfbocd"])
        wanted = dict(zip(("changepoint", "fast-bocpd"), goals[family], strict=True))
        for name, call in peers.items():
            seconds = base if name == "mfbocd" else best(call, 3)
            ratio = seconds / base
            verdict = ""
            if name in wanted:
                verdict = goal(f"{family}: >= {wanted[name]:g}x {name}", ratio >= wanted[name])
                verdict = f"  (goal {wanted[name]:g}x: {verdict})"
            print(f"  {family:10s}{name:14s}{1e3 * seconds:9.2f} ms {ratio:8.1f}x{verdict}")


# --- one tick ---------------------------------------------------------------------------------------------------


def single_tick() -> None:
    print("\nOne tick of a Detector holding 64 hypotheses on average (48 to 80), plain float in, Step out")
    rng = np.random.default_rng(1)
    for model, draw in (
        (mf.Gaussian(0, 9, 1), rng.normal(size=40_000)),
        (mf.Bernoulli(1, 1), rng.random(40_000) < 0.3),
    ):
        values = draw.astype(float).tolist()
        detector = mf.Detector(model, hazard=1 / LAMBDA, prune=mf.TopK(80, slack=32))
        for v in values[:500]:
            detector.update(v)

        def public(detector: mf.Detector = detector, values: list[float] = values) -> None:
            update = detector.update
            for v in values:
                update(v)

        def bare(detector: mf.Detector = detector, values: list[float] = values) -> None:
            kernel, state, setup = detector.model.observe, detector._filter.state, detector._filter.setup
            assert kernel is not None
            for v in values:
                kernel(state, setup, v, 1.0)

        outer, inner = (1e6 * best(call, 5) / len(values) for call in (public, bare))
        name = type(model).__name__
        print(
            f"  {name:10s}update(x) {outer:5.2f} us (goal 3: {goal(f'{name} update(x) <= 3 us', outer <= 3)})", end=""
        )
        print(f"   bare kernel {inner:5.2f} us (goal 1: {goal(f'{name} kernel <= 1 us', inner <= 1)})")


def decision(states: int = 10) -> None:
    """Time the gains of one tick and `choose`, in so many different states."""
    print("\nOne decision between two fidelities, 64 hypotheses: the gains in the kernel, and the whole choose()")
    rng = np.random.default_rng(5)
    fidelities = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
    zeta = np.array([0.1, 1.0])
    for model, wanted in ((mf.Gaussian(0, 9, 1), 30.0), (mf.Bernoulli(1, 1), 5.0)):
        for gain, code in CODE.items():
            inner, outer = [], []
            most = min(wanted, 8.0) if gain == "change" else wanted
            for seed in range(states):  # the Gaussian's cost depends on how many hypotheses must be told apart
                stream = (mf.simulate.gaussian if wanted > 5 else mf.simulate.bernoulli)(
                    model, fidelities, 1 / 100, ticks=300, seed=seed
                )
                policy = mf.Net(0.01, gain=gain)
                detector = mf.Detector(model, fidelities, 1 / 100, policy=policy, prune=mf.TopK(64, slack=0))
                for row in stream.table.tolist():
                    j = int(rng.random() < 0.35)
                    detector.update(row[j], fidelities[j])
                kernel, state, setup = model.gains, detector._filter.state[None], detector._filter.setup
                out, board = np.empty((1, 2)), np.zeros(2, dtype=np.int64)
                assert kernel is not None

                def bare(
                    kernel: Any = kernel, state: Any = state, setup: Any = setup, out: Any = out, board: Any = board
                ) -> None:
                    for _ in range(300):
                        board[:] = 0
                        kernel(state, setup, ONE_ROW, zeta, code, out, board)  # noqa: B023

                def public(detector: mf.Detector = detector) -> None:
                    for _ in range(300):
                        detector.choose()

                bare(), public()
                inner.append(1e6 * best(bare, 3) / 300)
                outer.append(1e6 * best(public, 3) / 300)
            name, mean = type(model).__name__, statistics.mean(inner)
            verdict = goal(f"{name} {gain} decision <= {most:g} us", mean <= most)
            print(
                f"  {name:10s}{gain:11s} kernel {mean:5.1f} us, worst {max(inner):5.1f} (goal {most:g}: {verdict})",
                end="",
            )
            print(f"   choose() {statistics.mean(outer):5.1f} us")


# --- growth and memory --------------------------------------------------------------------------------------------


def growth() -> None:
    print("\nGrowth with T (time of mf.run, Gaussian; linear is 2x a doubling)")
    x = np.random.default_rng(2).normal(size=160_000)
    for label, prune, sizes in (
        ("default (bounded)", mf.Detector(mf.Gaussian()).pruning, (20_000, 40_000, 80_000, 160_000)),
        ("exact", None, (2_000, 4_000, 8_000, 16_000)),
    ):
        times = []
        for n in sizes:

            def call(n: int = n, prune: Any = prune) -> None:
                mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=1 / LAMBDA, prune=prune), x[:n])

            times.append(best(call, 3))
        ratios = [b / a for a, b in itertools.pairwise(times)]
        shown = ", ".join(f"{n}: {1e3 * t:.1f} ms" for n, t in zip(sizes, times, strict=True))
        verdict = ""
        if prune is not None:
            verdict = f"  (goal linear: {goal('growth when pruned is linear', max(ratios) < 2.3)})"
        print(f"  {label:18s}{shown}; a doubling costs {', '.join(f'{r:.2f}x' for r in ratios)}{verdict}")


def memory() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1 / LAMBDA)
    values = np.random.default_rng(3).normal(size=20_000).tolist()
    for v in values:
        detector.update(v)
    size, before = detector._filter.state.nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        for v in values:
            detector.update(v)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    constant = detector._filter.state.nbytes == size and grown < 1024
    print(f"\nMemory over {detector.ticks:,} ticks with the default pruning: state {size} bytes, ", end="")
    print(f"process grew by {grown} KiB (goal constant: {goal('memory when bounded is constant', constant)})")
    print(f"  saved with to_bytes: {len(detector.to_bytes())} bytes")


# --- fleet, start-up ------------------------------------------------------------------------------------------------


def fleet() -> None:
    print("\nFleet of 1000 streams holding 128 hypotheses on average (112 to 144), update(x) a tick")
    rng = np.random.default_rng(4)
    for model, rows in (
        (mf.Gaussian(0, 9, 1), rng.normal(size=(600, 1000))),
        (mf.Bernoulli(1, 1), (rng.random((600, 1000)) < 0.3).astype(float)),
    ):
        rates = {}
        for threads in (1, 2):
            ships = mf.Fleet(1000, model, hazard=1 / LAMBDA, prune=mf.TopK(144, slack=32), threads=threads)
            for row in rows[:200]:
                ships.update(row)

            def call(ships: mf.Fleet = ships, rows: np.ndarray = rows) -> None:
                for row in rows[200:]:
                    ships.update(row)

            rates[threads] = 400 * 1000 / best(call, 3) / 1e6
        name = type(model).__name__
        verdict = goal(f"{name} fleet >= 4 M stream-steps/s", rates[2] >= 4)
        print(f"  {name:10s}{rates[1]:.2f} M/s on one thread, {rates[2]:.2f} M/s on two (goal 4: {verdict})")


def start_up() -> None:
    first = "import mfbocd as mf; mf.Detector(mf.Gaussian(0, 9, 1)).update(0.5)"
    took = {}
    for label, code in (("import mfbocd", "import mfbocd"), ("import, build, first update", first)):
        script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        run = [sys.executable, "-c", script]
        subprocess.run(run, check=True, capture_output=True)  # warms the caches
        times = [float(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(5)]
        took[label] = statistics.median(times)
    light, warm = took.values()
    print("\nStart-up, median of 5 new processes with a warm cache; names load on first use, so both count")
    print(f"  import alone {light:.3f} s (goal 0.3: {goal('import <= 0.3 s', light <= 0.3)})")
    print(f"  import and first update {warm:.2f} s (goal 1: {goal('first call, warm <= 1 s', warm <= 1)})")


def main() -> None:
    print(f"mfbocd {mf.__version__}, Python {sys.version.split()[0]}, numpy {np.__version__}\n")
    for part in (filters, single_tick, decision, growth, memory, fleet, start_up):
        part()
    missed = [text for text, met in GOALS if not met]
    print(f"\n{len(GOALS) - len(missed)} of {len(GOALS)} goals met")
    for text in missed:
        print(f"  missed: {text}")


if __name__ == "__main__":
    main()

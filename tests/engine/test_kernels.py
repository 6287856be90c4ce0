"""A naive twin of every compiled kernel: plain loops over lists, no tricks."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import compile as compile_
from mfbocd._kernels import layout
from mfbocd._kernels.weights import begin_tick, end_tick
from mfbocd.belief.filter import Filter
from mfbocd.belief.filter import observe as through_methods
from mfbocd.belief.gains import CODE, expected_gains
from mfbocd.belief.hazard import Hazard
from mfbocd.belief.pruning import Pruning
from mfbocd.belief.state import table

from ..registry import COMPILED, ZETAS, Case
from .array_kernels import keep_heaviest_of, resample_of


class Twin:
    """BOCD as the textbook recursion: log weights in a dict from birth to (log weight, statistics)."""

    def __init__(self, model, hazard: mf.Hazard) -> None:  # type: ignore[no-untyped-def]
        self.model, self.hazard = model, hazard
        self.tick, self.evidence = -1, 0.0
        self.alive: dict[int, tuple[float, np.ndarray]] = {}

    def observe(self, x: float, zeta: float) -> None:
        self.tick += 1
        predicted: dict[int, tuple[float, np.ndarray]] = {}
        log_new = 0.0 if self.tick == 0 else -math.inf
        for birth, (log, stats) in self.alive.items():
            h = float(self.hazard(self.tick - 1 - birth))
            log_new = np.logaddexp(log_new, log + (math.log(h) if h > 0 else -math.inf))
            predicted[birth] = (log + (math.log1p(-h) if h < 1 else -math.inf), stats)
        live = np.stack([stats for _, stats in self.alive.values()], axis=1) if self.alive else np.empty((0, 0))
        predicted[self.tick] = (log_new, self.model.new_regime(live) if self.alive else self.model.prior())
        joint = {b: log + float(self.model.log_predictive(s, x, zeta)) for b, (log, s) in predicted.items()}
        total = np.logaddexp.reduce(list(joint.values()))
        self.evidence += total
        self.alive = {b: (joint[b] - total, self.model.update(s, x, zeta)) for b, (_, s) in predicted.items()}

    def mean(self) -> float:
        core = self.model.core
        prior = float(core.predictive(core.prior())[0])
        value = 0.0
        for birth, (log, stats) in self.alive.items():
            h = float(self.hazard(self.tick - birth))
            mean = float(core.predictive(self.model.core_stats(stats))[0])
            value += math.exp(log) * ((1 - h) * mean + h * prior)
        return float(self.model.from_core(value, 0.0, stats)[0])


def readings(case: Case, seed: int, ticks: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(case.draw(rng), float(rng.choice(ZETAS))) for _ in range(ticks)]


@pytest.mark.parametrize("hazard", [0.02, [0.5, 0.1, 0.02]], ids=["constant", "table"])
@pytest.mark.parametrize("case", COMPILED, ids=lambda c: c.name)
def test_the_fused_tick_equals_its_twin(case: Case, hazard) -> None:  # type: ignore[no-untyped-def]
    fidelities = [mf.Fidelity(f"z{z}", zeta=z, cost=1) for z in ZETAS]
    detector = mf.Detector(case.model(), fidelities, hazard, prune=None)
    twin = Twin(case.model(), mf.Hazard(hazard))
    for x, zeta in readings(case, seed=1, ticks=100):  # past the first doubling, at 64, and several vector widths
        step = detector.update(x, f"z{zeta}")
        twin.observe(x, zeta)
        length, weight = detector.run_length
        expected = [math.exp(twin.alive[twin.tick - int(n)][0]) for n in length]
        np.testing.assert_allclose(weight, expected, atol=1e-12)
        assert detector.log_evidence == pytest.approx(twin.evidence, rel=1e-11)
        assert step.mean == pytest.approx(twin.mean(), abs=1e-11)
        heaviest = max(twin.alive, key=lambda b: twin.alive[b][0])
        assert step.run_length == twin.tick - heaviest
    stats = detector._filter.stats
    for i, birth in enumerate(sorted(twin.alive)):
        np.testing.assert_allclose(stats[:, i], twin.alive[birth][1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "prune", [mf.TopK(20), mf.Resample(20), mf.Threshold(1e-3), (mf.Threshold(1e-4), mf.TopK(9))]
)
@pytest.mark.parametrize("case", COMPILED, ids=lambda c: c.name)
def test_the_fused_tick_equals_the_models_own_methods(case: Case, prune) -> None:  # type: ignore[no-untyped-def]
    fast = mf.Detector(case.model(), hazard=0.05, prune=prune, seed=4)
    slow = mf.Detector(case.model(), hazard=0.05, prune=prune, seed=4)
    for x, zeta in readings(case, seed=2, ticks=200):
        fast._filter.observe(x, zeta)
        slow._filter.make_room(1)
        through_methods(slow.model, slow._filter.state, slow._filter.setup, x, zeta)
        a, b = fast._filter.state, slow._filter.state
        # the scale of the weights differs between the paths, and where the slopes of maps are counted
        same = [slot for slot in range(layout.HEAD) if slot not in (layout.TOTAL, layout.EVIDENCE, layout.SLOPES)]
        np.testing.assert_allclose(a[same], b[same], rtol=1e-9, atol=1e-12)
        assert fast.log_evidence == pytest.approx(slow.log_evidence, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(fast.run_length.weight, slow.run_length.weight, atol=1e-11)
        np.testing.assert_allclose(table(a)[1:], table(b)[1:], rtol=1e-9, atol=1e-11)


def test_the_log_space_path_agrees_with_the_plain_one() -> None:
    """The same stream, once with a prior so far off that no predictive is representable, in both units."""
    model = mf.Gaussian(0.0, 1.0, 1.0)
    detector, twin = mf.Detector(model, hazard=0.01, prune=None), Twin(model, mf.Hazard(0.01))
    rng = np.random.default_rng(3)
    for x in np.concatenate([rng.normal(200, 1, 30), rng.normal(-300, 1, 30), rng.normal(0, 1, 10)]):
        detector.update(float(x))
        twin.observe(float(x), 1.0)
        length, weight = detector.run_length
        expected = [math.exp(twin.alive[twin.tick - int(n)][0]) for n in length]
        np.testing.assert_allclose(weight, expected, atol=1e-9)
        assert detector.log_evidence == pytest.approx(twin.evidence, rel=1e-11)


def naive_alarm(detector_weights: list[tuple[np.ndarray, np.ndarray]], within: int, threshold: float) -> list[int]:
    """Alarms from posteriors alone: (births, weights) after each tick."""
    fired, alarms = -1, []
    for tick, (birth, weight) in enumerate(detector_weights):
        recent = (birth > max(tick - within, 0)) & (birth > fired)
        if recent.any() and weight[recent].sum() / weight.sum() >= threshold:
            alarms.append(tick)
            fired = tick
    return alarms


def test_the_alarm_equals_its_twin() -> None:
    stream = mf.simulate.gaussian(mf.Gaussian(0, 9, 1), hazard=0.02, ticks=600, seed=5)
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02, prune=None, alarm=mf.Alarm(within=15, threshold=0.6))
    seen, alarms, change = [], [], []
    for x in stream.table[:, 0].tolist():
        step = detector.update(x)
        weight, birth = table(detector._filter.state)[:2].copy()
        seen.append((birth, weight))
        change.append(step.p_change)
        assert step.p_change == pytest.approx(detector.p_changed(within=15), abs=1e-12)
        if step.alarm:
            alarms.append(step.tick)
            assert step.confidence is not None
            assert step.confidence >= 0.6
    assert alarms == naive_alarm(seen, 15, 0.6)
    assert len(alarms) >= 5


def test_keep_heaviest_equals_sorting() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 60))
        weight = rng.exponential(size=n) * (rng.random(n) < 0.8)
        weight[rng.integers(0, n, 3)] = 0.25  # ties
        k = int(rng.integers(1, n))
        got = weight.copy()
        keep_heaviest_of(got, k)
        order = sorted(range(n), key=lambda i: (-weight[i], -i))[:k]
        expected = np.where(np.isin(np.arange(n), order), weight, 0.0)
        np.testing.assert_array_equal(got, expected)


def naive_resample(weight: np.ndarray, k: int, u: float) -> np.ndarray:
    """Fearnhead and Liu's algorithm with c found by bisection."""
    if (weight > 0).sum() <= k:
        return weight
    low, high = 0.0, weight.sum()
    for _ in range(200):
        c = 0.5 * (low + high)
        low, high = (c, high) if np.minimum(weight / c, 1).sum() > k else (low, c)
    out, left = [], u * c
    for w in weight:
        if w >= c * (1 - 1e-12):
            out.append(w)
            continue
        left -= w
        if left < 0:
            out.append(c)
            left += c
        else:
            out.append(0.0)
    return np.array(out)


def test_resampling_equals_its_twin() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(3, 80))
        weight = rng.exponential(size=n) ** 3
        k, u = int(rng.integers(1, n)), float(rng.random())
        got = weight.copy()
        resample_of(got, k, u)
        np.testing.assert_allclose(got, naive_resample(weight, k, u), rtol=1e-9)
        assert (got > 0).sum() == k


def python(script: str, folder: Path) -> str:
    """The output of a process in this folder; its kernels are cached next to their files.

    Modules are not: Python would not notice a file that has changed within a second and kept its size.
    """
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.slow  # several processes compile
def test_a_cached_kernel_notices_that_one_it_calls_changed_in_another_file(tmp_path: Path) -> None:
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "compile.py").write_bytes(Path(compile_.__file__).read_bytes())
    one, two = package / "one.py", package / "two.py"
    head = "from .compile import kernel\n"
    two.write_text(f"{head}from .one import one\n\n@kernel\ndef two():\n    return 10 * one()\n")

    def output(value: int) -> str:
        one.write_text(f"{head}\n@kernel\ndef one():\n    return {value}\n")
        return python("from kernels.two import two; print(two(), sum(two.stats.cache_hits.values()))", tmp_path)

    assert output(1) == "10 0"
    assert output(1) == "10 1"  # from the cache
    assert output(2) == "20 0"


TEMPLATE = """
from .compile import bind, kernel
from .inner import inner

def twice(x):
    return 2.0 * inner(formula(x))

def of(formula):
    return bind(twice, formula=formula)
"""
INNER = """
from .compile import kernel

@kernel
def inner(x):
    return {value}
"""
FAMILY = """
from kernels.compile import kernel
from kernels.template import of

@kernel
def _formula(x):
    return {formula}

twice = of(_formula)
"""
CALLS = """
from families import one, two

for module in (one, two):
    print(module.twice(3.0), module.twice.stats.cache_hits.total(), module.twice.stats.cache_misses.total())
    assert module.twice.__module__ == module.__name__
"""


@pytest.mark.slow  # several processes compile
def test_a_template_is_cached_for_each_family_and_notices_a_change_of_its_formula(tmp_path: Path) -> None:
    kernels, families = tmp_path / "kernels", tmp_path / "families"
    for package in (kernels, families):
        package.mkdir()
        (package / "__init__.py").touch()
    (kernels / "compile.py").write_bytes(Path(compile_.__file__).read_bytes())
    (kernels / "template.py").write_text(TEMPLATE)

    def results(first: str, inner: str = "x") -> list[str]:
        (kernels / "inner.py").write_text(
            f"from .compile import kernel\n\n@kernel\ndef inner(x):\n    return {inner}\n"
        )
        (families / "one.py").write_text(FAMILY.format(formula=first))
        (families / "two.py").write_text(FAMILY.format(formula="x * x"))
        return python(CALLS, tmp_path).splitlines()

    assert results("x + 1.0") == ["8.0 0 1", "18.0 0 1"]
    assert results("x + 1.0") == ["8.0 1 0", "18.0 1 0"]  # both from the cache
    assert results("x + 2.0") == ["10.0 0 1", "18.0 1 0"]  # another formula: only that family is compiled again
    assert results("x + 2.0", inner="-x") == ["-10.0 0 1", "-18.0 0 1"]  # another kernel: every family is
    assert results("x + 2.0", inner="-x") == ["-10.0 1 0", "-18.0 1 0"]


CACHED = """
import numpy as np
import mfbocd as mf

detector = mf.Detector(mf.Bernoulli(), hazard=0.1)
detector.update(1.0)
mf.run(detector, np.ones(3))
kernels = mf.Bernoulli.observe, mf.Bernoulli.advance
print([(one.stats.cache_hits.total(), one.stats.cache_misses.total()) for one in kernels])
"""


@pytest.mark.slow
def test_the_kernels_of_a_family_are_found_in_the_cache() -> None:
    python(CACHED, Path.cwd())
    assert python(CACHED, Path.cwd()) == "[(1, 0), (1, 0)]"


@pytest.mark.parametrize("case", COMPILED, ids=lambda c: c.name)
def test_some_rows_of_a_matrix_are_advanced_and_the_others_are_not(case: Case) -> None:
    detectors = [mf.Detector(case.model(), hazard=0.05, prune=mf.TopK(20), seed=i) for i in range(40)]
    first = detectors[0]
    assert first.model.advance is not None
    gains = first.model.gains  # None where only the tick is compiled
    states = np.stack([detector._filter.state for detector in detectors])
    setup, rows = (
        first._filter.setup,
        np.random.default_rng(0).permutation(40)[:19],
    )  # more than a block, out of order
    seen = np.array([[case.draw(np.random.default_rng((t, k))) for k in range(rows.size)] for t in range(30)])
    zeta = np.random.default_rng(1).choice(ZETAS, size=seen.shape)
    report = np.empty((len(seen), layout.FIELDS, rows.size))
    levels, out = np.array(ZETAS), np.empty((rows.size, len(ZETAS)))
    first.model.advance(states, setup, rows, seen, zeta, report, np.zeros(2, dtype=np.int64))
    if gains is not None:
        gains(states, setup, rows, levels, CODE["joint"], out, np.zeros(2, dtype=np.int64))
    for k, row in enumerate(rows):
        belief = detectors[row]._filter
        for t in range(len(seen)):
            assert belief.observe(seen[t, k], zeta[t, k]) == tuple(report[t, :, k])
        if gains is not None:
            np.testing.assert_array_equal(out[k], expected_gains(belief, levels, "joint"))
    for row, detector in enumerate(detectors):  # other rows are unchanged
        np.testing.assert_array_equal(states[row], detector._filter.state)


@pytest.mark.parametrize("n", [7, 9, 12])
def test_a_tick_does_not_depend_on_where_in_memory_its_arrays_lie(n: int) -> None:
    """LLVM vectorizes a loop with stores only if its arrays are far enough apart; no bit may depend on that."""
    model = mf.Categorical([1.0, 2.0, 0.5, 1.0])
    filtering = Filter(model, Hazard(0.1), Pruning.of(None))
    rng = np.random.default_rng(n)
    for x in rng.integers(0, 4, size=n):
        filtering.observe(float(x), 1.0)
    size = filtering.state.size
    for logs in rng.normal(size=(20, n + 1)):  # a sum in another order often has the same bits
        seen = set()
        for gap in (0, 1, 2, 40):  # the array with the logarithms first
            memory = np.empty(logs.size + gap + size)
            near, state = memory[: logs.size], memory[-size:]
            near[:], state[:] = logs, filtering.state
            scale = begin_tick(state, filtering.setup)
            gained = end_tick(state, filtering.setup, scale, near)
            seen.add((gained, state.tobytes()))
        assert len(seen) == 1


BITS = """
import mfbocd as mf
import numpy as np

fidelities = [mf.Fidelity("low", 0.3, 1), mf.Fidelity("high", 1, 5)]
detector = mf.Detector(mf.Exponential(2.9, 1.4), fidelities, 0.03, policy=mf.Random())  # no gains: less to compile
for x in np.random.default_rng(0).exponential(size=150).tolist():
    detector.update(x, detector.choose())
print(detector.to_bytes().hex())
"""


@pytest.mark.slow
def test_the_first_process_gets_the_bits_of_those_after_it(tmp_path: Path) -> None:
    """Compiled and cached kernels are the same code, whatever else is in the cache."""

    def output() -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", BITS], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    first = output()
    assert output() == first
    pattern = "**/*models.gamma.observe*"  # the Exponential runs the Gamma's kernels
    files = list(tmp_path.glob(pattern))
    assert files
    for file in files:
        file.unlink()
    assert output() == first
    assert sorted(tmp_path.glob(pattern)) == sorted(files)  # it was compiled again

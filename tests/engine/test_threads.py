"""One detector or fleet in several threads is an error, never a crash, a loss or a hang; and copies are copies."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels.work_queue import mark_done, take_block
from mfbocd.fleet.workers import Workers

GAUSSIAN = mf.Gaussian(0, 9, 1)
FIDELITIES = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
ROOT = Path(__file__).parents[2]


class Busy:
    """A detector in the middle of a step, in another thread: its observer waits until it is released."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.detector = mf.Detector(GAUSSIAN, mf.Fidelity("full", 1.0, 1.0, observe=self._observe), prune=None)
        self.thread = threading.Thread(target=self.detector.step)

    def _observe(self, raw: Any) -> float:
        self.inside.set()
        assert self.go.wait(60)
        return 0.5

    def __enter__(self) -> mf.Detector:
        self.thread.start()
        assert self.inside.wait(60)
        return self.detector

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.thread.join(60)


@pytest.mark.parametrize(
    "act",
    [
        lambda d: d.update(0.5),
        lambda d: d.step(0.5),
        lambda d: d.choose(),
        lambda d: d.gains(),
        lambda d: d.wait(3),
        lambda d: d.reset(),
        lambda d: d.to_bytes(),
        lambda d: d.run_length,
        lambda d: d.p_changed(3),
        lambda d: d.variance,
        lambda d: d.interval(),
        lambda d: d.parameter,
        lambda d: d.hazard_posterior,
        lambda d: d.mean,
        copy.copy,
        lambda d: copy.deepcopy(d),
        lambda d: d.with_fidelities(FIDELITIES),
        lambda d: mf.run(d, [0.5, 0.5]),
        lambda d: mf.run(d, [0.5, 0.5], detail=True),
    ],
)
def test_a_second_thread_gets_an_error_and_changes_nothing(act: Callable[[mf.Detector], Any]) -> None:
    busy = Busy()
    with busy as detector, pytest.raises(RuntimeError, match="this detector is in use by another thread"):
        act(detector)
    assert (detector.ticks, detector.spent) == (1, 1.0)  # the step it was in, and nothing else
    detector.update(0.5)
    assert detector.ticks == 2


def test_an_observer_may_ask_its_own_detector() -> None:
    seen: list[float] = []

    def observe(raw: float) -> float:
        seen.append(detector.mean + detector.p_changed(5) + len(detector.run_length.length))
        return raw

    detector = mf.Detector(GAUSSIAN, mf.Fidelity("full", 1.0, 1.0, observe=observe))
    assert detector.step(0.5).x == detector.step(0.5).x == 0.5
    assert len(seen) == 2


@pytest.mark.parametrize("prune", [None, mf.TopK(16)])
def test_threads_that_share_a_detector_lose_no_tick(prune: Any) -> None:
    """Every accepted update is counted; without the check the states overflow and the process dies."""
    detector = mf.Detector(GAUSSIAN, prune=prune)
    begin = threading.Barrier(4)
    made: list[int] = []
    refused: set[str] = set()

    def work() -> None:
        begin.wait(60)
        ticks = 0
        for _ in range(300):
            try:
                detector.update(0.5)
                ticks += 1
                detector.choose()
            except RuntimeError as error:
                refused.add(str(error)[:41])
        made.append(ticks)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(made) == 4
    assert refused <= {"this detector is in use by another thread"}
    assert detector.ticks == sum(made) == detector.spent
    alone = mf.Detector(GAUSSIAN, prune=prune)
    for _ in range(sum(made)):
        alone.update(0.5)
    assert detector.to_bytes() == alone.to_bytes()


def test_runs_in_several_threads_lose_no_tick() -> None:
    detector = mf.Detector(GAUSSIAN)
    begin = threading.Barrier(4)
    done_: list[int] = []
    refused: set[str] = set()

    def work() -> None:
        begin.wait(60)
        try:
            done_.append(len(mf.run(detector, np.full(20_000, 0.5))))
        except RuntimeError as error:
            refused.add(str(error)[:41])
            done_.append(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(done_) == 4
    assert refused <= {"this detector is in use by another thread"}
    assert detector.ticks == sum(done_) == detector.spent


def test_a_fleet_in_use_is_an_error() -> None:
    inside, go = threading.Event(), threading.Event()

    def cost(raw: Any) -> float:
        inside.set()
        assert go.wait(60)
        return 1.0

    fleet = mf.Fleet(3, GAUSSIAN, mf.Fidelity("full", 1.0, cost), policy=mf.Always())
    thread = threading.Thread(target=lambda: fleet.update([0.0, 1.0, 2.0], raws=[0, 0, 0]))
    thread.start()
    assert inside.wait(60)
    acts: list[Callable[[], Any]] = [
        lambda: fleet.update([0.0, 1.0, 2.0]),
        lambda: fleet.choose(),
        lambda: fleet.gains(),
        lambda: fleet.mean,
        lambda: fleet.run_length(0),
        lambda: fleet.p_changed(3),
        lambda: fleet.extract(1),
        lambda: copy.copy(fleet),
    ]
    for act in acts:
        with pytest.raises(RuntimeError, match="this fleet is in use by another thread"):
            act()
    go.set()
    thread.join(60)
    assert set(fleet.ticks.tolist()) == {1}


# --- the threads of a fleet -----------------------------------------------------------------------------------------


class Fails:
    """A kernel in Python of which the worker's share fails after it was taken, while the caller waits for it."""

    def __init__(self, who: str) -> None:
        self.who, self.taken = who, threading.Event()

    def __call__(self, states: Any, queue: Any) -> None:
        worker = threading.current_thread().name == "mfbocd-fleet"
        if (self.who == "worker") == worker:
            low, high = take_block(queue, len(states))
            assert high > low
            self.taken.set()
            raise MemoryError("no room")
        assert self.taken.wait(60)  # the worker has its part, so the caller waits for it
        while True:
            low, high = take_block(queue, len(states))
            if low == high:
                return
            mark_done(queue, high - low)


@pytest.mark.parametrize("who", ["worker", "caller"])
def test_a_thread_that_dies_raises_an_error_and_does_not_hang(who: str) -> None:
    workers = Workers()
    job = (np.zeros((64, 1)), np.zeros(2, dtype=np.int64))
    with pytest.raises(MemoryError, match="no room"):
        workers.share(Fails(who), job, 64, 2)


def test_an_interrupted_tick_makes_the_fleet_unusable() -> None:
    fleet = mf.Fleet(64, GAUSSIAN, threads=2)
    fleet.update(np.zeros(64))

    def share(*_: Any) -> None:
        raise MemoryError("no room")

    fleet._workers.share = share  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        fleet.update(np.zeros(64))
    with pytest.raises(
        RuntimeError, match=r"unusable: an update of its streams was interrupted \(MemoryError: no room\)"
    ):
        fleet.update(np.zeros(64))


def test_dead_threads_are_replaced() -> None:
    fleet = mf.Fleet(64, GAUSSIAN, threads=2)
    fleet.update(np.zeros(64))
    (thread,) = fleet._workers._threads
    fleet._workers._jobs.put(None)
    thread.join(60)
    assert not thread.is_alive()
    assert set(fleet.update(np.zeros(64)).tick.tolist()) == {1}
    assert [t.is_alive() for t in fleet._workers._threads] == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fleet_works_after_a_fork_and_closes_cleanly() -> None:
    script = """
import os, sys, warnings
import numpy as np, mfbocd as mf
fleet = mf.Fleet(64, mf.Gaussian(0, 9, 1), threads=2)
alone = mf.Fleet(64, mf.Gaussian(0, 9, 1), threads=1)
x = np.linspace(-3, 3, 64)
fleet.update(x), alone.update(x)
warnings.simplefilter("ignore")
child = os.fork()
for _ in range(3):
    same = (fleet.update(x).mean == alone.update(x).mean).all()
assert same and fleet._workers._jobs.qsize() <= 3, fleet._workers._jobs.qsize()
assert [t.is_alive() for t in fleet._workers._threads] == [True]
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("well")
"""
    done_ = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(Path(mf.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done_.returncode, done_.stdout, done_.stderr) == (0, "well\n", "")


# --- copies ---------------------------------------------------------------------------------------------------------

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("prune", [None, mf.TopK(16)])
@pytest.mark.parametrize("model", [GAUSSIAN, mf.MultivariateGaussian([0, 0], 9, 1)], ids=["compiled", "methods"])
def test_a_copy_of_a_detector_is_independent_and_the_same(how: str, prune: Any, model: mf.Model) -> None:
    guard = {"low": mf.calibrate.ShadowGuard(0.1, 3, "gaussian", noise_var=1.0)}
    detector = mf.Detector(model, FIDELITIES, prune=prune, shadow=guard, policy=mf.Budget(share=0.3, cap=(50, 10)))
    xs = np.random.default_rng(1).normal(size=(40, model.dimension))
    given = [float(x[0]) if model.dimension == 1 else x for x in xs]
    for x in given[:20]:
        detector.update(x, detector.choose())
    before = detector.to_bytes()
    other = COPIES[how](detector)
    assert other.to_bytes() == before
    steps = [other.update(x, other.choose()) for x in given[20:]]
    other.shadow["low"].observe(0.0, 9.0)
    assert detector.to_bytes() == before
    assert [detector.update(x, detector.choose()) for x in given[20:]] == steps
    detector.shadow["low"].observe(0.0, 9.0)
    assert detector.to_bytes() == other.to_bytes()
    assert not np.shares_memory(other._filter.state, detector._filter.state)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("prune", [None, mf.TopK(16)])
def test_a_copy_of_a_fleet_is_independent_and_the_same(how: str, prune: Any) -> None:
    fleet = mf.Fleet(40, GAUSSIAN, FIDELITIES, prune=prune, threads=2, policy=mf.Budget(share=0.5))
    xs = np.random.default_rng(2).normal(size=(30, 40))
    for x in xs[:10]:
        fleet.update(x, fleet.choose())
    before = [fleet.extract(i).to_bytes() for i in (0, 39)]
    other = COPIES[how](fleet)
    steps = [other.update(x, other.choose()) for x in xs[10:]]
    assert [fleet.extract(i).to_bytes() for i in (0, 39)] == before
    assert set(fleet.ticks.tolist()) == {10}
    for x, step in zip(xs[10:], steps, strict=True):
        mine = fleet.update(x, fleet.choose())
        assert (mine.choice == step.choice).all()
        assert (mine.mean == step.mean).all()
    assert fleet.spent == other.spent
    assert [other.extract(i).to_bytes() for i in range(40)] == [fleet.extract(i).to_bytes() for i in range(40)]


def test_a_fleet_closes_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    with pytest.raises(ValueError, match="n must be"):
        mf.Fleet(-1, GAUSSIAN)
    del (half := [Workers.__new__(Workers), mf.Fleet.__new__(mf.Fleet)])[:]
    assert half == []
    fleet = mf.Fleet(64, GAUSSIAN, threads=2)
    fleet.update(np.zeros(64))
    (thread,) = fleet._workers._threads
    gone = weakref.ref(fleet)
    del fleet
    gc.collect()
    assert gone() is None
    thread.join(60)
    assert not thread.is_alive()
    assert errors == []


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Fleet(10**12, GAUSSIAN), r"a fleet of 1000000000000 streams with \d+ bytes each needs .* GB"),
        (lambda: mf.Fleet(10**400, GAUSSIAN), "n must be below"),
        (lambda: mf.Detector(GAUSSIAN, prune=mf.TopK(10**12)), "1000000000000 hypotheses needs .* GB"),
        (lambda: mf.Detector(GAUSSIAN, prune=mf.Resample(10**12)), "1000000000000 hypotheses needs .* GB"),
        (lambda: mf.Detector(GAUSSIAN, prune=mf.TopK(10**400)), "TopK.k must be below"),
        (lambda: mf.Hazard(lambda length: 0.1 / (1 + length), horizon=10**12), "horizon = 1000000000000 needs .* GB"),
        (lambda: mf.Hazard.weibull(2, 100, horizon=10**12), "horizon = 1000000000000 needs .* GB"),
        (lambda: mf.Hazard.weibull(2, 100, horizon=0), "horizon must be a whole number"),
        (lambda: mf.Learned(points=10**12), "Learned.points must be at most 64"),
        (lambda: mf.Alarm(within=10**400), "Alarm.within must be"),
        (lambda: mf.Gaussian(10**400, 1, 1), "Gaussian.mean must be finite"),
    ],
)
def test_impossible_sizes_are_refused_before_allocation(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()

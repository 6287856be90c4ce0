"""What a configuration costs is found out in another process, under limits, before anything else depends on it."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from mfbocd import Alarm, Autoregressive, Confusion, Detector, Hazard, LinearRegression, TopK
from mfbocd.io.config import Config, ConfigError, model_kinds, policy_kinds
from mfbocd.io.config.kinds import PRUNE_KEYS, hazard_kinds
from mfbocd.io.config.maxima import DEPTH, LISTS, NUMBERS, check_maxima
from mfbocd.io.config.parts import FidelityConfig
from mfbocd.io.warm import DIFFERENT, crowded
from mfbocd.service import checking
from mfbocd.service.checking import CHECKER, Checker
from mfbocd.service.errors import RequestError
from mfbocd.service.limits import Limits

from ..parts import PATIENCE
from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow

Table = dict[str, Any]
LIMITS = Limits()
WAYS = [{"name": "a", "zeta": 0.3, "cost": 1.0}, {"name": "b", "zeta": 1.0, "cost": 5.0}]

EXAMPLES: dict[str, list[Table]] = {
    "autoregressive": [{}, {"order": 0}, {"order": 7}],
    "bernoulli": [{}],
    "binomial": [{"trials": 1000}],
    "categorical": [{"alpha": [1.0] * 2}, {"alpha": [1.0] * 9}],
    "confusion": [
        {"matrices": [[0.3, [[1.0, 0.0], [0.6, 0.4]]]]},
        {"matrices": [[0.3, [[1.0, 0.0], [0.6, 0.4]]]], "points": 33},
    ],
    "exponential": [{}],
    "fixed_season": [
        {"model": {"kind": "gaussian"}, "period": 7.0, "cosine": [1.0], "sine": [0.0]},
        {
            "model": {"kind": "scaled", "scale": 2.0, "model": {"kind": "trend"}},
            "period": 7.0,
            "pieces": [[0.0, 1.0, 0.0]],
        },
    ],
    "gamma": [{"known": 2.0}],
    "gaussian": [{}],
    "gaussian_process": [{}, {"reach": 20.0}, {"length": 2.0, "reach": 11.0}, {"order": 2}],
    "gaussian_unknown": [{}],
    "linear_regression": [{"covariates": 1}, {"covariates": 6}, {"covariates": 6, "intercept": False}],
    "mixture": [
        {"parts": [{"kind": "gaussian"}, {"kind": "trend"}]},
        {"parts": [{"kind": "poisson"}, {"kind": "Binomial", "trials": 9}], "weights": [1.0, 3.0]},
    ],
    "multivariate_gaussian": [{"mean": [0.0] * 2}, {"mean": [0.0] * 7}],
    "multivariate_gaussian_unknown": [{"mean": [0.0] * 2}, {"mean": [0.0] * 7}],
    "outliers": [
        {"model": {"kind": "gaussian"}},
        {"model": {"kind": "Poisson"}, "rate": 0.1},
        {"model": {"kind": "student_t"}},
    ],
    "poisson": [{}],
    "product": [
        {"parts": [{"kind": "gaussian"}, {"kind": "Categorical", "alpha": [1.0] * 5}]},
        {"parts": [{"kind": "student_t"}, {"kind": "MultivariateGaussian", "mean": [0.0, 0.0]}]},
    ],
    "robust_trend": [{}, {"ar": [0.5, 0.1], "outliers": 0.01}],
    "rounded": [
        {"model": {"kind": "gaussian_unknown"}, "step": 0.5},
        {"model": {"kind": "Rounded", "model": {"kind": "trend"}, "step": 1.0}, "step": 0.5},
    ],
    "scaled": [{"model": {"kind": "student_t"}, "scale": 3.0}],
    "seasonal": [{"period": 7.0}, {"period": 24.0, "harmonics": 5, "slope": 0.0}, {"period": 6, "harmonics": 3}],
    "student_t": [{}, {"var": 9.0}, {"var": 0.01}, {"points": 3, "noise_var": 0.2}],
    "student_t_unknown": [{}, {"degrees": 1.5}],
    "transformed": [{"model": {"kind": "robust_trend", "ar": [0.5]}, "function": "sqrt", "offset": 0.6}],
    "trend": [{}],
    "vector_autoregressive": [{"order": 0, "mean": [0.0] * 2}, {"order": 3, "mean": [0.0] * 4}],
}


# --- declared maxima ---------------------------------------------------------------------------------------------


def fields() -> Iterator[tuple[str, str]]:
    """Every field of every kind, and its type as it is written."""
    for kind in (*model_kinds().values(), *policy_kinds().values(), *hazard_kinds().values()):
        for name, parameter in inspect.signature(kind).parameters.items():
            if parameter.kind is not parameter.VAR_POSITIONAL:
                yield name, str(parameter.annotation)
    for table in (Alarm, FidelityConfig):
        for field in dataclasses.fields(table):
            yield field.name, str(field.type)
    yield from ((name, "float" if name == "threshold" else "int") for name in PRUNE_KEYS)
    yield from (("seed", "int"), ("hazard", "float | Sequence[float]"), ("fidelity", "Sequence[Table]"))


def test_every_number_and_list_of_every_kind_has_a_maximum() -> None:
    whole = {name for name, own in fields() if re.search(r"\bint\b", own)}
    lists = {name for name, own in fields() if re.search("Sequence|Matrix|Pairs|Weights|tuple", own)}
    assert len(whole) > 10
    assert {name for name, own in fields() if "Mapping" in own} <= lists | {"model", "outlier"}
    assert whole - {"cap"} == set(NUMBERS) - {"cap[1]"}
    assert lists == set(LISTS)


@pytest.mark.parametrize("table", ["model", "policy", "hazard", "alarm", "prune", "fidelity"])
def test_what_exceeds_its_maximum_is_refused_before_it_is_used(table: str) -> None:
    """The kind does not exist, so that nothing can have been computed."""
    numbers = dict.fromkeys([name for name, own in fields() if re.search("int|float", own)])
    for name, value in itertools.product(numbers, (1e101, -1e101, 10**5000, -(10**5000), 1e-101)):
        if abs(value) > 1.0 or name not in NUMBERS:
            expect_refusal(table, name, value, name)
    for name, most in NUMBERS.items():
        field = name.removesuffix("[1]")
        expect_refusal(table, field, most + 1 if field == name else [1.0, most + 1], field)
    for name, most in LISTS.items():
        for value in ([1.0] * (most + 1), [[1.0] * (most + 1)], {str(i): 1.0 for i in range(most + 1)}):
            expect_refusal(table, name, value, name)
    expect_refusal(table, "kind", "x" * 2001, "kind")


def expect_refusal(table: str, name: str, value: Any, named: str) -> None:
    part: Any = {"kind": "no such kind", name: value}
    config = {"model": {"kind": "no such kind"}} | {table: [part] if table == "fidelity" else part}
    with pytest.raises(ConfigError, match=named) as refused:
        Config.parse(config)
    assert (
        "must be at most" in str(refused.value)
        or "must have at most" in str(refused.value)
        or "1e-100" in str(refused.value)
    ), refused.value
    with pytest.raises(ConfigError, match=re.escape(str(refused.value))):
        check_maxima(config)


def nested(levels: int) -> Any:
    found: Any = 1.0
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("levels", [DEPTH, 900, 20_000])
def test_what_is_nested_too_deep_is_refused(levels: int) -> None:
    for config in ({"model": nested(levels)}, {"model": {"kind": "product", "parts": nested(levels)}}):
        with pytest.raises(ConfigError, match="nested tables or lists"):
            Config.parse(config)
        with pytest.raises(RequestError, match="nested"):
            CHECKER.check(config, LIMITS, "test").result(PATIENCE)


def test_a_file_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(f"model = {'[' * 50_000}{']' * 50_000}")
    with pytest.raises(ConfigError, match=r"deep\.toml: a config must have at most"):
        Config.load(path)


def test_the_library_refuses_absurd_sizes_before_it_allocates() -> None:
    for make in (
        lambda: Autoregressive(10**9),
        lambda: LinearRegression(10**12),
        lambda: Confusion({}, points=10**12),
        lambda: Detector(Autoregressive(20_000)),
        lambda: Detector(Autoregressive(1), prune=TopK(10**12)),
        lambda: Hazard(lambda length: 0.1 + 0.0 * length, horizon=10**12),
        lambda: Hazard.weibull(2.0, 9.0, horizon=10**12),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"must be at most|needs [\d.e+]+ GB of memory"):
            make()
        assert tracemalloc.get_traced_memory()[1] < 64e6
        tracemalloc.stop()


# --- trying a configuration in another process -------------------------------------------------------------------


def refusal(config: Mapping[str, Any], limits: Limits = LIMITS, checker: Checker = CHECKER) -> str:
    """Why a configuration is refused; empty if it is not."""
    error = checker.check(config, limits, "test").exception(PATIENCE)
    assert error is None or (isinstance(error, RequestError) and error.status == 422), error
    return str(error or "")


@pytest.mark.parametrize("kind", EXAMPLES)
def test_usual_models_are_served(kind: str) -> None:
    small = {"top_k": 24} if EXAMPLES[kind][-1].get("order") == 2 else {"top_k": 256}
    assert refusal({"model": {"kind": kind, **EXAMPLES[kind][-1]}, "fidelity": WAYS, "prune": small}) == ""


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) == set(model_kinds())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": {"kind": "gaussian_process", "order": 8, "reach": 20}}, "model.order must be 1 or 2"),
        ({"model": {"kind": "gaussian_process", "order": 10**9, "reach": 20}}, "model.order must be at most"),
        ({"model": {"kind": "autoregressive", "order": 1000}}, "too much memory"),
        ({"model": {"kind": "autoregressive", "order": 40}}, r"a state of \d+ bytes \(256 hypotheses of 1064 "),
        ({"model": {"kind": "gaussian"}, "hazard": {"kind": "weibull", "shape": 2, "scale": 9, "horizon": 10**6}},
         "a state of 8"),
        ({"model": {"kind": "gaussian"}, "prune": {"top_k": 100_000}}, "a state of 3"),
        ({"model": {"kind": "linear_regression", "covariates": 1000}, "prune": {"top_k": 1}}, "too much memory"),
    ],
)  # fmt: skip
def test_what_is_too_large_is_refused(changed: Table, reason: str) -> None:
    assert re.search(reason, refusal({"fidelity": WAYS, "policy": {"kind": "always"}} | changed))


def test_the_operator_sets_the_limits() -> None:
    config = {"model": {"kind": "autoregressive", "order": 40}, "fidelity": WAYS}
    assert "a state of" in refusal(config)
    assert refusal(config, Limits(state=4_000_000)) == ""
    assert "of computing time; the limit of this service is 1e-07" in refusal(CONFIG, Limits(tick=1e-7))
    assert "too much memory" in refusal(CONFIG | {"prune": {"top_k": 90_000}}, Limits(memory=2_000_000))


def test_it_is_tried_with_all_hypotheses_alive() -> None:
    assert refusal(CONFIG | {"prune": False}) == ""
    for changed, hypotheses in (({"prune": False}, 2**20 // 32), ({}, 256), ({"prune": {"top_k": 7}}, 7)):
        detector = crowded(Config.parse(CONFIG | changed), 2**20)
        assert detector.run_length.length.size == hypotheses
        assert np.unique(detector._filter.stats, axis=1).shape[1] == min(hypotheses, DIFFERENT)
        assert np.ptp(detector.run_length.weight) < 1e-12


# --- the processes -----------------------------------------------------------------------------------------------


def sandboxes(parent: int | None = None) -> dict[int, str]:
    """State of each process that tries configurations, by id: those that this process, or another, has started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, of = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(of) == (parent or os.getpid()) and (
                state == "Z" or b"service.sandbox" in (folder / "cmdline").read_bytes()
            ):
                found[int(folder.name)] = state
        except OSError:  # it has ended
            continue
    return found


@pytest.fixture
def checker() -> Iterator[Checker]:
    """One of its own, with processes of its own."""
    before = set(sandboxes())
    made = Checker()
    yield made
    made.close()
    assert set(sandboxes()) <= before


@pytest.fixture
def process(checker: Checker) -> int:
    """The one process of the checker, which has nothing to do."""
    before = set(sandboxes())
    assert refusal(CONFIG, checker=checker) == ""
    (found,) = set(sandboxes()) - before
    return found


def configs() -> Iterator[Table]:
    """Different ones, none of which was tried before."""
    return ({"model": {"kind": "gaussian"}, "seed": 1000 + i} for i in itertools.count())


def test_a_known_configuration_is_not_tried_again(checker: Checker, process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    try:
        assert checker.check(CONFIG, LIMITS, "other").done()
        assert not checker.check(CONFIG | {"seed": 9}, LIMITS, "other").done()
        assert not checker.check(CONFIG, Limits(tick=3.0), "other").done()
    finally:
        os.kill(process, signal.SIGCONT)


def test_it_has_one_thread_and_ends_what_takes_too_long(
    checker: Checker, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(Path(f"/proc/{process}/task").iterdir())) == 1
    monkeypatch.setattr(checking, "BUILD_TIME", 0.004)
    assert "take too long" in refusal({"model": {"kind": "student_t"}}, checker=checker)
    monkeypatch.undo()
    assert refusal({"model": {"kind": "student_t"}}, checker=checker) == ""
    assert sandboxes(process) == {}


def test_compilation_does_not_count() -> None:
    program = """
import time
from mfbocd.service.sandbox import Limiter

def compute(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass

limiter = Limiter()
limiter.begin(0.2, 2**28)
limiter.on_start(None)
compute(1.0)
bytearray(2**29)
limiter.on_end(None)
try:
    bytearray(2**29)
except MemoryError:
    print("limited", flush=True)
compute(60.0)
print("not reached")
"""
    found = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stdout) == (-signal.SIGPROF, "limited\n")


def test_a_process_that_has_ended_is_started_again(checker: Checker, process: int) -> None:
    each, others = configs(), set(sandboxes()) - {process}
    os.kill(process, signal.SIGKILL)
    assert refusal(next(each), checker=checker) == ""
    assert process not in sandboxes()
    (again,) = set(sandboxes()) - others
    os.kill(again, signal.SIGSTOP)
    waiting = checker.check(next(each), LIMITS, "test")
    os.kill(again, signal.SIGKILL)  # while it tries one
    assert waiting.result(PATIENCE) is None
    assert again not in sandboxes()


def test_a_process_that_cannot_be_started_is_tried_again(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("no memory")

    monkeypatch.setattr(checking, "_started", fail)
    error = checker.check(CONFIG, LIMITS, "a").exception(PATIENCE)
    assert isinstance(error, RequestError)
    assert error.status == 503
    monkeypatch.undo()
    assert refusal(CONFIG, checker=checker) == ""


def test_a_process_ends_when_there_is_nothing_to_do(
    checker: Checker, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "IDLE", 0.01)
    each = configs()
    assert refusal(next(each), checker=checker) == ""
    until(lambda: process not in sandboxes(), sandboxes)
    assert refusal(next(each), checker=checker) == ""


def test_of_one_client_one_is_tried_at_a_time(checker: Checker, process: int) -> None:
    each = configs()
    os.kill(process, signal.SIGSTOP)
    try:
        first, second = (checker.check(next(each), LIMITS, "a") for _ in range(2))
        other = checker.check(next(each), LIMITS, "b")
        assert other.result(PATIENCE) is None
        assert not first.done()
        assert not second.done()
        assert [job.process is None for job in checker._jobs.values()] == [False, True]
    finally:
        os.kill(process, signal.SIGCONT)
    assert (first.result(PATIENCE), second.result(PATIENCE)) == (None, None)


def test_what_nobody_waits_for_is_dropped(checker: Checker, process: int) -> None:
    each = configs()
    os.kill(process, signal.SIGSTOP)
    config = next(each)
    one, other = (checker.check(config, LIMITS, "a") for _ in range(2))
    (job,) = checker._jobs.values()
    until(lambda: job.process is not None, lambda: "no process has taken it")
    more = [checker.check(next(each), LIMITS, "a") for _ in range(91)]
    one.cancel()
    for future in more:
        future.cancel()
    assert len(checker._jobs) == 1  # the other one still waits
    other.cancel()
    assert not checker._jobs
    assert refusal(next(each), checker=checker) == ""
    assert process not in sandboxes()


def test_the_processes_end_with_the_service() -> None:
    program = """
import sys
from mfbocd.service.checking import CHECKER
from mfbocd.service.limits import Limits
CHECKER.check({"model": {"kind": "gaussian"}}, Limits(), "a").result()
print("checked", flush=True)
sys.stdin.read()
"""
    for end in (lambda found: found.stdin.close(), lambda found: found.kill()):
        with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as found:
            assert found.stdout is not None
            assert found.stdout.readline() == "checked\n"
            (pid,) = sandboxes(found.pid)
            end(found)
            found.wait(PATIENCE)
            until(lambda: not Path(f"/proc/{pid}").exists(), lambda: Path(f"/proc/{pid}/stat").read_text())  # noqa: B023


# --- the service -------------------------------------------------------------------------------------------------


def test_the_service_refuses_what_would_cost_too_much(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    with serving(tmp_path / "mfbocd.db") as client:
        for path in ("/streams", "/groups"):
            for model, reason in (
                ({"kind": "autoregressive", "order": 1000}, "too much memory"),
                ({"kind": "linear_regression", "covariates": 20000}, "model.covariates"),
                ({"kind": "gaussian_process", "order": 8, "reach": 20}, "model.order"),
                ({"kind": "gaussian_process", "order": 10**9, "reach": 20}, "model.order"),
            ):
                answer = client.post(path, json={"config": CONFIG | {"model": model}})
                assert answer.status_code == 422, answer.text
                assert reason in answer.json()["error"]
            for config in (f'{{"model": {deep}}}', f'{{"model": {{"kind": "product", "parts": {deep}}}}}', deep):
                content = f'{{"config": {config}}}'
                answer = client.post(path, content=content, headers={"content-type": "application/json"})
                assert 400 <= answer.status_code < 500, answer.text
        assert client.get("/streams").json()["total"] == 0


def test_nothing_of_a_configuration_is_computed_in_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    parse = Config.parse.__func__  # type: ignore[attr-defined]

    def recorded(cls: type[Config], given: Mapping[str, Any]) -> Config:
        threads.add(threading.current_thread().name)
        return parse(cls, given)  # type: ignore[no-any-return]

    with serving(tmp_path / "mfbocd.db") as client:
        monkeypatch.setattr(Config, "parse", classmethod(recorded))
        assert client.post("/groups", json={"id": "g", "config": CONFIG}).status_code == 201
        assert client.post("/streams", json={"id": "s", "config": CONFIG | {"seed": 77}}).status_code == 201
        assert client.post("/streams", json={"config": CONFIG | {"seed": -1}}).status_code == 422
        monkeypatch.undo()
    assert threads
    assert "mfbocd-serve" not in threads


def test_what_a_client_that_has_left_asked_for_is_dropped(
    tmp_path: Path, checker: Checker, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mfbocd.service.service.CHECKER", checker)
    each = configs()
    with serving(tmp_path / "mfbocd.db") as client, ThreadPoolExecutor(10) as pool:
        os.kill(process, signal.SIGSTOP)

        def posted(config: Table) -> None:
            with httpx.Client(base_url=client.base_url, timeout=PATIENCE) as own:
                sent.append(own)
                own.post("/streams", json={"config": config})

        sent: list[httpx.Client] = []
        gone: list[Future[None]] = [pool.submit(posted, next(each)) for _ in range(10)]
        until(lambda: len(checker._jobs) == 10, lambda: len(checker._jobs))
        for own in sent:
            leave(own)
        until(lambda: not checker._jobs, lambda: len(checker._jobs))
        assert all(isinstance(one.exception(PATIENCE), httpx.TransportError) for one in gone)
        assert client.post("/streams", json={"config": next(each)}).status_code == 201
        assert client.get("/streams").json()["total"] == 1


def leave(client: httpx.Client) -> None:
    """Close the connection of a client that waits for a response in another thread."""
    (connection,) = client._transport._pool.connections  # type: ignore[attr-defined]
    connection._connection._network_stream._sock.shutdown(2)

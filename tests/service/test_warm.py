"""A service answers while kernels are compiled, and only those wait that need them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from numba.core.caching import _CacheLocator
from numba.core.dispatcher import Dispatcher

from mfbocd.io.config import Config
from mfbocd.io.warm import Uncompiled, rehearse
from mfbocd.service import manage
from mfbocd.service.engine import Engine
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.warming import Warmer

from .service import CONFIG, free_port, serving, until

pytestmark = pytest.mark.slow

WARM, COLD = CONFIG, CONFIG | {"model": {"kind": "poisson"}}
SOON = 60.0


class Compiler:
    """Compiles nothing: the cold family waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.compiled: list[str] = []

    def load(self, config: Mapping[str, Any], refuse: bool) -> Mapping[str, Any]:
        kind = config["model"]["kind"]
        if refuse and kind == "poisson" and "poisson" not in self.compiled:
            raise Uncompiled("a kernel")
        return Config.parse(config).to_dict()

    def compile(self, config: Mapping[str, Any]) -> Future[None]:
        def wait() -> None:
            self.begun.set()
            assert self.go.wait(SOON)
            self.compiled.append(config["model"]["kind"])
            done.set_result(None)

        done: Future[None] = Future()
        threading.Thread(target=wait).start()
        return done

    def warmer(self) -> Warmer:
        return Warmer(known=set(), load=self.load, compile=self.compile)


def stored(path: Path, **configs: dict[str, Any]) -> Path:
    """A store with streams of these configs."""
    store = SqliteStore(path)
    engine = Engine(store)
    facts: dict[str, Any] = {"group": None, "observers": {}, "available": {}, "max_streams": 99}
    for name, config in configs.items():
        manage.add_stream(engine, stream=name, name=name, config=config, **facts)
    store.close()
    return path


def observation(client: httpx.Client, stream: str) -> dict[str, Any]:
    """The coming one of a stream, from what is stored."""
    row = client.get(f"/streams/{stream}").json()
    return {"tick": row["tick"], "fidelity": row["next"]["fidelity"], "x": 1.0}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def test_others_go_on_while_a_family_is_compiled(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    compiler = Compiler()
    path = stored(tmp_path / "mfbocd.db", warm=WARM, cold=COLD, cold2=COLD)
    with serving(path, warmer=compiler.warmer()) as client:

        def posted(where: str, body: dict[str, Any]) -> Future[httpx.Response]:
            return pool.submit(client.post, where, json=body, timeout=SOON)

        try:
            assert compiler.begun.wait(SOON)
            assert client.get("/healthz").status_code == 200
            not_ready = client.get("/readyz")
            assert not_ready.status_code == 503
            assert "of 2 kinds of configurations are ready" in not_ready.json()["error"]

            # those that need the cold family are submitted first, the others are answered all the same
            sent = {stream: observation(client, stream) for stream in ("warm", "cold", "cold2")}
            waiting = [
                posted("/streams/cold/observe", sent["cold"]),
                posted("/observe", {"observations": [{"stream": "cold2", **sent["cold2"]}]}),
                posted("/streams", {"id": "new-cold", "config": COLD}),
                posted("/groups", {"id": "cold-group", "config": COLD}),
            ]
            for tick in range(3):
                body = observation(client, "warm")
                step = posted("/streams/warm/observe", body).result(SOON)
                assert (step.status_code, step.json()["tick"]) == (200, tick)
            assert posted("/streams", {"id": "new", "config": WARM}).result(SOON).status_code == 201
            assert posted("/streams/new/observe", observation(client, "new")).result(SOON).status_code == 200
            mixed = [
                {"stream": "warm", **observation(client, "warm")},
                {"stream": "new", **observation(client, "new")},
            ]
            assert posted("/observe", {"observations": mixed}).result(SOON).status_code == 200
            assert compiler.compiled == []
            assert not any(one.done() for one in waiting)
        finally:
            compiler.go.set()
        answers = [one.result(SOON) for one in waiting]
        assert [one.status_code for one in answers] == [200, 200, 201, 201]
        assert answers[0].json()["tick"] == answers[1].json()["results"][0]["tick"] == 0
        # once as it is stored, for all of them, and once more as it was given if that was asked for meanwhile
        assert compiler.compiled in (["poisson"], ["poisson"] * 2)
        until(lambda: client.get("/readyz").status_code == 200, lambda: client.get("/readyz").text)
        assert client.get("/readyz").json() == {"status": "ready"}


def test_a_batch_waits_for_its_own_and_keeps_its_order(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    compiler = Compiler()
    path = stored(tmp_path / "mfbocd.db", warm=WARM, cold=COLD)
    with serving(path, warmer=compiler.warmer()) as client:
        try:
            assert compiler.begun.wait(SOON)
            first = observation(client, "cold")
            body = [
                {"stream": "cold", **first},
                {"stream": "warm", **observation(client, "warm")},
                {"stream": "absent", **first},
                {"stream": "cold", **first},  # again, which is harmless
            ]
            waiting = pool.submit(client.post, "/observe", json={"observations": body}, timeout=SOON)
            until(lambda: client.get("/streams/warm").json()["tick"] == 1, lambda: client.get("/streams/warm").text)
            assert not waiting.done()
        finally:
            compiler.go.set()
        results = waiting.result(SOON).json()["results"]
        assert [one["status"] for one in results] == [200, 200, 404, 200]
        assert results[0] == results[3]


def test_groups_wait_for_their_own(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path)
    manage.add_group(Engine(store), group="g", name="g", config=COLD)
    store.close()
    compiler = Compiler()
    with serving(path, warmer=compiler.warmer()) as client:
        try:
            assert compiler.begun.wait(SOON)
            waiting = [
                pool.submit(client.get, "/groups", timeout=SOON),
                pool.submit(client.get, "/groups/g", timeout=SOON),
                pool.submit(client.post, "/streams", json={"id": "s", "group": "g"}, timeout=SOON),
            ]
            assert client.post("/streams", json={"id": "t", "config": WARM}).status_code == 201
            assert not any(one.done() for one in waiting)
        finally:
            compiler.go.set()
        assert [one.result(SOON).status_code for one in waiting] == [200, 200, 201]
        assert client.post("/streams/s/observe", json=observation(client, "s")).status_code == 200


def test_a_service_ends_while_a_family_is_compiled(tmp_path: Path) -> None:
    compiler = Compiler()
    path = stored(tmp_path / "mfbocd.db", cold=COLD)
    warmer = compiler.warmer()
    with serving(path, warmer=warmer):
        assert compiler.begun.wait(SOON)
        compiler.go.set()
    assert not warmer.is_ready(json.dumps(WARM))  # nobody asked for it
    assert warmer.prepare(COLD).done()


def test_a_client_that_goes_away_does_not_end_it_for_others() -> None:
    compiler = Compiler()
    warmer = compiler.warmer()
    first, second = warmer.prepare(COLD), warmer.prepare(COLD)
    assert not first.cancel()  # as asyncio does when a request is cancelled
    compiler.go.set()
    second.result(SOON)
    assert warmer.is_ready(json.dumps(COLD))
    warmer.close()


def test_what_cannot_be_rehearsed_is_waited_for_once(tmp_path: Path) -> None:
    """The stream itself says what is wrong; others of the same structure are not affected."""
    bad = CONFIG | {"model": {"kind": "gaussian", "noise_var": -1.0, "mean": 0.0, "var": 9.0}}
    good = CONFIG | {"model": {"kind": "gaussian", "noise_var": 2.0, "mean": 0.0, "var": 9.0}}
    warmer = Warmer(known=set())
    warmer.prepare(bad).result(SOON)
    assert warmer.is_ready(json.dumps(bad))
    assert not warmer.is_ready(json.dumps(good))
    warmer.prepare(good).result(SOON)
    assert warmer.is_ready(json.dumps(good))
    assert warmer.is_ready("no json")
    warmer.close()


def test_a_store_that_cannot_be_read_does_not_keep_the_service_from_being_ready() -> None:
    class Broken:
        def configs(self) -> list[str]:
            raise OSError("gone")

    warmer = Warmer(known=set())
    assert warmer.not_ready
    warmer.start(Broken())  # type: ignore[arg-type]
    until(lambda: not warmer.not_ready, lambda: warmer.not_ready)
    warmer.close()


PROCESS = {"model": {"kind": "gaussian_process"}, "policy": {"kind": "always"}}


def cache_without(folder: Path, *missing: str) -> int:
    """Fill a folder with what is compiled already, but for some kernels; how many files there are."""
    copied = 0
    for module in [one for name, one in sys.modules.items() if name.startswith("mfbocd.")]:
        for kernel in vars(module).values():
            if not isinstance(kernel, Dispatcher) or kernel.py_func.__module__ != module.__name__:
                continue
            into = folder / _CacheLocator.get_suitable_cache_subpath(str(module.__file__))
            into.mkdir(parents=True, exist_ok=True)
            stem = f"{Path(str(module.__file__)).stem}.{kernel.py_func.__qualname__}-"
            for file in Path(kernel.stats.cache_path).glob(f"{stem}*"):
                if kernel.py_func.__name__ not in missing:
                    shutil.copy2(file, into)
                    copied += 1
    return copied


def test_the_program_serves_while_it_compiles(tmp_path: Path) -> None:
    """The whole of it, with a cache that lacks two small kernels of the one family that is stored."""
    rehearse(Config.parse(PROCESS))
    missing = ("_features", "_lost")
    cache = tmp_path / "cache"
    assert cache_without(cache, *missing) > 10
    assert not [*cache.rglob("*._features-*")]
    path = stored(tmp_path / "mfbocd.db", process=PROCESS)
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-m", "mfbocd.cli", "serve", "--db", str(path), "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    ) as program:
        try:
            assert program.stderr is not None
            assert "Serving" in program.stderr.readline()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SOON) as client:
                assert client.get("/healthz").status_code == 200
                until(lambda: client.get("/readyz").status_code == 200, lambda: client.get("/readyz").text, SOON)
                assert [*cache.rglob("*._features-*.nbi")]  # compiled, before anything was asked for
                step = client.post("/streams/process/observe", json=observation(client, "process"))
                assert (step.status_code, step.json()["tick"]) == (200, 0)
        finally:
            program.terminate()

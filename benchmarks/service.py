"""Throughput of the service: single and batched observations, on both databases, with 1 and with 1000 streams.

Each is compared with a service that has no detector: it handles the same requests, checks, rows and states, but
stores and returns the observations without computing anything. The ratio of the two, from one run on one machine, is
the cost of the detector. All of it takes about five minutes, and one or two with `--quick`. The memory of a worker is
measured separately, with `--only memory`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

CONFIG = {
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    "policy": {"kind": "budget", "share": 0.35},
}
CLIENTS = 4  # that send batches concurrently
WARM_UP = 300  # ticks before the measurement, after which states have their full size


# --- the service, in a separate process ----------------------------------------------------------------------------


def serve(db: str, port: int, blank: bool) -> None:
    import uvicorn

    from mfbocd.service import service
    from mfbocd.service.app import create_app
    from mfbocd.service.engine import Engine, PendingTick
    from mfbocd.service.records import Event, json_text
    from mfbocd.service.server import Server
    from mfbocd.service.store import Store, open_store

    class Blank(Engine):
        """Stores observations. The step is the last one with the new reading; choice and state do not change."""

        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.last: dict[str, dict[str, Any]] = {}

        def _advance(self, wave: list[PendingTick]) -> None:
            at = round(time.time(), 3)
            for tick in wave:
                stream, row, command = tick.stream, tick.stream.row, tick.command
                last = self.last.get(row.id) or orjson.loads(str(row.last))
                new = {"tick": command.tick, "fidelity": command.fidelity, "x": command.x, "at": at}
                self.last[row.id] = last = {**last, **new}
                tick.results[tick.position] = stored = json_text(last)
                self._current.streams.setdefault(row.id, row.tick)
                self._uncommitted[row.id] = self._current
                self._current.events[row.id, row.tick] = Event(row.id, row.tick, at, False, stored)
                alarms = row.alarms, row.alarmed, row.last_alarm
                stream.row = row.advanced(row.tick + 1, row.spent, alarms, stored, row.next, at, row.state)
                self.steps += 1

    if blank:
        service.Engine = Blank  # type: ignore[misc]

    def store() -> Store:
        return open_store(db, worker="bench", exclusive=True)

    Server(uvicorn.Config(create_app(store), port=port, log_level="warning", access_log=False)).run()


# --- a client with little overhead ----------------------------------------------------------------------------------


class Connection:
    """A persistent HTTP connection."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> Connection:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def post(self, path: str, body: Any) -> Any:
        """The response to a request, which must succeed."""
        data = orjson.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        top = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = int(top.lower().split("content-length: ")[1].split("\r\n")[0])
        response = orjson.loads(await self.reader.readexactly(length))
        assert top.split()[1] in ("200", "201"), (top, response)
        return response


def reading(rng: np.random.Generator, fidelity: str) -> float:
    return float(rng.normal(0.0, 1.0 if fidelity == "gps" else 3.0))


async def batched(port: int, streams: list[str], rounds: int, clients: int = CLIENTS) -> tuple[float, list[float]]:
    """Stream-ticks per second, including the requests to /choose, and the seconds of each request to /observe.

    Each client sends all of its streams in one batch.
    """
    took: list[float] = []

    async def loop(i: int) -> None:
        part = streams[i::clients]
        connection = await Connection(port).open()
        rng = np.random.default_rng(i)
        for _ in range(rounds):
            choices = (await connection.post("/choose", {"streams": part}))["results"]
            observations = [
                {name: c[name] for name in ("stream", "tick", "fidelity")} | {"x": reading(rng, c["fidelity"])}
                for c in choices
            ]
            start = time.perf_counter()
            found = (await connection.post("/observe", {"observations": observations}))["results"]
            took.append(time.perf_counter() - start)
            assert all(f["status"] == 200 for f in found)

    clients = min(clients, len(streams))
    began = time.perf_counter()
    await asyncio.gather(*(loop(i) for i in range(clients)))
    return rounds * len(streams) / (time.perf_counter() - began), took


async def single(
    port: int, streams: list[str], seconds: float, clients: int, pace: float = 0.0
) -> tuple[float, list[float]]:
    """Requests per second to /choose and /observe in turn, and the seconds of each request to /observe.

    With a `pace`, so many requests per second are sent, evenly spaced; otherwise as many as possible.
    """
    took: list[float] = []
    count = 0
    clients = min(clients, len(streams))
    until = time.perf_counter() + seconds

    async def loop(i: int) -> None:
        nonlocal count
        connection = await Connection(port).open()
        rng = np.random.default_rng(i)
        mine = streams[i::clients]
        turn = 0
        between = 2 * clients / pace if pace else 0.0
        due = time.perf_counter() + i / clients * between
        await asyncio.sleep(due - time.perf_counter())  # the clients are evenly spaced from the start
        while time.perf_counter() < until:
            stream = mine[turn % len(mine)]
            turn += 1
            choice = await connection.post(f"/streams/{stream}/choose", {})
            observation = {"tick": choice["tick"], "fidelity": choice["fidelity"]}
            observation["x"] = reading(rng, choice["fidelity"])
            start = time.perf_counter()
            await connection.post(f"/streams/{stream}/observe", observation)
            took.append(time.perf_counter() - start)
            count += 2
            if pace:
                due += between
                await asyncio.sleep(max(0.0, due - time.perf_counter()))

    began = time.perf_counter()
    await asyncio.gather(*(loop(i) for i in range(clients)))
    return count / (time.perf_counter() - began), took


def parts(took: list[float]) -> str:
    return f"p50 {1e3 * float(np.percentile(took, 50)):6.2f} ms, p99 {1e3 * float(np.percentile(took, 99)):7.2f} ms"


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a service in seconds, which is meaningful even if the machine is busy."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(db: str, port: int, blank: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.service", "--serve", db, str(port), *(["--blank"] if blank else [])]
    return spawn(command, port)


def spawn(command: list[str], port: int) -> subprocess.Popen[bytes]:
    import socket

    process = subprocess.Popen(command)
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            time.sleep(0.02)
    raise TimeoutError("the service did not start")


class Arm:
    """A running service and its measurements."""

    def __init__(self, db: str, streams: list[str], port: int) -> None:
        self.db, self.streams, self.port = db, streams, port
        self.reset()

    def begin(self, blank: bool = False) -> None:
        """Start it."""
        self.process = start(self.db, self.port, blank)

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()

    def prepare(self, ticks: int) -> None:
        """Create the streams and advance them."""

        async def make() -> None:
            connection = await Connection(self.port).open()
            for stream in self.streams:
                await connection.post("/streams", {"id": stream, "config": CONFIG})

        asyncio.run(make())
        asyncio.run(batched(self.port, self.streams, ticks))

    def reset(self) -> None:
        """Discard the measurements."""
        self.count = self.seconds = self.used = 0.0
        self.took: list[float] = []
        self.rates: list[float] = []

    def run(self, kind: str, much: float) -> None:
        """Measure: `much` is a number of rounds of batches, or seconds of single requests."""
        before = cpu(self.process)
        if kind == "batched":
            rate, took = asyncio.run(batched(self.port, self.streams, int(much)))
            count = int(much) * len(self.streams)
        else:
            rate, took = asyncio.run(single(self.port, self.streams, much, 32))
            count = 2 * len(took)
        self.count += count
        self.seconds += count / rate
        self.used += cpu(self.process) - before
        self.took += took
        self.rates.append(rate)


TURNS = 12  # of each service, alternating, because the speed of the machine varies


def copied_file(db: str) -> str:
    return str(shutil.copyfile(db, f"{db}.bare"))


def copied_database(db: str) -> str:
    from tests.service.postgres import execute

    server, _, name = db.rpartition("/")
    execute(f"{server}/postgres", f"CREATE DATABASE {name}_bare TEMPLATE {name}")
    return f"{db}_bare"


def measure(db: str, copied: Callable[[str], str], count: int, quick: bool, port: int) -> None:
    """Measure both services; `copied` copies the database of one for the other."""
    streams = [f"s{i}" for i in range(count)]
    rounds = (2 if quick else 6) if count > 1 else (25 if quick else 100)
    seconds = 0.3 if quick else 1.0
    mine = Arm(db, streams, port)
    mine.begin()
    mine.prepare(60 if quick else WARM_UP)
    mine.end()
    bare = Arm(copied(db), streams, port + 1)
    arms = [mine, bare]
    mine.begin()
    bare.begin(blank=True)
    try:
        mine.run("batched", 1)
        bare.run("batched", 1)
        for kind, unit, much in (
            ("batched", "stream-ticks/s", float(rounds)),
            ("single", "requests/s", seconds),
        ):
            for arm in arms:
                arm.reset()
            for _ in range(TURNS):
                for arm in arms:
                    arm.run(kind, much)
            report(kind, unit, mine, bare)
        half = mine.count / mine.seconds / 2
        rate, took = asyncio.run(single(port, streams, 12 * seconds, 32, half))
        print(f"  half load {rate:7.0f} requests/s      {parts(took)}", flush=True)
    finally:
        for arm in arms:
            arm.end()


def report(kind: str, unit: str, mine: Arm, bare: Arm) -> None:
    rate, other = mine.count / mine.seconds, bare.count / bare.seconds
    pairs = sorted(b / m for m, b in zip(mine.rates, bare.rates, strict=True))
    print(
        f"  {kind:8s} {rate:8.0f} {unit:15s} {parts(mine.took)}; no detector {other:8.0f}, {other / rate:.2f} times "
        f"({pairs[0]:.2f} to {pairs[-1]:.2f})"
    )
    used, least = (1e6 * arm.used / arm.count for arm in (mine, bare))
    print(f"           {used:8.0f} us of processor time each; no detector {least:8.0f}: {used / least:.2f} times")


def memory(ticks: int, port: int) -> None:
    """Memory of `mfbocd serve` with 100 streams, of which few steps are kept."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Arm(f"{folder}/mfbocd.db", [f"s{i}" for i in range(100)], port)
        command = [sys.executable, "-m", "mfbocd.cli", "serve", "--db", worker.db, "--port", str(port)]
        worker.process = spawn([*command, "--keep", "100", "--quiet"], port)
        try:
            worker.prepare(0)
            for part in range(1, 11):
                asyncio.run(batched(port, worker.streams, ticks // 10 // len(worker.streams)))
                pages = int(Path(f"/proc/{worker.process.pid}/statm").read_text().split()[1])
                resident = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
                print(f"  after {part * ticks // 10:8d} ticks {resident:6.1f} MiB", flush=True)
        finally:
            worker.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["sqlite", "postgres", "memory"], help="one part of it")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--blank", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve[0], int(given.serve[1]), given.blank)
        return
    port = 20_000 + os.getpid() % 10_000  # not one that the system assigns to the client's end
    parts = [given.only] if given.only else ["sqlite", "postgres"]
    if "sqlite" in parts:
        for count in (1, 1000):
            with tempfile.TemporaryDirectory() as folder:
                print(f"SQLite, {count} streams", flush=True)
                measure(f"{folder}/mfbocd.db", copied_file, count, given.quick, port)
    if "postgres" in parts:
        from tests.service.postgres import database, running

        with running() as server:
            for count in (1, 1000) if server else ():
                print(f"PostgreSQL, {count} streams", flush=True)
                measure(database(server), copied_database, count, given.quick, port)
            if server is None:
                print("PostgreSQL is not installed")
    if "memory" in parts:
        print("memory of one worker, 100 streams", flush=True)
        memory(100_000 if given.quick else 1_000_000, port)


if __name__ == "__main__":
    main()

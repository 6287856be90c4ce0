"""Workers that are replaced one after the other while clients send observations."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mfbocd.service.store import open_store

from ..parts import PATIENCE
from .postgres import execute, postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, free_port, reading, replayed, until
from .test_cli import begin

pytestmark = pytest.mark.slow

STREAMS, TICKS = 25, 200
"""Of each of two clients: 10,000 observations."""


class Client(threading.Thread):
    """Sends batches, and repeats requests as documented: the same one, after `Retry-After`, to any of its workers."""

    def __init__(self, number: int, workers: list[str]) -> None:
        super().__init__(daemon=True)  # it would repeat without end if the test failed
        self.number = number
        self.streams = {f"c{number}s{i}": STREAMS * number + i for i in range(STREAMS)}
        self.workers = [httpx.Client(base_url=worker, timeout=PATIENCE) for worker in workers]
        self.acknowledged: dict[str, list[dict[str, Any]]] = {stream: [] for stream in self.streams}
        self.done = self.repeated = 0
        self.last_quarter = threading.Event()
        """Set at the second restart: a client must not be finished before."""
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            for tick in range(TICKS):
                if tick == 3 * TICKS // 4:
                    self.last_quarter.wait()
                choices = self.send("/choose", "streams", list(self.streams))
                assert {choice["tick"] for choice in choices} == {tick}
                observations = [
                    {
                        "stream": choice["stream"],
                        "tick": tick,
                        "fidelity": choice["fidelity"],
                        "x": reading(self.streams[choice["stream"]], tick, choice["fidelity"]),
                    }
                    for choice in choices
                ]
                for step in self.send("/observe", "observations", observations):
                    stream = step.pop("stream")
                    assert step.pop("status") == 200
                    self.acknowledged[stream].append(step)
                    self.done += 1
        except Exception as error:
            self.failure = error
        finally:
            for worker in self.workers:
                worker.close()

    def send(self, path: str, name: str, left: list[Any]) -> list[dict[str, Any]]:
        """The results of a batch, of which only those are sent again that were not available."""
        results: list[dict[str, Any]] = []
        while left:
            wait = 1.0
            try:
                answer = self.workers[0].post(path, json={name: left})
            except httpx.TransportError:
                found = None
            else:
                assert answer.status_code in (200, 503), answer.text
                wait = float(answer.headers.get("Retry-After", wait))
                found = answer.json()["results"] if answer.status_code == 200 else None
            if found is not None:
                assert all(result["status"] in (200, 503) for result in found), found
                results += [result for result in found if result["status"] == 200]
                left = [one for one, result in zip(left, found, strict=True) if result["status"] == 503]
            if left:
                self.repeated += 1
                self.workers.append(self.workers.pop(0))
                time.sleep(wait)
        return results


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, -signal.SIGTERM)  # uvicorn raises the signal again after an orderly shutdown


def test_a_rolling_restart_shows_no_error_to_clients_that_repeat(postgres: Callable[[], str]) -> None:  # noqa: F811
    db = postgres()
    ports = [free_port(), free_port()]
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    workers = [begin(db, port) for port in ports]
    try:
        # one client knows only the first worker, which has none of the streams; the other knows both
        clients = [Client(0, addresses[:1]), Client(1, addresses[::-1])]
        with httpx.Client(base_url=addresses[1], timeout=PATIENCE) as client:
            for one in clients:
                for stream in one.streams:
                    assert client.post("/streams", json={"id": stream, "config": CONFIG}).status_code == 201
        for one in clients:
            one.start()
        total = 2 * STREAMS * TICKS
        for number in range(2):
            goal = total * (number + 1) // 4
            until(
                lambda goal=goal: sum(one.done for one in clients) >= goal or not all(o.is_alive() for o in clients),
                lambda: "the clients do not proceed",
            )
            if number == 1:
                for one in clients:
                    one.last_quarter.set()
            stop(workers[number])
            owned = f"SELECT count(*) FROM streams WHERE owner = '{addresses[number]}'"
            assert execute(db, owned) == [(0,)]  # at once, not when the leases end
            assert not any(one.failure for one in clients), [one.failure for one in clients]
            workers[number] = begin(db, ports[number])
        for one in clients:
            one.join(PATIENCE)
            assert not one.is_alive()
            assert one.failure is None, one.failure
            assert one.repeated
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    store = open_store(db)
    for one in clients:
        for stream, acknowledged in one.acknowledged.items():
            stored = [json.loads(event.step) for event in store.events(stream, -1, 2 * TICKS)]
            assert len(stored) == TICKS
            assert stored == acknowledged
        for stream in list(one.streams)[:5]:
            row = store.stream(stream)
            assert row is not None
            assert row.state == replayed(CONFIG, one.acknowledged[stream])
    store.close()

"""A real service on a free port of this machine, for the tests of it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from mfbocd.io.config import Config
from mfbocd.service.app import create_app
from mfbocd.service.server import background
from mfbocd.service.settings import Settings
from mfbocd.service.store.base import Store
from mfbocd.service.store.sqlite import SqliteStore

from ..parts import PATIENCE

CONFIG: dict[str, Any] = {
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    "policy": {"kind": "budget", "share": 0.35},
    "hazard": 0.02,
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def serving(
    store: Callable[[], Store] | Path, settings: Settings | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """A client of a service that runs in a thread, over real sockets."""
    make = (lambda: SqliteStore(store, exclusive=True)) if isinstance(store, Path) else store
    app = create_app(make, settings, **options)
    with background(app) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        yield client


def until(condition: Callable[[], bool], otherwise: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for what must come soon; if it does not, `otherwise` says what there is instead."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


def reading(stream: int, tick: int, fidelity: str) -> float:
    """What a stream reads: the same whenever it is asked, with a jump every 40 ticks."""
    level = 6.0 * ((tick // 40 + stream) % 2)
    wobble = ((tick * 7919 + stream * 104729 + len(fidelity)) % 1000) / 1000.0 - 0.5
    return level + (3.0 if fidelity == "imu" else 1.0) * wobble


def replayed(config: dict[str, Any], steps: list[dict[str, Any]]) -> bytes:
    """The state an in-process detector has after the same observations."""
    detector = Config.parse(config).detector(missing="skip")
    for step in steps:
        assert detector.choose().name == step["fidelity"]
        detector.update(step["x"], step["fidelity"])
    return detector.to_bytes()

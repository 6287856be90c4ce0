"""Readers of long traces, lists and metrics take little from the observations of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service import events, service
from mfbocd.service.service import Service
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.store.totals import Totals

from ..parts import PATIENCE
from .service import CONFIG, serving

pytestmark = pytest.mark.slow


def run(store: SqliteStore, use: Callable[[Service], Awaitable[Any]]) -> Any:
    """What `use` returns with a running service."""

    async def main() -> Any:
        running = Service(store)
        try:
            async with asyncio.timeout(PATIENCE):
                return await use(running)
        finally:
            await running.shut_down()

    return asyncio.run(main())


class Counted(SqliteStore):
    """Counts how often the sums over all streams are computed."""

    counts = 0

    def totals(self, *args: Any, **options: Any) -> Totals:
        self.counts += 1
        return super().totals(*args, **options)


def test_requests_for_totals_may_follow_each_other_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TOTALS_TIMEOUT", PATIENCE)

    async def several_times(running: Service) -> list[Totals | None]:
        return [await running.totals() for _ in range(3)]

    async def use(running: Service) -> Any:
        return await asyncio.gather(*(several_times(running) for _ in range(4)))

    found = run(SqliteStore(tmp_path / "mfbocd.db"), use)
    assert [[type(totals) for totals in one] for one in found] == [[Totals] * 3] * 4


def test_metrics_are_computed_once_for_all_scrapers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "METRICS_AGE", 600.0)
    store = Counted(tmp_path / "mfbocd.db", exclusive=True)
    with serving(lambda: store) as client, ThreadPoolExecutor(20) as threads:
        found = list(threads.map(lambda _: client.get("/metrics"), range(60)))
        assert {answer.status_code for answer in found} == {200}
        assert {"mfbocd_streams 0" in answer.text for answer in found} == {True}
        assert store.counts == 1
        monkeypatch.setattr(service, "METRICS_AGE", 0.0)
        client.get("/metrics")
        assert store.counts == 2


def test_one_thread_serves_long_reads_and_clients_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "READ_TIMEOUT", PATIENCE)
    order: list[str] = []
    threads: set[int] = set()
    begun, go = threading.Event(), threading.Event()

    def read(name: str) -> None:
        threads.add(threading.get_ident())
        begun.set()
        assert go.wait(PATIENCE)
        order.append(name)

    async def use(running: Service) -> None:
        calls = [asyncio.create_task(running.read_bulk("a", read, f"a{i}")) for i in range(3)]
        await asyncio.to_thread(begun.wait, PATIENCE)
        calls.append(asyncio.create_task(running.read_bulk("b", read, "b")))
        await asyncio.sleep(0)  # it is in the queue
        assert await running.read(lambda: "short") == "short"
        go.set()
        await asyncio.gather(*calls)

    run(SqliteStore(tmp_path / "mfbocd.db"), use)
    assert len(threads) == 1
    assert order == ["a0", "b", "a1", "a2"]


def test_a_long_trace_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAGE", 3)
    parts: list[tuple[int, int]] = []

    class Recorded(SqliteStore):
        def events(self, stream: str, after: int, limit: int) -> Any:
            parts.append((after, limit))
            return super().events(stream, after, limit)

    with serving(lambda: Recorded(tmp_path / "mfbocd.db", exclusive=True)) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        for tick in range(8):
            choice = client.post("/streams/a/choose").json()
            client.post("/streams/a/observe", json={"tick": tick, "fidelity": choice["fidelity"], "x": 0.5})
        found = client.get("/streams/a/trace", params={"limit": 7, "format": "csv"})
        assert [row.split(",")[0] for row in found.text.splitlines()] == ["tick", *map(str, range(7))]
        assert found.headers["x-next-after"] == "6"
        assert parts == [(-1, 3), (2, 3), (5, 2)]
        parts.clear()
        everything = client.get("/streams/a/trace")
        assert len(everything.text.splitlines()) == 8
        assert "x-next-after" not in everything.headers
        assert parts == [(-1, 3), (2, 3), (5, 3)]


def test_streams_are_loaded_while_another_thread_reads(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    with ThreadPoolExecutor(1) as threads, store.cursor():
        assert threads.submit(store.load, ["a"]).result(PATIENCE).streams == {}
    store.close()

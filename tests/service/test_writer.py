"""The next transaction is computed while one is written; no result is returned before it is on disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service import manage, writer
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.errors import RequestError, UnavailableError
from mfbocd.service.store.base import Changes
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.writer import Writer

from ..parts import PATIENCE
from .service import CONFIG, reading, replayed

pytestmark = pytest.mark.slow

SOON = PATIENCE


class Slow(SqliteStore):
    """A store whose commits wait until they are released, and can be made to fail."""

    waits = False
    error: BaseException | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def commit(self, changes: Changes) -> None:
        """Commit after it is released."""
        if self.waits:
            self.begun.release()
            assert self.go.acquire(timeout=SOON)
        if self.error is not None:
            raise self.error
        super().commit(changes)


class Bench:
    """Streams a to d behind a writer whose commits wait."""

    def __init__(self, path: Path, cache_size: int = 100) -> None:
        self.store = Slow(path)
        self.engine = Engine(self.store, cache_size=cache_size)
        for stream in "abcd":
            manage.add_stream(
                self.engine,
                stream=stream,
                name=stream,
                config=CONFIG,
                group=None,
                observers={},
                available={},
                max_streams=9,
            )
        self.writer = Writer(self.engine)
        for stream in "abcd":
            self.ask(stream).result(SOON)  # now it is in memory, if it has room
        self.store.waits = True

    def submit(self, *commands: ChooseCommand | ObserveCommand) -> Future[Any]:
        """Answers in plain values."""
        read: Future[Any] = Future()

        def answered(future: Future[Any]) -> None:
            error = future.exception()
            if error is not None:
                read.set_exception(error)
            else:
                read.set_result([a if isinstance(a, RequestError) else json.loads(a) for a in future.result()])

        self.writer.submit(commands).add_done_callback(answered)
        return read

    def ask(self, stream: str) -> Future[Any]:
        return self.submit(ChooseCommand(stream))

    def observe(self, stream: str, tick: int, fidelity: str) -> Future[Any]:
        return self.submit(ObserveCommand(stream, tick, fidelity, reading(0, tick, fidelity)))

    def first(self, stream: str) -> str:
        return str(self.ask(stream).result(SOON)[0]["fidelity"])

    def under_way(self) -> None:
        assert self.store.begun.acquire(timeout=SOON)

    def through(self) -> None:
        """Release every commit from now on."""
        self.store.waits = False
        self.store.go.release()

    def computed(self, stream: str, tick: int) -> None:
        """Wait until the writer has this tick in memory."""
        for _ in range(int(100 * PATIENCE)):
            cached = self.engine.cache.streams.get(stream)
            if cached is not None and cached.row.tick == tick:
                return
            threading.Event().wait(0.01)
        raise TimeoutError("the tick was not computed")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "mfbocd.db")
    yield made
    made.through()
    made.writer.close()
    made.store.close()


def test_the_next_is_computed_during_a_commit_and_returned_after_it(bench: Bench) -> None:
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    other = bench.observe(
        "b", 0, bench.ask("b").result(SOON)[0]["fidelity"]
    )  # b has no uncommitted changes: the result comes at once
    bench.computed("b", 1)
    early = bench.ask("a")  # of what only memory knows
    assert bench.ask("d").result(SOON)[0]["tick"] == 0  # by now the one before it was looked at
    chosen = bench.engine.cache.streams["a"].fidelity
    second = bench.observe("a", 1, chosen)
    bench.computed("a", 2)
    asked = bench.ask("a")
    again = bench.observe("a", 0, bench.store.stream("a").next.split('"')[3])  # type: ignore[union-attr]
    assert bench.ask("c").result(SOON)[0]["tick"] == 0
    assert not any(f.done() for f in (one, other, early, second, asked, again))
    assert bench.store.stream("a").tick == 0  # type: ignore[union-attr]
    bench.through()
    steps = [f.result(SOON)[0] for f in (one, second)]
    assert [f.result(SOON)[0]["tick"] for f in (early, asked)] == [1, 2]
    assert again.result(SOON)[0] == steps[0]
    assert other.result(SOON)[0]["tick"] == 0
    row = bench.store.stream("a")
    assert row is not None
    assert row.state == replayed(CONFIG, steps)
    bench.writer.close()
    assert bench.engine.commits == 2


def test_results_wait_for_their_own_commit(bench: Bench) -> None:
    """The first tick of a stream is on disk and the second is not: results of the second wait."""
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    second = bench.observe("a", 1, bench.engine.cache.streams["a"].fidelity)
    bench.computed("a", 2)
    bench.store.go.release()
    assert one.result(SOON)[0]["tick"] == 0
    bench.under_way()  # with the second
    assert bench.ask("d").result(SOON)[0]["tick"] == 0  # the end of the first is noted
    asked = bench.ask("a")
    assert bench.ask("d").result(SOON)[0]["tick"] == 0
    assert not asked.done()
    assert not second.done()
    bench.through()
    assert asked.result(SOON)[0]["tick"] == 2
    assert second.result(SOON)[0]["tick"] == 1


@pytest.mark.parametrize("error", [UnavailableError("disk full"), RuntimeError("a bug")], ids=["unavailable", "bug"])
def test_what_was_computed_after_a_failed_transaction_fails_with_it(bench: Bench, error: BaseException) -> None:
    begun = [ObserveCommand(s, 0, bench.first(s), reading(0, 0, bench.first(s))) for s in "ac"]
    one = bench.submit(*begun)
    bench.under_way()
    following = bench.engine.cache.streams["a"].fidelity
    after = [bench.observe("a", 1, following), bench.observe("b", 0, bench.first("b"))]
    bench.computed("b", 1)
    bench.store.error = error
    bench.store.go.release()
    for future in (one, *after):
        if isinstance(error, UnavailableError):
            assert isinstance(future.result(SOON)[0], UnavailableError)
        else:
            with pytest.raises(RuntimeError, match="a bug"):
                future.result(SOON)
    bench.store.error = None
    bench.through()
    steps: list[Any] = []
    for tick in range(3):
        choice = bench.ask("a").result(SOON)[0]
        assert choice["tick"] == tick
        steps.append(bench.observe("a", tick, choice["fidelity"]).result(SOON)[0])
    assert [bench.ask(s).result(SOON)[0]["tick"] for s in "bc"] == [0, 0]
    row = bench.store.stream("a")
    assert row is not None
    assert row.state == replayed(CONFIG, steps)


def test_a_stream_is_not_read_from_the_store_before_it_is_written(bench: Bench) -> None:
    bench.store.lease = 1000.0
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    bench.engine.cache.streams["a"].lease_until = 0.0  # it is no longer sure that the stream is its own
    again = bench.ask("a")
    bench.through()
    assert one.result(SOON)[0]["tick"] == 0
    assert again.result(SOON)[0]["tick"] == 1


def test_streams_of_a_failed_transaction_are_read_again(bench: Bench) -> None:
    """A job waits for a transaction because of one stream; that fails, and another of its streams was in it too."""
    bench.store.lease = 1000.0
    one = bench.submit(*[ObserveCommand(s, 0, bench.first(s), 0.5) for s in "ac"])
    bench.under_way()
    bench.engine.cache.streams["a"].lease_until = 0.0
    both = bench.submit(ChooseCommand("a"), ChooseCommand("c"))
    for _ in range(3000):
        if bench.writer.waiting() == 0:
            break
        threading.Event().wait(0.01)
    bench.store.error = UnavailableError("disk full")
    bench.store.go.release()
    assert isinstance(one.result(SOON)[0], UnavailableError)
    assert [a["tick"] for a in both.result(SOON)] == [0, 0]
    bench.store.error = None


def test_others_are_read_meanwhile_and_uncommitted_streams_stay_cached(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "mfbocd.db", cache_size=1)
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    assert bench.ask("b").result(SOON)[0]["tick"] == 0
    assert bench.ask("c").result(SOON)[0]["tick"] == 0
    assert "a" in bench.engine.cache.streams
    again = bench.ask("a")
    bench.through()
    assert one.result(SOON)[0]["tick"] == 0
    assert again.result(SOON)[0]["tick"] == 1
    assert bench.ask("d").result(SOON)[0]["tick"] == 0
    bench.writer.close()
    assert len(bench.engine.cache.streams) == 1
    bench.store.close()


def test_a_call_waits_for_what_is_under_way_and_the_rest_for_it(bench: Bench) -> None:
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    removed = bench.writer.run_exclusive(lambda: manage.remove_stream(bench.engine, "a"))
    asked = bench.ask("a")
    assert not removed.done()
    bench.through()
    assert one.result(SOON)[0]["tick"] == 0
    removed.result(SOON)
    gone = asked.result(SOON)[0]
    assert isinstance(gone, RequestError)
    assert gone.status == 404


def test_several_ticks_of_a_stream_in_one_job(bench: Bench) -> None:
    bench.through()
    answers = bench.submit(
        ChooseCommand("a"), ObserveCommand("a", 0, bench.first("a"), 0.5), ChooseCommand("a")
    ).result(SOON)
    assert [a["tick"] for a in answers] == [0, 0, 1]
    observation = ObserveCommand("a", 1, answers[2]["fidelity"], 0.1)
    first, repeat, last = bench.submit(observation, observation, ChooseCommand("a")).result(SOON)
    assert first == repeat
    assert last["tick"] == 2
    assert bench.engine.repeats == 1


def test_closing_writes_what_was_submitted(bench: Bench) -> None:
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    other = bench.observe("b", 0, bench.first("b"))
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    bench.through()
    closing.join(SOON)
    assert one.result(0)[0]["tick"] == other.result(0)[0]["tick"] == 0
    assert [bench.store.stream(s).tick for s in "ab"] == [1, 1]  # type: ignore[union-attr]


def test_a_bug_is_reported_and_the_writer_continues(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.through()
    first = bench.first("a")

    def broken() -> None:
        raise KeyError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(bench.engine, "take_changes", broken)
        with pytest.raises(KeyError, match="a mistake"):
            bench.observe("a", 0, first).result(SOON)
    assert bench.ask("a").result(SOON)[0]["tick"] == 0
    assert bench.observe("a", 0, first).result(SOON)[0]["tick"] == 0


def test_few_commands_wait_for_the_transaction_and_are_computed_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {stream: bench.first(stream) for stream in "abcd"}
    monkeypatch.setattr(writer, "COLLECT", 3)
    monkeypatch.setattr(writer, "COLLECT_SECONDS", SOON)
    executed: list[int] = []
    execute = bench.engine.execute
    monkeypatch.setattr(bench.engine, "execute", lambda jobs: executed.append(len(jobs)) or execute(jobs))
    one = bench.observe("a", 0, first["a"])
    bench.under_way()
    others = [bench.observe(stream, 0, first[stream]) for stream in "bc"]
    assert not threading.Event().wait(0.05)
    assert executed == [1]
    others.append(bench.observe("d", 0, first["d"]))  # these are enough
    bench.computed("d", 1)
    assert executed == [1, 3]
    assert not any(f.done() for f in (one, *others))
    late = bench.ask("d")
    bench.through()
    assert [f.result(SOON)[0]["tick"] for f in (one, *others, late)] == [0, 0, 0, 0, 1]


def test_a_choice_is_known_without_the_threads_if_it_is_committed(bench: Bench) -> None:
    def known(stream: str) -> Any:
        found = bench.engine.committed_choice(stream)
        return None if found is None else json.loads(found)

    assert known("a") == bench.ask("a").result(SOON)[0]
    assert known("none") is None
    one = bench.observe("a", 0, bench.first("a"))
    bench.under_way()
    bench.computed("a", 1)
    assert known("a") is None  # nobody may see it yet
    assert known("b")["tick"] == 0
    bench.through()
    one.result(SOON)
    after = bench.ask("a").result(SOON)[0]  # by now the commit is processed
    assert (after["tick"], known("a")) == (1, after)
    bench.engine.cache.streams["a"].lease_until = 0.0
    assert known("a") is None  # another worker may have it
    bench.store.error = UnavailableError("broken")
    assert isinstance(bench.observe("b", 0, bench.first("b")).result(SOON)[0], UnavailableError)
    assert known("b") is None

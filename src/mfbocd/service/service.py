"""One running service: the store, the engine and its threads, and the clients that wait for events."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from . import exposition
from .checking import CHECKER
from .engine import ChooseCommand, Command, Engine, Result
from .errors import NotReadyError, RequestError, UnavailableError
from .forward import Forwarder
from .metrics import Metrics
from .monitor import StoreMonitor
from .notifier import Notifier
from .settings import Settings
from .store.base import Store
from .store.totals import Totals
from .tracing import Tracing
from .warming import Warmer
from .webhook import Webhook
from .writer import Writer

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger("mfbocd.service")

POLL_INTERVAL = 1.0
"""Seconds after which watchers read the store without being notified: another worker may have written."""
READ_THREADS = 8
"""Threads that read the store. They are separate, so that a store that hangs blocks nothing else."""
READ_TIMEOUT = 10.0
"""Seconds after which a request stops waiting for the store to be read."""
WRITE_TIMEOUT = 10.0
"""Seconds after which a write in progress is reported as a problem of the store."""
PROBE_TIMEOUT = 3.0
"""Seconds for which /healthz waits for a test write."""
METRICS_AGE = 1.0
"""Seconds for which all clients get the same metrics: sums over thousands of streams take a while."""
TOTALS_TIMEOUT = 3.0
"""Seconds for which /metrics waits for the sums over all streams; Prometheus itself waits for 10 seconds."""


class Service:
    """What HTTP and MQTT share. It is created and closed in the event loop.

    Parameters
    ----------
    store : Store
        Closed with the service.
    settings : Settings, optional
    warmer : Warmer, optional
    webhook : Webhook, optional
        Receives alarms.
    tracing : Tracing, optional
    """

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        warmer: Warmer | None = None,
        webhook: Webhook | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.warmer = warmer or Warmer()
        self.engine = Engine(store, max_state=self.settings.limits.state, is_ready=self.warmer.is_ready)
        self.started = time.time()
        self.metrics = Metrics()
        self.watching: Counter[str] = Counter()
        """Open /events connections of each client."""
        self.components: dict[str, str] = {}
        """The problem of each component that runs alongside, such as the MQTT bridge; empty if it has none."""
        self.monitor = StoreMonitor(store)
        self.tracing = tracing
        self.forwarder = Forwarder(store.worker, tracing)
        self.notifier: Notifier | None = None
        if webhook is not None:
            self.notifier = Notifier(store, webhook, self.metrics, partial(self.components.__setitem__, "webhook"))
        self._readers = ThreadPoolExecutor(READ_THREADS, "mfbocd-read")
        self._bulk_reader = ThreadPoolExecutor(1, "mfbocd-bulk")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held for each client that waits for `read_bulk`."""
        self._scrape: asyncio.Task[str] | None = None
        self._scraped_at = 0.0
        """When `_scrape` began, as of `time.monotonic`."""
        self._probing: asyncio.Future[None] | None = None
        self._counting: asyncio.Future[Totals] | None = None
        self.closing = False
        self._loop = asyncio.get_running_loop()
        self._next_commit: asyncio.Future[None] = self._loop.create_future()
        self.writer = Writer(self.engine, self._on_commit, self._span)
        self.warmer.start(store)

    async def run(self, commands: Sequence[Command]) -> list[Result]:
        """Execute commands; returns when they are committed.

        Commands for streams whose kernels are not loaded are repeated when these are.
        """
        with self._span("commands", commands=len(commands)):
            return await self._run(commands)

    async def _run(self, commands: Sequence[Command]) -> list[Result]:
        results = await asyncio.wrap_future(self.writer.submit(commands))
        while not_ready := {i: r for i, r in enumerate(results) if isinstance(r, NotReadyError)}:
            await self.warm(*{error.config for error in not_ready.values()})
            repeated = await asyncio.wrap_future(self.writer.submit([commands[i] for i in not_ready]))
            for i, result in zip(not_ready, repeated, strict=True):
                results[i] = result
        return results

    def _span(self, name: str, **attributes: Any) -> AbstractContextManager[None]:
        """A span of the trace, if there are traces."""
        return nullcontext() if self.tracing is None else self.tracing.span(name, **attributes)

    async def run_one(self, command: Command) -> str:
        """Execute one command and return its result as JSON; raises `RequestError` if it is refused."""
        if isinstance(command, ChooseCommand) and not self.closing:
            # a choice that is known already does not wait for the computation of other streams
            choice = self.engine.committed_choice(command.stream)
            if choice is not None:
                return choice
        (result,) = await self.run([command])
        if isinstance(result, RequestError):
            raise result
        return result

    async def run_exclusive(self, function: Callable[[], T]) -> T:
        """Call a function that needs the engine for itself (`Writer.run_exclusive`)."""
        while True:
            try:
                return await asyncio.wrap_future(self.writer.run_exclusive(function))
            except NotReadyError as not_ready:
                await self.warm(not_ready.config)

    def check(self, config: Mapping[str, Any], client: str) -> asyncio.Future[None]:
        """Have another process check the configuration that a client has sent; cancel it when the client leaves."""
        return asyncio.wrap_future(CHECKER.check(config, self.settings.limits, client))

    async def warm(self, *configs: str | Mapping[str, Any]) -> None:
        """Wait until the kernels for these configurations are loaded, or have failed to load."""
        parsed = [json.loads(config) if isinstance(config, str) else config for config in configs]
        await asyncio.gather(*(asyncio.wrap_future(self.warmer.prepare(one)) for one in parsed))

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads the store, in a thread.

        Raises
        ------
        UnavailableError
            If it does not return within `READ_TIMEOUT`.
        """
        return await self._call(self._readers, function, partial(function, *args, **kwargs))

    async def read_bulk(self, client: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` for what takes long, such as a page of a trace.

        There is one thread for all of this, which rests half of the time, and a client has one call in its queue at
        a time. However many readers there are, they take no more than that from the observations, and each gets its
        turn. Whoever needs much calls this for one part after another.

        Parameters
        ----------
        client : str
            Who asks, as `Client.name`.
        function, args, kwargs
            As in `read`.
        """
        turn = self._turns.setdefault(client, asyncio.Lock())
        async with turn:
            call = partial(self._with_pause, partial(function, *args, **kwargs))
            return await self._call(self._bulk_reader, function, call)

    def _with_pause(self, call: Callable[[], T]) -> T:
        """Call a function in the thread of `read_bulk`, which then rests for as long as it took."""
        started = time.monotonic()
        try:
            return call()
        finally:
            with suppress(RuntimeError):  # the service is closing
                self._bulk_reader.submit(time.sleep, time.monotonic() - started)

    async def _call(self, threads: ThreadPoolExecutor, function: Callable[..., T], call: Callable[[], T]) -> T:
        try:
            with self._span("read", function=getattr(function, "__name__", "")):
                async with asyncio.timeout(READ_TIMEOUT):
                    return await self._loop.run_in_executor(threads, call)
        except TimeoutError:
            raise UnavailableError(f"it did not answer within {READ_TIMEOUT:g} seconds") from None

    async def metrics_text(self) -> str:
        """All metrics for Prometheus, at most `METRICS_AGE` old."""
        if self._scrape is None or (time.monotonic() - self._scraped_at >= METRICS_AGE and self._scrape.done()):
            self._scraped_at = time.monotonic()
            self._scrape = asyncio.create_task(self._render_metrics())
        return await asyncio.shield(self._scrape)  # others wait for it when one client leaves

    async def _render_metrics(self) -> str:
        return exposition.render(self, await self.totals())

    async def totals(self) -> Totals | None:
        """Sums over all streams; None if the store does not return them soon.

        Requests share one query, so that a store which hangs blocks one thread.
        """
        if self._counting is None or self._counting.done():
            limits = self.settings.limits
            self._counting = self._loop.run_in_executor(
                self._readers, lambda: self.store.totals(limits.silent, limits.stream_metrics)
            )
            self._counting.add_done_callback(lambda done: done.cancelled() or done.exception())
        counting = self._counting  # another request may replace it meanwhile
        done, _ = await asyncio.wait([counting], timeout=TOTALS_TIMEOUT)
        if not done or counting.cancelled():
            return None
        error = counting.exception()
        if error is None:
            return counting.result()
        if not isinstance(error, UnavailableError):
            raise error
        return None

    async def problem(self) -> str:
        """Why the store cannot be used at present; empty if it can.

        If the last write failed, it is tested whether the store can be written again. This returns soon in any case.
        """
        if self.engine.write_error and not self._evident_problem():
            if self._probing is None or self._probing.done():
                self._probing = asyncio.wrap_future(self.writer.run_exclusive(self.engine.probe))
                self._probing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
        return self.known_problem()

    def known_problem(self) -> str:
        """The `problem` as far as it is known without a test write."""
        return self._evident_problem() or self.engine.write_error

    def _evident_problem(self) -> str:
        """A problem that needs no test write: the store cannot be read, or a write in progress does not end."""
        busy = self.writer.busy_for()
        unfinished = f"a write has not finished for {busy:.0f} seconds" if busy > WRITE_TIMEOUT else ""
        return self.monitor.problem() or unfinished

    def not_ready(self) -> str:
        """Why this worker should not get requests yet, or no longer; empty if it should."""
        if self.closing:
            return "the service is stopping"
        return self.warmer.not_ready or ("" if self.monitor.has_answered else "the store has not answered yet")

    async def wait_for_commit(self) -> None:
        """Wait for the next commit, at most `POLL_INTERVAL`."""
        await asyncio.wait([self._next_commit], timeout=POLL_INTERVAL)

    def _on_commit(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._notify)
        except RuntimeError:
            log.debug("the event loop ended before the last commit")

    def _notify(self) -> None:
        """Wake all watchers."""
        notified, self._next_commit = self._next_commit, self._loop.create_future()
        if not notified.done():
            notified.set_result(None)

    def stop_watching(self) -> None:
        """End every /events connection."""
        self.closing = True
        self._notify()

    async def shut_down(self) -> None:
        """`close` without blocking the event loop."""
        self.stop_watching()
        await self.forwarder.close()
        await asyncio.to_thread(self._close)

    def close(self) -> None:
        """Finish all submitted jobs, end the threads and close the store."""
        self.stop_watching()
        self._close()

    def _close(self) -> None:
        self.warmer.close()
        self.monitor.stop()
        self.writer.close()
        if self.notifier is not None:
            self.notifier.stop()
        for threads in (self._readers, self._bulk_reader):
            threads.shutdown(cancel_futures=True)
        self.monitor.join()
        self.store.release()
        self.store.close()
        if self.tracing is not None:  # last: it waits up to ten seconds for a collector that does not respond
            self.tracing.close()

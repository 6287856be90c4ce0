"""One running service: the store, the engine's thread, and who waits for news."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from .engine import Answer, Command, Engine
from .errors import NotReadyError, RequestError, UnavailableError
from .forward import Forwarder
from .pulse import Pulse
from .settings import Settings
from .store.base import Store
from .warming import Warmer
from .writer import Writer

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger("mfbocd.service")

POLL = 1.0
"""Seconds after which a watcher looks at the store unasked: another worker may have written."""
READERS = 8
"""Threads that read the store. They are the store's alone: one that hangs keeps nothing else from running."""
ANSWER = 10.0
"""Seconds after which a request no longer waits for the store to be read."""
PROBE = 3.0
"""Seconds for which /healthz waits to see whether the store can be written again."""


class Service:
    """What the HTTP and the MQTT side share. Made in the event loop, closed in it."""

    def __init__(self, store: Store, settings: Settings | None = None, warmer: Warmer | None = None) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.warmer = warmer or Warmer()
        self.engine = Engine(store, largest=self.settings.limits.state, ready=self.warmer.is_ready)
        self.started = time.time()
        self.watching: Counter[str] = Counter()
        """Open /events of each client."""
        self.parts: dict[str, str] = {}
        """What is wrong with each part that runs beside, such as the MQTT bridge; nothing where all is well."""
        self.pulse = Pulse(store)
        self.forwarder = Forwarder(store.worker)
        self._readers = ThreadPoolExecutor(READERS, "mfbocd-read")
        self._probing: asyncio.Future[None] | None = None
        self.closing = False
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()
        self.writer = Writer(self.engine, self._committed)
        self.warmer.begin(store)

    async def run(self, commands: Sequence[Command]) -> list[Answer]:
        """Answers to commands, once they are on disk; those whose kernels are not ready wait for these alone."""
        answers = await asyncio.wrap_future(self.writer.submit(commands))
        while cold := {i: answer for i, answer in enumerate(answers) if isinstance(answer, NotReadyError)}:
            await self.warm(*{answer.config for answer in cold.values()})
            again = await asyncio.wrap_future(self.writer.submit([commands[i] for i in cold]))
            for i, answer in zip(cold, again, strict=True):
                answers[i] = answer
        return answers

    async def warm(self, *configs: str | Mapping[str, Any]) -> None:
        """Wait until the kernels of these configs are loaded, or cannot be."""
        given = [json.loads(config) if isinstance(config, str) else config for config in configs]
        await asyncio.gather(*(asyncio.wrap_future(self.warmer.ready(one)) for one in given))

    async def one(self, command: Command) -> str:
        """The answer to one command, as JSON, or its refusal raised."""
        (answer,) = await self.run([command])
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def alone(self, call: Callable[[], T]) -> T:
        """What a call in the writer's thread returns."""
        while True:
            try:
                return await asyncio.wrap_future(self.writer.alone(call))
            except NotReadyError as cold:
                await self.warm(cold.config)

    async def read(self, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """What a call that reads the store returns; `UnavailableError` if the store does not answer in time."""
        try:
            async with asyncio.timeout(ANSWER):
                return await self._loop.run_in_executor(self._readers, lambda: call(*given, **named))
        except TimeoutError:
            raise UnavailableError(f"it did not answer within {ANSWER:g} seconds") from None

    async def trouble(self) -> str:
        """Why the store cannot be read or written at present, or nothing; soon, whatever the store does."""
        if self.engine.failed and not self.pulse.trouble():
            if self._probing is None or self._probing.done():
                self._probing = asyncio.wrap_future(self.writer.alone(self.engine.probe))
                self._probing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([self._probing], timeout=PROBE)
        return self.pulse.trouble() or self.engine.failed

    async def news(self) -> None:
        """Wait until something was committed, or a little while."""
        await asyncio.wait([self._news], timeout=POLL)

    def _committed(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:
            log.debug("the event loop has ended before the last commit")

    def _tell(self) -> None:
        told, self._news = self._news, self._loop.create_future()
        if not told.done():
            told.set_result(None)

    def stop_watching(self) -> None:
        """End every open /events."""
        self.closing = True
        self._tell()

    async def end(self) -> None:
        """`close`, while the event loop goes on."""
        self.stop_watching()
        await self.forwarder.close()
        await asyncio.to_thread(self._close)

    def close(self) -> None:
        """Finish what was submitted and let go of the store."""
        self.stop_watching()
        self._close()

    def _close(self) -> None:
        self.warmer.close()
        self.pulse.stop()
        self.writer.close()
        self._readers.shutdown(cancel_futures=True)
        self.pulse.join()
        self.store.release()
        self.store.close()

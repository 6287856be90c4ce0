"""One running service: the store, the engine's thread, and who waits for news."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .engine import Answer, Command, Engine
from .errors import Cold, Refused
from .settings import Settings
from .store import Store
from .warming import Warmer
from .writer import Writer

T = TypeVar("T")
log = logging.getLogger("mfbocd.service")

POLL = 1.0
"""Seconds after which a watcher looks at the store unasked: another worker may have written."""


class Service:
    """What the HTTP and the MQTT side share. Made in the event loop, closed in it."""

    def __init__(self, store: Store, settings: Settings | None = None, warmer: Warmer | None = None) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.warmer = warmer or Warmer()
        self.engine = Engine(store, largest=self.settings.limits.state, ready=self.warmer.is_ready)
        self.started = time.time()
        self.watching = 0
        self.closing = False
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()
        self.writer = Writer(self.engine, self._committed)
        self.warmer.begin(store)

    async def run(self, commands: Sequence[Command]) -> list[Answer]:
        """Answers to commands, once they are on disk; those whose kernels are not ready wait for these alone."""
        answers = await asyncio.wrap_future(self.writer.submit(commands))
        while cold := {i: answer for i, answer in enumerate(answers) if isinstance(answer, Cold)}:
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
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def alone(self, call: Callable[[], T]) -> T:
        """What a call in the writer's thread returns."""
        while True:
            try:
                return await asyncio.wrap_future(self.writer.alone(call))
            except Cold as cold:
                await self.warm(cold.config)

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

    def close(self) -> None:
        """Finish what was submitted and let go of the store."""
        self.stop_watching()
        self.warmer.close()
        self.writer.close()
        self.store.release()
        self.store.close()

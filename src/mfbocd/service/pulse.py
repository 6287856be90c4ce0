"""A look at the store every second, in a thread of its own: who may ask, and whether the store answers."""

from __future__ import annotations

import logging
import threading
import time

from .errors import UnavailableError
from .records import Token
from .store.base import Store

log = logging.getLogger("mfbocd.service")

EVERY = 1.0
"""Seconds between two looks: a revoked token is refused after the next."""
LATE = 10.0
"""Seconds without an answer after which the store is said not to answer."""


class Pulse(threading.Thread):
    """What was last known of the store. Nobody waits for it: a store that hangs keeps back this thread alone."""

    def __init__(self, store: Store) -> None:
        super().__init__(name="mfbocd-pulse", daemon=True)
        self.store = store
        self.looked = threading.Event()
        """Whether the first look has ended, well or not."""
        self._tokens: dict[str, Token] | None = None
        self._failed = ""
        self._full = ""
        self._since = time.monotonic()
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        """Look until it is stopped."""
        while True:
            try:
                self._look()
            except Exception as error:
                said = error.error if isinstance(error, UnavailableError) else f"{type(error).__name__}: {error}"
                if not self._failed:
                    log.warning("the store was not read: %s", said)
                self._failed = said
            self.looked.set()
            if self._stopping.wait(EVERY):
                return

    def _look(self) -> None:
        self._tokens = {token.hash: token for token in self.store.tokens()}
        self._full = self.store.full()
        self._failed, self._since = "", time.monotonic()

    def token(self, digest: str) -> Token | None:
        """The token of this hash, as last read; `UnavailableError` if none was ever."""
        if self._tokens is None:
            raise UnavailableError(self._failed or "it has not answered yet")
        return self._tokens.get(digest)

    def trouble(self) -> str:
        """Why the store cannot be relied on at present, or nothing."""
        if self._failed:
            return self._failed
        silent = time.monotonic() - self._since
        return f"it has not answered for {silent:.0f} seconds" if silent > LATE else self._full

    def stop(self) -> None:
        """End after the look that is under way."""
        self._stopping.set()

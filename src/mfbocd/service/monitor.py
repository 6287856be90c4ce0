"""A thread that checks the store every second: the valid tokens, and whether the store answers and has space."""

from __future__ import annotations

import logging
import threading
import time

from .errors import UnavailableError
from .records import Token
from .store.base import Store

log = logging.getLogger("mfbocd.service")

INTERVAL = 1.0
"""Seconds between two checks. A revoked token is refused after the next one."""
TIMEOUT = 10.0
"""Seconds without a successful check after which the store counts as not answering."""


class StoreMonitor(threading.Thread):
    """The result of the last check of a store.

    Reading it never blocks: if the store hangs, only this thread waits.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(name="mfbocd-monitor", daemon=True)
        self.store = store
        self.checked = threading.Event()
        """Set after the first check, whether it succeeded or failed."""
        self._tokens: dict[str, Token] | None = None
        self._error = ""
        self._space_problem = ""
        self.free_bytes: int | None = None
        """Free space at the last check; None where it is not known."""
        self._last_success = time.monotonic()
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        """Check periodically until stopped."""
        while True:
            try:
                self._check()
            except Exception as failure:
                known = isinstance(failure, UnavailableError)
                error = failure.reason if known else f"{type(failure).__name__}: {failure}"  # type: ignore[attr-defined]
                if not self._error:
                    log.warning("the store could not be read: %s", error)
                self._error = error
            self.checked.set()
            if self._stopping.wait(INTERVAL):
                return

    def _check(self) -> None:
        self._tokens = {token.hash: token for token in self.store.tokens()}
        problem = self.store.space_problem()
        if problem and not self._space_problem:
            log.warning("%s", problem)
        if self._space_problem and not problem:
            log.info("the disk has space again")
        self._space_problem = problem
        self.free_bytes = self.store.free_bytes()
        if self._error:
            log.info("the store can be read again")
        self._error, self._last_success = "", time.monotonic()

    def token(self, digest: str) -> Token | None:
        """The token with this hash, as of the last successful check.

        Raises
        ------
        UnavailableError
            If no check has succeeded yet.
        """
        if self._tokens is None:
            raise UnavailableError(self._error or "it has not answered yet")
        return self._tokens.get(digest)

    def problem(self) -> str:
        """Why the store cannot be used at present; empty if it can."""
        if self._error:
            return self._error
        silent = time.monotonic() - self._last_success
        return f"it has not answered for {silent:.0f} seconds" if silent > TIMEOUT else self._space_problem

    @property
    def has_answered(self) -> bool:
        """Whether a check has ever succeeded."""
        return self._tokens is not None

    def stop(self) -> None:
        """Stop after the check in progress."""
        self._stopping.set()

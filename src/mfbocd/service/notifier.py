"""A thread that delivers alarms to a webhook, at least once each. No tick ever waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx

from .errors import RequestError
from .metrics import Metrics
from .store import outbox
from .store.base import Store
from .store.outbox import Entry
from .webhook import Webhook

log = logging.getLogger("mfbocd.service.webhook")

TIMEOUT = 10.0
"""Seconds for one request."""
HOLD = 60.0
"""Seconds for which other workers leave claimed alarms alone; longer than `TIMEOUT`."""
BACKOFF = (1.0, outbox.LONGEST)
"""Shortest and longest time between attempts, in seconds; each is twice the one before."""
POLL = 5.0
"""Seconds between two looks for alarms without being notified: those of other workers, or postponed ones."""
BATCH = 50
"""Most alarms in one request."""
GIVE_UP = 2016
"""Failed attempts after which an alarm is deleted: one in five minutes for seven days."""


class Notifier(threading.Thread):
    """Delivers the alarms in the outbox of a store.

    An endpoint that cannot be reached or fails (5xx, 408, 429) is tried again after an increasing time; all alarms
    wait for it. One that refuses a request (other statuses) gets its alarms one by one, so that a single one which it
    does not accept does not hold up the others.

    Parameters
    ----------
    store : Store
    webhook : Webhook
    metrics : Metrics
    set_problem : callable
        Receives why alarms are not delivered; empty if they are.
    """

    def __init__(self, store: Store, webhook: Webhook, metrics: Metrics, set_problem: Callable[[str], None]) -> None:
        super().__init__(name="mfbocd-webhook", daemon=True)
        self.store, self.webhook, self.metrics = store, webhook, metrics
        self._set_problem = set_problem
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._closed = False
        """The store must not be used any more."""
        self._failures = 0
        """Failed requests since the last success."""
        self._batch = BATCH
        self._problem = self._refusal = ""
        """Why the last request failed, and why an alarm was refused."""
        self._backlog = outbox.Backlog()
        self._next_cleaning = 0.0
        self._client = httpx.Client(timeout=TIMEOUT)
        set_problem("")
        store.on_alarms = self._wake.set
        self.start()

    def backlog(self) -> tuple[int, float]:
        """Number of alarms that were not delivered at the last look, and the age of the oldest in seconds."""
        count, oldest, _ = self._backlog
        return count, max(0.0, time.time() - oldest) if isinstance(oldest, float) else 0.0

    def stop(self) -> None:
        """Stop. A request in progress is given up, and its alarms are delivered again after the next start."""
        self.store.on_alarms = None
        self._stopping.set()
        self._wake.set()
        self.join(timeout=2.0)
        self._closed = True

    def run(self) -> None:
        """Deliver until stopped."""
        reclaimed = False
        while not self._stopping.is_set():
            wait = POLL
            try:
                if not reclaimed:
                    outbox.reclaim(self.store)
                    reclaimed = True
                wait = self._deliver()
                self._clean()
            except RequestError as error:
                log.warning("the alarms to be delivered could not be read: %s", error.error)
                self._set_problem(error.error)
            except Exception as error:  # a bug must not end the thread for good
                log.exception("the delivery of alarms failed")
                self._set_problem(f"failed: {type(error).__name__}")
            if wait == 0.0:
                continue
            if self._failures:
                self._wait_after_failure(wait)
            else:
                self._wake.wait(wait)
            self._wake.clear()
        self._client.close()

    def _wait_after_failure(self, seconds: float) -> None:
        """Wait until stopped, at most so long. New alarms do not make the endpoint work, but they are counted."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0 and not self._stopping.wait(min(left, POLL)):
            with suppress(RequestError):  # the next attempt reports it
                self._count()

    def _count(self) -> None:
        """Count the alarms that wait, and report why."""
        self._backlog = outbox.backlog(self.store)
        problem = self._problem
        if not problem and self._backlog.refused:
            reason = f"; the last one: {self._refusal}" if self._refusal else ""
            problem = f"{self._backlog.refused} alarms were refused and are sent again later{reason}"
        self._set_problem(problem)

    def _clean(self) -> None:
        if time.monotonic() < self._next_cleaning:
            return
        abandoned = outbox.abandon(self.store, GIVE_UP)
        self._next_cleaning = time.monotonic() + 3600.0
        for stream, tick in abandoned:
            self.metrics.abandoned.add()
            log.error(
                "the alarm of tick %d was not delivered in %d attempts and is deleted",
                tick,
                GIVE_UP,
                extra={"fields": {"stream": stream}},
            )

    def _deliver(self) -> float:
        """Deliver one request; returns the seconds to wait before the next."""
        self._count()
        if not self._backlog.alarms:
            return POLL
        entries = outbox.claim(self.store, self._batch, self.store.now(), HOLD)
        if not entries:
            return POLL
        result, problem, retry_after = self._send(entries)
        if self._closed or (self._stopping.is_set() and result != "delivered"):
            return 0.0
        self.metrics.deliveries.add(result)
        if result == "delivered":
            outbox.finish(self.store, entries)
            self._failures, self._batch = 0, min(2 * self._batch, BATCH)
            self._problem = ""
            self._count()
            return 0.0
        if not self._failures:
            log.warning("alarms could not be delivered to the webhook: %s", problem)
        if result == "failed":
            wait = min(max(_backoff(self._failures), retry_after), BACKOFF[1])
            self._failures += 1
            self._problem = problem
            outbox.release(self.store, entries)
            outbox.count_failure(self.store, self.store.now())
            self._count()
            return wait
        self._problem, self._refusal = "", problem
        if len(entries) > 1:
            self._batch = 1
            outbox.release(self.store, entries)
        else:
            outbox.refuse(self.store, entries[0], self.store.now() + _backoff(entries[0].attempts))
        self._count()
        return 0.0

    def _send(self, entries: Sequence[Entry]) -> tuple[str, str, float]:
        """The result (`delivered`, `failed` or `refused`), the problem, and the time that the endpoint asks for."""
        try:
            body, headers = self.webhook.request(entries, time.time())
        except (ValueError, TypeError, LookupError) as error:  # a damaged row must not hold up other alarms
            return "refused", f"an alarm in the store is damaged: {type(error).__name__}: {error}"[:300], 0.0
        try:
            response = self._client.post(self.webhook.url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return "failed", f"the endpoint cannot be reached: {type(error).__name__}", 0.0
        if response.is_success:
            return "delivered", "", 0.0
        problem = f"the endpoint responds with status {response.status_code}"
        if response.status_code >= 500 or response.status_code in (408, 429):
            given = response.headers.get("retry-after", "")
            return "failed", problem, float(given) if given.isascii() and given.isdigit() else 0.0
        return "refused", problem, 0.0


def _backoff(failures: int) -> float:
    """Seconds to wait after a number of earlier failures.

    >>> [_backoff(n) for n in (0, 1, 2, 20)]
    [1.0, 2.0, 4.0, 300.0]
    """
    return min(BACKOFF[0] * 2.0 ** min(failures, 30), BACKOFF[1])

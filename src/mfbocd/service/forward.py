"""Requests for streams of another worker, sent on to it: a client can ask whichever worker it likes."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import orjson

from .errors import RequestError

log = logging.getLogger("mfbocd.service")

HOP = "x-mfbocd-forwarded-by"
"""Says that a worker sends a request on: who gets it does not send it on again."""
SENT = ("authorization", "content-type", "accept")
"""Headers that are sent on. The other worker looks at the token itself."""
RETURNED = ("content-type", "location", "retry-after", "x-next-after", "www-authenticate")
"""Headers of the answer that the client gets."""
TIMEOUT = httpx.Timeout(30.0, connect=3.0, pool=5.0)
MOST = 100
"""Connections to other workers."""


class Forwarder:
    """Asks other workers for clients of this one, known to them as `worker`."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._client: httpx.AsyncClient | None = None

    def can(self, owner: str, headers: Mapping[str, str]) -> bool:
        """Whether a request may be sent on to the worker that has its stream."""
        return HOP not in headers and owner.startswith(("http://", "https://")) and owner != self.worker

    async def send(
        self, owner: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of what another worker answers; a refusal if it does not, or has it no longer."""
        if self._client is None:
            # no proxy from the environment: it may not reach the workers, and should not see their tokens
            self._client = httpx.AsyncClient(
                timeout=TIMEOUT,
                limits=httpx.Limits(max_connections=MOST),
                verify=ssl.create_default_context(),
                trust_env=False,
            )
        sent = {name: headers[name] for name in SENT if name in headers} | {HOP: self.worker or "unknown"}
        try:
            found = await self._client.request(method, owner.rstrip("/") + path, headers=sent, content=body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            log.warning("%s, which has the stream, did not answer: %s", owner, type(error).__name__)
            raise RequestError(503, f"worker {owner} has the stream and does not answer: send it again") from None
        if found.status_code == 421:
            raise moving()
        returned = {name: found.headers[name] for name in RETURNED if name in found.headers}
        return found.status_code, returned, found.content

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def moving() -> RequestError:
    """A stream that goes from one worker to another at this moment."""
    return RequestError(503, "the stream goes from one worker to another at present: send it again")


def by_owner(found: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """The places of what each worker has.

    >>> by_owner([(0, "http://a"), (2, "http://b"), (3, "http://a")])
    {'http://a': [0, 3], 'http://b': [2]}
    """
    owners: dict[str, list[int]] = {}
    for place, owner in found:
        owners.setdefault(owner, []).append(place)
    return owners


def results_of(body: bytes, many: int) -> list[dict[str, Any]]:
    """The results of a batch another worker answered; one it no longer has is to be sent again."""
    results: list[dict[str, Any]] = orjson.loads(body)["results"]
    if len(results) != many:
        raise ValueError(f"{many} results were expected, not {len(results)}")
    return [r if r["status"] != 421 else {"stream": r["stream"], "status": 503, **moving().body()} for r in results]

"""Forwards requests for streams of another worker to it, so that clients can use any worker."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import orjson

from .errors import OwnedElsewhere, RequestError
from .logs import CONTEXT
from .tracing import Tracing

log = logging.getLogger("mfbocd.service")

FORWARDED_BY = "x-mfbocd-forwarded-by"
"""Header of a forwarded request, which is not forwarded again."""
REQUEST_HEADERS = ("authorization", "content-type", "accept")
"""Headers that are forwarded. The other worker checks the token itself."""
RESPONSE_HEADERS = ("content-type", "location", "retry-after", "x-next-after", "www-authenticate")
"""Headers of the response that are returned to the client."""
TIMEOUT = httpx.Timeout(30.0, connect=3.0, pool=5.0)
MAX_CONNECTIONS = 100
"""Connections to other workers."""


class Forwarder:
    """Sends requests to other workers; `worker` is the URL of this one. They continue the trace, if there is one."""

    def __init__(self, worker: str, tracing: Tracing | None = None) -> None:
        self.worker, self.tracing = worker, tracing
        self._client: httpx.AsyncClient | None = None
        self._silent: set[str] = set()
        """Workers that did not answer the last request."""

    def can_forward(self, owner: str, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers may be forwarded to the worker that owns its stream."""
        return FORWARDED_BY not in headers and owner.startswith(("http://", "https://")) and owner != self.worker

    def refusal(self, error: OwnedElsewhere) -> RequestError:
        """The error of a request that is not forwarded."""
        # without another owner, a worker is leasing it at this moment
        return changing_owner() if error.worker in ("", self.worker) else error

    async def send(
        self, owner: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Forward a request.

        Returns
        -------
        status, headers, body
            The response of the other worker.

        Raises
        ------
        RequestError
            503, if the other worker does not answer or no longer owns the stream.
        """
        if self._client is None:
            # a proxy set in the environment may not reach the workers, and should not see their tokens
            self._client = httpx.AsyncClient(
                timeout=TIMEOUT,
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
                verify=ssl.create_default_context(),
                trust_env=False,
            )
        sent = {name: headers[name] for name in REQUEST_HEADERS if name in headers} | {
            FORWARDED_BY: self.worker or "unknown"
        }
        if found_id := CONTEXT.get().request_id:
            sent["x-request-id"] = found_id  # the same in the logs of both workers
        if self.tracing is not None:
            self.tracing.inject(sent)
        try:
            found = await self._client.request(method, owner.rstrip("/") + path, headers=sent, content=body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            if owner not in self._silent:  # once, until it answers
                self._silent.add(owner)
                log.warning("worker %s, which owns the stream, did not answer: %s", owner, type(error).__name__)
            raise RequestError(
                503, f"worker {owner} owns the stream and does not answer: send the request again"
            ) from None
        if owner in self._silent:
            self._silent.remove(owner)
            log.info("worker %s answers again", owner)
        if found.status_code == 421:
            raise changing_owner()
        returned = {name: found.headers[name] for name in RESPONSE_HEADERS if name in found.headers}
        return found.status_code, returned, found.content

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def changing_owner() -> RequestError:
    """A stream that changes from one worker to another at this moment."""
    return RequestError(503, "the stream is changing from one worker to another: send the request again")


def by_owner(found: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """The positions of the commands for each worker, from (position, worker).

    >>> by_owner([(0, "http://a"), (2, "http://b"), (3, "http://a")])
    {'http://a': [0, 3], 'http://b': [2]}
    """
    owners: dict[str, list[int]] = {}
    for position, owner in found:
        owners.setdefault(owner, []).append(position)
    return owners


def batch_results(body: bytes, count: int) -> list[dict[str, Any]]:
    """The `count` results in the response of another worker to a batch.

    Those of streams that it no longer owns become 503, so that the client repeats them.
    """
    results: list[dict[str, Any]] = orjson.loads(body)["results"]
    if len(results) != count:
        raise ValueError(f"{count} results were expected, not {len(results)}")
    return [
        r if r["status"] != 421 else {"stream": r["stream"], "status": 503, **changing_owner().body()}
        for r in results
    ]

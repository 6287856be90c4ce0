"""Who may ask: bearer tokens with a scope, kept as hashes; and which names the service answers to."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable, Container, Iterable
from typing import Any

from .errors import RequestError
from .limits import Limits, Rate, client_of, refuse
from .pulse import Pulse
from .records import Token
from .store.base import Store

SCOPES = ("read", "write")
"""Write includes read."""
OPEN = ("/healthz", "/readyz")
"""What anybody may ask for, beside the page and its parts, which hold nothing of a stream."""

CLIENT = "mfbocd.client"
"""Where a request's scope has its `Client`."""

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Sent with every answer."""


def digest(secret: str) -> str:
    """What is kept of a token. It has 256 random bits, which no guessing finds: a slow hash would add nothing.

    >>> digest("mfb_x") == digest("mfb_x"), len(digest("mfb_x"))
    (True, 64)
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def add_token(store: Store, name: str, scope: str) -> str:
    """A new token; what is returned is shown once and kept nowhere."""
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {scope!r}")
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError(f"a token's name must be 1 to 100 printable characters, not {name!r}")
    if any(token.name == name for token in store.tokens()):
        raise ValueError(f"there is a token {name!r} already: revoke it first, or take another name")
    secret = f"mfb_{secrets.token_urlsafe(32)}"
    store.add_token(Token(name, digest(secret), scope, round(time.time(), 3)))
    return secret


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def scope_of(routes: Iterable[Any], reading: Container[Any], method: str, path: str) -> str:
    """The scope a request needs, by the route it is for; `reading` are endpoints that are posted to and only read.

    A request that is for no route is refused in any case; it needs a scope as well, lest it tell which there are.
    """
    for route in routes:
        if method in route.methods and route.path_regex.match(path):
            return "read" if route.endpoint in reading or route.methods <= {"GET", "HEAD"} else "write"
    return "read" if method in ("GET", "HEAD") else "write"


class Client:
    """Who asks: what the rate and the watchers are counted by, and whether it may still ask."""

    def __init__(self, name: str, valid: Callable[[], bool] = lambda: True) -> None:
        self.name, self.valid = name, valid


class Gate:
    """Looks at every request first: its host, its token, its rate; and adds the headers every answer has.

    Tokens are those `Pulse` has read: a request never waits for the store to be let in. `needs` gives the scope that
    a method and a path need.
    """

    def __init__(self, app: Any, limits: Limits, *, required: bool, needs: Callable[[str, str], str]) -> None:
        self.app, self.required, self.needs = app, required, needs
        self._rate = Rate(limits.rate, limits.burst)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def dressed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        headers = dict(scope["headers"])
        try:
            pulse: Pulse = scope["app"].state.service.pulse
            client = self._known(pulse, scope["method"], scope["path"], headers, scope.get("client"))
        except RequestError as refused:
            more = [(b"www-authenticate", b"Bearer")] if refused.status == 401 else []
            more += [(b"retry-after", b"1")] if refused.status == 503 else []
            await refuse(dressed, refused.status, refused.error, more)
            return
        wait = self._rate.take(client.name)
        if wait > 0.0:
            again = str(max(1, round(wait + 0.5))).encode()
            await refuse(dressed, 429, "too many requests", [(b"retry-after", again)])
            return
        scope[CLIENT] = client
        await self.app(scope, receive, dressed)

    def _known(self, pulse: Pulse, method: str, path: str, headers: dict[bytes, bytes], client: Any) -> Client:
        """Who asks, by token or address; or a refusal."""
        address = client_of(client[0]) if client else "?"
        if not self.required:
            # A page elsewhere can have its name point here; the browser then sends that name.
            host = headers.get(b"host", b"").decode("latin-1")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if not is_loopback(name.strip("[]")):
                raise RequestError(403, "the service answers to this machine's own names only")
            return Client(address)
        if path in OPEN or (method in ("GET", "HEAD") and (path == "/" or path.startswith("/static/"))):
            return Client(address)
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        hashed = digest(secret.strip())
        token = pulse.token(hashed) if kind.lower() == "bearer" else None
        if token is None:
            raise RequestError(401, "a bearer token is required; `mfbocd token add` makes one")
        if token.scope != "write" and self.needs(method, path) == "write":
            raise RequestError(403, f"token {token.name!r} may only read")
        return Client(f"token {token.name}", lambda: pulse.token(hashed) is not None)

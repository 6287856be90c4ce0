"""Access control: bearer tokens with a scope, of which hashes are stored, and the host names that are accepted."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable, Container, Iterable
from typing import Any

from .errors import RequestError
from .limits import Limits, RateLimiter, client_of, send_error
from .monitor import StoreMonitor
from .records import Token
from .store.base import Store

SCOPES = ("read", "write")
"""Write includes read."""
PUBLIC = ("/healthz", "/readyz", "/livez")
"""Paths that need no token, besides the page and its files, which contain no data of streams."""

CLIENT = "mfbocd.client"
"""Key of the `Client` in the ASGI scope of a request."""

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
"""Sent with every response."""


def digest(secret: str) -> str:
    """The hash of a token that is stored.

    A token has 256 random bits, so that a slow hash would not make it safer.

    >>> digest("mfb_x") == digest("mfb_x"), len(digest("mfb_x"))
    (True, 64)
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def add_token(store: Store, name: str, scope: str) -> str:
    """Create a token and return its secret, which is not stored.

    Parameters
    ----------
    store : Store
    name : str
        1 to 100 printable characters.
    scope : str
        ``"read"`` or ``"write"``.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {scope!r}")
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError(f"a token's name must be 1 to 100 printable characters, not {name!r}")
    if any(token.name == name for token in store.tokens()):
        raise ValueError(f"there is a token {name!r} already: revoke it first, or choose another name")
    secret = f"mfb_{secrets.token_urlsafe(32)}"
    store.add_token(Token(name, digest(secret), scope, round(time.time(), 3)))
    return secret


def is_loopback(host: str) -> bool:
    """Whether a host name or address is reachable from this machine only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def required_scope(routes: Iterable[Any], read_only: Container[Any], method: str, path: str) -> str:
    """The scope that a request needs.

    A request without a route is refused in any case. It needs a scope as well, so that the response does not reveal
    which routes exist.

    Parameters
    ----------
    routes : iterable of routes
    read_only : container of functions
        Endpoints that change nothing although their method is POST.
    method, path : str
        The request.
    """
    for route in routes:
        if method in route.methods and route.path_regex.match(path):
            return "read" if route.endpoint in read_only or route.methods <= {"GET", "HEAD"} else "write"
    return "read" if method in ("GET", "HEAD") else "write"


class Client:
    """The sender of a request.

    Parameters
    ----------
    name : str
        What its requests and watchers are counted by.
    is_allowed : callable
        Whether its token is still valid.
    token : str or None
        Name of its token; None if none is required.
    """

    def __init__(self, name: str, is_allowed: Callable[[], bool] = lambda: True, token: str | None = None) -> None:
        self.name, self.is_allowed, self.token = name, is_allowed, token


class AccessControl:
    """Middleware that checks the host, the token and the rate of every request, and adds `HEADERS` to responses.

    Tokens are those that `StoreMonitor` has read, so that authentication never waits for the store.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    required : bool
        Whether tokens are required; otherwise only requests to loopback names are accepted.
    needs : callable
        The scope that a method and a path need.
    """

    def __init__(self, app: Any, limits: Limits, *, required: bool, needs: Callable[[str, str], str]) -> None:
        self.app, self.required, self.needs = app, required, needs
        self._limiter = RateLimiter(limits.rate, limits.burst)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        headers = dict(scope["headers"])
        try:
            monitor: StoreMonitor = scope["app"].state.service.monitor
            client = self._authenticate(monitor, scope["method"], scope["path"], headers, scope.get("client"))
        except RequestError as refused:
            more = [(b"www-authenticate", b"Bearer")] if refused.status == 401 else []
            more += [(b"retry-after", b"1")] if refused.status == 503 else []
            await send_error(send_with_headers, refused.status, refused.error, more)
            return
        # a client that sends too many requests must not make a supervisor restart the service
        wait = 0.0 if scope["path"] in PUBLIC else self._limiter.acquire(client.name)
        if wait > 0.0:
            seconds = str(max(1, round(wait + 0.5))).encode()
            await send_error(send_with_headers, 429, "too many requests", [(b"retry-after", seconds)])
            return
        scope[CLIENT] = client
        await self.app(scope, receive, send_with_headers)

    def _authenticate(
        self, monitor: StoreMonitor, method: str, path: str, headers: dict[bytes, bytes], client: Any
    ) -> Client:
        """The client, by token or address; raises `RequestError` if it is not allowed."""
        address = client_of(client[0]) if client else "?"
        if not self.required:
            # DNS rebinding: the name of a foreign page can resolve to this machine; the browser sends that name
            host = headers.get(b"host", b"").decode("latin-1")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if not is_loopback(name.strip("[]")):
                raise RequestError(403, "only requests to a loopback name of this machine are accepted")
            return Client(address)
        if path in PUBLIC or (method in ("GET", "HEAD") and (path == "/" or path.startswith("/static/"))):
            return Client(address)
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        hashed = digest(secret.strip())
        token = monitor.token(hashed) if kind.lower() == "bearer" else None
        if token is None:
            raise RequestError(401, "a bearer token is required; `mfbocd token add` creates one")
        if token.scope != "write" and self.needs(method, path) == "write":
            raise RequestError(403, f"token {token.name!r} may only read")
        return Client(f"token {token.name}", lambda: monitor.token(hashed) is not None, token.name)

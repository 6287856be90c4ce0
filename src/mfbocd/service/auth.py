"""Who may ask: bearer tokens with a scope, kept as hashes; and which names the service answers to."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from typing import Any

from .errors import Refused
from .limits import Limits, Rate, refuse
from .records import Token
from .store import Store

SCOPES = ("read", "write")
"""Write includes read."""
FRESH = 2.0
"""Seconds after which tokens are read from the store again: a revoked one may live as long."""
OPEN = ("/healthz", "/readyz")
"""What anybody may ask for, beside the page and its parts, which hold nothing of a stream."""

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


class Gate:
    """Looks at every request first: its host, its token, its rate; and adds the headers every answer has."""

    def __init__(self, app: Any, limits: Limits, *, required: bool) -> None:
        self.app, self.required = app, required
        self._rate = Rate(limits.rate, limits.burst)
        self._tokens: dict[str, Token] = {}
        self._read = -FRESH

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
            store: Store = scope["app"].state.service.store
            client = self._known(store, scope["method"], scope["path"], headers, scope.get("client"))
        except Refused as refused:
            more = [(b"www-authenticate", b"Bearer")] if refused.status == 401 else []
            await refuse(dressed, refused.status, refused.error, more)
            return
        wait = self._rate.take(client)
        if wait > 0.0:
            again = str(max(1, round(wait + 0.5))).encode()
            await refuse(dressed, 429, "too many requests", [(b"retry-after", again)])
            return
        await self.app(scope, receive, dressed)

    def _known(self, store: Store, method: str, path: str, headers: dict[bytes, bytes], client: Any) -> str:
        """Who asks, by token or address; or a refusal."""
        address = client[0] if client else "?"
        if not self.required:
            # A page elsewhere can have its name point here; the browser then sends that name.
            host = headers.get(b"host", b"").decode("latin-1")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if not is_loopback(name.strip("[]")):
                raise Refused(403, "the service answers to this machine's own names only")
            return address
        if path in OPEN or (method in ("GET", "HEAD") and (path == "/" or path.startswith("/static/"))):
            return address
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        token = self._token(store, secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise Refused(401, "a bearer token is required; `mfbocd token add` makes one")
        if token.scope != "write" and method not in ("GET", "HEAD") and not path.endswith("/choose"):
            raise Refused(403, f"token {token.name!r} may only read")
        return f"token {token.name}"

    def _token(self, store: Store, secret: str) -> Token | None:
        if time.monotonic() - self._read >= FRESH:
            self._tokens = {token.hash: token for token in store.tokens()}
            self._read = time.monotonic()
        return self._tokens.get(digest(secret))

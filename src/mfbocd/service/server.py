"""The HTTP server of the application."""

from __future__ import annotations

import gc
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from .connections import limit_protocol
from .limits import Limits

SWITCH_INTERVAL = 0.001
"""Seconds after which a thread that computes lets another one continue; 0.005 by default."""


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address; raises OSError, naming the address, if it cannot be bound."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(kind)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return found


def public_url(host: str, port: int) -> str:
    """The URL of a service; the name of the machine if the service is bound to all its addresses.

    >>> public_url("127.0.0.1", 8000), public_url("::1", 8000)
    ('http://127.0.0.1:8000', 'http://[::1]:8000')
    >>> public_url("0.0.0.0", 8000) == f"http://{socket.gethostname()}:8000"
    True
    """
    if host in ("0.0.0.0", "::"):  # not an address that a client can connect to
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def background(app: Any, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the application in a thread of this process until the block ends; yields its URL."""
    found = listen(host, port)
    server = Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [found]}, name="mfbocd-serve", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the service ended before it started; see its log")
            time.sleep(0.01)
        yield f"http://{host}:{found.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        found.close()


def _allow_files(wanted: int) -> None:
    """Raise the limit of open files if the system permits: the usual 1024 are few connections."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class Server(uvicorn.Server):
    """A uvicorn server that applies the limits of the service to connections.

    uvicorn waits for all open responses before it shuts the application down. Event streams only end when they are
    notified, which `shutdown` does.
    """

    on_started: Callable[[], None] | None = None
    """Called once it accepts requests."""

    async def startup(self, sockets: Any = None) -> None:
        """Start, and call `on_started`."""
        limits = getattr(getattr(self.config.app, "state", None), "limits", Limits())
        self.config.h11_max_incomplete_event_size = limits.header
        self.config.ws_protocol_class = (
            None  # the service has no WebSockets, and an upgraded connection would not be counted
        )
        self.config.http_protocol_class = limit_protocol(self.config.http_protocol_class, limits)
        await super().startup(sockets=sockets)
        if threading.current_thread() is threading.main_thread():  # the process belongs to the service
            # With thousands of streams in memory, garbage collection took a quarter of a step's time and found
            # next to nothing.
            gc.freeze()
            gc.set_threshold(100_000, 20, 50)
            # An observation passes from the event loop to the compute thread, the commit thread and back. Each of
            # them waits up to this long for one that is busy.
            sys.setswitchinterval(SWITCH_INTERVAL)
            _allow_files(limits.connections + 200)
        if self.on_started is not None and self.started:
            self.on_started()

    async def shutdown(self, sockets: Any = None) -> None:
        """End the event streams, then shut down."""
        service = getattr(getattr(self.config.app, "state", None), "service", None)
        if service is not None:
            service.stop_watching()
        await super().shutdown(sockets=sockets)

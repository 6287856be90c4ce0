"""The server that carries the application, says when it has begun, and ends when it is told to."""

from __future__ import annotations

import gc
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from .connections import guarded
from .limits import Limits


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; OSError, naming it, if it is not to be had."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(kind)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return found


def reached(host: str, port: int) -> str:
    """Where clients find a service; one bound to all of a machine's addresses is found by the machine's name.

    >>> reached("127.0.0.1", 8000), reached("::1", 8000)
    ('http://127.0.0.1:8000', 'http://[::1]:8000')
    >>> reached("0.0.0.0", 8000) == f"http://{socket.gethostname()}:8000"
    True
    """
    if host in ("0.0.0.0", "::"):  # the same on every machine, and no address to go to
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def background(app: Any, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The application, served from a thread of this process: gives its address, and ends it with the block."""
    found = listen(host, port)
    server = Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [found]}, name="mfbocd-serve", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the service ended before it began; its log says why")
            time.sleep(0.01)
        yield f"http://{host}:{found.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        found.close()


def _allow_files(wanted: int) -> None:
    """Let this process have so many open files, if the system does: 1024, a usual bound, are few connections."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class Server(uvicorn.Server):
    """uvicorn waits for open answers before the application may end; those to watchers end only if told."""

    said: Callable[[], None] | None = None
    """Called once it serves."""

    async def startup(self, sockets: Any = None) -> None:
        """As ever, then say so."""
        limits = getattr(getattr(self.config.app, "state", None), "limits", Limits())
        self.config.h11_max_incomplete_event_size = limits.header
        self.config.ws_protocol_class = None  # there are none, and an upgraded connection would not be counted
        self.config.http_protocol_class = guarded(self.config.http_protocol_class, limits)
        await super().startup(sockets=sockets)
        if threading.current_thread() is threading.main_thread():  # the process is the service's own
            # Thousands of streams in memory are looked through for rubbish, of which there is little, again and
            # again: a quarter of a step's time.
            gc.freeze()
            gc.set_threshold(100_000, 20, 50)
            _allow_files(limits.connections + 200)
        if self.said is not None and self.started:
            self.said()

    async def shutdown(self, sockets: Any = None) -> None:
        """Tell the watchers, then wait as ever."""
        service = getattr(getattr(self.config.app, "state", None), "service", None)
        if service is not None:
            service.stop_watching()
        await super().shutdown(sockets=sockets)

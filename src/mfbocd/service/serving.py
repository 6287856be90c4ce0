"""The server that carries the application, says when it has begun, and ends when it is told to."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

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


def patient(protocol: type[asyncio.Protocol], seconds: float) -> type[asyncio.Protocol]:
    """One of uvicorn's HTTP protocols that ends a connection whose next header is not whole after so many seconds.

    uvicorn itself waits for ever for a first request, and for the rest of one of which anything has come.
    """

    class Patient(protocol):  # type: ignore[misc, valid-type]
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._late = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:  # a header is whole: uvicorn makes a cycle of it
                self._in_time()
            elif self._late is None and (before is None or before.response_complete):
                self._late = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._in_time()
            super().connection_lost(exc)

        def _in_time(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Patient


class Server(uvicorn.Server):
    """uvicorn waits for open answers before the application may end; those to watchers end only if told."""

    said: Callable[[], None] | None = None
    """Called once it serves."""

    async def startup(self, sockets: Any = None) -> None:
        """As ever, then say so."""
        limits = getattr(getattr(self.config.app, "state", None), "limits", Limits())
        self.config.http_protocol_class = patient(self.config.http_protocol_class, limits.patience)
        await super().startup(sockets=sockets)
        if threading.current_thread() is threading.main_thread():  # the process is the service's own
            # Thousands of streams in memory are looked through for rubbish, of which there is little, again and
            # again: a quarter of a step's time.
            gc.freeze()
            gc.set_threshold(100_000, 20, 50)
        if self.said is not None and self.started:
            self.said()

    async def shutdown(self, sockets: Any = None) -> None:
        """Tell the watchers, then wait as ever."""
        service = getattr(getattr(self.config.app, "state", None), "service", None)
        if service is not None:
            service.stop_watching()
        await super().shutdown(sockets=sockets)

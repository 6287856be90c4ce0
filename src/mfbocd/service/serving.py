"""The server that carries the application, says when it has begun, and ends when it is told to."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


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


class Server(uvicorn.Server):
    """uvicorn waits for open answers before the application may end; those to watchers end only if told."""

    said: Callable[[], None] | None = None
    """Called once it serves."""

    async def startup(self, sockets: Any = None) -> None:
        """As ever, then say so."""
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

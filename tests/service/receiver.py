"""A real HTTP server that receives what the service sends, and can be made to fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Requests that were received, and the statuses of the next responses; 200 when there are no more."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.retry_after = ""
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers = threading.Event()
        """Cleared, no request is answered."""
        self.answers.set()
        self.waiting = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def alarms(self) -> list[dict[str, Any]]:
        """The alarms of all requests in the plain format."""
        return [alarm for _, _, body in self.requests for alarm in json.loads(body)["alarms"]]


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.waiting += 1
            receiver.answers.wait(60)
            receiver.waiting -= 1
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            headers = {name.lower(): value for name, value in self.headers.items()}
            if status < 300:
                receiver.requests.append((self.path, headers, body))
            self.send_response(status)
            self.send_header("content-length", "0")
            if receiver.retry_after:
                self.send_header("retry-after", receiver.retry_after)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()

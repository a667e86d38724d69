"""A real HTTP server on loopback that keeps what is posted to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def http_receiver(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A real HTTP server on loopback; yields its address, with a secret in it, and what was posted."""
    posted: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/s3cret", posted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

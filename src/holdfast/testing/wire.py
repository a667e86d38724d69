"""HTTP on loopback for the scripted model: reads a request, writes the answer, or breaks off in the middle of it.

Nothing here knows what is said. Streams end with the connection, so that a clean end and a cut can be told apart.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. `cut` resets the connection after the body instead of closing it."""

    status: int
    body: bytes
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


Answering = Callable[[str, Mapping[str, str], bytes], Answer]
"""Answers the request for a path with these headers (names in lower case) and this body."""


class Loopback(ThreadingHTTPServer):
    """A server at a free port of 127.0.0.1 with a thread for each request."""

    daemon_threads = True

    def __init__(self, answering: Answering) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answering = answering

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent when a client hangs up: killed agents do. Anything else is told on standard error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Loopback

    def do_POST(self) -> None:
        """Answer a request for a reply."""
        self._answer()

    def do_GET(self) -> None:
        """Answer whatever else an agent asks."""
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answering(self.path, headers, body)
        self.send_response(answer.status)
        for name, value in {"content-type": answer.media, "connection": "close", **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = True
        if answer.cut:
            self._reset()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        os.close(self.connection.detach())

    def log_message(self, *words: object) -> None:
        """Print nothing: the requests are kept for whoever wants to see them."""

"""A relay between a client and a server on this machine that can disturb what passes through it."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum, auto
from urllib.parse import urlsplit

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)


class NetworkFault(Enum):
    """What the relay does with the connections through it."""

    NONE = auto()
    STALL = auto()
    """Everything is held back, and comes later."""
    NO_ANSWER = auto()
    """Requests arrive, answers are lost."""
    HALF_OPEN = auto()
    """Connections are accepted, and nothing ever comes of them."""
    CUT = auto()
    """Connections are closed, old ones and new ones."""
    RESET = auto()
    """The same, but as by a machine that knows of none."""


class TcpRelay:
    """Listens on a port of its own and passes everything on to another one, until a fault is set."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._fault = NetworkFault.NONE
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def before(cls, url: str) -> tuple[TcpRelay, str]:
        """Return a relay to the server at an address, and the address that leads through it."""
        parts = urlsplit(url)
        assert parts.port is not None
        relay = cls(parts.port)
        host = parts.netloc.rpartition("@")[0]
        netloc = f"{host}@127.0.0.1:{relay.port}" if host else f"127.0.0.1:{relay.port}"
        return relay, parts._replace(netloc=netloc).geturl()

    def set(self, fault: NetworkFault) -> None:
        """Begin a fault, or end it with `NetworkFault.NONE`. What a half-open connection swallowed is lost, and so is the connection."""
        with self._changed:
            lost = {NetworkFault.HALF_OPEN, NetworkFault.NO_ANSWER} & {self._fault}
            self._fault = fault
            if lost or fault in (NetworkFault.CUT, NetworkFault.RESET):
                for connection in list(self._open):
                    self._end(connection, reset=fault is NetworkFault.RESET)
            self._changed.notify_all()

    def lead_to(self, port: int) -> None:
        """Cut all connections; new ones lead to another server, as an address does that fails over."""
        with self._changed:
            self._target = ("127.0.0.1", port)
            for connection in list(self._open):
                self._end(connection)

    def close(self) -> None:
        """End all connections, and listen no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.set(NetworkFault.CUT)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        self._open.add(client)
        if self._fault in (NetworkFault.CUT, NetworkFault.RESET):
            self._end(client, reset=self._fault is NetworkFault.RESET)
            return
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            self._end(client)
            return
        server.settimeout(None)
        self._open.add(server)
        for source, target, is_answer in ((client, server, False), (server, client, True)):
            threading.Thread(target=self._pump, args=(source, target, is_answer), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        """Pass on what comes from one side, until either is closed."""
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                with self._changed:
                    self._changed.wait_for(lambda: self._fault is not NetworkFault.STALL)
                    is_lost = self._fault is NetworkFault.HALF_OPEN or (
                        self._fault is NetworkFault.NO_ANSWER and is_answer
                    )
                if not is_lost:
                    target.sendall(data)
        with self._changed:
            self._end(source)
            self._end(target)

    def _end(self, connection: socket.socket, *, reset: bool = False) -> None:
        if connection not in self._open:
            return
        self._open.discard(connection)
        with suppress(OSError):
            if reset:
                connection.shutdown(socket.SHUT_RD)  # wakes who reads from it; only then is it closed at once
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            else:
                connection.shutdown(socket.SHUT_RDWR)
        connection.close()

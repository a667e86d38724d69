"""One socket to a Redis or Valkey server, and the protocol that is spoken over it (RESP2): words go out, an answer comes back.

It knows nothing of journals, keeps nothing in mind between two calls, and repeats nothing. Errors come as they are: OSError for the
way to the server, `RedisAnswerError` for what it refused. Where the server is, and what an error means, is in `redis_connection.py`.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import finalize

if TYPE_CHECKING:
    import ssl

Word = str | bytes | int

_CONNECT_S = 5.0
_ANSWER_S = 5.0
_KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
_CHUNK, _CHUNK_MAX = 65536, 2**20
_BULK_MAX = 512 * 2**20
"""The largest value that a server holds unless it was told otherwise. Who announces more speaks another protocol."""
_END = b"\r\n"


class RedisAnswerError(Exception):
    """The server refused a command. `code` is the first word of what it said: `ERR`, `NOAUTH`, `OOM` …"""

    def __init__(self, said: str) -> None:
        self.code = said.partition(" ")[0]
        super().__init__(said.removeprefix("ERR "))


class StrangeAnswerError(ValueError):
    """What came back is not the protocol: somebody else listens there."""


class RedisSocket:
    """A socket that is connected. After any error but `RedisAnswerError` it is of no use: an answer may still be under way."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(_ANSWER_S)
        self._socket = connected
        # One that nobody has any more, such as that of a reader, is closed in silence. A forked process ends none but its own.
        finalize(self, connected.close)
        self._received = b""
        self._at = 0

    @classmethod
    def to_host(cls, host: str, port: int, tls: Mapping[str, str] | None) -> RedisSocket:
        """Connect over TCP, with TLS if there are options for it, be they none."""
        connected = socket.create_connection((host, port), _CONNECT_S)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, seconds in _KEEPALIVE.items():
                connected.setsockopt(socket.IPPROTO_TCP, option, seconds)
            if tls is not None:
                connected = _tls_context(tls).wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    @classmethod
    def to_path(cls, path: str) -> RedisSocket:
        """Connect to a unix socket."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(_CONNECT_S)
            connected.connect(path)
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    def log_in(self, username: str | None, password: str | None, db: int = 0) -> None:
        """Say who we are, if that is known, and choose a database."""
        if username or password:
            self.exchange(("AUTH", *([username] if username else []), password or ""))
        if db:
            self.exchange(("SELECT", db))

    def exchange(self, words: Sequence[Word]) -> Any:
        """Send a command and return the answer: bytes, a number, None, or a list of them."""
        self._socket.sendall(_packed(words))
        return self.answer()

    def answer(self) -> Any:
        """Return the next answer. Raises RedisAnswerError if it is an error."""
        try:
            answer = self._value()
        except TimeoutError:
            raise TimeoutError(f"Timeout: no answer within {_ANSWER_S:.0f} s") from None
        if isinstance(answer, RedisAnswerError):
            raise answer
        return answer

    def can_read(self, timeout_s: float) -> bool:
        """Tell whether something comes within a time. TLS may have taken it from the socket already."""
        pending = getattr(self._socket, "pending", int)
        if self._at < len(self._received) or pending():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def close(self) -> None:
        """Close it. Idempotent."""
        self._socket.close()

    def _value(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        try:
            if kind == b"$":
                return None if rest == b"-1" else self._bulk(int(rest))
            if kind == b"*":
                return None if rest == b"-1" else [self._value() for _ in range(int(rest))]
            if kind == b":":
                return int(rest)
        except StrangeAnswerError:
            raise
        except ValueError as error:
            raise StrangeAnswerError(_shown(line)) from error
        if kind == b"+":
            return rest
        if kind == b"-":
            return RedisAnswerError(rest.decode(errors="replace"))
        raise StrangeAnswerError(_shown(line))

    def _line(self) -> bytes:
        while (end := self._received.find(_END, self._at)) < 0:
            self._receive(1)
        line = self._received[self._at : end]
        self._at = end + len(_END)
        return line

    def _bulk(self, size: int) -> bytes:
        if not 0 <= size <= _BULK_MAX:
            raise StrangeAnswerError(f"a value of {size} bytes")
        end = self._at + size
        if (missing := end + len(_END) - len(self._received)) > 0:
            self._receive(missing)
            end = self._at + size
        body = self._received[self._at : end]
        if not self._received.startswith(_END, end):
            raise StrangeAnswerError(f"a value that is longer than {size} bytes")
        self._at = end + len(_END)
        return body

    def _receive(self, missing: int) -> None:
        """Receive at least so many bytes. What was read already is dropped; a large piece is copied once."""
        pieces = [self._received[self._at :]]
        while missing > 0:
            piece = self._socket.recv(min(max(missing, _CHUNK), _CHUNK_MAX))
            if not piece:
                raise ConnectionError("Connection closed by server")
            pieces.append(piece)
            missing -= len(piece)
        self._received, self._at = b"".join(pieces), 0


def _packed(words: Sequence[Word]) -> bytes:
    """Return a command as it is sent: in one piece, since the server wakes up for each."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        body = word if isinstance(word, bytes) else str(word).encode()
        parts += (b"$%d\r\n" % len(body), body, _END)
    return b"".join(parts)


def _tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return what verifies the server: by the certificates of this machine, and by those that the options name."""
    import ssl  # who has no TLS does not wait for it

    context = ssl.create_default_context()
    wanted = options.get("ssl_cert_reqs", "required")
    context.check_hostname = wanted != "none"
    context.verify_mode = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL}.get(
        wanted, ssl.CERT_REQUIRED
    )
    if certificate := options.get("ssl_certfile"):
        context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    trusted = options.get("ssl_ca_certs"), options.get("ssl_ca_path")
    if any(trusted):
        context.load_verify_locations(*trusted)
    return context


def _shown(line: bytes) -> str:
    return repr(line[:40].decode(errors="replace"))

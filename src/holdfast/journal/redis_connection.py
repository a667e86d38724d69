"""One connection to a Redis or Valkey server: where it is, how it is made again, and what its errors mean.

The client library is used as far as one connection goes: no pool, and no retries behind our back. What is stored is in `redis.py`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

from holdfast.errors import JournalError, StoreUnavailableError, quoted
from holdfast.journal.address import JournalAddress, split_url
from holdfast.journal.redis_scripts import digest_of, only_reads

_CONNECT_S = 5.0
_ANSWER_S = 5.0
_KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
_PORT, _SENTINEL_PORT = 6379, 26379
_PREFIX = "holdfast"
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_OPTIONS = {"prefix", "db", "sentinel_username", "sentinel_password", *_TLS_OPTIONS}
_TLS_SCHEMES = {"rediss", "valkeys"}
_PASSING = re.compile(r"MISCONF|NOREPLICAS|BUSY|TRYAGAIN|UNBLOCKED|max number of clients", re.IGNORECASE)
"""Refusals of a server that an administrator or a moment may cure: a full disk, too few replicas, a long script."""


class CommandRefusedError(JournalError):
    """The server does not let this user run a command, or does not know it."""


@dataclass(frozen=True, slots=True)
class RedisEndpoint:
    """What an address says: which servers to ask, and how to log in. The password is never shown."""

    hosts: tuple[tuple[str, int], ...]
    socket_path: str = ""
    service: str = ""
    """The name by which Sentinels know the server; empty if the hosts are the server itself."""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_login: dict[str, str] = field(default_factory=dict, repr=False)
    tls: dict[str, str] | None = None
    prefix: str = _PREFIX

    @classmethod
    def of(cls, address: JournalAddress) -> RedisEndpoint:
        """Read an address. Raises JournalError, without showing a password, if it is wrong."""
        parts = split_url(address.url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(options.keys() - _OPTIONS):
            known = ", ".join(sorted(_OPTIONS))
            raise JournalError(
                f"{quoted(unknown[0])} is not an option of the store {address}", f"there are: {known}"
            )
        login, _, hosts = parts.netloc.rpartition("@")
        name, _, password = login.partition(":")
        path = [unquote(part) for part in parts.path.split("/") if part]
        is_socket, is_sentinel = parts.scheme == "redis+unix", parts.scheme == "redis+sentinel"
        service = (path.pop(0) if path else "") if is_sentinel else ""
        if is_sentinel and not service:
            raise JournalError(
                f"the store {address} names no service",
                "such as redis+sentinel://host:26379/mymaster: the name that the Sentinels know",
            )
        db = options.get("db", "" if is_socket or not path else "/".join(path))
        return cls(
            hosts=() if is_socket else _hosts(hosts, _SENTINEL_PORT if is_sentinel else _PORT, address),
            socket_path=unquote(parts.path) if is_socket else "",
            service=service,
            db=_number(db, address),
            username=unquote(name) or None,
            password=unquote(password) or None,
            sentinel_login={
                key.removeprefix("sentinel_"): value
                for key, value in options.items()
                if key.startswith("sentinel_")
            },
            tls=_tls(parts, options),
            prefix=options.get("prefix") or _PREFIX,
        )


def _hosts(text: str, port: int, address: JournalAddress) -> tuple[tuple[str, int], ...]:
    found = []
    for host in text.split(","):
        name, _, number = host.rpartition(":") if re.search(r":\d*$", host) else (host, "", "")
        if number and int(number) > 65535:
            raise JournalError(f"the store {address} has no port {number}", "a port is at most 65535")
        found.append((name.strip("[]") or "localhost", int(number or port)))
    return tuple(found)


def _number(db: str, address: JournalAddress) -> int:
    if db and not re.fullmatch(r"[0-9]{1,6}", db):
        raise JournalError(
            f"the store {address} names the database {quoted(db)}", "databases of Redis are numbers: /0"
        )
    return int(db or 0)


def _tls(parts: SplitResult, options: dict[str, str]) -> dict[str, str] | None:
    given = {name: options[name] for name in _TLS_OPTIONS if name in options}
    for name, path in given.items():
        if name != "ssl_cert_reqs" and not Path(path).exists():
            raise JournalError(
                f"there is no file {quoted(path)}", f"{name} in the address of the store names it"
            )
    return given if parts.scheme in _TLS_SCHEMES or given else None


class RedisConnection:
    """A connection that is made when it is needed, and again after it was lost. Threads take turns."""

    def __init__(self, address: JournalAddress) -> None:
        self.endpoint = RedisEndpoint.of(address)
        self.name = f"store {address}"
        self._connection: Any = None
        self._pid = 0
        self._lock = Lock()
        try:
            import redis  # heavy, and only who has such a store needs it
        except ImportError as error:
            raise JournalError(
                "a journal in Redis needs the package redis, which is not installed",
                "pip install 'holdfast[redis]'",
            ) from error
        self._library: Any = redis

    def __repr__(self) -> str:
        return f"RedisConnection({self.name})"

    def call(self, *words: str | bytes | int) -> Any:
        """Send one command and return the answer."""
        with self._lock, self._explained():
            return self._exchange(words)

    def run_script(self, script: str, keys: Sequence[str], values: Sequence[str | bytes | int]) -> Any:
        """Run a script on the server. One that only reads is repeated if a connection of an earlier call was lost."""
        with self._lock, self._explained():
            had_connection = self._connection is not None
            try:
                return self._evaluate(script, keys, values)
            except self._library.exceptions.ConnectionError:
                if not (had_connection and only_reads(script)):
                    raise
                self.close()
            return self._evaluate(script, keys, values)

    def _evaluate(self, script: str, keys: Sequence[str], values: Sequence[str | bytes | int]) -> Any:
        """Run a script. It is sent only if the server does not have it yet."""
        try:
            return self._exchange(("EVALSHA", digest_of(script), len(keys), *keys, *values))
        except self._library.exceptions.NoScriptError:
            return self._exchange(("EVAL", script, len(keys), *keys, *values))

    def wait_for_message(self, timeout_s: float) -> bool:
        """Tell whether a message came within a time. All that are there are taken together."""
        with self._lock, self._explained():
            connection = self._connected()
            heard = bool(connection.can_read(timeout_s))
            while heard and connection.can_read(0):
                connection.read_response()
            return heard

    def close(self) -> None:
        """Close it. The next call makes another one. Idempotent."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _exchange(self, words: Sequence[str | bytes | int]) -> Any:
        connection = self._connected()
        connection.send_packed_command([_packed(words)])
        return connection.read_response()

    def _connected(self) -> Any:
        """Return the connection; after a fork, another one than that of the parent process."""
        if self._connection is None or self._pid != os.getpid():
            self._connection, self._pid = self._connect(), os.getpid()
        return self._connection

    def _connect(self) -> Any:
        endpoint, kinds = self.endpoint, self._library.connection
        options: dict[str, Any] = {
            "db": endpoint.db,
            "username": endpoint.username,
            "password": endpoint.password,
            "protocol": 2,
            **self._timeouts(),
        }
        if endpoint.socket_path:
            connection = kinds.UnixDomainSocketConnection(path=endpoint.socket_path, **options)
        else:
            host, port = self._primary() if endpoint.service else endpoint.hosts[0]
            kind = kinds.Connection if endpoint.tls is None else kinds.SSLConnection
            options |= {
                "socket_keepalive": True,
                "socket_keepalive_options": _KEEPALIVE,
                **(endpoint.tls or {}),
            }
            connection = kind(host=host, port=port, **options)
        connection.connect()
        return connection

    def _primary(self) -> tuple[str, int]:
        """Ask the Sentinels where the server is now; with TLS, if the server has it."""
        tls = {} if self.endpoint.tls is None else {"ssl": True, **self.endpoint.tls}
        options = {**self.endpoint.sentinel_login, **tls, **self._timeouts(), "protocol": 2}
        sentinels = self._library.sentinel.Sentinel(list(self.endpoint.hosts), sentinel_kwargs=options)
        try:
            host, port = sentinels.discover_master(self.endpoint.service)
        finally:
            for sentinel in sentinels.sentinels:
                sentinel.close()
        return str(host), int(port)

    def _timeouts(self) -> dict[str, Any]:
        none = self._library.retry.Retry(self._library.backoff.NoBackoff(), 0)
        return {"socket_timeout": _ANSWER_S, "socket_connect_timeout": _CONNECT_S, "retry": none}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the library's errors into ours. Their text, which may repeat what we sent, goes without the password."""
        errors = self._library.exceptions
        try:
            yield
        except (errors.RedisError, OSError, ValueError) as error:
            told = self._translated(error)
            if isinstance(told, StoreUnavailableError) or not isinstance(error, errors.ResponseError):
                self.close()
            raise told from None

    def _translated(self, error: Exception) -> JournalError:
        errors, text = self._library.exceptions, self._without_password(str(error))
        if isinstance(error, errors.AuthenticationError):
            return JournalError(
                f"{self.name} refuses the user name or the password: {text}",
                "check both, and whether the server wants a user name at all",
            )
        if isinstance(error, errors.AuthorizationError | errors.NoPermissionError):
            return CommandRefusedError(f"{self.name} does not permit it: {text}", self._rights())
        if isinstance(error, errors.MovedError | errors.AskError | errors.ClusterCrossSlotError):
            return is_cluster(self.name)
        if re.search(r"\[SSL|CERTIFICATE|\bcertificate\b", text):
            return JournalError(
                f"{self.name}: no secure connection: {text}",
                "rediss:// is for servers with TLS; ?ssl_ca_certs=FILE names who signed the server's certificate",
            )
        if isinstance(error, errors.InvalidResponse) or "Protocol Error" in text:
            return JournalError(f"{self.name} does not answer as Redis does: {text}", _CHECK_ADDRESS)
        passing = (
            errors.ReadOnlyError,
            errors.OutOfMemoryError,
            errors.ClusterDownError,
            errors.TryAgainError,
        )
        if isinstance(error, errors.ResponseError) and not isinstance(error, passing):
            return self._refused(text)
        if isinstance(error, (*passing, errors.BusyLoadingError)):
            return StoreUnavailableError(f"{self.name} takes nothing now: {text}", _WAIT)
        return StoreUnavailableError(f"{self.name} does not answer: {text}", _CHECK_SERVER)

    def _refused(self, text: str) -> JournalError:
        """Return the error for an answer of the server that begins with ERR or with a code of its own."""
        if _PASSING.match(text):
            return StoreUnavailableError(f"{self.name} takes nothing now: {text}", _WAIT)
        if "DB index" in text:
            return JournalError(f"{self.name} has no database {self.endpoint.db}", "databases begin at /0")
        if "WRONGTYPE" in text:
            return JournalError(
                f"{self.name} holds keys below {self.endpoint.prefix}: that are not Holdfast's",
                "choose another prefix: ?prefix=NAME; nothing was written",
            )
        kind = CommandRefusedError if "unknown command" in text else JournalError
        return kind(f"{self.name} refuses it: {text}", _CHECK_ADDRESS)

    def _rights(self) -> str:
        keys = self.endpoint.prefix
        return (
            f"give the user these rights: ~{keys}:* &{keys}:* +@read +@write +@scripting +@pubsub +@connection "
            "+time +info +config|get"
        )

    def _without_password(self, text: str) -> str:
        secrets = (self.endpoint.password, self.endpoint.sentinel_login.get("password"))
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text.rstrip(".")


def _packed(words: Sequence[str | bytes | int]) -> bytes:
    """Return a command as it is sent. The library would send a large one in many pieces, and the server wake up for each."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        body = word if isinstance(word, bytes) else str(word).encode()
        parts += (b"$%d\r\n" % len(body), body, b"\r\n")
    return b"".join(parts)


def is_cluster(name: str) -> JournalError:
    """Return the error for a server that keeps only a part of the keys."""
    return JournalError(
        f"{name} is a node of a Redis Cluster, which Holdfast does not use",
        "use a server of its own, or one behind Sentinel: redis+sentinel://host:26379/service",
    )


_WAIT = "nothing is lost; run the command again when the server has recovered"
_CHECK_SERVER = "is the server running, and is the address right (rediss:// with TLS, redis:// without)? Then run the command again"
_CHECK_ADDRESS = "check the address: redis://host:port/database, rediss:// with TLS"

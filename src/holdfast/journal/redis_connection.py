"""One connection to a Redis or Valkey server: where it is, how it is made again, and what its errors mean.

One connection, no pool, and no retries behind our back: only the journal knows what may be repeated. The protocol is in
`redis_socket.py`, what is stored in `redis.py`.
"""

from __future__ import annotations

import os
import re
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
from holdfast.journal.redis_socket import RedisAnswerError, RedisSocket, StrangeAnswerError, Word

_PORT, _SENTINEL_PORT = 6379, 26379
_PREFIX = "holdfast"
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_OPTIONS = {"prefix", "db", "sentinel_username", "sentinel_password", *_TLS_OPTIONS}
_TLS_SCHEMES = {"rediss", "valkeys"}
_WRONG_LOGIN = {"NOAUTH", "WRONGPASS"}
_NO_LOGIN = re.compile("no password is set|invalid password", re.IGNORECASE)
_NEEDS_NO_LOGIN = re.compile("AUTH.* without any password", re.IGNORECASE)
_CLUSTER = {"MOVED", "ASK", "CROSSSLOT"}
_PASSING = {
    "READONLY",
    "OOM",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "UNBLOCKED",
}
"""Refusals of a server that an administrator or a moment may cure: a full disk, too few replicas, a long script."""
_DOWN = {"s_down", "o_down", "disconnected"}
"""What a Sentinel says of a server that is not to be used."""

_MESSAGES_MAX = 1000
"""How many messages are taken together. Each only says that something may have changed."""

_OTHER_SHAPE = (TypeError, ValueError, AttributeError, LookupError, RecursionError)
"""What reading an answer raises if it is not of the shape that a Redis server gives."""

_SOURCE_LINE = re.compile(r"_ssl\.c:\d+: | \(_ssl\.c:\d+\)")

_DAMAGE = re.compile(
    r"attempt to .* script: |not an integer script: |equal or smaller than the target|must be strings or integers"
)
"""What a script of ours says about a record that it did not write."""


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
        self._socket: RedisSocket | None = None
        self._pid = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"RedisConnection({self.name})"

    def call(self, *words: Word) -> Any:
        """Send one command and return the answer."""
        with self._lock, self._explained():
            self._drop_if_ended()
            return self._connected().exchange(words)

    def run_script(self, script: str, keys: Sequence[str], values: Sequence[Word]) -> Any:
        """Run a script on the server. One that only reads is repeated if a connection of an earlier call was lost."""
        with self._lock, self._explained():
            self._drop_if_ended()
            had_connection = self._socket is not None
            try:
                return self._evaluate(script, keys, values)
            except ConnectionError:
                if not (had_connection and only_reads(script)):
                    raise
                self.close()
            return self._evaluate(script, keys, values)

    def _evaluate(self, script: str, keys: Sequence[str], values: Sequence[Word]) -> Any:
        """Run a script. It is sent only if the server does not have it yet."""
        connected = self._connected()
        try:
            return connected.exchange(("EVALSHA", digest_of(script), len(keys), *keys, *values))
        except RedisAnswerError as error:
            if error.code != "NOSCRIPT":
                raise
        return connected.exchange(("EVAL", script, len(keys), *keys, *values))

    def wait_for_message(self, timeout_s: float) -> bool:
        """Tell whether a message came within a time. Those that are there are taken together, so far as they have an end."""
        with self._lock, self._explained():
            connected = self._connected()
            heard = connected.can_read(timeout_s)
            for _ in range(_MESSAGES_MAX):
                if not (heard and connected.can_read(0)):
                    break
                connected.answer()
            return heard

    @contextmanager
    def understanding(self) -> Iterator[None]:
        """Turn the surprise at an answer of another shape into our error: what answers there is no Redis server."""
        try:
            yield
        except _OTHER_SHAPE as error:
            self.close()
            raise self._no_redis(type(error).__name__) from None

    def close(self) -> None:
        """Close it. The next call makes another one. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _drop_if_ended(self) -> None:
        """Close a connection that the server ended since the last answer: what comes unasked is its end, or nothing we know."""
        if self._socket is not None and self._pid == os.getpid() and self._socket.can_read(0):
            self.close()

    def _connected(self) -> RedisSocket:
        """Return the connection; after a fork, another one than that of the parent process."""
        if self._socket is None or self._pid != os.getpid():
            self._socket, self._pid = self._connect(), os.getpid()
        return self._socket

    def _connect(self) -> RedisSocket:
        endpoint = self.endpoint
        if endpoint.socket_path:
            connected = RedisSocket.to_path(endpoint.socket_path)
        else:
            host, port = self._primary() if endpoint.service else endpoint.hosts[0]
            connected = RedisSocket.to_host(host, port, endpoint.tls)
        try:
            connected.log_in(endpoint.username, endpoint.password, endpoint.db)
        except BaseException:
            connected.close()
            raise
        return connected

    def _primary(self) -> tuple[str, int]:
        """Ask the Sentinels where the server is now; with TLS, if the server has it."""
        failures = []
        for host, port in self.endpoint.hosts:
            try:
                told = self._told_by_sentinel(host, port)
            except (OSError, RedisAnswerError) as error:
                failures.append(f"{host}:{port}: {error}")
                continue
            if not _DOWN.intersection(told["flags"].split(",")):
                return told["ip"], int(told["port"])
            failures.append(f"{host}:{port}: it is down")
        raise OSError(f"no Sentinel knows a server for {self.endpoint.service} ({'; '.join(failures)})")

    def _told_by_sentinel(self, host: str, port: int) -> dict[str, str]:
        """Return what a Sentinel knows about the server: `ip`, `port`, `flags` and more."""
        sentinel, login = RedisSocket.to_host(host, port, self.endpoint.tls), self.endpoint.sentinel_login
        try:
            sentinel.log_in(login.get("username"), login.get("password"))
            told = [
                word.decode() for word in sentinel.exchange(("SENTINEL", "MASTER", self.endpoint.service))
            ]
        finally:
            sentinel.close()
        return dict(zip(told[::2], told[1::2], strict=True))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the socket into ours. Their text, which may repeat what we sent, goes without the password."""
        try:
            yield
        except (RedisAnswerError, OSError, ValueError) as error:
            told = self._translated(error)
            if isinstance(told, StoreUnavailableError) or not isinstance(error, RedisAnswerError):
                self.close()
            raise told from None
        except _OTHER_SHAPE as error:
            # Answers of Sentinels are read here, too.
            self.close()
            raise self._no_redis(type(error).__name__) from None

    def _translated(self, error: Exception) -> JournalError:
        text = self._without_password(_text_of(error))
        if isinstance(error, RedisAnswerError):
            return self._refused(error.code, text)
        if re.search(r"\[SSL|CERTIFICATE|\bcertificate\b", text):
            return JournalError(
                f"{self.name}: no secure connection: {text}",
                "rediss:// is for servers with TLS; ?ssl_ca_certs=FILE names who signed the server's certificate",
            )
        if isinstance(error, StrangeAnswerError):
            return self._no_redis(text)
        return StoreUnavailableError(f"{self.name} does not answer: {text}", _CHECK_SERVER)

    def _no_redis(self, why: str) -> JournalError:
        return JournalError(f"{self.name} does not answer as Redis does: {why}", _CHECK_ADDRESS)

    def _refused(self, code: str, text: str) -> JournalError:
        """Return the error for an answer of the server that begins with ERR or with a code of its own."""
        if code in _WRONG_LOGIN or _NO_LOGIN.search(text):
            return JournalError(
                f"{self.name} refuses the user name or the password: {text}",
                "put the password into HOLDFAST_STORE_PASSWORD, and check the user in the address: redis://USER@host",
            )
        if _NEEDS_NO_LOGIN.search(text):
            return JournalError(
                f"{self.name} has no password, and was given one",
                "unset HOLDFAST_STORE_PASSWORD, or take the password out of the address",
            )
        if code == "NOPERM":
            return CommandRefusedError(f"{self.name} does not permit it: {text}", self._rights())
        if code in _CLUSTER:
            return is_cluster(self.name)
        if code in _PASSING or text.startswith("max number of clients"):
            return StoreUnavailableError(f"{self.name} takes nothing now: {text}", _WAIT)
        if "Protocol error" in text:
            return self._no_redis(text)
        if "DB index" in text:
            return JournalError(f"{self.name} has no database {self.endpoint.db}", "databases begin at /0")
        if "WRONGTYPE" in text:
            return JournalError(
                f"{self.name} holds keys below {self.endpoint.prefix}: that are not Holdfast's",
                "choose another prefix: ?prefix=NAME; nothing was written",
            )
        if "executing the script can't" in text:
            return CommandRefusedError(f"{self.name} does not permit it: {text}", self._rights())
        if _DAMAGE.search(text):
            damage = text.partition(" script: ")[0]
            return JournalError(
                f"{self.name} holds a record that is not as Holdfast wrote it: {damage}", _REPAIR
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


def _text_of(error: Exception) -> str:
    """Return what an error says, without numbers that tell nobody anything."""
    return _SOURCE_LINE.sub("", (isinstance(error, OSError) and error.strerror) or str(error))


def is_cluster(name: str) -> JournalError:
    """Return the error for a server that keeps only a part of the keys."""
    return JournalError(
        f"{name} is a node of a Redis Cluster, which Holdfast does not use",
        "use a server of its own, or one behind Sentinel: redis+sentinel://host:26379/service",
    )


_REPAIR = "nothing was written; `holdfast rebuild --yes` restores the journal from git, and keeps this one"
_WAIT = "nothing is lost; run the command again when the server has recovered"
_CHECK_SERVER = "is the server running, and is the address right (rediss:// with TLS, redis:// without)? Then run the command again"
_CHECK_ADDRESS = "check the address: redis://host:port/database, rediss:// with TLS"

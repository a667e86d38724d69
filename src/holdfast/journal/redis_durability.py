"""What a Redis server must be to hold a journal, and what it keeps of what it acknowledged. Checked when it is opened.

The server is asked once (`INFO`, `CONFIG GET`). Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal.protocol import StoreDurability
from holdfast.journal.redis_connection import CommandRefusedError, RedisConnection, is_cluster

_OLDEST = 7
_SETTINGS = ("appendfsync", "no-appendfsync-on-rewrite")
_REPLICAS = "A failover may lose the last moment: replicas follow without being waited for."


@dataclass(frozen=True, slots=True)
class RedisServer:
    """What a server says of itself. `info` is empty if this user may not ask."""

    name: str
    info: Mapping[str, str]
    settings: Mapping[str, str]
    """Empty if this user may not ask, as with many hosted servers."""

    @classmethod
    def ask(cls, connection: RedisConnection) -> RedisServer:
        """Ask a server for its version, its role, and what it keeps."""
        info = _permitted(connection, "INFO")
        settings = _permitted(connection, "CONFIG", "GET", *_SETTINGS) if info else None
        with connection.understanding():
            pairs = [item.decode(errors="replace") for item in settings] if isinstance(settings, list) else []
            return cls(connection.name, _fields(info or b""), dict(zip(pairs[::2], pairs[1::2], strict=True)))

    def require_usable(self) -> None:
        """Raise JournalError if no journal can be in this server, not even for reading; StoreUnavailableError while it starts."""
        if self.info.get("loading") == "1":
            # It also says now that it keeps no log: it does not write to the one that it reads.
            raise StoreUnavailableError(
                f"{self.name} takes nothing now: it loads its data",
                "nothing is lost; run the command again when it has begun to answer",
            )
        version = self.info.get("redis_version", "")
        first = version.partition(".")[0]
        if first.isdecimal() and int(first) < _OLDEST:
            raise JournalError(
                f"{self.name} is Redis {version}, which is too old",
                f"use Redis {_OLDEST} or newer, or Valkey",
            )
        if self.info.get("cluster_enabled") == "1":
            raise is_cluster(self.name)

    def require_writable(self) -> None:
        """Raise JournalError if the server is a replica, which takes no writes."""
        if self.info.get("role") == "slave":
            primary = f"{self.info.get('master_host')}:{self.info.get('master_port')}"
            raise JournalError(
                f"{self.name} is a read-only replica of {primary}",
                "use the address of that server, or of its Sentinels: redis+sentinel://host:26379/service",
            )

    def durability(self) -> StoreDurability:
        """Return what an event survives here after it was acknowledged."""
        if not self.info:
            return _volatile("It cannot be known what the server keeps: this user may not ask (INFO).", None)
        if self.info.get("aof_enabled") != "1":
            return _volatile("The server keeps events in memory only, but for a copy from time to time.")
        if self._evicts():
            policy = self.info.get("maxmemory_policy")
            return _volatile(f"The server drops keys when its memory is used up (maxmemory-policy {policy}).")
        return self._of_a_log()

    def _of_a_log(self) -> StoreDurability:
        """Return what the append-only file gives."""
        failover = False if int(self.info.get("connected_slaves", "0")) else None
        policy = self.settings.get("appendfsync", "")
        paused = self.settings.get("no-appendfsync-on-rewrite") == "yes"
        if policy == "always" and not paused:
            sentence = "An acknowledged event survives a kill of the server and a power cut."
            synced: bool | None = True
        elif policy:
            lost = "seconds" if policy == "everysec" and not paused else "half minute or more"
            sentence = f"A kill of the server or a power cut may take the last {lost} with it: {_setting(policy, paused=paused)}."
            synced = False
        else:
            sentence = "The server keeps a log, but this user may not ask how often it is synced: a power cut may take the last events with it."
            synced = None
        if failover is False:
            sentence = f"{sentence} {_REPLICAS}"
        return StoreDurability(synced, synced, failover, is_volatile=False, sentence=sentence)

    def _evicts(self) -> bool:
        """Tell whether keys that never expire may be dropped. Policies that drop others only do not concern ours."""
        has_limit = self.info.get("maxmemory", "0") != "0"
        return has_limit and self.info.get("maxmemory_policy", "noeviction").startswith("allkeys")


def refuse_volatile(name: str, durability: StoreDurability) -> None:
    """Raise JournalError for a server that may forget what it acknowledged."""
    if durability.is_volatile:
        way_out = _MAKE_KNOWN if durability.server_killed is None else _MAKE_DURABLE
        raise JournalError(f"{name} is volatile. {durability.sentence}", way_out)


_MAKE_KNOWN = "give the user the rights +info and +config|get, or accept it with --accept-volatile"
_MAKE_DURABLE = (
    "set `appendonly yes`, `appendfsync always` and `maxmemory-policy noeviction` in the server's configuration "
    "(now: redis-cli CONFIG SET NAME VALUE, then CONFIG REWRITE), or accept it with --accept-volatile"
)


def _setting(policy: str, *, paused: bool) -> str:
    return f"appendfsync {policy}" + (", no-appendfsync-on-rewrite yes" if paused else "")


def _volatile(sentence: str, known: bool | None = False) -> StoreDurability:
    return StoreDurability(known, known, known, is_volatile=True, sentence=sentence)


def _permitted(connection: RedisConnection, *words: str) -> Any:
    """Return the answer to a question that a user may not be permitted to ask; None then."""
    try:
        return connection.call(*words)
    except CommandRefusedError:
        return None


def _fields(info: bytes) -> dict[str, str]:
    lines = info.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)

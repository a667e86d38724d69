"""Where the journal of a measurement is: a file in its folder, or with `--store` a server.

The server must be the benchmark's own: what is measured stays in it.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from holdfast.journal.address import JournalAddress
from holdfast.paths import StateDir

_VARIABLE = "HOLDFAST_BENCH_STORE"
WORKLOADS = ("W1", "W3", "W4", "W7")
"""What can be measured in a server: the journal, without commands."""
_KINDS = {"redis": "redis", "valkey": "redis", "postgres": "postgres"}
_TASKS_PER_S = {"redis": 2_500, "postgres": 1_500, "": 8_000}


def choose(url: str) -> None:
    """Measure with a server from now on, in this process and in those that it starts."""
    os.environ[_VARIABLE] = url


def is_server() -> bool:
    """Tell whether a server was chosen."""
    return _VARIABLE in os.environ


def journal_in(folder: Path) -> Path | JournalAddress:
    """Return where the journal of a state folder is. In a server, it is one of its own for each folder."""
    if not is_server():
        return StateDir(folder).journal
    repository = sha256(os.fsencode(folder)).hexdigest()[:40]
    return JournalAddress(os.environ[_VARIABLE], repository, accept_volatile=True)


def journal_bytes(folder: Path) -> int:
    """Return how large the journal is; 0 if it is in a server."""
    return 0 if is_server() else StateDir(folder).journal.stat().st_size


def server_kind() -> str:
    """Return `redis` (Valkey is one, too) or `postgres`; empty if no server was chosen."""
    scheme = os.environ.get(_VARIABLE, "").partition(":")[0]
    return next((kind for beginning, kind in _KINDS.items() if scheme.startswith(beginning)), "")


def peer_url() -> str:
    """Return the address of the server as others spell it."""
    scheme, separator, rest = os.environ[_VARIABLE].partition("://")
    return scheme.replace("valkey", "redis") + separator + rest


def tasks_per_s() -> int:
    """Return how many tasks per second there must be in W1."""
    return _TASKS_PER_S[server_kind()]

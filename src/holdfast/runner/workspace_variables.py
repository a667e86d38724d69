"""What is a workspace's own on this machine: its network ports and the name of a scratch database.

A block of ports belongs to one workspace of all live runs. The kernel says whose it is: a name in the abstract namespace of
sockets, which no other process gets while ours lives, and which is free again when we are killed. Nothing listens there.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from holdfast.core.plan import PORTS_MAX, PlanWorkspace
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.files import read_regular, write_atomically
from holdfast.repo.workspaces import Workspaces

_FIRST, _LAST = 21_000, 31_999
"""Below the ports that the kernel gives to outgoing connections."""
_BLOCKS = (_LAST - _FIRST + 1) // PORTS_MAX
_DATABASE_CHARS = 63
"""The most that PostgreSQL and MySQL take for a name, the smaller of the two."""


class PortsTakenError(HoldfastError):
    """No block of ports is free on this machine."""

    exit_code = ExitCode.NEEDS_DECISION


class WorkspaceVariables:
    """The variables of each workspace of a run. The ports of a workspace stay the same as long as it exists."""

    def __init__(self, pool: Workspaces, setting: PlanWorkspace) -> None:
        self._pool = pool
        self._setting = setting
        self._held: dict[str, tuple[int, socket.socket]] = {}
        for name in pool.names() if setting.ports else ():
            # Agents outlive their runner: what they were given stays theirs.
            self._hold(name, self._recorded(name))

    def of(self, workspace: Path) -> dict[str, str]:
        """Return the variables of a workspace. Raises PortsTakenError if there is no port left for it."""
        ports = self.ports(workspace)
        numbered = {f"HOLDFAST_PORT_{place}": str(port) for place, port in enumerate(ports, start=1)}
        first = {"PORT": str(ports[0])} if ports else {}
        return {"HOLDFAST_DATABASE": database_name(workspace), **numbered, **first, **self._setting.env}

    def ports(self, workspace: Path) -> tuple[int, ...]:
        """Return the ports of a workspace; nothing if the plan wants none."""
        count = self._setting.ports
        if not count:
            return ()
        name = workspace.name
        if name not in self._held:
            first = next((first for first in self._candidates(name) if self._hold(name, first)), 0)
            if not first:
                raise PortsTakenError(
                    f"all ports from {_FIRST} to {_LAST} are in use",
                    "end what uses them, or ask for none in `workspace.ports` of the plan",
                )
            write_atomically(self._pool.get(name).ports_file, str(first).encode())
        first = self._held[name][0]
        return tuple(range(first, first + count))

    def close(self) -> None:
        """Give the ports back. Idempotent."""
        for _, holder in self._held.values():
            holder.close()
        self._held.clear()

    def _recorded(self, name: str) -> int:
        found = read_regular(self._pool.get(name).ports_file)
        return int(found) if found.isdigit() and len(found) == len(str(_LAST)) else 0

    def _candidates(self, name: str) -> Iterator[int]:
        """Yield the first ports of free blocks, beginning at a place of the workspace's own."""
        begin = _number(self._pool.path(name))
        for step in range(_BLOCKS):
            first = _FIRST + (begin + step) % _BLOCKS * PORTS_MAX
            if all(_is_free(port) for port in range(first, first + self._setting.ports)):
                yield first

    def _hold(self, name: str, first: int) -> bool:
        """Take a block of ports for a workspace; tell whether it was free."""
        if not first:
            return False
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0holdfast-ports-{first}")
        except OSError:
            holder.close()
            return False
        self._held[name] = first, holder
        return True


def database_name(workspace: Path) -> str:
    """Return a name for a scratch database that no other workspace has: letters, digits and `_`, at most 63."""
    run = re.sub(r"[^a-z0-9]+", "_", workspace.parent.name.lower()).strip("_")
    end = f"_{_digest(workspace)[:8]}"
    return f"holdfast_{run}"[: _DATABASE_CHARS - len(end)] + end


def _number(workspace: Path) -> int:
    return int(_digest(workspace)[:12], 16)


def _digest(workspace: Path) -> str:
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()


def _is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

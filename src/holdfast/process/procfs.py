"""The process table: parents, start times, and the token each agent carries in its environment; and who listens where.

It only reads `/proc` and opens pidfds; it signals no process. Standard library only and few imports, because
the supervisor is forked with everything this module loads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container
from stat import S_ISSOCK

from holdfast.boot import stat_fields

TOKEN_VARIABLE = "HOLDFAST_ATTEMPT"  # noqa: S105 - the name of the variable, not a secret
_TOKEN_PREFIX = TOKEN_VARIABLE.encode() + b"="
EXEC_WAIT_S = 5.0
_READ_AGAIN_S = 0.001
_STATE, _PPID, _STARTED, _VSIZE, _STARTCODE, _ENV_START, _ENV_END = 0, 1, 19, 20, 23, 47, 48
"""Indexes into what `stat_fields` returns. proc(5) counts from 1 and has two fields before them."""


class ProcessStat:
    """One process as the kernel sees it. `started` is in clock ticks since boot."""

    __slots__ = ("pid", "ppid", "started", "state")

    def __init__(self, pid: int, ppid: int, state: str, started: int) -> None:
        self.pid = pid
        self.ppid = ppid
        self.state = state
        self.started = started

    @property
    def alive(self) -> bool:
        """Whether the process still runs; a zombie has ended and only waits to be reaped."""
        return self.state not in "ZX"


def stat(pid: int) -> ProcessStat | None:
    """Return one process's entry, or None when there is no such process."""
    fields = stat_fields(pid)
    return (
        ProcessStat(pid, int(fields[_PPID]), fields[_STATE].decode(), int(fields[_STARTED]))
        if fields
        else None
    )


def is_stopped(pid: int) -> bool:
    """Tell whether somebody stopped a process by a signal, so that it does nothing until it is continued."""
    entry = stat(pid)
    return entry is not None and entry.state == "T"


def name(pid: int) -> str:
    """Return the name that a process gave itself, or an empty string when there is no such process."""
    try:
        return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    except OSError:
        return ""


def pids() -> list[int]:
    """Return every current process id."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - pathlib is too heavy


def ancestors(pid: int) -> list[int]:
    """Return the processes above one, its parent first."""
    found: list[int] = []
    while (entry := stat(pid)) is not None and entry.ppid > 0:
        found.append(pid := entry.ppid)
    return found


def descendants(root: int) -> dict[int, ProcessStat]:
    """Return all live processes below `root`, at any depth."""
    children: dict[int, list[ProcessStat]] = {}
    for entry in filter(None, map(stat, pids())):
        children.setdefault(entry.ppid, []).append(entry)
    found: dict[int, ProcessStat] = {}
    frontier = [root]
    while frontier:
        for entry in children.get(frontier.pop(), ()):
            found[entry.pid] = entry
            frontier.append(entry.pid)
    return {pid: entry for pid, entry in found.items() if entry.alive}


def token(pid: int) -> str:
    """Return the attempt token in a process's environment, or an empty string.

    In the middle of an exec a process has no environment yet. It is read again until it is there.
    """
    deadline = time.monotonic() + EXEC_WAIT_S
    while not (environ := _environ(pid)) and _has_environment(pid) and time.monotonic() < deadline:
        time.sleep(_READ_AGAIN_S)
    for entry in environ.split(b"\0"):
        if entry.startswith(_TOKEN_PREFIX):
            return entry[len(_TOKEN_PREFIX) :].decode(errors="replace")
    return ""


def _environ(pid: int) -> bytes:
    try:
        return _read(f"/proc/{pid}/environ")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _has_environment(pid: int) -> bool:
    """Tell whether a process has an environment, or is about to get one because it is in the middle of an exec.

    The kernel notes where the code is only after it has set up the environment. Kernel threads and ended processes have
    no memory at all.
    """
    fields = stat_fields(pid)
    if not fields or fields[_VSIZE] == b"0":
        return False
    return fields[_STARTCODE] == b"0" or fields[_ENV_START] != fields[_ENV_END]


def open_carriers(tokens: Container[str]) -> dict[int, int]:
    """Return pid → pidfd of every live process that carries one of `tokens`. The caller closes the pidfds.

    The token is read again after the pidfd was opened, so a pid that was reused in between is left out.
    """
    found: dict[int, int] = {}
    for pid in pids():
        if token(pid) not in tokens:
            continue
        fd = open_pidfd(pid)
        if fd is None:
            continue
        if token(pid) in tokens:
            found[pid] = fd
        else:
            os.close(fd)
    return found


def folders_of_carriers(tokens: Container[str]) -> list[tuple[str, str, bool]]:
    """Return token and current directory of every process that carries one of `tokens`, and whether that was deleted."""
    carriers = [(found, pid) for pid in pids() if (found := token(pid)) in tokens]
    return [(found, path, _is_deleted(pid)) for found, pid in carriers if (path := _current_directory(pid))]


def _is_deleted(pid: int) -> bool:
    """Tell whether the current directory of a process has no name any more. One that cannot be looked at counts as there."""
    try:
        return os.stat(f"/proc/{pid}/cwd").st_nlink == 0  # noqa: PTH116 - pathlib is too heavy
    except OSError:
        return False


def works_in(folder: str) -> bool:
    """Tell whether any process that we may look at has its current directory in `folder` or below it."""
    return any(f"{path}/".startswith(f"{folder}/") for path in map(_current_directory, pids()))


def _current_directory(pid: int) -> str:
    """Return the current directory of a process; empty if it ended, or is another user's."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - pathlib is too heavy
    except OSError:
        return ""


def live_sockets() -> list[str]:
    """Return the whole paths of the sockets that programs have now and that this user may connect to.

    The kernel lists them as they were named, which anybody can do: only what really is a socket counts. It knows no folder
    of those that were named without one.
    """
    try:
        lines = _read("/proc/net/unix").split(b"\n")
    except OSError:
        return []
    named = {os.fsdecode(line[line.index(b"/") :]) for line in lines if b" /" in line}
    return sorted(path for path in named if _is_socket(path) and os.access(path, os.W_OK))


def _is_socket(path: str) -> bool:
    try:
        return S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False  # it is gone, is another container's, or this user may not see it


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd, or None when there is no such process."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        chunks = []
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
    finally:
        os.close(fd)
    return b"".join(chunks)

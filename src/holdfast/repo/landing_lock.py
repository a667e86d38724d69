"""One landing at a time: a lock of the repository while a result is brought into a branch of the user.

Two at once would take each other's half-written checkout for one that was cut short, and "repair" it. The kernel frees the
lock when its holder dies. What a killed landing left is completed by the next one, under the same lock. No git command that
we start has the lock, so one that outlives us does not keep it; `checkout_update.py` waits for such a command itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.disk_sync import make_folder
from holdfast.errors import LeaseHeldError
from holdfast.locks import lock_within, open_lockable
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.system_errors import doing

WAIT_S = 30.0
"""How long a landing waits for another one. It takes seconds, unless somebody stopped it."""
_PID_BYTES_MAX = 20


def landing_lock_path(common_dir: Path) -> Path:
    """Return the file whose lock a landing holds. It stays: removing it could take it from the next holder."""
    return private_dir(common_dir) / "landing"


@contextmanager
def landing_lock(repo: Repository, wait_s: float = WAIT_S) -> Iterator[None]:
    """Keep every other landing in this repository out, after waiting for one that is under way.

    Raises LeaseHeldError if that takes longer than `wait_s`: its process may have been stopped. Not for use inside itself.
    """
    path = landing_lock_path(repo.common_dir)
    with doing("keep other landings out meanwhile", path):
        make_folder(path.parent)
        fd = open_lockable(path)
    try:
        with doing("keep other landings out meanwhile", path):
            if not lock_within(fd, wait_s):
                raise _held(fd)
        _sign(fd)
        yield
    finally:
        os.close(fd)


def _sign(fd: int) -> None:
    """Write down who holds the lock. It only serves the message of who is refused, so a full disk is no obstacle."""
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)


def _held(fd: int) -> LeaseHeldError:
    pid = os.pread(fd, _PID_BYTES_MAX, 0).decode("ascii", "replace")
    who = f" (process {pid})" if pid.isdecimal() else ""
    return LeaseHeldError(
        f"another command lands a result in this repository{who}",
        "Wait for its end, then run the command again. If it was stopped with Ctrl-Z, `fg` continues it.",
    )

"""The three kinds of file locks that Holdfast uses. The kernel frees each when its holder dies.

- An *open-file lock* belongs to an open file. A process that gets the file has the lock too: it can outlive
  the process that took it. Leases and slots are such locks.
- A *record lock* belongs to a process. No child inherits it, and it names its holder, so its pid cannot belong to a
  process that merely got the number later. A supervisor holds one for its whole life.
- A *folder lock* guards a file that is about to appear in the folder, for as long as that takes.

A leaf module without pathlib: every supervisor has it in its memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import LaunchError

_FLOCK = struct.Struct("@hhqqi0q")  # of 64-bit Linux: type, whence, start, length, pid
_POLL_S = 0.02
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_NOTHING = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


def open_lockable(path: str | os.PathLike[str]) -> int:
    """Open the file of an open-file lock, make it if it is missing, and return its descriptor. No program inherits it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(fd: int) -> bool:
    """Lock an open file at once, or return False if somebody else has it locked. It ends when the file is closed."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(fd: int) -> None:
    """End the lock of an open file, also for a process that was given the file."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _NOTHING)


def lock_within(fd: int, seconds: float) -> bool:
    """Lock an open file as soon as nobody else has it locked; return False if that takes longer. It ends as above."""
    deadline = time.monotonic() + seconds
    while not (locked := try_lock(fd)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return locked


def is_locked(fd: int) -> bool:
    """Tell whether another open file of the same path holds the lock at this moment."""
    kind, _ = _ask(fd, fcntl.F_OFD_GETLK)
    return kind != fcntl.F_UNLCK


@contextmanager
def folder_locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep out everybody else who locks this folder; wait for who is inside."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def try_folder_lock(folder: str | os.PathLike[str]) -> int | None:
    """Lock a folder at once and return a descriptor that holds it; None if somebody else does, or if it is gone or a link."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def hold_record_lock(path: str) -> int | None:
    """Take the record lock of a file and return its descriptor, or None when another process has it.

    The process must never open the file a second time: closing any descriptor of it would drop the lock.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


def record_lock_holder(path: str) -> int | None:
    """Return the pid of the process that holds the record lock, or None when nobody does. A link is not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    try:
        kind, pid = _ask(fd, fcntl.F_GETLK)
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else pid


def open_record_lock_holder(path: str) -> int | None:
    """Return a pidfd of the process that holds the record lock, or None when nobody does.

    The lock is read again once the pidfd is open: only a holder that did not change in between is returned.
    """
    while (pid := record_lock_holder(path)) is not None:
        if pid <= 0:
            raise LaunchError(f"{path} is held from another container", "run this where the agent runs")
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if record_lock_holder(path) == pid:
            return fd
        os.close(fd)
    return None


def _ask(fd: int, question: int) -> tuple[int, int]:
    """Return the type of a lock that keeps us from locking the file, and the pid of its holder."""
    kind, _whence, _start, _length, pid = _FLOCK.unpack(fcntl.fcntl(fd, question, _WHOLE_FILE))
    return kind, pid

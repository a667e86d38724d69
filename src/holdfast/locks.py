"""Locks that belong to an open file rather than to a process: the kernel frees them when the last holder closes it.

They follow the open file to whomever it is handed, so a lock can outlive the process that took it; and unlike an
`flock` they can be asked after without being taken. A leaf module: it imports nothing of ours.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from holdfast.errors import LaunchError

_FLOCK = struct.Struct("@hhqqi0q")
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def open_lockable(path: Path) -> int:
    """Open a lock's file, made if it is not there, and return its descriptor. No program we start inherits it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(fd: int) -> bool:
    """Lock an open file at once, or return False if somebody else has it locked. It ends when the file is closed."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(fd: int) -> bool:
    """Tell whether another open file of the same path holds the lock at this moment."""
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _WHOLE_FILE)
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != fcntl.F_UNLCK


_RECORD_LOCK = "hhlli4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


def hold_record_lock(path: str) -> int | None:
    """Take the lock and return its descriptor, or None when another process has it.

    The process must never open the file a second time: closing any descriptor of it would drop the lock.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def record_lock_holder(path: str) -> int | None:
    """Return the pid of the process that holds the lock, or None when nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(
            fd, fcntl.F_GETLK, struct.pack(_RECORD_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
    finally:
        os.close(fd)
    kind, _whence, _start, _length, pid = struct.unpack(_RECORD_LOCK, answer)
    return None if kind == fcntl.F_UNLCK else pid


def open_record_lock_holder(path: str) -> int | None:
    """Return a pidfd of the holder, or None when nobody holds the lock.

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

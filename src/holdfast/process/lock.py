"""The lock a supervisor holds for its whole life: certain proof that it lives, and of which process it is.

A POSIX record lock is dropped by the kernel when its process ends, is not inherited by children, and names its
holder. A pid read from it therefore cannot belong to a process that merely got the number later.
"""

from __future__ import annotations

import fcntl
import os
import struct

from holdfast.errors import LaunchError

_FLOCK = "hhlli4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


def hold(path: str) -> int | None:
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


def holder(path: str) -> int | None:
    """Return the pid of the process that holds the lock, or None when nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(fd)
    kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else pid


def open_holder(path: str) -> int | None:
    """Return a pidfd of the holder, or None when nobody holds the lock.

    The lock is read again once the pidfd is open: only a holder that did not change in between is returned.
    """
    while (pid := holder(path)) is not None:
        if pid <= 0:
            raise LaunchError(f"{path} is held from another container", "run this where the agent runs")
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if holder(path) == pid:
            return fd
        os.close(fd)
    return None

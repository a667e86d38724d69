"""Locks that belong to an open file rather than to a process: the kernel frees them when the last holder closes it.

They follow the open file to whomever it is handed, so a lock can outlive the process that took it; and unlike an
`flock` they can be asked after without being taken. A leaf module: it imports nothing of ours.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

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

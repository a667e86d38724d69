"""Waits for changes of files in a folder: the kernel tells (inotify), so that nobody polls.

Where the kernel will not, because its watches are used up, the files are looked at several times a second instead.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_READ_MAX = 65536
_LOOK_S = 0.05
_SOON_S = 0.005

_Stamp = tuple[tuple[int, int, int], ...]


class FileWatch:
    """Watches a file and those beside it. What changed is not told: who waits looks for itself.

    The kernel tells when a file is written, not when the writer has synced it and counts it as done. So for a while after a
    change, who waits is let look again, sooner first and then later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = _watch_folder(path.parent)
        self._seen = self._stamp()
        self._again_s = 0.0

    def wait(self, timeout_s: float) -> None:
        """Return as soon as something may have changed since the last call, or after a time."""
        if self._fd is None:
            self._look(time.monotonic() + timeout_s)
        elif select.select([self._fd], [], [], min(timeout_s, self._again_s or timeout_s))[0]:
            os.read(self._fd, _READ_MAX)
            self._again_s = _SOON_S
        else:
            self._again_s = self._again_s * 2 if self._again_s < timeout_s else 0.0

    def _look(self, end: float) -> None:
        while (stamp := self._stamp()) == self._seen and (left := end - time.monotonic()) > 0:
            time.sleep(min(_LOOK_S, left))
        self._seen = stamp

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _stamp(self) -> _Stamp:
        """Return what changes with the file and with those whose names begin with its name."""
        found = []
        for path in sorted(self._path.parent.glob(f"{self._path.name}*")):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return tuple(found)


def _watch_folder(folder: Path) -> int | None:
    """Return a descriptor that becomes readable when a file of the folder changes; None if the kernel gives none."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(folder), _MODIFY | _MOVED_TO | _CREATE) < 0:
        os.close(fd)
        return None
    return fd

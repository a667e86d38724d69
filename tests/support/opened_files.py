"""Tells which files of a folder were opened, as the kernel saw it: no open is too short to be noticed."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from types import TracebackType

_OPEN = 0x20
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 65536


class OpenedFiles:
    """What is opened in a folder from now on; the folder itself has an empty name."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self._fd, os.fsencode(folder), _OPEN) >= 0

    def __enter__(self) -> OpenedFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def names(self) -> list[str]:
        """Return the names of what was opened since the last call."""
        try:
            seen = os.read(self._fd, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        found = list[str]()
        while seen:
            length = _HEADER.unpack_from(seen)[-1]
            found.append(os.fsdecode(seen[_HEADER.size : _HEADER.size + length].rstrip(b"\0")))
            seen = seen[_HEADER.size + length :]
        return found

"""The mounts below a folder. Whoever deletes the folder must leave them: what is mounted there is somebody's own.

A bind mount has the same device number as what is around it, so the kernel's table is asked. Supervisors load this: it must
import nothing heavy.
"""

from __future__ import annotations

import errno
import os

_TABLE = "/proc/self/mountinfo"
_PLACE = 4
"""Which field of a line says where something is mounted, counted from 0."""


class MountedError(PermissionError):
    """A folder that is to be deleted holds a mount. Nothing of it was deleted."""


def mounts_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return where something is mounted in a folder, or on it. Links above the folder are followed, one in its place is not."""
    above, name = os.path.split(os.path.abspath(folder))  # noqa: PTH100 - pathlib is too heavy for the supervisor
    root = os.fsencode(os.path.join(os.path.realpath(above), name))  # noqa: PTH118
    with open(_TABLE, "rb") as table:  # noqa: PTH123
        places = [_unescaped(line.split(b" ")[_PLACE]) for line in table]
    return sorted(os.fsdecode(place) for place in places if place == root or place.startswith(root + b"/"))


def require_no_mounts(folder: str | os.PathLike[str]) -> None:
    """Raise MountedError if something is mounted in a folder, or on it."""
    if found := mounts_in(folder):
        raise MountedError(errno.EPERM, "something is mounted there", found[0])


def _unescaped(place: bytes) -> bytes:
    """Return a path as it is: the table has octal numbers for spaces, line ends and backslashes."""
    return place.decode("unicode_escape").encode("latin-1")

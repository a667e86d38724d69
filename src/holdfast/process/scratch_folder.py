"""The scratch folder of a launch whose sandbox cannot give it an empty `/tmp` and home: made before it, removed after it.

Supervisors load this, so it must import nothing heavy. Whatever an agent leaves in there is removed: closed folders, and paths
that are too long to be named. So each folder is emptied relative to its descriptor, and what lies deeper is moved up first.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast.mounts import require_no_mounts

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def home_in(scratch: str) -> str:
    """The home of a launch that has no private one of its own."""
    return f"{scratch}/home"


def temporary_in(scratch: str) -> str:
    """The folder for a launch's temporary files."""
    return f"{scratch}/tmp"  # noqa: S108 - a folder of its own


def make_scratch(scratch: str) -> None:
    """Make an empty scratch folder, also in the place of one that a power cut left. Raises OSError if that fails."""
    remove_scratch(scratch)
    for folder in (scratch, home_in(scratch), temporary_in(scratch)):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is too heavy for the supervisor


def remove_scratch(scratch: str) -> None:
    """Remove a scratch folder that nobody uses any more. Idempotent. What cannot be removed stays: it is nobody's work."""
    with suppress(OSError):
        if _is_unlinked(scratch):
            return
        require_no_mounts(scratch)
        root = _open(scratch)
        try:
            while names := os.listdir(root):  # noqa: PTH208
                for name in names:
                    _remove(name, root)
        finally:
            os.close(root)
        os.rmdir(scratch)  # noqa: PTH106


def _remove(name: str, root: int) -> None:
    """Remove a file, or a folder whose own folders are moved into the root before."""
    if _is_unlinked(name, root):
        return
    folder = _open(name, root)
    try:
        for inner in os.listdir(folder):  # noqa: PTH208
            if not _is_unlinked(inner, folder):
                os.chmod(inner, 0o700, dir_fd=folder)  # who moves a folder must be able to write to it
                os.rename(inner, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=root)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=root)


def _is_unlinked(name: str, folder: int | None = None) -> bool:
    """Remove a file or link; tell whether it was one, and not a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _open(name: str, root: int | None = None) -> int:
    """Open a folder, and make it one that we can empty."""
    os.chmod(name, 0o700, dir_fd=root)
    return os.open(name, _FOLDER, dir_fd=root)

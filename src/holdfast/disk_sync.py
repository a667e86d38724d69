"""Waits until files, and the folders that name them, are on disk: what is written must survive a power cut.

Syncing a file makes its content durable, not its name. A name that was made, moved or removed is durable once its
folder was synced, and so are the folders above it. A sync that fails raises OSError, like a failed write: nothing may be
acknowledged after it.

A leaf module without pathlib: every supervisor has it in its memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Collection
from contextlib import suppress
from errno import EINVAL
from functools import lru_cache

TYPE_CHECKING = False  # the module `typing` would weigh on every supervisor
if TYPE_CHECKING:
    from concurrent.futures import Executor

_THREADS = 32
_SERIALLY = 3
_MANY = 256
_STATFS_WORDS = 64
# The file systems whose syncfs(2) is known to wait for data and names: ext4, XFS, Btrfs, F2FS, and tmpfs, which has
# no disk. Others may answer without syncing anything; FUSE does.
_WHOLE_SYNCS = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
_FS_IOC_GETVERSION = 0x80087601

PRIVATE = 0o700
"""The mode of a folder that is for this user only."""

Identity = tuple[int, int, bytes]
"""A file for as long as it exists: its device, its inode, and how often that inode was used again."""


def sync(path: str | os.PathLike[str]) -> None:
    """Make the content of a file, or what was made, renamed or removed in a folder, survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != EINVAL:  # a file system that cannot sync folders: nobody could do more
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        os.close(fd)


def sync_if_there(path: str | os.PathLike[str]) -> None:
    """Sync a file or folder. One that somebody removed needs no sync: the folder above knows."""
    try:
        sync(path)
    except FileNotFoundError:
        return


def sync_all(paths: Collection[str], on: str) -> None:
    """Sync files and folders, all of them on the file system of the folder `on`.

    Those that are gone, or that we may not read, are passed over. It is done side by side, because a disk writes many files in
    about the time of one. Where it can be trusted, one sync of the whole file system replaces hundreds of them.
    """
    if len(paths) > _MANY and sync_filesystem(on):
        return
    if len(paths) <= _SERIALLY:
        for path in paths:
            _sync_if_readable(path)
        return
    for _ in _threads().map(_sync_if_readable, paths):
        continue


def _sync_if_readable(path: str) -> None:
    with suppress(PermissionError):
        sync_if_there(path)


@lru_cache(maxsize=1)
def _threads() -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # supervisors never get here, and need not load it

    return ThreadPoolExecutor(_THREADS, "disk-sync")


def sync_filesystem(folder: str) -> bool:
    """Sync all that anybody wrote to the file system of `folder`; False where that cannot be trusted."""
    library = ctypes.CDLL(None, use_errno=True)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = (ctypes.c_long * _STATFS_WORDS)()
        if library.fstatfs(fd, found) != 0 or found[0] not in _WHOLE_SYNCS:
            return False
        if library.syncfs(fd) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), folder)
        return True
    finally:
        os.close(fd)


def make_folder(folder: str | os.PathLike[str], mode: int = 0o777) -> None:
    """Make a folder, and the missing ones above it, so that a power cut does not take it away. Idempotent.

    Synced even if it was there before: whoever made it may have been killed before that.
    """
    path = os.fspath(folder)
    above = os.path.dirname(path) or "."  # noqa: PTH120 - pathlib is too heavy for the supervisor
    if not os.path.isdir(path):  # noqa: PTH112
        if not os.path.isdir(above):  # noqa: PTH112
            make_folder(above, mode)
        with suppress(FileExistsError):  # another process was faster
            os.mkdir(path, mode)  # noqa: PTH102
    sync(above)


class DurableNames:
    """Remembers which files and folders have names that are on disk, so that the folders above are synced only once."""

    def __init__(self) -> None:
        self._known: set[Identity] = set()

    def unknown(self, paths: Collection[str]) -> list[Identity | None]:
        """Return what is not known of files and folders. None stands for one that is gone or cannot be told apart."""
        return [found for found in map(_identity, paths) if found not in self._known]

    def remember(self, found: Collection[Identity | None]) -> None:
        """Remember files and folders whose names have been synced since they were unknown."""
        self._known.update(identity for identity in found if identity is not None)

    def sync_name(self, path: str, top: str) -> None:
        """Make the name of a file or folder durable, and those of the folders above it up to `top`.

        Also right for one that was removed: then its absence is durable.
        """
        synced: list[Identity | None] = []
        while len(path) > len(top) and (found := self.unknown([path])):
            path = path.rpartition("/")[0]
            sync_if_there(path)
            synced += found
        self.remember(synced)


def _identity(path: str) -> Identity | None:
    """Return what tells a file from all others, also from a later one with the same path and inode."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino, fcntl.ioctl(fd, _FS_IOC_GETVERSION, bytes(8))
    except OSError:
        return None  # this file system does not count how often an inode was used
    finally:
        os.close(fd)

"""A real FUSE file system that shows a folder and lacks what it is told to lack: pipes, links, modes, locks, mmap.

`python -m tests.support.limited_filesystem FOLDER MOUNT LACKS…` serves it until it is unmounted. libfuse answers ENOSYS
for an operation that is not there, and without a lock operation the kernel keeps the locks itself.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import eventually

LACKS = ("fifo", "hardlink", "symlink", "chmod", "lock", "mmap")
_STATUS = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino", "st_blocks")
_TIMES = ("st_atime", "st_mtime", "st_ctime")
_ROOM = (
    "f_bsize",
    "f_frsize",
    "f_blocks",
    "f_bfree",
    "f_bavail",
    "f_files",
    "f_ffree",
    "f_favail",
    "f_namemax",
)


class Mirror:
    """The operations that every such file system has: those of the folder behind it."""

    use_ns = True

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def getattr(self, path: str, handle: int | None = None) -> dict[str, int]:
        """Return the status of a file."""
        found = os.lstat(self.folder + path) if handle is None else os.fstat(handle)
        times = {name: getattr(found, f"{name}_ns") for name in _TIMES}
        return {name: getattr(found, name) for name in _STATUS} | times

    def readdir(self, path: str, handle: int) -> list[str]:
        """Return the names in a folder."""
        return [".", "..", *os.listdir(self.folder + path)]

    def create(self, path: str, mode: int, _info: Any = None) -> int:
        """Make a file."""
        return os.open(self.folder + path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path: str, flags: int) -> int:
        """Open a file. The kernel has worked out where a write that appends goes."""
        return os.open(self.folder + path, flags & ~os.O_APPEND)

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        """Read from a file."""
        return os.pread(handle, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        """Write to a file."""
        return os.pwrite(handle, data, offset)

    def truncate(self, path: str, length: int, handle: int | None = None) -> None:
        """Set the length of a file."""
        os.truncate(self.folder + path if handle is None else handle, length)

    def fsync(self, path: str, datasync: int, handle: int) -> None:
        """Sync a file."""
        os.fsync(handle)

    def release(self, path: str, handle: int) -> None:
        """Close a file."""
        os.close(handle)

    def mkdir(self, path: str, mode: int) -> None:
        """Make a folder."""
        os.mkdir(self.folder + path, mode)

    def rmdir(self, path: str) -> None:
        """Remove a folder."""
        os.rmdir(self.folder + path)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self.folder + path)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        os.rename(self.folder + old, self.folder + new)

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        """Set the time stamps of a file."""
        os.utime(self.folder + path, ns=times, follow_symlinks=False)

    def statfs(self, path: str) -> dict[str, int]:
        """Return how much room there is."""
        found = os.statvfs(self.folder + path)
        return {name: getattr(found, name) for name in _ROOM}


class Fifos:
    """Has pipes."""

    folder: str

    def mknod(self, path: str, mode: int, device: int) -> None:
        """Make a pipe."""
        os.mknod(self.folder + path, mode, device)


class Hardlinks:
    """Has hard links."""

    folder: str

    def link(self, target: str, source: str) -> None:
        """Give a file a second name."""
        os.link(self.folder + source, self.folder + target)


class Symlinks:
    """Has symbolic links."""

    folder: str

    def symlink(self, target: str, source: str) -> None:
        """Make a link."""
        os.symlink(source, self.folder + target)

    def readlink(self, path: str) -> str:
        """Return where a link points."""
        return os.readlink(self.folder + path)


class Modes:
    """Keeps the modes of files."""

    folder: str

    def chmod(self, path: str, mode: int) -> None:
        """Set the mode of a file."""
        os.chmod(self.folder + path, mode)


class NoLocks:
    """Wants to keep the locks itself, and has none to give."""

    def lock(self, *_asked: object) -> None:
        """Refuse a lock."""
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    flock = lock


_PARTS = {"fifo": Fifos, "hardlink": Hardlinks, "symlink": Symlinks, "chmod": Modes}


def serve(folder: str, mount: str, lacks: list[str]) -> None:
    """Mount the file system and answer the kernel until it is unmounted."""
    from mfusepy import FUSE, Operations  # loads libfuse, which may not be there

    parts = [part for name, part in _PARTS.items() if name not in lacks]
    kind = type("Limited", (*parts, *([NoLocks] if "lock" in lacks else []), Mirror, Operations), {})
    FUSE(
        kind(folder),
        mount,
        foreground=True,
        nothreads=True,
        fsname="limited",
        subtype="limited",
        default_permissions=True,
        hard_remove=True,
        direct_io="mmap" in lacks,
    )


@dataclass(frozen=True, slots=True)
class LimitedFilesystem:
    """A mounted one: where it is, and the process that answers for it."""

    root: Path
    server: subprocess.Popen[str]

    def die(self) -> None:
        """Kill the process that answers: the files stay in their places, and nobody can reach them any more."""
        self.server.kill()
        self.server.wait()


@contextmanager
def limited_filesystem(behind: Path, *lacks: str) -> Iterator[LimitedFilesystem]:
    """Show a folder through a file system without what `lacks` names. Skips the test where FUSE cannot be had."""
    assert set(lacks) <= set(LACKS)
    mount = behind.with_name("mount")
    mount.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.limited_filesystem", str(behind), str(mount), *lacks],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    mounted = False
    try:
        eventually(lambda: mount.is_mount() or server.poll() is not None, "the file system is mounted")
        if server.poll() is not None:
            assert server.stderr is not None
            pytest.skip(f"FUSE cannot be had here: {server.stderr.read().strip()[-300:]}")
        mounted = True
        yield LimitedFilesystem(mount, server)
    finally:
        if mounted:
            _unmount(mount)
        server.kill()  # a process that a failed test left may keep it busy for ever
        server.communicate()


def _unmount(mount: Path) -> None:
    """Take the file system away, also from under a process that still uses it."""
    argv = ["umount", "--lazy"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    subprocess.run([*argv, str(mount)], check=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3:])

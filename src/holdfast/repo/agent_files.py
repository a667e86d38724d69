"""Files in a folder that an agent writes: no link is followed on the way, and nothing but a regular file is opened.

An agent can put a link in the place of any folder, also while we look, and what it leads to is the user's. So each folder
is opened relative to the one above it. Pipes are not even opened: that would release whoever waits for a reader.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from holdfast.repo.files import write_atomically

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, *parts: str, make: bool = False) -> Iterator[int]:
    """Yield the descriptor of a folder below `root`, made on request. Raises OSError if a link or a file is in the way."""
    fd = os.open(root, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
            above, fd = fd, os.open(part, _FOLDER, dir_fd=fd)
            os.close(above)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[int]:
    """Yield the descriptor of a regular file in an opened folder. Raises OSError if it is anything else."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise FileNotFoundError(name)
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def read_plain(root: Path, name: str, bytes_max: int) -> bytes:
    """Return the content of the file `root/name`; nothing if it is larger, cannot be read, or is behind a link."""
    *folders, last = name.split("/")
    try:
        with opened_folder(root, *folders) as folder, opened_file(folder, last) as fd:
            is_fit = os.fstat(fd).st_size <= bytes_max
            return os.fdopen(fd, "rb", closefd=False).read(bytes_max) if is_fit else b""
    except OSError:
        return b""


def write_plain(root: Path, name: str, content: bytes) -> None:
    """Replace the file `root/name` as a whole, and make missing folders above it. Raises OSError if a link is in the way."""
    *folders, last = name.split("/")
    with opened_folder(root, *folders, make=True) as folder:
        write_atomically(Path(f"/proc/self/fd/{folder}", last), content)


def plain_files(root: Path, folder: str, entries_max: int) -> list[str]:
    """Return the names, relative to `root`, of the regular files in a folder and below. No more entries than that are read."""
    pending, found, left = [folder], list[str](), entries_max
    while pending and left > 0:
        parent = pending.pop()
        with (
            suppress(OSError),
            opened_folder(root, *parent.split("/")) as fd,
            os.scandir(fd) as entries,
        ):
            for entry in islice(entries, left):
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{parent}/{entry.name}")
                elif entry.is_file(follow_symlinks=False):
                    found.append(f"{parent}/{entry.name}")
    return found

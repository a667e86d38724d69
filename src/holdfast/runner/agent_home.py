"""The home of an agent in a sandbox: a private folder with copies of the few files of the user's home that it needs.

Its login and settings are copied, because agents rewrite them. Its sessions stay there, so a later attempt of the same task
can resume one. An agent may have changed anything in there, also put links into it: files are written relative to open
folders, and no link is followed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.mounts import require_no_mounts
from holdfast.repo.files import open_up

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_BYTES_MAX = 4 * 1024 * 1024


def furnish_home(home: Path, users_home: Path, files: Iterable[Path]) -> None:
    """Make an agent's home and copy those of the files there that the user's home has. Safe to repeat.

    A copy that is as new as the original stays: the agent may have renewed its login in the meantime.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    open_up(home)  # the attempt before may have closed it
    for file in files:
        if file.is_relative_to(users_home) and _is_fit(file):
            _copy(file, home, file.relative_to(users_home).parts)


def _is_fit(file: Path) -> bool:
    try:
        found = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _FILE_BYTES_MAX and os.access(file, os.R_OK)


def _copy(file: Path, home: Path, parts: tuple[str, ...]) -> None:
    with _folder(home, parts[:-1]) as folder:
        name = parts[-1]
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_mtime_ns >= file.stat().st_mtime_ns:
                return
            _remove(name, found, folder)
        with file.open("rb") as source:
            fd = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            with os.fdopen(fd, "wb") as copy:
                shutil.copyfileobj(source, copy)


@contextmanager
def _folder(home: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """Yield the descriptor of a folder in a home. It is made, also in the place of whatever else has its name."""
    fd = os.open(home, _FOLDER)
    try:
        for name in parts:
            inner = _open_or_make(name, fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _open_or_make(name: str, within: int) -> int:
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=within, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return os.open(name, _FOLDER, dir_fd=within)
        _remove(name, found, within)
    os.mkdir(name, 0o700, dir_fd=within)
    return os.open(name, _FOLDER, dir_fd=within)


def _remove(name: str, found: os.stat_result, within: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        require_no_mounts(f"/proc/self/fd/{within}/{name}")
        shutil.rmtree(name, dir_fd=within)
    else:
        os.unlink(name, dir_fd=within)

"""Folders that an agent may still change, opened by descriptor: a link that takes the place of one leads nobody elsewhere.

Whoever looks at a path and then acts on it acts on what is there by then. What a left-over process of an agent puts there
can lead to the user's files. So each folder is opened relative to the one above it, and what is changed or deleted is named
relative to that. Supervisors load this: it must import nothing heavy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_up(name: str | os.PathLike[str], above: int | None = None) -> Iterator[int]:
    """Yield the descriptor of a folder to which its owner has full access from now on. Raises OSError if it is a link.

    `above` is the descriptor of the folder that it is in.
    """
    place = os.open(name, _FOLDER | os.O_PATH, dir_fd=above)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRWXU)  # noqa: PTH101 - pathlib is too heavy for the supervisor
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def opened_up_below(root: str | os.PathLike[str], parts: Sequence[str]) -> Iterator[int]:
    """Yield the descriptor of a folder below `root`, whatever the length of its path. Those above it can be entered by now."""
    if not parts:
        with opened_up(root) as folder:
            yield folder
        return
    above = os.open(root, _FOLDER | os.O_PATH)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER | os.O_PATH, dir_fd=above)
            os.close(above)
            above = below
        with opened_up(parts[-1], above) as folder:
            yield folder
    finally:
        os.close(above)


def folders_in(folder: int) -> list[str]:
    """Return the names of the folders in an opened one. Links are none."""
    with os.scandir(folder) as found:
        return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]


def files_in(folder: int) -> list[str]:
    """Return the names of all else in an opened folder."""
    with os.scandir(folder) as found:
        return [entry.name for entry in found if not entry.is_dir(follow_symlinks=False)]

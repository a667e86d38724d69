"""Files that would block git forever: a pipe or a device in place of a file that git opens by itself.

In a work tree git opens its rule files wherever it finds them, and the files of nested repositories. It cannot store a
pipe, a socket or a device, so nothing is lost if we remove one there. Pipes of other names are an agent's own business.

A git directory has no place for such files at all, but it is the user's: they are named, and removed on request.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.files import open_up

_RULE_FILES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
_NESTED = ".git"
_PATH_MAX = 4096
_OUT_OF_REACH = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
_MANY_FILES = frozenset({"objects", "lfs", "modules"})
_MONITOR = "fsmonitor--daemon.ipc"  # the socket of git's own file system monitor, which git opens as one


def remove_blocking_files(root: Path) -> tuple[str, ...]:
    """Remove the files that git would wait for, and return a sentence about each. Links are not followed.

    Unreadable directories are skipped, as git does. Idempotent.
    """
    found = list(blocking_files(root))
    for path in found:
        _unlink(path)
    return tuple(
        f"{path.relative_to(root)} was no regular file; git would wait for it, so it was removed."
        for path in found
    )


def refuse_blocking_files(root: Path) -> None:
    """Raise RepositoryError if git would wait for a file below `root`, which is somebody else's: nothing is removed."""
    if path := next(blocking_files(root), None):
        raise RepositoryError(
            f"{path} is no regular file; git would wait for it.", "Remove it, then try again."
        )


def blocking_files(root: Path) -> Iterator[Path]:
    """Yield the files below `root` that git would open although they are no regular files."""
    pending = [(str(root), False)]
    while pending:
        folder, in_nested = pending.pop()
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, in_nested or entry.name == _NESTED))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                continue
            elif in_nested or entry.name in _RULE_FILES:
                yield Path(entry.path)


def too_deep_folders(root: Path) -> list[str]:
    """Return the folders below `root` whose path is longer than the system takes, relative to it."""
    pending, found = [str(root)], list[str]()
    while pending:
        folder = pending.pop()
        below = [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
        found += [os.path.relpath(path, root) for path in below if len(os.fsencode(path)) >= _PATH_MAX]
        pending += [path for path in below if len(os.fsencode(path)) < _PATH_MAX]
    return found


def refuse_blocking_git_files(git_dir: Path) -> None:
    """Raise RepositoryError if git would wait for a file of a git directory. Objects are not looked at: there are many."""
    if path := next(blocking_git_files(git_dir, with_objects=False), None):
        raise RepositoryError(
            f"{path} is a pipe, a socket or a device; git would wait for it.",
            "`holdfast doctor --fix` removes it; then run the command again.",
        )


def remove_blocking_git_files(git_dir: Path) -> list[str]:
    """Remove what git would wait for from a git directory; return a sentence about each. None of it has a content."""
    found = list(blocking_git_files(git_dir))
    for path in found:
        _unlink(path)
    return [f"Removed {path}: it was no regular file, and git would wait for it." for path in found]


def blocking_git_files(git_dir: Path, *, with_objects: bool = True) -> Iterator[Path]:
    """Yield what is neither a regular file nor a folder in a git directory, also behind a link."""
    pending = [str(git_dir)]
    while pending:
        folder = pending.pop()
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                if with_objects or folder != str(git_dir) or entry.name not in _MANY_FILES:
                    pending.append(entry.path)
            elif not (entry.is_file() or entry.is_dir() or entry.name == _MONITOR) and _leads_to_something(
                entry
            ):
                yield Path(entry.path)


def _leads_to_something(entry: os.DirEntry[str]) -> bool:
    """Tell whether a link, if it is one, has a target. One that has none blocks nothing."""
    return os.path.exists(entry.path)  # noqa: PTH110 - plain strings, for there may be very many


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        # A live agent may have removed it since; what we cannot reach, git cannot reach either.
        if error.errno in _OUT_OF_REACH:
            return []
        raise


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        open_up(path.parent)
        path.unlink(missing_ok=True)

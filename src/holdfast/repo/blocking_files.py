"""Files that would block git: a pipe, a device or a file beyond all measure in place of a file that git opens by itself.

In a work tree git opens its rule files wherever it finds them, and the files of nested repositories. It cannot store a
pipe, a socket or a device, so nothing is lost if we remove one there. Pipes of other names are an agent's own business.
Such a file can also have terabytes without occupying any; git would read it whole, and end for want of memory.

A git directory has no place for such files at all, but it is the user's: they are named, and removed on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.files import GIT_FILE_BYTES_MAX, entries, open_up

_RULE_FILES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
_RULES_BYTES_MAX = 1024 * 1024
_NESTED = ".git"
_LARGE_FILES = ("objects", "lfs")
_PATH_MAX = 4096
_MANY_FILES = frozenset({"objects", "lfs", "modules"})
_MONITOR = "fsmonitor--daemon.ipc"  # the socket of git's own file system monitor, which git opens as one


def remove_blocking_files(root: Path) -> tuple[str, ...]:
    """Remove the files that git would wait for, or could not read; return a sentence about each. Links are not followed.

    Unreadable directories are skipped, as git does. Idempotent.
    """
    found = [(path, _why_blocking(path)) for path in blocking_files(root, by_agents=True)]
    for path, _ in found:
        _unlink(path)
    return tuple(f"{path.relative_to(root)} {why}, so it was removed." for path, why in found)


def refuse_blocking_files(root: Path) -> None:
    """Raise RepositoryError if git would wait for a file below `root`, which is somebody else's: nothing is removed."""
    if path := next(blocking_files(root), None):
        raise RepositoryError(
            f"{path} is no regular file; git would wait for it.", "Remove it, then try again."
        )


def blocking_files(root: Path, *, by_agents: bool = False) -> Iterator[Path]:
    """Yield the files below `root` that git would open although they are no regular files.

    Where agents write, also those that are too large for git to read.
    """
    pending = [(str(root), "")]
    while pending:
        folder, kind = pending.pop()
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, _kind_below(kind, entry.name)))
            elif entry.is_symlink() or not (kind or entry.name in _RULE_FILES):
                continue
            elif not entry.is_file(follow_symlinks=False) or (by_agents and _is_too_large(entry, kind)):
                yield Path(entry.path)


def _kind_below(kind: str, name: str) -> str:
    """Return whether a folder belongs to a git directory, or there to the objects, which git does not read as a whole."""
    if kind == _NESTED and name in _LARGE_FILES:
        return name
    return kind or (name if name == _NESTED else "")


def _is_too_large(entry: os.DirEntry[str], kind: str) -> bool:
    """Tell whether a file that git reads as a whole is larger than any honest one."""
    most = GIT_FILE_BYTES_MAX if kind else _RULES_BYTES_MAX
    try:
        return kind not in _LARGE_FILES and entry.stat(follow_symlinks=False).st_size > most
    except FileNotFoundError:
        return False  # a live agent removed it


def _why_blocking(path: Path) -> str:
    is_regular = path.is_file() and not path.is_symlink()
    return "was too large for git to read" if is_regular else "was no regular file; git would wait for it"


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
        return entries(folder)
    except PermissionError:  # what we cannot reach, git cannot reach either
        return []


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        open_up(path.parent)
        path.unlink(missing_ok=True)

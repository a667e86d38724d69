"""Files that would block git forever: a pipe in place of a file that git opens by itself.

Git opens its rule files wherever it finds them, and the files of nested repositories. It cannot store a pipe, a socket
or a device, so nothing is lost if we remove one there. Pipes of other names are an agent's own business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.files import open_up

_RULE_FILES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
_NESTED = ".git"


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


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # A live agent may have removed it since; what we may not read, git may not read either.
        return []


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        open_up(path.parent)
        path.unlink(missing_ok=True)

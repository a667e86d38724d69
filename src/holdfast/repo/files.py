"""Writing and removing files the careful way. What the files mean is known only to the callers."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole. Leaves it alone when it already holds `content`."""
    if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".holdfast-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(path)


def copy_atomically(source: Path, target: Path) -> None:
    """Replace `target` by a copy of `source` with the same time stamps.

    The time stamps matter for an index: git compares them with those of files to know which ones it must re-read.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".holdfast-")
    os.close(handle)
    shutil.copy2(source, name)
    Path(name).replace(target)


def link_atomically(link: Path, target: Path) -> None:
    """Make `link` point to `target`. Leaves it alone when it already does; two processes may do it at once."""
    if link.is_symlink() and link.readlink() == target:
        return
    if is_plain_directory(link):
        remove(link)
    folder = Path(tempfile.mkdtemp(dir=link.parent, prefix=".holdfast-"))
    (folder / link.name).symlink_to(target)
    (folder / link.name).replace(link)
    folder.rmdir()


def is_plain_directory(path: Path) -> bool:
    """Tell whether `path` itself is a directory, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove(path: Path) -> None:
    """Delete a file, link or directory tree; links are never followed. Nothing happens if it is gone already."""
    if is_plain_directory(path):
        shutil.rmtree(path, onerror=_unlock_and_retry)
    else:
        path.unlink(missing_ok=True)


def make_writable(root: Path) -> None:
    """Give the owner write access to every directory below `root`, as some package caches take it away."""
    for folder, _, _ in os.walk(root):
        Path(folder).chmod(0o755)


def _unlock_and_retry(call: Callable[..., object], name: str, _problem: object) -> None:
    path = Path(name)
    if not os.path.lexists(path):
        return
    path.parent.chmod(0o755)
    if is_plain_directory(path):
        path.chmod(0o755)
        shutil.rmtree(path)
    else:
        call(name)

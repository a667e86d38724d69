"""Writing and removing files the careful way. What the files mean is known only to the callers."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

_DRAFT = ".holdfast-"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole. Leaves it alone when it already holds `content`."""
    if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=draft_prefix())
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
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=draft_prefix())
    os.close(handle)
    shutil.copy2(source, name)
    Path(name).replace(target)


def link_atomically(link: Path, target: Path) -> None:
    """Make `link` point to `target`. Leaves it alone when it already does; two processes may do it at once."""
    if link.is_symlink() and link.readlink() == target:
        return
    if is_plain_directory(link):
        remove(link)
    folder = Path(tempfile.mkdtemp(dir=link.parent, prefix=draft_prefix()))
    (folder / link.name).symlink_to(target)
    (folder / link.name).replace(link)
    folder.rmdir()


def draft_prefix() -> str:
    """Return how the name of a file begins that this process is still writing: it tells whose it is."""
    return f"{_DRAFT}{os.getpid()}-"


def abandoned_drafts(folder: Path) -> list[Path]:
    """Return the unfinished files in `folder` whose writer is dead. Nobody will ever finish them."""
    drafts = folder.glob(f"{_DRAFT}*-*")
    return sorted(path for path in drafts if not Path("/proc", path.name.split("-")[1]).exists())


def is_plain_directory(path: Path) -> bool:
    """Tell whether `path` itself is a directory, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_there(root: Path, path: Path) -> bool:
    """Tell whether something exists at this very path below `root`, not behind a link in place of a directory."""
    folders = path.parents[: len(path.parts) - len(root.parts) - 1]
    return os.path.lexists(path) and not any(folder.is_symlink() for folder in folders)


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

"""Writes and removes files so that a crash leaves no partial file. Callers know what the files mean.

What must not be lost to a power cut is written by `write_durably`. After `write_atomically` and a crash one finds the new
file or the old one, each whole; a power cut may leave it empty or torn. It is for files that can be made again.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.boot import is_alive, own_process
from holdfast.disk_sync import make_folder, sync
from holdfast.folders import files_in, folders_in, opened_up, opened_up_below
from holdfast.mounts import MountedError, mounts_in, require_no_mounts

GIT_FILE_BYTES_MAX = 256 * 1024 * 1024
"""More than any file of git has that is read as a whole: an index of a million files has half of it."""
_DRAFT = ".holdfast-"
_PATH_MAX = 4096
_OUT_OF_REACH = (PermissionError, FileNotFoundError, NotADirectoryError)
"""It belongs to another user, or an agent that is alive removed it or put something else there."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file as a whole, and make missing folders above it. It is on disk, under its name, when this returns."""
    make_folder(path.parent)
    if holds(path, content):
        sync(path)  # its writer may have been killed before that
    else:
        _replace(path, content, synced=True)
    sync(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole. If it already holds `content`, nothing happens; a failure leaves no draft."""
    if not holds(path, content):
        _replace(path, content, synced=False)


def _replace(path: Path, content: bytes, *, synced: bool) -> None:
    # The mode is given here and never changed later: some file systems refuse that.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with _draft_of(path) as draft, os.fdopen(os.open(draft, flags, 0o644), "wb") as file:
        file.write(content)
        file.flush()
        if synced:
            os.fsync(file.fileno())


@contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """Yield the name of a draft, which then replaces `path`. A failure leaves no draft and names `path`."""
    draft = path.with_name(f"{draft_prefix()}{os.urandom(4).hex()}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        # A full disk must not litter the user's folders as well, and the message must say which file it was.
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if error.filename in (None, str(draft)) or error.filename2 == str(draft):
            error.filename, error.filename2 = str(path), None
        raise


def holds(path: Path, content: bytes) -> bool:
    """Tell whether `path` is a plain file that we may read and that has exactly this content."""
    return (
        not path.is_symlink()
        and path.is_file()
        and path.stat().st_size == len(content)
        and os.access(path, os.R_OK)
        and path.read_bytes() == content
    )


def read_regular(path: Path) -> bytes:
    """Return what a regular file holds, also behind a link; nothing if it is absent, unreadable or anything else.

    A pipe that an agent put in its place would block a plain read forever; a file of terabytes, which occupies nothing,
    would take all memory.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            is_fit = stat.S_ISREG(found.st_mode) and found.st_size <= GIT_FILE_BYTES_MAX
            return file.read() if is_fit else b""
    except OSError:
        return b""


def copy_atomically(source: Path, target: Path) -> None:
    """Replace `target` by a copy of `source` with the same time stamps.

    The time stamps matter for an index: git compares them with those of files to know which ones it must re-read.
    """
    with _draft_of(target) as draft:
        shutil.copyfile(source, draft)
        found = source.stat()
        os.utime(draft, ns=(found.st_atime_ns, found.st_mtime_ns))


def link_atomically(link: Path, target: Path) -> None:
    """Make `link` point to `target`. If it already does, nothing happens; two processes may do it at once."""
    if link.is_symlink() and link.readlink() == target:
        return
    if is_plain_directory(link):
        remove(link)
    with _draft_of(link) as draft:
        try:
            draft.symlink_to(target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                error.errno, error.strerror = errno.EOPNOTSUPP, "the file system has no symbolic links"
            raise


def draft_prefix() -> str:
    """Return the prefix of the files that this process is still writing."""
    return f"{_DRAFT}{own_process()}-"


def abandoned_drafts(folder: Path) -> list[Path]:
    """Return the unfinished files in `folder` whose writer is dead. Nobody will ever finish them."""
    drafts = folder.glob(f"{_DRAFT}*-*")
    return sorted(path for path in drafts if not is_alive(_writer_of(path)))


def _writer_of(draft: Path) -> str:
    return draft.name.removeprefix(_DRAFT).rpartition("-")[0]


def is_plain_directory(path: Path) -> bool:
    """Tell whether `path` itself is a directory, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder, as plain strings: there may be very many. One that an agent removed since has nothing."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return []


def is_there(root: Path, path: Path) -> bool:
    """Tell whether something exists at exactly this path below `root`, not behind a link to a directory."""
    folders = path.parents[: len(path.parts) - len(root.parts) - 1]
    return os.path.lexists(path) and not any(folder.is_symlink() for folder in folders)


def remove(path: Path) -> None:
    """Delete a file, link or directory tree; links are never followed. Nothing happens if it is gone already.

    Raises MountedError, and deletes nothing, if something is mounted in there.
    """
    if is_plain_directory(path):
        require_no_mounts(path)
        try:
            shutil.rmtree(path, onerror=_unless_gone)
        except (OSError, RecursionError):
            _flatten(path)
            shutil.rmtree(path, onerror=_unless_gone)
    else:
        path.unlink(missing_ok=True)


def remove_if_allowed(path: Path) -> bool:
    """Delete as much of a directory tree as we may; tell whether all of it is gone.

    Another user's files may stay, and all of it if something is mounted in there.
    """
    try:
        remove(path)
    except MountedError:
        return False
    except PermissionError:
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def remove_within(folder: Path, deadline: float) -> bool:
    """Delete a directory tree until a point of the monotonic clock; tell whether all of it is gone. Links are not followed.

    What cannot be deleted in a plain way stays, and all of it if something is mounted in there.
    """
    if mounts_in(folder):
        return False
    try:
        with opened_up(folder.parent) as above:
            return _remove_within(above, folder.name, deadline)
    except (OSError, RecursionError):
        return not os.path.lexists(folder)


def _remove_within(above: int, name: str, deadline: float) -> bool:
    with opened_up(name, above) as folder:
        for file in files_in(folder):
            if time.monotonic() > deadline:
                return False
            os.unlink(file, dir_fd=folder)
        if time.monotonic() > deadline or not all(
            _remove_within(folder, inner, deadline) for inner in folders_in(folder)
        ):
            return False
    os.rmdir(name, dir_fd=above)
    return True


def open_up(root: Path) -> None:
    """Give the owner full access to `root` and all directories below it; agents and package caches revoke it.

    Links are not followed; files keep their modes, and directories of another user theirs.
    """
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        with suppress(*_OUT_OF_REACH), opened_up_below(root, parts) as folder:
            pending += [(*parts, name) for name in folders_in(folder) if len("/".join(parts)) < _PATH_MAX]


def _flatten(root: Path) -> None:
    """Open every directory below `root` and move it right into `root`.

    A chain of them can be deeper than any path may be, and than a recursion can go.
    """
    mark = os.urandom(4).hex()
    with opened_up(root) as top:
        pending, number = ["."], 0
        while pending:
            with suppress(*_OUT_OF_REACH), opened_up(pending.pop(), top) as folder:
                for name in folders_in(folder):
                    place = f"{_DRAFT}{mark}-{number}"
                    number += 1
                    # Moving a folder changes its entry for the parent, so its owner must be allowed to write to it.
                    with suppress(*_OUT_OF_REACH), opened_up(name, folder):
                        pass
                    os.rename(name, place, src_dir_fd=folder, dst_dir_fd=top)
                    pending.append(place)


def _unless_gone(_call: object, name: str, problem: tuple[object, BaseException, object]) -> None:
    """Ignore the error if somebody else removed the file first."""
    if os.path.lexists(name):
        if isinstance(problem[1], OSError):
            problem[1].filename = name  # it knows only the last part of the path
        raise problem[1]


def is_closed(folder: Path) -> bool:
    """Tell whether this is a directory that we may not read, write or enter."""
    return is_plain_directory(folder) and not os.access(folder, os.R_OK | os.W_OK | os.X_OK)


def closed_folders(root: Path) -> list[str]:
    """Return the folders below `root` that we may not read or enter, relative to it. Links are not followed."""
    pending, closed = [str(root)], list[str]()
    while pending:
        folder = pending.pop()
        if os.access(folder, os.R_OK | os.X_OK):
            pending += [entry.path for entry in entries(folder) if entry.is_dir(follow_symlinks=False)]
        elif os.path.lexists(folder):
            closed.append(os.path.relpath(folder, root))
    return sorted(closed)

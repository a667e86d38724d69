"""Changes a file that people edit at the same time: whole or not at all, and nothing that they write is lost.

The new file is exchanged with the old one in one step, and the old one is looked at afterwards: if somebody wrote it since
it was read, it goes back at once and the change is made again to what is there now.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from holdfast.disk_sync import sync
from holdfast.errors import HoldfastError
from holdfast.repo.files import GIT_FILE_BYTES_MAX, abandoned_drafts, draft_prefix, write_durably

_TRIES = 20
_AT_WORKING_DIRECTORY = -100
_EXCHANGE = 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


class SharedFileError(HoldfastError):
    """A file of the user's cannot be changed. It is as it was."""


def change_file(root: Path, name: str, drafts: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace a file below `root` by what `change` makes of its content; if that is the same, nothing happens.

    `change` may be called again. Drafts lie in a folder of our own, or beside the file if that is on another disk. Raises
    SharedFileError if the file is absent, behind a link, read-only or no plain file.
    """
    path = root / name
    for old in abandoned_drafts(drafts):
        old.unlink(missing_ok=True)
    for _ in range(_TRIES):
        _require_plain(root, path)
        content = path.read_bytes()
        wanted = change(content)
        if wanted == content or _replace(path, drafts, content, wanted):
            return
    raise SharedFileError(f"{name} is being written all the time")


def _require_plain(root: Path, path: Path) -> None:
    """Raise SharedFileError unless this is a plain file that its owner may write, with no link on the way to it."""
    folders = path.parents[: len(path.parts) - len(root.parts) - 1]
    linked = next((part for part in (*reversed(folders), path) if part.is_symlink()), None)
    if linked is not None:
        name = linked.relative_to(root)
        raise SharedFileError(f"{name} is a symbolic link, and Holdfast does not write through it")
    name = path.relative_to(root)
    try:
        found = path.lstat()
    except OSError as error:
        raise SharedFileError(f"{name} cannot be read: {(error.strerror or '').lower()}") from error
    if not stat.S_ISREG(found.st_mode) or found.st_size > GIT_FILE_BYTES_MAX:
        raise SharedFileError(f"{name} is no plain file")
    if not found.st_mode & 0o222 or not os.access(path, os.R_OK | os.W_OK):
        raise SharedFileError(f"{name} is read-only")


def _replace(path: Path, drafts: Path, content: bytes, wanted: bytes) -> bool:
    """Put the wanted content in the place of `content`, unless something else is there now; tell whether that was done."""
    is_near = drafts.stat().st_dev == path.parent.stat().st_dev
    draft = (drafts if is_near else path.parent) / f"{draft_prefix()}{secrets.token_hex(4)}"
    try:
        write_durably(draft, wanted)
        shutil.copystat(path, draft)
        os.utime(draft)
        done = path.read_bytes() == content and _put(draft, path, content, wanted)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)
    return done


def _put(draft: Path, path: Path, content: bytes, wanted: bytes) -> bool:
    """Exchange the draft with a file that has `content`; if it had something newer, put that back. Tell which it was."""
    if not _exchange(draft, path):
        draft.replace(path)  # The file system cannot exchange files. It was looked at a moment ago.
        return True
    if (found := draft.read_bytes()) == content:
        return True
    placed = wanted
    while True:
        # `found` is newer than all that we know. What comes out of its place now is ours, or newer still.
        _exchange(draft, path)
        placed, expected = found, placed
        if (found := draft.read_bytes()) == expected:
            return False


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two files in one step; tell whether the system can do that here."""
    # Loaded here: few commands need it.
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    here = _AT_WORKING_DIRECTORY
    if call(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))

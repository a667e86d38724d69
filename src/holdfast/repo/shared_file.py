"""Changes a file that people edit at the same time: whole or not at all, and nothing that they write is lost.

The new file is exchanged with the old one in one step, and the old one is looked at afterwards: if somebody wrote it since
it was read, it goes back at once and the change is made again to what is there now. Only for that moment a reader sees the
file without what was just saved.

A kill in between leaves it in the draft alone. So the name of a draft says which file it is for, and the digests of what was
read and of what we wrote: a draft with any other content is somebody's version of the file, and is never deleted.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.boot import is_alive, own_process
from holdfast.disk_sync import sync
from holdfast.errors import HoldfastError
from holdfast.repo.files import GIT_FILE_BYTES_MAX, abandoned_drafts, write_durably

_TRIES = 20
_DRAFT = ".holdfast.change-"  # no name by which others know a draft that may be deleted unseen
_NAME_PARTS = 4  # after the pid: the start of the process, and three digests
_DIGEST_CHARS = 32
_AT_WORKING_DIRECTORY = -100
_EXCHANGE = 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


class SharedFileError(HoldfastError):
    """A file of the user's was not changed. It is as it was, or as somebody saved it before a process was killed."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A file that is exchanged with one that people edit: its name tells what of it is ours."""

    path: Path
    file: str
    old: str
    new: str

    @classmethod
    def of(cls, path: Path, folder: Path, content: bytes, wanted: bytes) -> Self:
        """Return the draft by which `path` will get the wanted content in the place of `content`. Nothing is written."""
        digests = (_digest(os.fsencode(path.name)), _digest(content), _digest(wanted))
        name = "-".join((own_process(), *digests, secrets.token_hex(4)))
        return cls(folder / f"{_DRAFT}{name}", *digests)

    @classmethod
    def abandoned(cls, path: Path, folder: Path) -> Iterator[Self]:
        """Yield the drafts for a file whose writers are dead."""
        for found in sorted(folder.glob(f"{_DRAFT}*")):
            pid, _, parts = found.name.removeprefix(_DRAFT).partition("-")
            start, *digests = parts.split("-")[:_NAME_PARTS]
            if len(digests) == _NAME_PARTS - 1 and not is_alive(f"{pid}-{start}"):
                draft = cls(found, *digests)
                if draft.file == _digest(os.fsencode(path.name)):
                    yield draft

    @property
    def is_ours(self) -> bool:
        """Whether it holds what we wrote, or what that replaced on purpose."""
        return _digest_of(self.path) in (self.old, self.new)


def change_file(root: Path, name: str, drafts: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace a file below `root` by what `change` makes of its content; if that is the same, nothing happens.

    `change` may be called again. Drafts lie in a folder of our own, or beside the file if that is on another disk. Raises
    SharedFileError if the file is absent, behind a link, read-only or no plain file, and if a process that was killed left
    somebody's version of it that cannot go back.
    """
    path = root / name
    for old in abandoned_drafts(drafts):
        old.unlink(missing_ok=True)
    _require_plain(root, path)
    _settle_abandoned(path, drafts)
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


def _settle_abandoned(path: Path, drafts: Path) -> None:
    """Delete the drafts of killed processes. Somebody's version goes back if the file is what we wrote; else it is kept."""
    abandoned = [draft for folder in {drafts, path.parent} for draft in _Draft.abandoned(path, folder)]
    kept = [str(place) for draft in abandoned if (place := _settle(draft, path))]
    if kept:
        raise SharedFileError(
            f"a process was killed while it changed {path.name}, and the file was written since; "
            f"what somebody had saved before is kept in {', '.join(kept)}"
        )


def _settle(draft: _Draft, path: Path) -> Path | None:
    """Deal with the draft of a killed process. If it must be kept, return where, under a name that says so."""
    if draft.is_ours:
        draft.path.unlink()
    elif _digest_of(path) == draft.new:
        _put_back(draft.path, path, path.read_bytes())
        sync(path.parent)
        draft.path.unlink()
    else:
        number = 1
        while os.path.lexists(place := draft.path.with_name(f"{path.name}.kept-{number}")):
            number += 1
        draft.path.rename(place)
        sync(place.parent)
        return place
    return None


def _replace(path: Path, drafts: Path, content: bytes, wanted: bytes) -> bool:
    """Put the wanted content in the place of `content`, unless something else is there now; tell whether that was done."""
    is_near = drafts.stat().st_dev == path.parent.stat().st_dev
    draft = _Draft.of(path, drafts if is_near else path.parent, content, wanted)
    try:
        write_durably(draft.path, wanted)
        shutil.copystat(path, draft.path)
        os.utime(draft.path)
        done = path.read_bytes() == content and _put(draft.path, path, content, wanted)
    except BaseException:
        # It may have come between the exchange and the way back.
        if draft.is_ours:
            draft.path.unlink()
        raise
    draft.path.unlink(missing_ok=True)
    sync(path.parent)
    return done


def _put(draft: Path, path: Path, content: bytes, wanted: bytes) -> bool:
    """Exchange the draft with a file that has `content`; if it had something newer, put that back. Tell which it was."""
    if not _exchange(draft, path):
        draft.replace(path)  # The file system cannot exchange files. It was looked at a moment ago.
        return True
    if draft.read_bytes() == content:
        return True
    _put_back(draft, path, wanted)
    return False


def _put_back(draft: Path, path: Path, placed: bytes) -> None:
    """Exchange a draft with somebody's version and the file, in which we `placed` something older."""
    while True:
        # What is in the draft is newer than all that we know. What comes out of its place now is ours, or newer still.
        found = draft.read_bytes()
        if not _exchange(draft, path):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(path))
        placed, expected = found, placed
        if draft.read_bytes() == expected:
            return


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]


def _digest_of(path: Path) -> str:
    """Return the digest of a plain file's content; nothing if it is anything else or absent."""
    try:
        is_plain = stat.S_ISREG(path.lstat().st_mode)
        return _digest(path.read_bytes()) if is_plain else ""
    except FileNotFoundError:
        return ""


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

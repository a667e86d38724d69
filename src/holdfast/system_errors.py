"""Errors of the operating system in plain words: what was being done, on which file, and the way out.

`doing` names an act where it is done. The error stays what it is until it reaches the user; there `machine_error` makes
the message. A leaf module, and a light one: `holdfast report` loads it. It knows error numbers and file systems, but
nothing of what Holdfast stores.
"""

from __future__ import annotations

import errno
import os

from holdfast.errors import HoldfastError, MachineError

_UNABLE = "The file system there ({kind}) cannot do this: keep the repository on an ordinary disk (ext4, xfs, btrfs)"
_UNABLE_SOMEWHERE = (
    "The system cannot do this: use an ordinary disk (ext4, xfs, btrfs) and Linux 5.4 or newer"
)
_OTHER_THING = "Something else is in that place: move it away"
_OWNER = "Check who owns the file and its folder, and their modes (`ls -ld`)"
_GONE = "The file system went away: mount it again"

_WAYS_OUT = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "Your quota on this disk is used up: free some space",
    errno.EFBIG: "The file is larger than this process may write: raise the limit (`ulimit -f unlimited`)",
    errno.EROFS: "The file system is read-only: mount it for writing, or work in a copy on another disk",
    errno.EIO: "The disk reported an error: look for it in `dmesg` and check the disk",
    errno.EACCES: _OWNER,
    errno.EPERM: _OWNER,
    errno.EMFILE: "This process has too many open files: raise the limit (`ulimit -n 4096`), or use fewer `--jobs`",
    errno.ENFILE: "The machine has too many open files: end some programs",
    errno.ENOMEM: "There is no memory left: end some programs, or raise the limit (`ulimit -v`)",
    errno.EAGAIN: "No more processes or threads can be started: end some, or raise the limits (`ulimit -u`, `ulimit -v`)",
    errno.ENAMETOOLONG: "The path is too long for its file system: move the repository to a shorter path",
    errno.ENOSYS: _UNABLE,
    errno.EOPNOTSUPP: _UNABLE,
    errno.ENOLCK: _UNABLE,
    errno.ESTALE: _GONE,
    errno.ENOTCONN: _GONE,
    errno.ENOTDIR: _OTHER_THING,
    errno.EISDIR: _OTHER_THING,
    errno.EEXIST: _OTHER_THING,
    errno.ENOTEMPTY: "Something still writes there: end it",
    errno.EBUSY: "Something still uses it: end that",
    errno.ELOOP: "A symbolic link is in the way: replace it by what it points to",
    errno.ENOENT: "It is not there, or its folder is not: put it back",
}
"""What to do about each error, without the next step. It must be true for every file that Holdfast reads or writes."""
_ANY_WAY_OUT = "Fix that"
_NO_THREAD = "can't start new thread"
_SURE = tuple(number for number in _WAYS_OUT if number not in (errno.ENOENT, errno.EEXIST))
"""What another program's words prove to be the cause. Programs try names that are not there, or taken, all the time."""


def doing(act: str, path: str | os.PathLike[str] = "") -> Act:
    """Name what is done inside `with`, for the message if the system refuses it. `act` follows the words "could not".

    `path` is the file in question. It counts where the system does not say which one it was, as for a write.
    """
    return Act(act, path)


class Act:
    """What `doing` returns. A plain class: contextlib would be most of what `holdfast report` loads."""

    __slots__ = ("_act", "_path")

    def __init__(self, act: str, path: str | os.PathLike[str]) -> None:
        self._act = act
        self._path = path

    def __enter__(self) -> None:
        """Begin the act."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            _name(error, self._act, self._path)


def _name(error: OSError, act: str, path: str | os.PathLike[str]) -> None:
    if error.filename is None and path:
        error.filename = os.fspath(path)
    error.add_note(act)


def machine_error(
    error: OSError, next_step: str, act: str = "", path: str | os.PathLike[str] = ""
) -> MachineError:
    """Return an error of the system as one of ours. `next_step` is what to do once the cause is gone.

    `act` and `path` are as for `doing`.
    """
    if act:
        _name(error, act, path)
    acts = [*reversed(getattr(error, "__notes__", []))]
    said = error.strerror or str(error) or type(error).__name__
    parts = [f"could not {acts[0]}", *acts[1:]] if acts else []
    where = path_of(error)
    message = ": ".join(filter(None, [*parts, where, said]))
    return MachineError(message, f"{way_out(error.errno, where)}, then {next_step}.")


def as_holdfast_error(error: HoldfastError | OSError) -> HoldfastError:
    """Return an error as one of ours: what the system refused, and on which file. `resume` is the next step."""
    return error if isinstance(error, HoldfastError) else machine_error(error, "`holdfast resume`")


def as_system_error(error: Exception) -> OSError | None:
    """Return an error as one of the system, if it is one: Python has words of its own for no memory and no threads."""
    if isinstance(error, MemoryError):
        return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return OSError(errno.EAGAIN, _NO_THREAD)
    return error if isinstance(error, OSError) else None


def path_of(error: OSError) -> str:
    """Return the file that an error is about: of two, the one that was to be made."""
    path = error.filename2 if error.filename2 is not None else error.filename
    return "" if path is None or isinstance(path, int) else os.fsdecode(path)


def way_out(number: int | None, path: str | os.PathLike[str] = "") -> str:
    """Return what to do about an error number, as a sentence that a next step can end."""
    found = _WAYS_OUT.get(number or 0, _ANY_WAY_OUT)
    if found != _UNABLE:
        return found
    return found.format(kind=kind_at(path)) if path else _UNABLE_SOMEWHERE


def way_out_of(text: str) -> str:
    """Return what to do about an error that another program printed; empty if it names none that we know."""
    return next((way_out(number) for number in _SURE if os.strerror(number) in text), "")


def filesystem_kind(path: str | os.PathLike[str], mountinfo: str) -> str:
    """Return the type of the file system that holds `path`, such as `ext4` or `fuse.sshfs`.

    `mountinfo` is the text of `/proc/self/mountinfo`. The deepest mount wins, then the latest one.
    """
    from pathlib import Path

    deepest, found = -1, ""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        point = Path(_unescaped(mount.split(" ")[4]))
        if Path(path).is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), source.split(" ")[0]
    return found


def kind_at(path: str | os.PathLike[str]) -> str:
    """Return the type of the file system at a path, for a message that must not fail itself."""
    from pathlib import Path

    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        return filesystem_kind(Path(path).resolve(), mountinfo) or "of an unknown type"
    except OSError:
        return "of an unknown type"


def _unescaped(field: str) -> str:
    """Undo the octal escapes (`\\040` for a space) that the kernel writes."""
    import re

    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)

"""What a workspace holds besides its commit: copies and links of the user's checkout, and what set-up made.

None of it lands. The record of it is beside Holdfast's own index of the workspace, where no agent reaches it. What is
brought in is checked here; commands are not run here.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from holdfast.core.plan import PlanWorkspace
from holdfast.errors import HoldfastError
from holdfast.paths import STATE_DIR
from holdfast.repo.agent_files import opened_folder
from holdfast.repo.files import is_plain_directory, read_regular, remove, write_atomically
from holdfast.repo.repository import Repository
from holdfast.system_errors import as_holdfast_error

_GIT = ".git"
_PRIVATE = frozenset({_GIT, STATE_DIR})
_IN_THE_WAY = (errno.ENOTDIR, errno.ELOOP)
_SPECIAL_IN_PATTERNS = re.compile(r"([\\*?\[\] ])")


class FilesMissingError(HoldfastError):
    """The checkout lacks what workspaces get of it, or it cannot be given. The user's to repair, not an agent's."""


class SetupRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a workspace's set-up. `left_out` are the paths in it that never land.

    `complete`: set-up ended well, so what is kept can be used. `digest`: of the commands and files that it followed from;
    empty if it must run before every use. `settled_ns`: when that was.
    """

    complete: bool = False
    digest: str = ""
    left_out: tuple[str, ...] = ()
    settled_ns: int = 0


def read_record(file: Path) -> SetupRecord:
    """Return the record in a file; an empty one if it is absent, or torn by a power cut."""
    try:
        return msgspec.json.decode(read_regular(file), type=SetupRecord)
    except msgspec.MsgspecError:
        return SetupRecord()


def write_record(file: Path, record: SetupRecord) -> None:
    """Replace the record. An empty one is not written: most workspaces have none."""
    if record == SetupRecord():
        remove(file)
    else:
        write_atomically(file, msgspec.json.encode(record))


def ignore_patterns(paths: Iterable[str]) -> list[str]:
    """Return the patterns, as in `.gitignore`, that match exactly these paths and what is below them."""
    return ["/" + _SPECIAL_IN_PATTERNS.sub(r"\\\1", path) for path in paths]


def without_paths(found: Iterable[str], left_out: Sequence[str]) -> list[str]:
    """Return those of the found paths that neither are one of `left_out` nor lie in one."""
    folders = tuple(f"{path}/" for path in left_out)
    return [path for path in found if not f"{path}/".startswith(folders)] if folders else list(found)


def require_files(repo: Repository, setting: PlanWorkspace, commit: str) -> None:
    """Raise HoldfastError unless the checkout has what workspaces get of it, and git tracks nothing of it in `commit`."""
    require_brought_files(repo.checkout, setting)
    for path in setting.brought:
        if repo.git.paths("ls-tree", "-z", "--name-only", commit, "--", path):
            key = next(key for key in ("copy", "link", "keep") if path in getattr(setting, key))
            raise HoldfastError(
                f"workspace.{key} names {path}, which git tracks: it is in every workspace already",
                "take it out of the plan; only files that git does not track are brought in, and they never land",
            )


def require_brought_files(checkout: Path, setting: PlanWorkspace) -> None:
    """Raise FilesMissingError if the checkout lacks what workspaces get of it, or has something that cannot be given."""
    for key, paths in (("copy", setting.copy), ("link", setting.link)):
        for path in paths:
            source = checkout / path
            if not source.exists():
                raise FilesMissingError(
                    f"workspace.{key} names {path}, which is not in your checkout",
                    f"make {source}, or take it out of the plan",
                )
            if key == "copy" and not (source.is_file() or source.is_dir()):
                raise FilesMissingError(
                    f"workspace.copy names {path}, which is neither a file nor a folder",
                    f"replace {source}, or take it out of the plan",
                )
            if not _is_open(source):
                raise _closed(source)
            if _shows_private_folder(checkout, source):
                raise FilesMissingError(
                    f"workspace.{key} names {path}, a link to a folder of git or of Holdfast, or to one around it",
                    f"let {source} lead elsewhere, or take it out of the plan",
                )


def _is_open(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)


def _closed(path: Path) -> FilesMissingError:
    return FilesMissingError(
        f"workspaces get {path}, which you may not read",
        "`ls -ld` shows who may; change its mode, or take it out of the plan",
    )


def place_outside(checkout: Path, path: str) -> Path | None:
    """Return where a path of the checkout leads to if a link takes it out of there, else None."""
    place = (checkout / path).resolve()
    return None if place.is_relative_to(checkout.resolve()) else place


def _shows_private_folder(checkout: Path, source: Path) -> bool:
    """Tell whether a path leads, through links, into a folder of git or of Holdfast, or to what holds the checkout's."""
    place, root = source.resolve(), checkout.resolve()
    below = place.relative_to(root) if place.is_relative_to(root) else place
    return root.is_relative_to(place) or not _PRIVATE.isdisjoint(part.casefold() for part in below.parts)


def bring_files(checkout: Path, workspace: Path, setting: PlanWorkspace) -> None:
    """Put the copies and links of a plan into a workspace that nobody uses, in the place of what is there. Idempotent.

    Raises FilesMissingError if the checkout lacks one. What an agent committed in the place of a folder on the way stays:
    a link may lead anywhere.
    """
    require_brought_files(checkout, setting)
    for path in setting.copy:
        _put(workspace, path, checkout / path, is_copy=True)
    for path in setting.link:
        _put(workspace, path, checkout / path, is_copy=False)


def _put(workspace: Path, path: str, source: Path, *, is_copy: bool) -> None:
    *folders, name = path.split("/")
    try:
        with opened_folder(workspace, *folders, make=True) as folder:
            target = Path(f"/proc/self/fd/{folder}", name)
            remove(target)
            if is_copy:
                _copy(source, target)
            else:
                target.symlink_to(source)
    except OSError as error:
        if error.errno not in _IN_THE_WAY:
            raise


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_not_copied, copy_function=_copy_file)
    else:
        _copy_file(source, target)


def _copy_file(source: str | Path, target: str | Path) -> None:
    """Copy a file. Errors are of our own: those of the system are collected by who copies a folder, and lose their number."""
    try:
        shutil.copy2(source, target)
    except OSError as error:
        raise as_holdfast_error(error) if _is_open(Path(source)) else _closed(Path(source)) from None


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """Return what a copy of a folder lacks: repositories in it, and what is no file, folder or link.

    Raises FilesMissingError if a folder in it may not be read.
    """
    for path in (Path(folder, name) for name in names):
        if is_plain_directory(path) and not _is_open(path):
            raise _closed(path)
    return [name for name in names if name == _GIT or _is_special(os.path.join(folder, name))]  # noqa: PTH118 - plain strings, for there may be very many


def _is_special(path: str) -> bool:
    mode = os.lstat(path).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

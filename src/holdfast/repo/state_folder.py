"""Whose `.holdfast/` it is: one that came with a repository, or leads elsewhere, is refused before anything in it is believed.

Every command asks, `status` too. So this starts git only if it has a reason to, and imports nothing heavy.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.paths import STATE_DIR, StateDir

_VERSION = slice(4, 8)
_WITH_WHOLE_PATHS = (2, 3)
_SHARED_INDEX = "sharedindex."
"""How a file begins that has those paths of a split index that are not in the index itself."""


def require_own_state_dir(state_dir: StateDir, git_dir: Path) -> None:
    """Raise RepositoryError if `.holdfast` is no folder or a link, holds one, is another user's, or is tracked by git.

    We delete below it, so it must not lead elsewhere. And neither the author of a repository nor another user must decide
    how the user's agents are started, or what the user agreed to. `git_dir` has the index of the main checkout.
    """
    root = state_dir.root
    try:
        found = root.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode):
        hint = f"Replace it by the real folder: `rm {STATE_DIR}`, then move the folder it pointed to here."
        raise RepositoryError(f"{root} is a symbolic link; Holdfast does not follow it.", hint)
    if not stat.S_ISDIR(found.st_mode):
        hint = f"Holdfast keeps its state in a folder of this name: move the file away, `mv {STATE_DIR} elsewhere`."
        raise RepositoryError(f"{root} is not a folder.", hint)
    _refuse_other_owner(root, found.st_uid)
    _refuse_links(state_dir)
    if (tracked := _tracked(git_dir)) != "":
        raise RepositoryError(
            f"{tracked} is tracked by git: it came with the repository, not from you.",
            f"Read what is in {STATE_DIR}, then delete it, or keep it for yourself alone: `git rm -r --cached {STATE_DIR}`.",
        )


def _refuse_other_owner(root: Path, owner: int) -> None:
    """The owner of the checkout is as good as this user: git trusts that one with the whole repository."""
    if owner not in (os.geteuid(), root.parent.stat().st_uid):
        raise RepositoryError(
            f"{root} belongs to another user (uid {owner}), who could decide what is run here.",
            f"Delete it, or make it yours if you trust what is in it: `sudo chown -R $(id -u) {STATE_DIR}`.",
        )


def _refuse_links(state_dir: StateDir) -> None:
    """Raise RepositoryError for a link right in the folder. Only the user's own list of agents may be one."""
    with suppress(PermissionError, NotADirectoryError), os.scandir(state_dir.root) as entries:
        for entry in entries:
            if entry.is_symlink() and entry.name != state_dir.agents.name:
                raise RepositoryError(
                    f"{entry.path} is a symbolic link; Holdfast does not follow it, for it deletes what is in there.",
                    f"Remove the link: `rm {STATE_DIR}/{entry.name}`. What it points to stays.",
                )


def _tracked(git_dir: Path) -> str:
    """Return a file in `.holdfast` that git tracks, or an empty string."""
    if not _may_be_tracked(git_dir):
        return ""
    # Imported here because hardly any command gets here.
    from holdfast.repo.blocking_files import refuse_blocking_git_files
    from holdfast.repo.git import Git

    refuse_blocking_git_files(git_dir)
    listed = Git(git_dir).run("ls-files", "-z", "--", STATE_DIR)
    return listed.split(b"\0")[0].decode("utf-8", "replace")


def _may_be_tracked(git_dir: Path) -> bool:
    """Tell whether git has to be asked. In the usual index every path is spelled out: without our name, nothing is ours."""
    try:
        if any(path.name.startswith(_SHARED_INDEX) for path in git_dir.iterdir()):
            return True
        fd = os.open(git_dir / "index", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return True
        content = file.read()
    spelled_out = int.from_bytes(content[_VERSION]) in _WITH_WHOLE_PATHS
    return not spelled_out or STATE_DIR.encode() in content

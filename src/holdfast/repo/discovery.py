"""Finds the repository around a directory, reads its configuration, and says clearly why one cannot be used.

The demo also makes a new repository here. Nothing else does: a user's repository is never created.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.ids import is_valid_id
from holdfast.errors import RepositoryError
from holdfast.repo.blocking_files import refuse_blocking_git_files
from holdfast.repo.files import read_regular
from holdfast.repo.git import CommitIdentity, Git, decode_text, rev_parse_from

_OF_THE_REPOSITORY = ("local", "worktree")
_OF_THIS_CALL = "command"
_PATHS_ASKED = 2
_ID_KEY = "holdfast.repository"


@dataclass(frozen=True, slots=True)
class GitConfig:
    """Keys and values as git lists them: those of the repository itself, each key's effective value, and the other files."""

    local: tuple[tuple[str, str], ...]
    in_force: dict[str, str]
    files: tuple[str, ...] = ()
    """The user's and the machine's files that settings are in, also those that others include."""

    def is_true(self, key: str) -> bool:
        """Tell whether a switch is on."""
        return self.in_force.get(key, "false").lower() in ("true", "yes", "on", "1")

    def identity(self) -> CommitIdentity | None:
        """Return the name and address the user commits with, or None if they are not configured."""
        name, email = self.in_force.get("user.name", ""), self.in_force.get("user.email", "")
        return CommitIdentity(name, email) if name and email else None


def read_git_config(common_dir: Path) -> GitConfig:
    """Read the configuration of a repository, of its user and of the machine."""
    fields = Git(common_dir).fields("config", "--list", "--show-scope", "--show-origin", "-z")
    listed = list(zip(fields[::3], fields[1::3], fields[2::3], strict=False))
    scoped = [(scope, *_pair(entry)) for scope, _, entry in listed]
    local = tuple((key, value) for scope, key, value in scoped if scope in _OF_THE_REPOSITORY)
    in_force = {key: value for scope, key, value in scoped if scope != _OF_THIS_CALL}
    named = (origin.removeprefix("file:") for scope, origin, _ in listed if scope not in _OF_THE_REPOSITORY)
    return GitConfig(local, in_force, tuple(dict.fromkeys(name for name in named if name.startswith("/"))))


def _pair(entry: str) -> tuple[str, str]:
    """Split an entry; a key alone, without a value, means true."""
    key, newline, value = entry.partition("\n")
    return key, value if newline else "true"


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """Where a repository is: the directory that all its worktrees share, the main checkout, where the user stands."""

    common_dir: Path
    checkout: Path
    git_dir: Path
    config: GitConfig


def find_repository(start: Path) -> RepositoryLocation:
    """Return the repository around `start`, which must have a checkout and at least one commit."""
    found = _locate(start)
    is_begun = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if Git(found.common_dir).try_run(*is_begun, git_dir=found.git_dir).rc != 0:
        hint = 'Make a first commit: `git commit --allow-empty -m "Start"`.'
        raise RepositoryError(f"The repository at {start} has no commit on its current branch.", hint)
    return found


def find_checkout(start: Path) -> Path:
    """Return the main checkout of the repository around `start`, which may be without a commit."""
    return _locate(start).checkout


def _locate(start: Path) -> RepositoryLocation:
    if not start.is_dir():
        raise RepositoryError(f"{start} is no directory.", "Go to your project's directory first.")
    for git_dir in git_dirs_around(start):
        refuse_blocking_git_files(git_dir)
    result = rev_parse_from(start, "--git-common-dir", "--absolute-git-dir")
    if result.rc != 0:
        raise _not_found(start, result.stderr)
    lines = decode_text(result.stdout).removesuffix("\n").split("\n")
    if len(lines) != _PATHS_ASKED:
        hint = "Move the repository: git itself cannot say where it is without breaking the line."
        raise RepositoryError(f"The path of the repository at {start} contains a line break.", hint)
    common, git_dir = (Path(line).resolve() for line in lines)
    config = read_git_config(common)
    _refuse_unsupported(config, start, common)
    return RepositoryLocation(common, _main_checkout(common, start, git_dir), git_dir, config)


def git_dirs_around(start: Path) -> list[Path]:
    """Return the git directory of the nearest checkout and the one it shares, without asking git; none if unusual."""
    nearest = next(
        (folder / ".git" for folder in (start, *start.parents) if (folder / ".git").exists()), None
    )
    if nearest is None or nearest.is_dir():
        return [] if nearest is None else [nearest]
    named = read_regular(nearest).removeprefix(b"gitdir: ").strip()
    own = nearest.parent / os.fsdecode(named)
    if not own.is_dir():
        return []
    shared = own / os.fsdecode(read_regular(own / "commondir").strip())
    return [own, shared.resolve()] if shared.is_dir() else [own]


def repository_id(found: RepositoryLocation) -> str:
    """Return the name of a repository that all its clones share: its first commit, or what its user configured.

    It is that of the first parents of HEAD, so that branches, merges and other roots make no difference.
    """
    if named := found.config.in_force.get(_ID_KEY, ""):
        if not is_valid_id(named):
            raise RepositoryError(
                f"git's setting {_ID_KEY} is {named!r}, which is no valid id.",
                "Use letters, digits, dots, hyphens and underscores, at most 64.",
            )
        return named
    if not (commit := _first_commit(found)):
        raise RepositoryError(
            "This clone is shallow: its first commit, by which a store knows the repository, is not here.",
            f"`git fetch --unshallow` gets it; or `git config {_ID_KEY} NAME` in every clone names the repository.",
        )
    return commit


def first_commit_of_named(found: RepositoryLocation) -> str:
    """Return the first commit of a repository whose id its user configured; empty if the clone is shallow, or nobody did."""
    return _first_commit(found) if _ID_KEY in found.config.in_force else ""


def _first_commit(found: RepositoryLocation) -> str:
    """Return the first commit; empty in a shallow clone."""
    git = Git(found.common_dir)
    if git.run("rev-parse", "--is-shallow-repository").strip() == b"true":
        return ""
    roots = git.run("rev-list", "--first-parent", "--max-parents=0", "HEAD", git_dir=found.git_dir)
    return decode_text(roots).split()[-1]


def require_commit(start: Path, rev: str) -> None:
    """Raise RepositoryError unless `rev` names a commit, seen from `start`. Nothing is written."""
    if rev_parse_from(start, "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}").rc != 0:
        raise no_such_commit(rev)


def no_such_commit(rev: str) -> RepositoryError:
    """Return the error for a name that is no commit."""
    return RepositoryError(
        f"{rev!r} names no commit.", "`git log --oneline --all` shows the commits there are."
    )


def _not_found(start: Path, stderr: str) -> RepositoryError:
    if "dubious ownership" in stderr:
        hint = f"If you trust it: `git config --global --add safe.directory {start}`."
        return RepositoryError(f"The repository at {start} belongs to another user.", hint)
    if "cannot use bare repository" in stderr:
        return _bare(start)
    if (closed := next(_closed_git_dirs(start), None)) is not None:
        hint = "Check who owns it and its modes (`ls -ld`), then run the command again."
        return RepositoryError(f"The repository at {closed} cannot be read: Permission denied.", hint)
    if "not a git repository" in stderr:
        hint = "Run `git init` and make a first commit, or go to a directory inside a repository."
        return RepositoryError(f"{start} is not inside a git repository.", hint)
    return RepositoryError(
        f"The repository at {start} cannot be read: {stderr.strip()}", "Check it with `git status`."
    )


def _closed_git_dirs(start: Path) -> Iterator[Path]:
    """Yield what we may not read of git directories from here on upwards. Git takes such a one for none at all."""
    for folder in (start, *start.parents):
        for place in (folder / ".git", folder / ".git" / "objects", folder / ".git" / "refs"):
            # Unlike pathlib, this takes what lies in a closed folder for absent.
            if os.path.isdir(place) and not os.access(place, os.R_OK | os.X_OK):  # noqa: PTH112
                yield place


def _bare(start: Path) -> RepositoryError:
    hint = "Clone it, and run Holdfast in the clone: `git clone REPOSITORY DIRECTORY`."
    lacks = (
        "no main checkout, in which Holdfast keeps its files" if (start / ".git").exists() else "no checkout"
    )
    return RepositoryError(f"The repository at {start} is bare: it has {lacks}.", hint)


def _refuse_unsupported(config: GitConfig, start: Path, common_dir: Path) -> None:
    # With files checked out beside it, it is not bare, whoever wrote so into its configuration.
    is_checked_out = common_dir.name == ".git" and (common_dir / "index").exists()
    if config.is_true("core.bare") and not is_checked_out:
        raise _bare(start)
    if config.in_force.get("extensions.refstorage", "files").lower() != "files":
        hint = "`git refs migrate --ref-format=files` turns it into the usual format."
        raise RepositoryError(
            "The repository keeps its refs in a reftable, which Holdfast cannot use yet.", hint
        )


def _main_checkout(common_dir: Path, start: Path, git_dir: Path) -> Path:
    # Git would believe `core.worktree`, which an agent can set. Only a submodule or an unusual place needs it.
    if common_dir.name == ".git" and (common_dir / "index").exists():
        return common_dir.parent
    if git_dir == common_dir:
        top = rev_parse_from(start, "--show-toplevel")
        if top.rc == 0:
            return Path(decode_text(top.stdout).rstrip("\n")).resolve()
    if common_dir.name == ".git":
        return common_dir.parent
    hint = "Run Holdfast in the main checkout of the repository."
    raise RepositoryError(f"From {start} the main checkout of the repository cannot be found.", hint)


def create_repository(folder: Path, message: str) -> None:
    """Turn `folder` into a repository with one commit of all its files, on branch main."""
    git_dir = folder / ".git"
    git_dir.mkdir()
    git = Git(git_dir)
    git.run("init", "--quiet", "--initial-branch=main")
    # With an explicit git directory, git takes a new repository for one without files.
    git.run("config", "core.bare", "false")
    git.run("add", "--all", work_tree=folder)
    git.run("commit", "--quiet", "--message", message, work_tree=folder)

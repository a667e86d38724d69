"""Finding the repository around a directory, and saying clearly why one cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.git import Git, discover
from holdfast.repo.settings import Settings, read_settings

_PATHS_ASKED = 2


@dataclass(frozen=True, slots=True)
class Found:
    """Where a repository is: the directory all its worktrees share, the main checkout, where the user stands."""

    common_dir: Path
    checkout: Path
    git_dir: Path
    settings: Settings


def find(start: Path) -> Found:
    """Return the repository around `start`, which must have a checkout and at least one commit."""
    if not start.is_dir():
        raise RepositoryError(f"{start} is no directory.", "Go to your project's directory first.")
    result = discover(start, "--git-common-dir", "--absolute-git-dir")
    if result.rc != 0:
        raise _not_found(start, result.stderr)
    lines = result.stdout.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    if len(lines) != _PATHS_ASKED:
        hint = "Move the repository: git itself cannot say where it is without breaking the line."
        raise RepositoryError(f"The path of the repository at {start} contains a line break.", hint)
    common, git_dir = (Path(line).resolve() for line in lines)
    settings = read_settings(common)
    _refuse_unsupported(settings, start)
    if Git(common).try_run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", git_dir=git_dir).rc != 0:
        hint = 'Make a first commit: `git commit --allow-empty -m "Start"`.'
        raise RepositoryError(f"The repository at {start} has no commit on its current branch.", hint)
    return Found(common, _main_checkout(common, start, git_dir), git_dir, settings)


def require_commit(start: Path, rev: str) -> None:
    """Raise RepositoryError unless `rev` names a commit, seen from `start`. Nothing is written."""
    if discover(start, "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}").rc != 0:
        raise no_such_commit(rev)


def no_such_commit(rev: str) -> RepositoryError:
    """Return the error for a name that leads to no commit."""
    return RepositoryError(
        f"{rev!r} names no commit.", "`git log --oneline --all` shows the commits there are."
    )


def _not_found(start: Path, stderr: str) -> RepositoryError:
    if "dubious ownership" in stderr:
        hint = f"If you trust it: `git config --global --add safe.directory {start}`."
        return RepositoryError(f"The repository at {start} belongs to another user.", hint)
    if "cannot use bare repository" in stderr:
        return _bare(start)
    if "not a git repository" in stderr:
        hint = "Run `git init` and make a first commit, or go to a directory inside a repository."
        return RepositoryError(f"{start} is not inside a git repository.", hint)
    return RepositoryError(
        f"The repository at {start} cannot be read: {stderr.strip()}", "Check it with `git status`."
    )


def _bare(start: Path) -> RepositoryError:
    hint = "Clone it, and run Holdfast in the clone: `git clone REPOSITORY DIRECTORY`."
    return RepositoryError(f"The repository at {start} is bare: it has no checkout.", hint)


def _refuse_unsupported(settings: Settings, start: Path) -> None:
    if settings.is_true("core.bare"):
        raise _bare(start)
    if settings.in_force.get("extensions.refstorage", "files").lower() != "files":
        hint = "`git refs migrate --ref-format=files` turns it into the usual format."
        raise RepositoryError(
            "The repository keeps its refs in a reftable, which Holdfast cannot use yet.", hint
        )


def _main_checkout(common_dir: Path, start: Path, git_dir: Path) -> Path:
    if git_dir == common_dir:
        top = discover(start, "--show-toplevel")
        if top.rc == 0:
            return Path(top.stdout.decode("utf-8", "surrogateescape").rstrip("\n")).resolve()
    if common_dir.name == ".git":
        return common_dir.parent
    hint = "Run Holdfast in the main checkout of the repository."
    raise RepositoryError(f"From {start} the main checkout of the repository cannot be found.", hint)

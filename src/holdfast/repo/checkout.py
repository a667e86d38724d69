"""The user's checkout: notices about it before a run, and whether something in it changed.

The checkout is only read, and no index is ever written, not even to refresh its time stamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.files import read_regular
from holdfast.repo.git import decode_text
from holdfast.repo.index import changed_paths
from holdfast.repo.repository import Repository

_HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class CheckoutState:
    """A checkout at one moment: its HEAD, and the time stamp and size of each changed or untracked path."""

    head: str
    files: dict[str, tuple[int, int]]

    def differences(self, previous: CheckoutState) -> tuple[str, ...]:
        """Return the paths that changed since an earlier moment; `HEAD` stands for another branch or commit."""
        paths = previous.files.keys() | self.files.keys()
        changed = {path for path in paths if previous.files.get(path) != self.files.get(path)}
        return tuple(sorted(changed | ({_HEAD} if self.head != previous.head else set())))


def read_checkout(repo: Repository) -> CheckoutState:
    """Return the current state of the user's checkout."""
    paths = changed_paths(repo.private_git, repo.checkout, repo.common_dir / "index")
    head = decode_text(read_regular(repo.common_dir / _HEAD)) + repo.read_ref(_HEAD)
    return CheckoutState(head, {path: _stamp(repo.checkout / path) for path in paths})


def checkout_notices(repo: Repository) -> Iterator[str]:
    """Yield what the user should know before a run, one sentence each."""
    if not repo.head_branch():
        yield "HEAD is detached: the run starts from the commit it is on."
    if (repo.common_dir / "shallow").exists():
        yield "The clone is shallow: merges may lack the history they need; `git fetch --unshallow` completes it."
    if (repo.checkout / ".gitmodules").exists():
        yield "Submodules are not checked out in the agents' workspaces."
    if repo.config.is_true("core.sparsecheckout"):
        yield "The checkout is sparse; the agents' workspaces hold every file."
    if count := len(_uncommitted(repo)):
        noun = "change" if count == 1 else "changes"
        yield f"The checkout has {count} uncommitted {noun}, not part of the run."


def _uncommitted(repo: Repository) -> set[str]:
    index = repo.common_dir / "index"
    head = repo.git.text("rev-parse", "--verify", _HEAD)
    staged = repo.private_git.paths("diff-index", "--cached", "--name-only", "-z", head, index=index)
    return {*changed_paths(repo.private_git, repo.checkout, index), *staged}


def _stamp(path: Path) -> tuple[int, int]:
    """Return time stamp and size; a path that is gone has a stamp of its own."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return (0, -1)
    return (found.st_mtime_ns, found.st_size)

"""Watching the user's checkout, or an idle workspace: was something changed in there?

The checkout is only read, and no index is ever written, not even to refresh its time stamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.blocking_files import remove_blocking_files
from holdfast.repo.index import changed_paths
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspace

_HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class CheckoutState:
    """A checkout at one moment: its HEAD, and the time stamp and size of each changed or untracked path."""

    head: str
    files: dict[str, tuple[int, int]]

    def differences(self, previous: CheckoutState) -> tuple[str, ...]:
        """Return the paths that changed since an earlier look; `HEAD` stands for another branch or commit."""
        paths = previous.files.keys() | self.files.keys()
        changed = {path for path in paths if previous.files.get(path) != self.files.get(path)}
        return tuple(sorted(changed | ({_HEAD} if self.head != previous.head else set())))


class CheckoutWatch:
    """Compares the user's checkout with how it was at an earlier look."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo

    def look(self) -> CheckoutState:
        """Return how the checkout is now."""
        root = self._repo.checkout
        paths = changed_paths(self._repo.private_git, root, self._repo.common_dir / "index")
        head = (self._repo.common_dir / _HEAD).read_text() + self._repo.read_ref(_HEAD)
        return CheckoutState(head, {path: _mark(root / path) for path in paths})


def workspace_changes(repo: Repository, workspace: Workspace) -> tuple[str, ...]:
    """Return what differs in an idle workspace from the commit that was put into it, which its index knows.

    What would keep git waiting for ever is removed from it first.
    """
    remove_blocking_files(workspace.path)
    return tuple(sorted(changed_paths(repo.private_git, workspace.path, workspace.index)))


def _mark(path: Path) -> tuple[int, int]:
    """Return time stamp and size; a path that is gone has a mark of its own."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return (0, -1)
    return (found.st_mtime_ns, found.st_size)

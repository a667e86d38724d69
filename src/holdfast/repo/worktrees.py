"""Working trees of others: which git knows, and a snapshot of one without touching it.

Neither the files, nor the index, HEAD or branch of such a tree change: the snapshot is made with an index of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.repository import Repository
from holdfast.repo.workspace_commit import changes_of_worktree, tree_of_worktree


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working tree that git knows: the commit it is on, and its branch's short name, if it is on one."""

    path: Path
    head: str
    branch: str = ""


@dataclass(frozen=True, slots=True)
class SavedWorktree:
    """A snapshot: the commit, empty if there is nothing beyond HEAD, and a sentence for each file left out."""

    commit: str
    problems: tuple[str, ...] = ()


def list_worktrees(repo: Repository) -> list[Worktree]:
    """Return the linked working trees that are there, and the main checkout first."""
    listing = repo.git.run("worktree", "list", "--porcelain", "-z").decode("utf-8", "surrogateescape")
    found: list[Worktree] = []
    for block in listing.split("\0\0"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        # Git names the main working tree after its git directory, which may lie elsewhere.
        path = Path(fields.get("worktree", "")) if found else repo.checkout
        if fields.get("HEAD") and path.is_dir():
            found.append(Worktree(path, fields["HEAD"], fields.get("branch", "").removeprefix("refs/heads/")))
    return found


def changes_in(repo: Repository, tree: Worktree, left_out: Sequence[str]) -> tuple[str, ...]:
    """Return the paths in which a working tree differs from its HEAD, without ignored ones. Writes nothing.

    Raises RepositoryError if git would wait for a file in there for ever.
    """
    return changes_of_worktree(repo, tree.path, tree.head, left_out)


def save_worktree(repo: Repository, tree: Worktree, message: str, left_out: Sequence[str]) -> SavedWorktree:
    """Commit what a working tree holds beyond its HEAD; no ref moves. The same files give the same tree."""
    found = tree_of_worktree(repo, tree.path, tree.head, left_out)
    if found.tree == repo.tree_of(tree.head):
        return SavedWorktree("", found.problems)
    args = ("commit-tree", "-p", tree.head, found.tree)
    commit = repo.private_git.run(*args, stdin=message.encode("utf-8", "replace")).decode().strip()
    return SavedWorktree(commit, found.problems)

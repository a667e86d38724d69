"""The working trees that git knows, also those of others: a list, and snapshots that do not touch them.

The files, the index, HEAD and branch of such a tree never change: a snapshot is made with an index of our own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.blocking_files import refuse_blocking_files
from holdfast.repo.files import read_regular
from holdfast.repo.git import decode_text
from holdfast.repo.index import changed_paths, temporary_index
from holdfast.repo.repository import Repository
from holdfast.repo.workspace_commit import files_left_out, tree_of_worktree


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working tree that git knows: the commit it is on, and its branch's short name, if it is on one."""

    path: Path
    head: str
    branch: str = ""


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """How many changed files a snapshot of a working tree would take, and a sentence for each that it would leave out."""

    files: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedWorktree:
    """A snapshot: the commit, empty if there is nothing beyond HEAD, and a sentence for each file left out."""

    commit: str
    problems: tuple[str, ...] = ()


def list_worktrees(repo: Repository) -> list[Worktree]:
    """Return the main checkout, then the linked working trees whose folders are there."""
    return [tree for tree in _registered(repo) if tree.head and tree.path.is_dir()]


def checked_out_at(repo: Repository, branch: str) -> Path | None:
    """Return the working tree that a branch is checked out in, if any. `branch` is its short name.

    Git is not asked: it reads all of what an agent may have made of the files of its own working tree.
    """
    if _main_branch(repo) == branch:
        return repo.checkout
    head = f"ref: refs/heads/{branch}".encode()
    trees = linked_git_dirs(repo)
    return next((path for path, git_dir in trees if read_regular(git_dir / "HEAD").strip() == head), None)


def linked_git_dirs(repo: Repository) -> Iterator[tuple[Path, Path]]:
    """Yield for each linked working tree its path and its git directory, as git keeps them on record."""
    for record in (repo.common_dir / "worktrees").glob("*/gitdir"):
        # Newer versions of git may write the path relative to the record.
        yield (record.parent / os.fsdecode(read_regular(record).strip())).parent.resolve(), record.parent


def changes_in(repo: Repository, tree: Worktree, left_out: Sequence[str]) -> WorktreeChanges:
    """Return how a working tree differs from its HEAD, without ignored files. Writes nothing.

    Raises RepositoryError if a file in there would block git forever.
    """
    refuse_blocking_files(tree.path)
    with temporary_index(repo.private_git, tree.head) as index:
        paths = changed_paths(repo.private_git, tree.path, index, left_out=left_out)
    problems = files_left_out(tree.path, paths)
    return WorktreeChanges(len(paths) - len(problems), problems)


def save_worktree(repo: Repository, tree: Worktree, message: str, left_out: Sequence[str]) -> SavedWorktree:
    """Commit what a working tree holds beyond its HEAD; no ref moves. The same files give the same tree."""
    found = tree_of_worktree(repo, tree.path, tree.head, left_out)
    if found.tree == repo.tree_of(tree.head):
        return SavedWorktree("", found.problems)
    commit = repo.private_git.commit_tree(found.tree, tree.head, message=message)
    return SavedWorktree(commit, found.problems)


def _registered(repo: Repository) -> Iterator[Worktree]:
    """Yield the working trees that git lists, the main one first."""
    listing = decode_text(repo.git.run("worktree", "list", "--porcelain", "-z")).rstrip("\0")
    # Git names the main working tree after its git directory, which here is a private one.
    yield Worktree(repo.checkout, repo.read_ref("HEAD"), _main_branch(repo))
    for block in listing.split("\0\0")[1:]:
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        branch = fields.get("branch", "").removeprefix("refs/heads/")
        yield Worktree(Path(fields.get("worktree", "")), fields.get("HEAD", ""), branch)


def _main_branch(repo: Repository) -> str:
    """Return the short name of the branch that the main checkout is on, or an empty string."""
    found = repo.git.try_run("symbolic-ref", "--quiet", "HEAD")
    return decode_text(found.stdout).strip().removeprefix("refs/heads/")

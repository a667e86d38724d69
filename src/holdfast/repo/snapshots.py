"""Snapshots of unfinished work: takes them, lists them, compares one with its workspace, and restores one elsewhere.

A snapshot is a commit on the task's snapshot ref, whose reflog keeps the earlier ones. Taking one disturbs no agent;
restoring one writes a new directory, and no workspace, ref or file that exists changes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.blocking_files import blocking_files
from holdfast.repo.files import copy_atomically, is_plain_directory
from holdfast.repo.git import GitError
from holdfast.repo.index import changed_paths, temporary_index
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspace_commit import (
    WorkspaceTree,
    agent_head,
    commit_on_ref,
    left_out_in_commits,
    tree_of_workspace,
)
from holdfast.repo.workspace_files import ignore_patterns
from holdfast.system_errors import doing

_SHOWN_MAX = 200
_PROBLEMS_MAX = 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: the oldest of a task has number 1. `files` are those it changes against its parent."""

    number: int
    commit: str
    at: float
    message: str
    files: int


@dataclass(frozen=True, slots=True)
class UnsavedFiles:
    """How many files of a workspace are nowhere else; None if that is unknown, and why. `gone`: there is no workspace."""

    count: int | None
    unknown_because: str = ""
    gone: bool = False


def take_snapshot(
    repo: Repository,
    workspace: Workspace,
    ref: str,
    message: str | Callable[[Sequence[str]], str],
    read_files: Callable[[Callable[[], WorkspaceTree]], WorkspaceTree] = lambda read: read(),
) -> str:
    """Save a workspace at `ref` while an agent may be working in it; return the commit that holds its work.

    `read_files` calls what reads the files; it may see to it that nothing else can be read. If `message` is a function, it words the new commit, if any, from the paths that differ from the start.
    Returns an empty string when there is nothing beyond the start. When nothing changed since the last snapshot,
    that one is returned.
    """
    workspace.require_present()
    head = agent_head(repo, workspace, ref) or workspace.start()
    if left_out_in_commits(repo, workspace, head):
        head = workspace.start()  # what the next attempt builds on must not hold them, either
    if not head:
        return ""
    found = read_files(partial(tree_of_workspace, repo, workspace, head))
    start = workspace.start() or head
    if found.tree == repo.tree_of(start) and _changes_nothing(repo, start, head):
        return ""

    def words() -> str:
        said = message if isinstance(message, str) else message(repo.changed_files(start, found.tree))
        problems = "\n".join(found.problems[:_PROBLEMS_MAX])
        return f"{said}\n\n{problems}" if problems else said

    return commit_on_ref(repo, found.tree, head, ref, words, may_reuse_parent=True, logged=True)


def count_snapshots(repo: Repository, ref: str) -> int:
    """Return how many snapshots a ref ever held; its reflog remembers them."""
    result = repo.git.try_run("rev-list", "--walk-reflogs", "--count", ref)
    return int(result.stdout) if result.rc == 0 else 0


def list_snapshots(repo: Repository, ref: str) -> list[Snapshot]:
    """Return the snapshots of a ref, newest first, the latest two hundred at most."""
    if not repo.read_ref(ref):
        return []
    total = count_snapshots(repo, ref)
    shape = ("--walk-reflogs", f"--max-count={_SHOWN_MAX}", "--format=%H%x00%ct%x00%B%x00%x01")
    said = repo.git.run("log", "--no-show-signature", *shape, ref, "--").decode("utf-8", "replace")
    entries = [entry.strip("\n").split("\0")[:3] for entry in said.split("\x01") if entry.strip()]
    return [
        Snapshot(total - place, commit, float(at), message.strip(), _files_changed(repo, commit))
        for place, (commit, at, message) in enumerate(entries)
    ]


def restore_snapshot(repo: Repository, commit: str, directory: Path) -> int:
    """Write the files of a commit into a new directory and return how many there are.

    Raises RepositoryError if anything is there already: what exists is never overwritten. The directory has its name
    only when all files are in it.
    """
    if os.path.lexists(directory):
        raise RepositoryError(f"{directory} already exists.", "Name a directory that does not exist yet.")
    draft = directory.with_name(f".{directory.name}.restoring-{os.getpid()}").absolute()
    try:
        with doing("restore the files", directory):
            draft.mkdir(parents=True)
        with temporary_index(repo.private_git) as index:
            repo.private_git.run("read-tree", "--reset", "-u", commit, work_tree=draft, index=index)
            written = len(repo.private_git.paths("ls-files", "-z", index=index))
        draft.rename(directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return written


def unsaved_files(repo: Repository, workspace: Workspace, saved: str) -> UnsavedFiles:
    """Return how many files of a workspace differ from the commit `saved`, or why that cannot be told.

    Writes nothing: the comparison uses its own index outside the repository.
    """
    try:
        if not is_plain_directory(workspace.path):
            return UnsavedFiles(None, "its workspace is gone", gone=True)
        if blocking := next(iter(blocking_files(workspace.path, by_agents=True)), None):
            return UnsavedFiles(None, f"git would wait forever at {blocking}")
        return UnsavedFiles(_count_differing(repo, workspace, saved))
    except (GitError, OSError) as error:  # a power cut tore the index, or a folder is closed
        return UnsavedFiles(None, f"its workspace cannot be read: {str(error).splitlines()[0]}")


def _count_differing(repo: Repository, workspace: Workspace, saved: str) -> int:
    with temporary_index(repo.private_git) as index:
        if workspace.index.is_file():
            copy_atomically(workspace.index, index)  # what it knows need not be read again
        repo.private_git.run("read-tree", "--reset", saved, work_tree=workspace.path, index=index)
        left_out = ignore_patterns(workspace.left_out)
        return len(changed_paths(repo.private_git, workspace.path, index, left_out=left_out))


def _changes_nothing(repo: Repository, start: str, head: str) -> bool:
    """Tell whether every commit from `start` to `head` has the files of `start`: an agent may commit without having written."""
    if head == start:
        return True
    trees = repo.git.text("log", "--no-show-signature", "--format=%T", f"{start}..{head}", "--").split()
    return set(trees) == {repo.tree_of(start)}


def _files_changed(repo: Repository, commit: str) -> int:
    result = repo.git.try_run("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"{commit}^1", commit)
    return result.stdout.count(b"\0")

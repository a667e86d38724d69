"""The snapshots of unfinished work: which there are, how they differ from a workspace, and how to get one back.

Nothing here changes a workspace, a ref or a file that exists.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.blocking_files import blocking_files
from holdfast.repo.files import copy_atomically
from holdfast.repo.index import changed_paths
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspace

_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: the oldest of a task has number 1. `files` are those it changes against its parent."""

    number: int
    commit: str
    at: float
    message: str
    files: int


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


def refs_by_commit(repo: Repository, prefix: str) -> dict[str, str]:
    """Return which ref below `prefix` holds which commit."""
    listed = repo.git.run("for-each-ref", "--format=%(objectname) %(refname)", prefix)
    lines = listed.decode("utf-8", "surrogateescape").splitlines()
    return {commit: ref for commit, _, ref in (line.partition(" ") for line in lines)}


def restore_snapshot(repo: Repository, commit: str, directory: Path) -> int:
    """Write the files of a commit into a new directory and return how many there are.

    Raises RepositoryError if anything is there already: what exists is never written over.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError as error:
        raise RepositoryError(
            f"{directory} exists already.", "Name a directory that does not exist yet."
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        repo.private_git.run("read-tree", "--reset", "-u", commit, work_tree=directory.absolute(), env=env)
        listed = repo.private_git.run("ls-files", "-z", env=env)
    return listed.count(b"\0")


def unsaved_files(repo: Repository, workspace: Workspace, saved: str) -> int | None:
    """Return how many files of a workspace differ from the commit `saved`; None if git cannot tell.

    Reads only: the comparison uses an index of its own, outside the repository.
    """
    if not workspace.path.is_dir() or not workspace.index.is_file():
        return None
    if any(blocking_files(workspace.path)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        copy_atomically(workspace.index, index)
        env = {"GIT_INDEX_FILE": str(index)}
        repo.private_git.run("read-tree", "--reset", saved, work_tree=workspace.path, env=env)
        return len(changed_paths(repo.private_git, workspace.path, index))


def _files_changed(repo: Repository, commit: str) -> int:
    result = repo.git.try_run("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"{commit}^1", commit)
    return result.stdout.count(b"\0")

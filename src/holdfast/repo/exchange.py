"""Workspaces on their way between hosts: the state of one as a commit, which goes through a git server that both reach.

The commit's parent is the one that the workspace is on; `work` in its tree is all that the workspace holds and git does not
ignore. Beside that lie pieces of files that only grow, such as what a launch printed: each under the offset where it begins.
The refs at the server are ours alone. Nothing here touches a branch, and what lands is decided elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.ids import run_refs_prefix
from holdfast.errors import RepositoryError
from holdfast.redaction import redact
from holdfast.repo.discovery import RepositoryLocation, read_git_config
from holdfast.repo.files import copy_atomically, read_regular, write_atomically, write_durably
from holdfast.repo.git import Git, GitResult, decode_text
from holdfast.repo.index import changed_paths, temporary_index
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspace_commit import agent_head, tree_of_workspace, tree_of_worktree

_FOLDER, _FILE = "040000 tree", "100644 blob"
_WORK = "work"
_PLACE = "holdfast-host"
"""The file that says on which host the files of a workspace are. Whoever prepares the workspace anew removes it."""
_SAID_CHARS = 400

Pieces = Mapping[str, Mapping[int, str]]
"""For each growing file its pieces: the blob of each, under the offset where it begins."""


class ExchangeError(RepositoryError):
    """The git server through which workspaces travel did not do what we asked. The same may be tried again."""


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """What a workspace holds: the commit that it is on, the tree of its files, and what could not be taken."""

    head: str
    work: str
    problems: tuple[str, ...] = ()
    pieces: Pieces = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkspacePlace:
    """Where the files of a workspace really are, those that git ignores among them: on a host, which had this tree of it."""

    host: str = ""
    work: str = ""


def cached_repository(folder: Path) -> Repository:
    """Return the repository in which a host keeps what it fetched; made if it is not there. It has no branch and no files."""
    git_dir = folder / ".git"
    if not (git_dir / "HEAD").is_file():
        git_dir.mkdir(parents=True, exist_ok=True)
        git = Git(git_dir)
        git.run("init", "--quiet")
        git.run("config", "core.bare", "false")
    repo = Repository(RepositoryLocation(git_dir, folder, git_dir, read_git_config(git_dir)))
    repo.prepare_state_dir()
    return repo


# -- commits that hold a state --------------------------------------------------------------------------------


def save_state(repo: Repository, state: WorkspaceState) -> str:
    """Return a new commit that holds a state; never one that another launch sent, which would be dropped with that. No ref holds it yet."""
    entries = [(_FOLDER, state.work, _WORK)]
    for name, pieces in state.pieces.items():
        files = [(_FILE, blob, f"{start:015d}") for start, blob in pieces.items()]
        entries.append((_FOLDER, _tree(repo, files), name))
    return repo.private_git.commit_tree(
        _tree(repo, entries), state.head, message=f"A workspace on its way: {os.urandom(8).hex()}"
    )


def read_state(repo: Repository, commit: str) -> WorkspaceState:
    """Return the state that a commit holds, which must be here. Raises ExchangeError if it is no such commit."""
    head, work = repo.ids_of(f"{commit}^1", f"{commit}:{_WORK}")
    if not (head and work):
        raise ExchangeError(f"commit {commit[:12]} holds no workspace", "another program writes to our refs")
    listed = repo.git.paths("ls-tree", "-z", "--name-only", commit)
    return WorkspaceState(
        head, work, pieces={name: _pieces(repo, f"{commit}:{name}") for name in listed if name != _WORK}
    )


def save_piece(repo: Repository, data: bytes) -> str:
    """Store a piece of a growing file and return its blob."""
    return repo.private_git.text("hash-object", "-w", "--stdin", stdin=data)


def read_pieces(repo: Repository, state: WorkspaceState, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a growing file that a state carries, each with the offset where it begins."""
    for start, blob in sorted(state.pieces.get(name, {}).items()):
        yield start, repo.git.run("cat-file", "blob", blob)


def _tree(repo: Repository, entries: list[tuple[str, str, str]]) -> str:
    lines = "".join(f"{kind} {name}\t{path}\n" for kind, name, path in entries)
    return repo.private_git.text("mktree", stdin=lines.encode())


def _pieces(repo: Repository, folder: str) -> dict[int, str]:
    entries = (line.partition("\t") for line in repo.git.paths("ls-tree", "-z", folder))
    return {int(name): about.split()[2] for about, _, name in entries}


# -- states of workspaces -------------------------------------------------------------------------------------


def prepared_state(repo: Repository, workspace: Workspace) -> WorkspaceState:
    """Return the state of a workspace in which no process works here: what the next launch is to find."""
    head = workspace.head() or workspace.start()
    with temporary_index(repo.private_git) as index:
        # Git's own index knows the files as they were put there: if none changed, none need be read.
        copy_atomically(workspace.git_dir / "index", index)
        if not changed_paths(repo.private_git, workspace.path, index):
            return WorkspaceState(head, repo.private_git.text("write-tree", index=index))
    base = place_of(workspace).work or head
    found = tree_of_worktree(repo, workspace.path, base, ())
    return WorkspaceState(head, found.tree, found.problems)


def worked_state(repo: Repository, workspace: Workspace, ref: str) -> WorkspaceState:
    """Return the state of a workspace in which an agent works, or has worked; `ref` is where its work is kept."""
    workspace.require_present()
    head = agent_head(repo, workspace, ref) or workspace.start()
    found = tree_of_workspace(repo, workspace, head)
    return WorkspaceState(head, found.tree, found.problems)


def take_over(repo: Repository, workspace: Workspace, state: WorkspaceState) -> None:
    """Bring a workspace in which no process works here to a state. Idempotent.

    Its git index gets all files of the state: so what an agent added although it is ignored counts here, too. Git works on a
    copy of it: killed half-way, it leaves its lock beside that one.
    """
    index = workspace.git_dir / "index"
    copy = index.with_name(f"index.{os.urandom(4).hex()}")
    if index.is_file():
        copy_atomically(index, copy)
    repo.private_git.run("read-tree", "--reset", "-u", state.work, work_tree=workspace.path, index=copy)
    copy.replace(index)
    write_durably(workspace.git_dir / "HEAD", state.head.encode() + b"\n")


def change_files(repo: Repository, workspace: Workspace, old: str, new: str) -> None:
    """Bring the files of a workspace from one tree to another, and leave alone all that is in neither: what git ignores."""
    index = workspace.index.with_suffix(".moved")
    try:
        git = repo.private_git
        git.run("read-tree", "--reset", old, work_tree=workspace.path, index=index)
        git.try_run("update-index", "-q", "--refresh", work_tree=workspace.path, index=index)
        git.run("read-tree", "--reset", "-u", new, work_tree=workspace.path, index=index)
    finally:
        index.unlink(missing_ok=True)


def place_of(workspace: Workspace) -> WorkspacePlace:
    """Return on which host the files of a workspace are; no host if they are all here."""
    try:
        host, _, work = read_regular(workspace.git_dir / _PLACE).decode().partition(" ")
    except (OSError, UnicodeDecodeError):
        return WorkspacePlace()
    return WorkspacePlace(host, work)


def note_place(workspace: Workspace, place: WorkspacePlace) -> None:
    """Write down on which host the files of a workspace are."""
    write_atomically(workspace.git_dir / _PLACE, f"{place.host} {place.work}".encode())


def carried_ref(run: str, workspace: str) -> str:
    """Return the ref that keeps the last state of a workspace that came from a host."""
    return f"{run_refs_prefix(run)}carried/{workspace}"


# -- the server -----------------------------------------------------------------------------------------------


def push_state(repo: Repository, url: str, ref: str, commit: str) -> None:
    """Make a ref of ours at the server hold a commit. Raises ExchangeError. Idempotent."""
    options = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--force")
    _require(repo.git.run_as_user("push", *options, url, f"{commit}:{ref}"), f"push to {redact(url)}")


def fetch_state(repo: Repository, url: str, ref: str, commit: str, keep: str) -> None:
    """Have a commit that a ref at the server holds, and keep it at a ref of ours. Raises ExchangeError. Idempotent."""
    if not repo.exists(commit):
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        _require(repo.git.run_as_user("fetch", *options, url, ref), f"fetch from {redact(url)}")
    if not repo.exists(commit):
        raise ExchangeError(
            f"{ref} at {redact(url)} does not hold {commit[:12]}", "somebody else writes there"
        )
    repo.keep(keep, commit)


def drop_states(repo: Repository, url: str, *refs: str) -> None:
    """Remove refs of ours at the server. What cannot be removed now stays, and costs room only."""
    with suppress(RepositoryError):
        repo.git.run_as_user("push", "--quiet", "--no-verify", url, *(f":{ref}" for ref in refs))


def _require(done: GitResult, what: str) -> None:
    if done.rc != 0:
        said = " ".join(redact(done.stderr or decode_text(done.stdout)).split())[-_SAID_CHARS:]
        raise ExchangeError(
            f"git could not {what}: {said}",
            "`git ls-remote` with that address shows whether it can be reached",
        )

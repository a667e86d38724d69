"""Keeping what an agent did: a snapshot while it works, a commit when it is done.

Neither touches the agent's index, HEAD, branches or stash. The index used is Holdfast's own, so files which an agent
told git to overlook are seen all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.repo.durability import sync_objects
from holdfast.repo.harvest import Harvest, harvest
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspace

_LISTED_MAX = 20
_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class Captured:
    """What an attempt produced: `changed` and `empty` compare with the commit it started from.

    `problems` name work that could not be taken; `remarks` are worth knowing, but nothing is missing.
    """

    commit: str
    tree: str
    changed: tuple[str, ...]
    empty: bool
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def commit_work(
    repo: Repository, workspace: Workspace, start: str, ref: str, message: str, archive: str
) -> Captured:
    """Commit all that a workspace holds and keep it at `ref`, after the agent is dead.

    Commits the agent made itself are kept below ours. If it moved to a history without `start`, that history is kept
    at the ref `archive` and our commit follows `start`. Done again, it finds the commit that `ref` already holds.
    """
    workspace.require_present()
    head = agent_head(repo, workspace)
    remarks: list[str] = []
    parent = head
    if head != start and not (head and repo.is_ancestor(start, head)):
        remarks.append(_archive_stray_head(repo, head, archive))
        parent = start
    if parent != start:
        sync_objects(repo, start, parent)
    found = harvest(repo, workspace, parent)
    # Even work that changed nothing gets a commit of its own: a merge needs a second parent to prove it landed.
    own_history = parent != start
    commit = _commit_of(repo, found.tree, parent, ref, lambda: message, may_reuse_parent=own_history)
    changed, pointers = _changes(repo, start, commit)
    problems = [
        f"{path} points to a commit of another repository; its files are not part of it." for path in pointers
    ]
    return Captured(
        commit, found.tree, changed, not changed, (*problems, *found.problems), (*remarks, *found.remarks)
    )


def snapshot(
    repo: Repository, workspace: Workspace, ref: str, message: str | Callable[[Sequence[str]], str]
) -> str:
    """Save a workspace at `ref` while an agent may be working in it; return the commit that holds its work.

    A `message` that is a function words the commit from the paths that differ from the start, if one is made.
    Returns an empty string when there is nothing beyond the start. The ref's reflog keeps the earlier snapshots.
    When nothing changed since the last snapshot, that one is returned.
    """
    workspace.require_present()
    head = agent_head(repo, workspace) or workspace.start()
    if not head:
        return ""
    found = harvest(repo, workspace, head)
    if head == workspace.start() and found.tree == repo.tree_of(head):
        return ""
    start = workspace.start() or head

    def words() -> str:
        said = message if isinstance(message, str) else message(repo.changed_files(start, found.tree))
        return _with_problems(said, found)

    return _commit_of(repo, found.tree, head, ref, words, may_reuse_parent=True)


def agent_head(repo: Repository, workspace: Workspace) -> str:
    """Return the commit that the workspace is on, or an empty string if its HEAD is gone or leads nowhere.

    Read by hand: asking git would make it read configuration that the agent controls.
    """
    head = workspace.git_dir / "HEAD"
    try:
        # A pipe or a device that an agent put in its place would keep us reading for ever.
        content = "" if head.is_symlink() or not head.is_file() else head.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    named = re.fullmatch(r"(?:ref: (refs/heads/\S+)|([0-9a-f]{40,64}))\n?", content)
    if not named:
        return ""
    if named[2] and named[2] == workspace.start():
        return named[
            2
        ]  # where we put it, like nearly always: no need to ask git whether there is such a commit
    return repo.ids_of(f"{named[1] or named[2]}^{{commit}}")[0]


def _changes(repo: Repository, old: str, new: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the changed paths, and those of them which are pointers into other repositories now."""
    fields = repo.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new)
    modes, paths = (fields.decode("utf-8", "surrogateescape").split("\0")[at::2] for at in (0, 1))
    pairs = list(zip(modes, paths, strict=False))
    return tuple(path for _, path in pairs), [path for mode, path in pairs if mode.split()[1] == _GITLINK]


def _archive_stray_head(repo: Repository, head: str, archive: str) -> str:
    if not head:
        return "The agent left its workspace on no commit; the files were taken as they are."
    repo.keep(archive, head)
    return f"The agent moved to {head[:12]}, which lacks the commit it started from; that history is kept at {archive}."


def _commit_of(
    repo: Repository, tree: str, parent: str, ref: str, message: Callable[[], str], *, may_reuse_parent: bool
) -> str:
    """Return a commit with this tree on top of `parent`, or `parent` itself if that says it all; `ref` holds it."""
    parents_tree, before, tree_before, parent_before = repo.ids_of(
        f"{parent}^{{tree}}", ref, f"{ref}^{{tree}}", f"{ref}^1"
    )
    if may_reuse_parent and tree == parents_tree:
        commit = parent
    elif (tree_before, parent_before) == (tree, parent):
        commit = before
    else:
        text = message().encode("utf-8", "surrogateescape")
        commit = repo.sealed.run("commit-tree", "-p", parent, tree, stdin=text).decode().strip()
    if commit != before:
        repo.keep(ref, commit)
    return commit


def _with_problems(message: str, found: Harvest) -> str:
    listed = "\n".join(found.problems[:_LISTED_MAX])
    return f"{message}\n\n{listed}" if listed else message

"""What a person merged by hand: whether the work in a taken workspace is based on what landed since it was taken.

Only commits of the run branch count, up to the tip that the journal knows: their tasks have landed, so nothing counts as landed
that has not. Any other history of other tasks is refused as an agent's would be (`workspace_commit.py`).
"""

from __future__ import annotations

import re

from holdfast.core.conflicts import has_markers
from holdfast.repo.git import decode_text
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace


def merge_under_way(repo: Repository, workspace: Workspace, landed: str) -> str:
    """Return the commit of the run branch that the person is merging and has resolved, but not committed; else nothing.

    `landed` is the tip of the run branch. A person who edits the markers away need not stage the files.
    """
    found = re.fullmatch(r"([0-9a-f]{40,64})\n?", decode_text(workspace.git_file("MERGE_HEAD")))
    if not landed or not found or not repo.is_ancestor(found[1], landed):
        return ""
    listed = repo.private_git.try_run(
        "ls-files", "-z", "--unmerged", work_tree=workspace.path, index=workspace.git_dir / "index"
    )
    if listed.rc != 0:
        return ""
    unmerged = {entry.partition("\t")[2] for entry in decode_text(listed.stdout).split("\0") if entry}
    return "" if any(_has_markers(workspace, path) for path in unmerged) else found[1]


def merges(repo: Repository, workspace: Workspace, landed: str) -> bool:
    """Tell whether the person has merged a commit into the workspace, or is about to."""
    heads = (decode_text(workspace.git_file(name)).strip() for name in ("HEAD", "MERGE_HEAD"))
    commits = repo.ids_of(*(f"{head.removeprefix('ref: ') or '0'}^{{commit}}" for head in heads))
    return any(repo.is_ancestor(landed, commit) for commit in commits if commit)


def landed_below(repo: Repository, start: str, commit: str, landed: str) -> str:
    """Return the newest commit of the run branch that `commit` is based on; nothing if it is no newer than `start`."""
    newest = repo.merge_base(commit, landed) if commit and landed else ""
    return "" if not newest or repo.is_ancestor(newest, start) else newest


def holds_landed(repo: Repository, start: str, newest: str, tree: str) -> bool:
    """Tell whether a tree holds anything of what landed from `start` to `newest`, or changed it on purpose.

    After `git reset --soft` to the run branch it does not: based on that commit, it would undo what landed.
    """
    landed, given = (
        set(repo.git.paths("diff-tree", "-r", "-z", "--name-only", "--no-renames", start, new))
        for new in (newest, tree)
    )
    return not landed or bool(landed & given)


def _has_markers(workspace: Workspace, path: str) -> bool:
    file = workspace.path / path
    return file.is_file() and has_markers(file.read_text(errors="replace"))

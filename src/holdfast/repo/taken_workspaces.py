"""The workspaces of people who took a task: made for them, read when they give it, saved before anything removes them.

Each is a linked worktree of the run's own pool, so that the person's git works in it, on no branch. No agent and no check uses
it. From the moment it is handed over, the files in it are the person's. What the plan copies and links is put in; set-up is not
run, and as in every workspace nothing that the plan brings lands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from holdfast.core import ids
from holdfast.core.plan import PlanWorkspace
from holdfast.repo.blocking_files import blocking_files
from holdfast.repo.files import closed_folders, is_plain_directory
from holdfast.repo.landing import trailers
from holdfast.repo.refs import run_refs
from holdfast.repo.repository import Repository
from holdfast.repo.uncollected_work import WayOut, capture_or_move_aside
from holdfast.repo.workspace import Workspace, WorkspaceGoneError
from holdfast.repo.workspace_commit import agent_head, commit_on_ref, tree_of_workspace
from holdfast.repo.workspaces import MODULES, Workspaces


def taken_workspace(repo: Repository, run: str, task: str, setting: PlanWorkspace) -> Workspace:
    """Return where the workspace of the person who took a task is, whether or not it exists yet."""
    return _pool(repo, run, setting).get(ids.taken_workspace_name(task))


def taken_names(workspaces: Workspaces) -> list[str]:
    """Return the workspaces of a pool that are for people."""
    return [name for name in workspaces.names() if name.startswith(ids.TAKEN_PREFIX)]


def prepare_taken(repo: Repository, run: str, task: str, commit: str, setting: PlanWorkspace) -> Path:
    """Make the workspace of a person hold exactly `commit`, and return its directory. Safe to repeat.

    What an earlier one holds is saved first: a person may have gone on in it. Raises FilesMissingError if the checkout
    lacks what is copied or linked.
    """
    pool, name = _pool(repo, run, setting), ids.taken_workspace_name(task)
    again = f"It is yours and stays as it is. `holdfast take {run} {task}` tries again."
    _save_or_move_aside(repo, pool, run, name, WayOut(again))
    return pool.prepare(name, commit, or_raw=True)


def save_taken(repo: Repository, run: str, setting: PlanWorkspace, keep: Collection[str] = ()) -> None:
    """Save what is in the workspaces of people, but not in those to `keep`, so that they may be removed. Idempotent.

    A workspace with files that cannot be committed is moved aside, where it stays until that person deletes it. Raises
    UncollectedError on a full disk, say: then it stays where it is.
    """
    pool = _pool(repo, run, setting)
    way_out = WayOut(
        f"The run is over. That folder is yours, and stays: `holdfast clean {run}` saves it, then removes it."
    )
    for name in taken_names(pool):
        if name not in keep:
            _save_or_move_aside(repo, pool, run, name, way_out)


def keep_given(repo: Repository, run: str, task: str, commit: str) -> None:
    """Keep what a person gave at a ref that `clean` leaves unless it landed: a check may refuse it, nobody else has it. Idempotent."""
    repo.keep(ids.taken_commit_ref(run, task, commit), commit)


def _pool(repo: Repository, run: str, setting: PlanWorkspace) -> Workspaces:
    return Workspaces(repo, repo.state_dir.run(run).workspaces, setting=setting)


def _save_or_move_aside(repo: Repository, pool: Workspaces, run: str, name: str, way_out: WayOut) -> None:
    def save() -> bool:
        return _save(repo, pool.get(name), run, name.removeprefix(ids.TAKEN_PREFIX))

    with suppress(WorkspaceGoneError):
        if not capture_or_move_aside(pool, name, save, way_out):
            pool.move_uncommitted(name)


def _save(repo: Repository, workspace: Workspace, run: str, task: str) -> bool:
    """Commit the files at a ref of their own unless a ref has them. What it held before gets a ref, too: git forgets a log.

    Returns whether that is all: what git ignores is in no commit, nor is the history of a repository in there.
    """
    workspace.require_present()
    _keep_commits(repo, workspace, run, task)
    head = agent_head(repo, workspace, ids.task_ref(run, task, 1)) or workspace.start()
    if not head:
        return True  # it was being made when everything was killed: nobody was told of it yet
    if any(blocking_files(workspace.path)):
        return False  # git would wait for one, so nothing can be committed
    found = tree_of_workspace(repo, workspace, head, look_behind=True)
    behind = [path for path in found.left_behind if _holds_files(workspace.path / path)]
    is_all = not (found.problems or behind or _holds_repository(workspace))
    if head == workspace.start() and found.tree in _known_trees(repo, run, task, head):
        return is_all
    message = f"{task}: left in the workspace of the person who took it\n\n{trailers(run, task, 0)}"
    ref = ids.taken_ref(run, task)
    before = repo.read_ref(ref)
    if before and repo.tree_of(before) != found.tree:
        repo.keep(ids.taken_commit_ref(run, task, before), before)
    commit_on_ref(repo, found.tree, head, ref, lambda: message, may_reuse_parent=True, logged=True)
    return is_all


def _keep_commits(repo: Repository, workspace: Workspace, run: str, task: str) -> None:
    """Keep every commit that the workspace was ever on, each line of them at a ref of its own.

    Not those below what was handed over, nor those that a ref reaches which `clean` leaves.
    """
    logged = re.findall(rb"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", workspace.git_file("logs/HEAD"), re.M)
    named = dict.fromkeys(commit.decode() for pair in logged for commit in pair)
    found = (
        [commit for commit in repo.ids_of(*(f"{name}^{{commit}}" for name in named)) if commit]
        if named
        else []
    )
    start = workspace.start()
    whole = [commit for commit in found if repo.is_complete(commit, start)]
    if not whole:
        return
    lasting = (ref for ref in run_refs(repo, run) if ids.is_taken_ref(ref))
    others = (f"--exclude={ids.run_refs_prefix(run)}*", "--glob=refs/*")
    known = (*filter(None, [start]), *lasting)
    listed = repo.git.text("rev-list", "--parents", *whole, "--not", *known, *others)
    lines = [line.split() for line in listed.splitlines()]
    below = {parent for _, *parents in lines for parent in parents}
    for commit in (line[0] for line in lines if line[0] not in below):
        repo.keep(ids.taken_commit_ref(run, task, commit), commit)


def _holds_files(path: Path) -> bool:
    """Tell whether a path is a file or a link, or a folder with any in it. One that we may not read may have some."""
    return (
        not is_plain_directory(path)
        or any(names for _, _, names in os.walk(path))
        or bool(closed_folders(path))
    )


def _holds_repository(workspace: Workspace) -> bool:
    """Tell whether a repository of its own is in a workspace, outside of what the plan brings: its files are saved, its history is not.

    That of a submodule is among git's files about the workspace.
    """
    if is_plain_directory(workspace.git_dir / MODULES):
        return True
    passed_over = {str(workspace.path / path) for path in workspace.left_out}
    for folder, folders, names in os.walk(workspace.path):
        if folder != str(workspace.path) and ".git" in (*folders, *names):
            return True
        folders[:] = [name for name in folders if f"{folder}/{name}" not in passed_over and name != ".git"]
    return False


def _known_trees(repo: Repository, run: str, task: str, start: str) -> set[str]:
    """Return the trees that need not be saved: the start, and what was given before. `clean` deletes the refs of attempts."""
    given = [
        commit
        for ref, commit in run_refs(repo, run).items()
        if ref == ids.taken_commit_ref(run, task, commit)
    ]
    return {repo.tree_of(commit) for commit in (start, *given)}

"""What is left of a run whose journal is lost: its refs, its attempt folders, its workspaces. Nothing is thrown away.

Everything here can be repeated: what was saved before is found again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.core import ids
from holdfast.core.facts import BranchFacts
from holdfast.core.plan import Plan
from holdfast.core.restore import Remains
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.paths import RunDir
from holdfast.repo.capture import snapshot
from holdfast.repo.debris import clear_debris
from holdfast.repo.history import branch_facts
from holdfast.repo.landing import trailers
from holdfast.repo.record import commit_time, run_refs
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import WorkspaceGoneError, Workspaces
from holdfast.runner.trouble import secured


@dataclass(frozen=True, slots=True)
class Found:
    """A run as git and its folders show it. `put_away`: its branch was archived by the user's wish."""

    branch: BranchFacts
    refs: dict[str, str]
    put_away: bool = False


async def end_and_save(repo: Repository, fleet: LocalFleet, run: str, plan: Plan) -> None:
    """End what a dead runner left running, and commit what is in its workspaces. The caller holds the run's lease."""
    await fleet.sweep(run, frozenset())
    pool = Workspaces(repo, repo.state.run(run).workspaces)
    clear_debris(repo, pool)
    occupants = fleet.occupants(run, AGENT_STEP)
    for name in filter(str.isdigit, pool.names()):
        _save(repo, pool, name, occupants.get(str(pool.path(name))), run, plan)


def look(repo: Repository, run: str, base: str) -> Found:
    """Return what git shows of a run. If its branch was put away, the archived one speaks for it."""
    refs = run_refs(repo, run)
    branch = branch_facts(repo, ids.run_branch(run), base, run)
    if branch.tip:
        return Found(branch, refs)
    archived = [ref for ref in refs if ref.startswith(ids.archive_ref(run, "branch-"))]
    if not archived:
        return Found(branch, refs)
    newest = max(archived, key=lambda ref: commit_time(repo, ref))
    return Found(branch_facts(repo, newest, base, run), refs, put_away=True)


def remains_of(repo: Repository, run: str, plan: Plan, base: str, found: Found) -> dict[str, Remains]:
    """Return what is left of every task that was ever begun."""
    landed = {landing.task: landing.attempt for landing in found.branch.landings}
    tip, remains = found.branch.tip or base, {}
    for _, task in plan.tasks():
        commits = {
            number: commit
            for ref, commit in found.refs.items()
            if (number := ids.attempt_of_ref(run, task.id, ref))
        }
        folders = _attempt_folders(repo.state.run(run), task.id)
        attempts = max([0, landed.get(task.id, 0), *commits, *folders])
        wip = found.refs.get(ids.wip_ref(run, task.id), "")
        carry = "" if task.id in landed else _newest(repo, commits[max(commits)] if commits else "", wip)
        if attempts or carry:
            below = (repo.merge_base(tip, carry) or base) if carry else ""
            remains[task.id] = Remains(max(attempts, 1), carry, below)
    return remains


def last_epoch(directory: RunDir) -> int:
    """Return the highest epoch under which a check of the run was ever started, as far as its folders tell."""
    names = (path.name for path in directory.attempts.glob("*/*/*"))
    return max((int(found[1]) for name in names if (found := re.search(r"-(\d+)\.\d+$", name))), default=0)


def _newest(repo: Repository, done: str, wip: str) -> str:
    """Return which of two commits of a task has its latest work: the one that contains the other, else the later."""
    if not (done and wip):
        return done or wip
    if repo.is_ancestor(wip, done):
        return done
    later = repo.is_ancestor(done, wip) or commit_time(repo, wip) > commit_time(repo, done)
    return wip if later else done


def _save(
    repo: Repository, pool: Workspaces, name: str, last: LaunchKey | None, run: str, plan: Plan
) -> None:
    """Commit a workspace for the task whose agent worked in it last, unless that was collected; else archive it."""
    message = f"WIP found in workspace {name} when the journal was lost"
    ref = ids.archive_ref(run, f"workspace-{name}")
    if last is not None and any(task.id == last.owner for _, task in plan.tasks()):
        if repo.read_ref(ids.task_ref(run, last.owner, last.attempt)):
            return
        ref = ids.wip_ref(run, last.owner)
        message += f"\n\n{trailers(run, last.owner, last.attempt)}"
    try:
        secured(pool.path(name), partial(snapshot, repo, pool.get(name), ref, message))
    except WorkspaceGoneError:
        return  # It was deleted together with the state; the snapshots taken before are at their ref.


def _attempt_folders(directory: RunDir, task: str) -> list[int]:
    folders: list[Path] = list((directory.attempts / task).glob("*"))
    return [int(folder.name) for folder in folders if folder.name.isdecimal()]

"""`take` without a live runner: a person gets a task and a workspace of it. With one, the runner does this itself.

Write, act, write: what is taken, and from which commit, is durable before the workspace is made. Until that is recorded as handed
over nobody is told of it, so whoever is killed in between makes it again.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.people import is_being_handed_over, lacks_merge, start_by_hand
from holdfast.core.projection import TaskRow
from holdfast.core.status import TaskStatus
from holdfast.journal.protocol import Journal
from holdfast.repo.files import is_plain_directory
from holdfast.repo.persons_merge import merges
from holdfast.repo.repository import Repository
from holdfast.repo.taken_workspaces import prepare_taken, taken_workspace
from holdfast.repo.workspace import Workspace
from holdfast.runner.attempts.person import handed_over
from holdfast.runner.context import Observer
from holdfast.runner.decisions.user_decisions import deciding, stop_leftover_agents
from holdfast.system_errors import doing

_UNDER_WAY = (TaskStatus.RUNNING, TaskStatus.VERIFYING, TaskStatus.MERGING)


def take_task(repo: Repository, journal: Journal, run: str, task: str, observer: Observer) -> Path:
    """Give a person a task of a run that no runner executes; return the workspace. Safe to repeat after a kill.

    If an agent of a dead runner is at work on it, the run is brought to rest first. Raises LeaseHeldError if a runner lives.
    """
    row = journal.load(run).state().tasks[task]
    if row.status in _UNDER_WAY:
        stop_leftover_agents(repo, journal, run, observer)
    with deciding(repo, journal, run) as (state, record):
        row = state.tasks[task]
        workspace = taken_workspace(repo, run, task, state.plan.workspace)
        if is_theirs(repo, row, workspace):
            return workspace.path
        start = start_by_hand(state.row, row)
        begin = ev.HandOverStarted(task=task, start=start)
        if is_being_handed_over(row):
            record(ev.HandOverInterrupted(task=task), begin)
        elif row.taken is not None and not row.taken.ready:
            record(begin)
        else:
            record(ev.TaskTaken(task=task), begin)
        with doing(f"make your workspace of task {task}"):
            path = prepare_taken(repo, run, task, start, state.plan.workspace)
        record(handed_over(repo, task, path))
        return path


def is_theirs(repo: Repository, row: TaskRow, workspace: Workspace) -> bool:
    """Tell whether a person has a task and need not be handed anything: the workspace is there, and up to date.

    If their work did not merge, they have to be given what it met, unless they merged that themselves: then the task is taken anew.
    """
    if row.taken is None or not row.taken.ready or not is_plain_directory(workspace.path):
        return False
    return not lacks_merge(row) or merges(repo, workspace, f"{row.carry}^1")

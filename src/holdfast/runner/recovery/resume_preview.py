"""What resuming a run would do to each task, worked out from the journal, git and the processes. Read-only."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.repo.landing import branch_facts
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import unsaved_files
from holdfast.repo.workspaces import Workspaces
from holdfast.reporting.displayed_status import displayed_task_statuses
from holdfast.reporting.recovery_report import (
    RecoveryReport,
    ResumeAction,
    TaskPreview,
    UnsavedWork,
    left_alone,
    recovery_report,
)
from holdfast.runner.decisions.user_decisions import state_after
from holdfast.runner.recovery.agent_signs import last_heard
from holdfast.runner.recovery.facts import equivalents
from holdfast.runner.session import RunOptions

_BY_PRESENCE = {
    Presence.ALIVE: (ResumeAction.REATTACH, "its agent is alive"),
    Presence.ENDED: (ResumeAction.COLLECT, "its agent ended; its work is waiting"),
    Presence.UNKNOWN: (ResumeAction.RUN, "its agent was never started"),
    Presence.LOST: (ResumeAction.REDO, "its agent was lost"),
}

_BY_STATUS = {
    TaskStatus.COMPLETED: (ResumeAction.SKIP, "landed"),
    TaskStatus.SKIPPED: (ResumeAction.SKIP, "skipped"),
    TaskStatus.ABANDONED: (ResumeAction.SKIP, "abandoned; `holdfast retry` gives it another chance"),
    TaskStatus.VERIFYING: (ResumeAction.CHECK, "its work is there; all its checks run again"),
    TaskStatus.VERIFIED: (ResumeAction.LAND, "verified; it waits in the merge queue"),
    TaskStatus.FAILED: (ResumeAction.REDO, "failed; a fresh agent mends it"),
    TaskStatus.BLOCKED: (ResumeAction.WAIT, "it needs a task that was abandoned"),
    TaskStatus.WAITING_LIMIT: (ResumeAction.RUN, "it waits for a usage limit"),
}


def preview_tasks(repo: Repository, fleet: Fleet, state: RunState) -> list[TaskPreview]:
    """Return what would happen to each task, in plan order. The state given is used up."""
    running = [task for task in state.active.values() if task.status is TaskStatus.RUNNING]
    sightings = {
        task.id: fleet.inspect(LaunchKey(state.row.run, task.id, task.attempt, AGENT_STEP))
        for task in running
    }
    for event in reconcile(state, _facts(repo, state, sightings)):
        state.apply(event)
    shown = displayed_task_statuses(state)
    alone = left_alone(state)
    return [
        TaskPreview(name, ResumeAction.LEAVE, alone[name])
        if name in alone
        else _preview_task(task, shown[name], sightings.get(name))
        for name, task in state.tasks.items()
    ]


def _facts(repo: Repository, state: RunState, sightings: dict[str, Sighting]) -> Facts:
    row = state.row
    # A branch that somebody deleted is put back where the journal knows it was.
    where = row.branch if repo.read_ref(row.branch) else row.tip
    heads = [task.latest.head for task in state.active.values() if task.latest.head]
    branch = branch_facts(repo, where, row.base, row.run)
    same = equivalents(repo, state, branch)
    return Facts(branch, sightings, same, missing_commits=repo.missing(heads))


def _preview_task(task: TaskRow, shown: TaskStatus, sighting: Sighting | None) -> TaskPreview:
    if shown is TaskStatus.RUNNING and sighting is not None:
        return TaskPreview(task.id, *_BY_PRESENCE[sighting.presence])
    if shown is TaskStatus.PENDING:
        return _preview_pending(task)
    if task.status is TaskStatus.BLOCKED:
        return TaskPreview(task.id, ResumeAction.REDO, "it needed you; an agent tries again")
    return TaskPreview(task.id, *_BY_STATUS[shown])


def _preview_pending(task: TaskRow) -> TaskPreview:
    if task.attempt == 0:
        return TaskPreview(task.id, ResumeAction.RUN, "not started yet")
    kept = f"a fresh agent goes on from {task.carry[:12]}" if task.carry else "nothing of it was saved"
    if task.forgiven and task.forgiven == len(task.failures):
        return TaskPreview(task.id, ResumeAction.REDO, f"it has all its attempts again; {kept}")
    # What has no token was not begun by us: all that is known of it is that it ended, if only by a crash.
    ended = "was cut short" if task.latest.token else "is over"
    return TaskPreview(task.id, ResumeAction.REDO, f"attempt {task.attempt} {ended}; {kept}")


def preview_resume(
    repo: Repository,
    fleet: Fleet,
    journal: JournalReader,
    run: str,
    choices: RunOptions,
    decisions: Sequence[ev.Event] = (),
) -> RecoveryReport:
    """Return the recovery report of a run as it is at this moment.

    What resuming does is worked out for these choices, after what the user decides along with them.
    """
    stored = journal.load(run)
    state = stored.state()
    state.jobs = choices.jobs or state.jobs
    future = state_after(journal.load(run), *decisions)
    if choices.only is not None:
        future.restrict(choices.only)
    forecasts = preview_tasks(repo, fleet, future)
    recorded = journal.events(run, upto=stored.last_seq)
    return recovery_report(state, forecasts, _seen(repo, fleet, stored), recorded)


def _seen(repo: Repository, fleet: Fleet, stored: StoredRun) -> dict[str, UnsavedWork]:
    workspaces = Workspaces(repo, repo.state.run(stored.row.run).workspaces)
    heard = last_heard(fleet, stored)
    # Whenever something was recorded a runner was watching, so the agent was alive then.
    watched = stored.updated_at
    return {
        task.id: UnsavedWork(
            unsaved_files(
                repo,
                workspaces.get(str(task.latest.workspace_number)),
                task.latest.snapshot or task.latest.start,
            ),
            max(heard[task.id], watched),
        )
        for task in stored.tasks
        if task.status is TaskStatus.RUNNING
    }

"""What resuming a run would do to each task, worked out from the journal, git and the processes. Read-only."""

from __future__ import annotations

from holdfast.core.chosen import left_alone
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.reconcile import reconcile
from holdfast.core.recovery_report import Forecast, Move
from holdfast.core.shown import shown_task_statuses
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.repo.history import branch_facts
from holdfast.repo.repository import Repository
from holdfast.runner.evidence import equivalents

_BY_PRESENCE = {
    Presence.ALIVE: (Move.REATTACH, "its agent is alive"),
    Presence.ENDED: (Move.COLLECT, "its agent ended; its work is waiting"),
    Presence.UNKNOWN: (Move.RUN, "its agent was never started"),
    Presence.LOST: (Move.REDO, "its agent was lost"),
}

_BY_STATUS = {
    TaskStatus.COMPLETED: (Move.SKIP, "landed"),
    TaskStatus.SKIPPED: (Move.SKIP, "skipped"),
    TaskStatus.ABANDONED: (Move.SKIP, "abandoned; `holdfast retry` gives it another chance"),
    TaskStatus.VERIFYING: (Move.CHECK, "its work is there; all its checks run again"),
    TaskStatus.VERIFIED: (Move.LAND, "verified; it waits in the merge queue"),
    TaskStatus.FAILED: (Move.REDO, "failed; a fresh agent mends it"),
    TaskStatus.BLOCKED: (Move.WAIT, "it needs a task that was abandoned"),
    TaskStatus.WAITING_LIMIT: (Move.RUN, "it waits for a usage limit"),
}


def forecast(repo: Repository, fleet: Fleet, state: RunState) -> list[Forecast]:
    """Return what would happen to each task, in plan order. The state given is used up."""
    running = [task for task in state.active.values() if task.status is TaskStatus.RUNNING]
    sightings = {
        task.id: fleet.inspect(LaunchKey(state.row.run, task.id, task.attempt, AGENT_STEP))
        for task in running
    }
    for event in reconcile(state, _facts(repo, state, sightings)):
        state.apply(event)
    shown = shown_task_statuses(state)
    alone = left_alone(state)
    return [
        Forecast(name, Move.LEAVE, alone[name])
        if name in alone
        else _forecast(task, shown[name], sightings.get(name))
        for name, task in state.tasks.items()
    ]


def _facts(repo: Repository, state: RunState, sightings: dict[str, Sighting]) -> Facts:
    row = state.row
    # A branch that somebody deleted is put back where the journal knows it was.
    where = row.branch if repo.read_ref(row.branch) else row.tip
    heads = [task.head for task in state.active.values() if task.head]
    branch = branch_facts(repo, where, row.base, row.run)
    same = equivalents(repo, state, branch)
    return Facts(branch, sightings, same, missing_commits=repo.missing(heads))


def _forecast(task: TaskRow, shown: TaskStatus, sighting: Sighting | None) -> Forecast:
    if shown is TaskStatus.RUNNING and sighting is not None:
        return Forecast(task.id, *_BY_PRESENCE[sighting.presence])
    if shown is TaskStatus.PENDING:
        return _pending(task)
    if task.status is TaskStatus.BLOCKED:
        return Forecast(task.id, Move.REDO, "it needed you; an agent tries again")
    return Forecast(task.id, *_BY_STATUS[shown])


def _pending(task: TaskRow) -> Forecast:
    if task.attempt == 0:
        return Forecast(task.id, Move.RUN, "not started yet")
    kept = f"a fresh agent goes on from {task.carry[:12]}" if task.carry else "nothing of it was saved"
    if task.forgiven and task.forgiven == len(task.failures):
        return Forecast(task.id, Move.REDO, f"it has all its attempts again; {kept}")
    # What has no token was not begun by us: all that is known of it is that it ended, if only by a crash.
    ended = "was cut short" if task.token else "is over"
    return Forecast(task.id, Move.REDO, f"attempt {task.attempt} {ended}; {kept}")

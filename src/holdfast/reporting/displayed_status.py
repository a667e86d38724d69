"""Statuses as people see them, where they differ from the stored ones, and whether an agent is alive.

How an interrupted run ended (crash, reboot, stop) is in `run_ending.py`. Pure conclusions, for display only: nothing
here is stored or decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus, TaskStatus


class QueuePlace(StrEnum):
    """Where a task stands in the merge queue."""

    PENDING = "pending"
    READY = "ready"
    MERGING = "merging"
    MERGED = "merged"


_PLACES = {
    TaskStatus.VERIFYING: QueuePlace.PENDING,
    TaskStatus.VERIFIED: QueuePlace.READY,
    TaskStatus.MERGING: QueuePlace.MERGING,
    TaskStatus.COMPLETED: QueuePlace.MERGED,
}

_PROGRESS = {
    TaskStatus.RUNNING: 25,
    TaskStatus.VERIFYING: 50,
    TaskStatus.VERIFIED: 75,
    TaskStatus.MERGING: 75,
    TaskStatus.COMPLETED: 100,
    TaskStatus.SKIPPED: 100,
}
_REPORTED = (TaskStatus.RUNNING, TaskStatus.VERIFYING, TaskStatus.VERIFIED, TaskStatus.MERGING)


def displayed_run_status(row: RunRow, *, held: bool) -> RunStatus:
    """Return the run's status for people: a running one without a live runner was interrupted."""
    interrupted = row.status is RunStatus.RUNNING and not held
    return RunStatus.INTERRUPTED if interrupted else row.status


def is_resumable(row: RunRow, *, held: bool) -> bool:
    """Tell whether `resume` would continue the run now."""
    return row.status not in RUN_IS_OVER and not held


def displayed_task_statuses(state: RunState) -> dict[str, TaskStatus]:
    """Return the tasks' statuses for people. Those below an abandoned one, at any depth, are blocked."""
    statuses = {name: task.status for name, task in state.tasks.items()}
    frontier = [name for name, status in statuses.items() if status is TaskStatus.ABANDONED]
    while frontier:
        for dependent in state.dependents.get(frontier.pop(), ()):
            if statuses[dependent] is TaskStatus.PENDING:
                statuses[dependent] = TaskStatus.BLOCKED
                frontier.append(dependent)
    return statuses


def progress_of(task: TaskRow) -> int:
    """Return how far a task is, as a percentage: while an agent works, what it reports, if it does.

    Otherwise it says which steps of the task's life (worked on, checked, merged, landed) are behind it.
    """
    step, reported = _PROGRESS.get(task.status, 0), reported_progress(task)
    if reported is None:
        return step
    return round(reported) if task.status is TaskStatus.RUNNING else max(step, min(round(reported), 99))


def reported_progress(task: TaskRow) -> float | None:
    """Return the percentage that the agent of a task under way reported last, or None if it never did."""
    return (
        task.latest.report.progress if task.latest.report is not None and task.status in _REPORTED else None
    )


def merge_queue(state: RunState) -> list[tuple[TaskRow, QueuePlace]]:
    """Return the merge queue in the order in which tasks were verified; those still being checked come last."""
    listed = [task for task in state.tasks.values() if task.status in _PLACES]
    listed.sort(key=lambda task: (task.queue_number or state.row.queue_number + 1, state.order[task.id]))
    return [(task, _PLACES[task.status]) for task in listed]


if TYPE_CHECKING:
    from holdfast.core.facts import Presence

SLOW_AFTER_S = 60.0
"""A model that says nothing for this long is slow."""
TOOL_SLOW_AFTER_S = 300.0
"""A tool, such as a test run, may be silent for longer."""


class Liveness(StrEnum):
    """Liveness of an agent that is recorded as running."""

    WORKING = "working"
    SLOW = "slow"
    LIMITED = "limited"
    UNREACHED = "does not reach its provider"
    WAITING = "waiting for permission"
    DEAD = "dead"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class AgentSign:
    """An agent as the machine shows it: whether its process lives, when it was last heard of, and how long one that is over
    worked, as far as is known."""

    presence: Presence
    heard_at: float = 0.0
    worked_s: float = 0.0


def liveness(task: TaskRow, sign: AgentSign, now: float) -> Liveness:
    """Return the liveness of a running task's agent. What its stream said last wins over its silence."""
    # Imported here because `status` always loads this module, and usually no agent is at work.
    from holdfast.core.facts import Presence
    from holdfast.core.observations import AgentTrouble

    if sign.presence is not Presence.ALIVE:
        return Liveness.FINISHED if sign.presence is Presence.ENDED else Liveness.DEAD
    if task.latest.trouble == AgentTrouble.PERMISSION:
        return Liveness.WAITING
    if task.latest.trouble == AgentTrouble.LIMIT:
        return Liveness.LIMITED
    if task.latest.trouble == AgentTrouble.OUTAGE:
        return Liveness.UNREACHED
    silent_s = now - max(sign.heard_at, task.latest.active_at)
    return (
        Liveness.SLOW
        if silent_s > (TOOL_SLOW_AFTER_S if task.latest.in_tool else SLOW_AFTER_S)
        else Liveness.WORKING
    )

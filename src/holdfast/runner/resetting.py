"""Taking a task, or a run, back to nothing: a backup first, every ref kept."""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import Journal
from holdfast.repo.repository import Repository
from holdfast.runner.loop import Observer
from holdfast.runner.steering import decide_by_hand, stop_leftovers


def reset_task(repo: Repository, journal: Journal, run: str, task: str, observer: Observer) -> None:
    """Let a task begin again from a clean start, with all its attempts. What it did before stays at its refs.

    Repeating it changes nothing more. Raises HoldfastError if the task has landed, LeaseHeldError if a runner lives.
    """
    if journal.load(run).row.status is RunStatus.RUNNING:
        stop_leftovers(repo, journal, run, observer)
    row = next((row for row in journal.load(run).tasks if row.id == task), None)
    if row is not None and row.status is TaskStatus.COMPLETED:
        raise HoldfastError(
            f"task {task} has landed, and the run branch never goes back",
            f"`holdfast resume {run} --from {task}` begins again there in a new run",
        )
    decide_by_hand(repo, journal, run, ev.TaskRewound(task=task))

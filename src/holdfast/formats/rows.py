"""A run of ours as a claim about each task: what every writer says in its own words."""

from __future__ import annotations

from holdfast.core.projection import TaskRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats.model import SETTLED, Claim, PastFailure, RunView, Standing

_STANDINGS = {
    TaskStatus.PENDING: Standing.PENDING,
    TaskStatus.RUNNING: Standing.RUNNING,
    TaskStatus.WAITING_LIMIT: Standing.RUNNING,
    TaskStatus.VERIFYING: Standing.RUNNING,
    TaskStatus.VERIFIED: Standing.RUNNING,
    TaskStatus.MERGING: Standing.RUNNING,
    TaskStatus.COMPLETED: Standing.DONE,
    TaskStatus.FAILED: Standing.FAILED,
    TaskStatus.BLOCKED: Standing.BLOCKED,
    TaskStatus.ABANDONED: Standing.ABANDONED,
    TaskStatus.SKIPPED: Standing.SKIPPED,
}
_TROUBLED = (Standing.FAILED, Standing.ABANDONED, Standing.BLOCKED)


def row_of(view: RunView, task: str) -> TaskRow:
    """Return the row of a task; one that never began has an empty one."""
    return view.tasks.get(task) or TaskRow(id=task)


def claim_of(view: RunView, task: str) -> Claim:
    """Return what a run of ours says of one task."""
    row = row_of(view, task)
    return Claim(
        task=task,
        standing=_STANDINGS[row.status],
        attempts=row.attempt,
        spent=row.charged,
        failures=tuple(
            PastFailure(attempt=failure.attempt, error=failure.error, feedback=failure.detail)
            for failure in row.failures
        ),
        commits=(row.merge_commit,) if row.merge_commit and row.status is TaskStatus.COMPLETED else (),
        files=tuple(view.files.get(task, ())),
        summary=row.summary,
    )


def together(standings: list[Standing]) -> Standing:
    """Return where a group of tasks stands as one: in trouble if one is, done when all are."""
    if all(standing in SETTLED for standing in standings):
        return Standing.DONE if Standing.DONE in standings else Standing.SKIPPED
    if any(standing in _TROUBLED for standing in standings):
        return Standing.FAILED
    if any(standing in (Standing.RUNNING, Standing.DONE) for standing in standings):
        return Standing.RUNNING
    return Standing.PENDING


def error_of(view: RunView, task: str) -> str:
    """Return why a task is in trouble, in a sentence, or nothing."""
    row = row_of(view, task)
    return row.error or (row.failures[-1].error if row.failures else "")


def is_complete(view: RunView) -> bool:
    """Tell whether the run is done, so that nothing of it can be resumed."""
    return view.row.status is RunStatus.COMPLETED


def is_held(view: RunView) -> bool:
    """Tell whether the run rests on purpose: paused or stopped, to be gone on with."""
    return view.row.status in (RunStatus.PAUSED, RunStatus.STOPPED)


def branch_of(view: RunView) -> str:
    """Return the run's branch by its short name."""
    return view.row.branch.removeprefix("refs/heads/")

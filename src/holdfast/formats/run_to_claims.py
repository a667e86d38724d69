"""A run of ours as claims about its tasks, which every writer then puts into its own words."""

from __future__ import annotations

from holdfast.core.projection import TaskRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ExportedRun, PastFailure

_CLAIMED = {
    TaskStatus.PENDING: ClaimedStatus.PENDING,
    TaskStatus.RUNNING: ClaimedStatus.RUNNING,
    TaskStatus.WAITING_LIMIT: ClaimedStatus.RUNNING,
    TaskStatus.VERIFYING: ClaimedStatus.RUNNING,
    TaskStatus.VERIFIED: ClaimedStatus.RUNNING,
    TaskStatus.MERGING: ClaimedStatus.RUNNING,
    TaskStatus.COMPLETED: ClaimedStatus.DONE,
    TaskStatus.FAILED: ClaimedStatus.FAILED,
    TaskStatus.BLOCKED: ClaimedStatus.BLOCKED,
    TaskStatus.ABANDONED: ClaimedStatus.ABANDONED,
    TaskStatus.SKIPPED: ClaimedStatus.SKIPPED,
}
_TROUBLED = (ClaimedStatus.FAILED, ClaimedStatus.ABANDONED, ClaimedStatus.BLOCKED)


def row_of(view: ExportedRun, task: str) -> TaskRow:
    """Return the row of a task; one that never began has an empty one."""
    return view.tasks.get(task) or TaskRow(id=task)


def claim_of(view: ExportedRun, task: str) -> Claim:
    """Return what a run of ours says of one task."""
    row = row_of(view, task)
    return Claim(
        task=task,
        standing=_CLAIMED[row.status],
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


def group_status(statuses: list[ClaimedStatus]) -> ClaimedStatus:
    """Return the status of a group of tasks as one: failed if one is in trouble, done when all are."""
    if all(status in SETTLED for status in statuses):
        return ClaimedStatus.DONE if ClaimedStatus.DONE in statuses else ClaimedStatus.SKIPPED
    if any(status in _TROUBLED for status in statuses):
        return ClaimedStatus.FAILED
    if any(status in (ClaimedStatus.RUNNING, ClaimedStatus.DONE) for status in statuses):
        return ClaimedStatus.RUNNING
    return ClaimedStatus.PENDING


def error_of(view: ExportedRun, task: str) -> str:
    """Return why a task is in trouble, in a sentence, or nothing."""
    row = row_of(view, task)
    return row.error or (row.failures[-1].error if row.failures else "")


def is_complete(view: ExportedRun) -> bool:
    """Tell whether the run is done, so that nothing of it can be resumed."""
    return view.row.status is RunStatus.COMPLETED


def is_held(view: ExportedRun) -> bool:
    """Tell whether the run was paused or stopped on purpose and can go on."""
    return view.row.status in (RunStatus.PAUSED, RunStatus.STOPPED)


def branch_of(view: ExportedRun) -> str:
    """Return the run's branch by its short name."""
    return view.row.branch.removeprefix("refs/heads/")

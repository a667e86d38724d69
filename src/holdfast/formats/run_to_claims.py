"""A run of ours as a claim about each task: what every writer says in its own words."""

from __future__ import annotations

from holdfast.core.projection import TaskRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ExportedRun, PastFailure

_STANDINGS = {
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


def group_status(standings: list[ClaimedStatus]) -> ClaimedStatus:
    """Return where a group of tasks stands as one: in trouble if one is, done when all are."""
    if all(standing in SETTLED for standing in standings):
        return ClaimedStatus.DONE if ClaimedStatus.DONE in standings else ClaimedStatus.SKIPPED
    if any(standing in _TROUBLED for standing in standings):
        return ClaimedStatus.FAILED
    if any(standing in (ClaimedStatus.RUNNING, ClaimedStatus.DONE) for standing in standings):
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
    """Tell whether the run rests on purpose: paused or stopped, to be gone on with."""
    return view.row.status in (RunStatus.PAUSED, RunStatus.STOPPED)


def branch_of(view: ExportedRun) -> str:
    """Return the run's branch by its short name."""
    return view.row.branch.removeprefix("refs/heads/")

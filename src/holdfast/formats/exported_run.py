"""A Holdfast run as writers get it, and the files that they return.

Writers translate its claims about tasks into the vocabulary of their system.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.adoption import SETTLED, Claim, ClaimedStatus
from holdfast.core.ids import short_name
from holdfast.core.plan import Plan
from holdfast.core.projection import PastFailure, RunRow, TaskRow
from holdfast.core.status import RunStatus, TaskStatus

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


class NativeFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a native layout, by its path below the project.

    A `link` is symbolic; a `gone` file is removed. Writers return these in the order in which they must
    appear on disk: state before output.
    """

    path: str
    content: bytes = b""
    link: str = ""
    gone: bool = False


class NativeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of a system that keeps its state in a server, by its key. A `gone` record is removed.

    A `continued` one has a key of the records that the run was made from.
    """

    key: str
    content: bytes = b""
    continued: bool = False
    gone: bool = False


class Times(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When something began and ended, in seconds since 1970; None if it did not yet, or is unknown."""

    started: float | None = None
    ended: float | None = None


class ExportedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A Holdfast run as writers see it: rows, wall-clock times, and what git knows about each landing.

    `project` is the absolute path of the repository. `files` are the files that each landed task changed.
    `published` is when each task last published an interface. `name` is
    the run's native name: the one it was adopted with, else its own id. `written_at` is the time of writing.
    """

    plan: Plan
    row: RunRow
    tasks: Mapping[str, TaskRow]
    name: str
    project: str
    started: float
    updated: float
    written_at: float
    live: bool = False
    task_times: Mapping[str, Times] = {}
    stage_times: Mapping[str, Times] = {}
    files: Mapping[str, tuple[str, ...]] = {}
    published: Mapping[str, float] = {}

    @property
    def rows(self) -> list[TaskRow]:
        """The rows of all tasks, in the order of the plan."""
        return [self.row_of(task.id) for _, task in self.plan.tasks()]

    def row_of(self, task: str) -> TaskRow:
        """Return the row of a task; an empty one if the task never began."""
        return self.tasks.get(task) or TaskRow(id=task)

    def times_of(self, task: str) -> Times:
        """Return when a task began and ended."""
        return self.task_times.get(task) or Times()

    def claim_of(self, task: str) -> Claim:
        """Return what the run says about one task."""
        row = self.row_of(task)
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
            files=tuple(self.files.get(task, ())),
            summary=row.summary,
        )

    def error_of(self, task: str) -> str:
        """Return why a task is in trouble, as a sentence; empty if it is not."""
        row = self.row_of(task)
        return row.error or (row.failures[-1].error if row.failures else "")

    @property
    def is_complete(self) -> bool:
        """Whether the run is done, so that there is nothing to resume."""
        return self.row.status is RunStatus.COMPLETED

    @property
    def is_paused(self) -> bool:
        """Whether the run was paused or stopped on purpose and can continue."""
        return self.row.status in (RunStatus.PAUSED, RunStatus.STOPPED)

    @property
    def branch(self) -> str:
        """The run's branch by its short name."""
        return short_name(self.row.branch)


def group_status(statuses: list[ClaimedStatus]) -> ClaimedStatus:
    """Return the status of a group of tasks as one: failed if one is in trouble, done when all are."""
    if all(status in SETTLED for status in statuses):
        return ClaimedStatus.DONE if ClaimedStatus.DONE in statuses else ClaimedStatus.SKIPPED
    if any(status in _TROUBLED for status in statuses):
        return ClaimedStatus.FAILED
    if any(status in (ClaimedStatus.RUNNING, ClaimedStatus.DONE) for status in statuses):
        return ClaimedStatus.RUNNING
    return ClaimedStatus.PENDING

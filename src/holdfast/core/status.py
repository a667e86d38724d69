"""The closed sets of statuses and the law of how a task moves between them.

`TRANSITIONS` is the state machine: everything that may happen to a task is in this table, and an event that is
not in it for the task's present status cannot be applied.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from holdfast.core import events as ev


class RunStatus(StrEnum):
    """Where a run stands. `INTERRUPTED` is never stored: it is `RUNNING` with nobody holding the lease."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    STOPPED = "stopped"
    ABANDONED = "abandoned"


RUN_IS_OVER = frozenset({RunStatus.COMPLETED, RunStatus.ABANDONED})


class StageStatus(StrEnum):
    """Where a stage stands."""

    PENDING = "pending"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    COMPLETED = "completed"
    BLOCKED = "blocked"


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_LIMIT = "waiting_limit"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    MERGING = "merging"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    ABANDONED = "abandoned"
    SKIPPED = "skipped"


TASK_IS_SETTLED = frozenset({TaskStatus.COMPLETED, TaskStatus.SKIPPED})
"""What lets the tasks that need it start, and its stage close."""

_S = TaskStatus
_UNLANDED = (_S.PENDING, _S.RUNNING, _S.WAITING_LIMIT, _S.VERIFYING, _S.VERIFIED, _S.MERGING, _S.FAILED,
             _S.BLOCKED, _S.ABANDONED, _S.SKIPPED)  # fmt: skip

TRANSITIONS: MappingProxyType[type[ev.Event], dict[TaskStatus, TaskStatus]] = MappingProxyType({
    ev.AttemptStarted: {_S.PENDING: _S.RUNNING, _S.FAILED: _S.RUNNING, _S.WAITING_LIMIT: _S.RUNNING, _S.BLOCKED: _S.RUNNING},
    ev.AttemptDone: {_S.RUNNING: _S.VERIFYING},
    ev.AttemptFailed: {_S.RUNNING: _S.FAILED},
    ev.AttemptLost: {_S.RUNNING: _S.PENDING, _S.VERIFYING: _S.PENDING},
    ev.AgentObserved: {_S.RUNNING: _S.RUNNING},
    ev.AttemptHalted: {_S.RUNNING: _S.RUNNING},
    ev.AttemptLimited: {_S.RUNNING: _S.WAITING_LIMIT},
    ev.AttemptBlocked: {_S.RUNNING: _S.BLOCKED},
    ev.ChecksStarted: {_S.VERIFYING: _S.VERIFYING},
    ev.TaskVerified: {_S.VERIFYING: _S.VERIFIED},
    ev.ChecksFailed: {_S.VERIFYING: _S.FAILED},
    ev.ChecksInterrupted: {_S.VERIFYING: _S.VERIFYING},
    ev.ChecksSucceeded: {_S.VERIFYING: _S.VERIFYING},
    ev.ValidationStarted: {_S.VERIFYING: _S.VERIFYING},
    ev.ValidatorScored: {_S.VERIFYING: _S.VERIFYING},
    ev.ValidationFailed: {_S.VERIFYING: _S.FAILED},
    ev.InterfacePublished: {s: s for s in (_S.RUNNING, _S.VERIFYING, _S.VERIFIED, _S.MERGING)},
    ev.ProgressReported: {s: s for s in (_S.RUNNING, _S.VERIFYING)},
    ev.LandingStarted: {_S.VERIFIED: _S.MERGING},
    ev.MergePrepared: {_S.MERGING: _S.MERGING},
    ev.MergeConflicted: {_S.MERGING: _S.FAILED},
    ev.MergeRefused: {_S.MERGING: _S.FAILED},
    ev.LandingInterrupted: {_S.MERGING: _S.VERIFIED},
    ev.TaskLanded: dict.fromkeys(_UNLANDED, _S.COMPLETED),
    ev.LandingVanished: {_S.COMPLETED: _S.PENDING},
    ev.LandingReplaced: {_S.COMPLETED: _S.COMPLETED},
    ev.TaskAbandoned: dict.fromkeys((_S.FAILED, _S.PENDING, _S.WAITING_LIMIT), _S.ABANDONED),
    ev.TaskSkipped: dict.fromkeys(
        (_S.PENDING, _S.WAITING_LIMIT, _S.FAILED, _S.ABANDONED, _S.BLOCKED), _S.SKIPPED
    ),
    ev.TaskReset: dict.fromkeys(
        (_S.PENDING, _S.WAITING_LIMIT, _S.FAILED, _S.ABANDONED, _S.BLOCKED, _S.SKIPPED), _S.PENDING
    ),
    ev.TaskRewound: dict.fromkeys(
        (_S.PENDING, _S.WAITING_LIMIT, _S.VERIFYING, _S.VERIFIED, _S.FAILED, _S.ABANDONED, _S.BLOCKED, _S.SKIPPED),
        _S.PENDING,
    ),
    ev.TaskRestored: {_S.PENDING: _S.PENDING},
    ev.TaskInherited: {_S.PENDING: _S.PENDING},
    ev.SnapshotSaved: {_S.RUNNING: _S.RUNNING},
})  # fmt: skip

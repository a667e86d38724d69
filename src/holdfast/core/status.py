"""The closed sets that are stored: statuses of runs, stages and tasks, kinds of attempts and of failures.

How a status changes is the table in `task_transitions.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


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


class BaseStatus(StrEnum):
    """Where the check of the base stands, before the first agent: never wanted, to come, at work, failed, or done with."""

    UNASKED = ""
    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    SETTLED = "settled"


TASK_IS_SETTLED = frozenset({TaskStatus.COMPLETED, TaskStatus.SKIPPED})
"""In these statuses a task lets the tasks that need it start, and its stage close."""
TASK_IS_OVER = TASK_IS_SETTLED | {TaskStatus.ABANDONED}
"""In these statuses nothing more is done about a task unless a person decides so."""


class ParkReason(StrEnum):
    """Why nothing starts through a provider: its limit is reached, or it cannot be reached or cannot answer."""

    LIMIT = "limit"
    OUTAGE = "outage"


Gate = Literal["entry", "exit"]


class FailureKind(StrEnum):
    """Why an attempt did not lead to a landing. The retry policy and the next brief depend on it."""

    AGENT = "agent"
    KILLED = "killed"
    NO_CHANGE = "no_change"
    MISSING_FILES = "missing_files"
    CHECK = "check"
    UNRUNNABLE = "unrunnable"
    MERGED_CHECK = "merged_check"
    CONFLICT = "conflict"
    SIDE_LOST = "side_lost"
    SYNTAX = "syntax"
    VALIDATION = "validation"
    NO_SCORE = "no_score"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    REJECTED = "rejected"
    ENVIRONMENT = "environment"
    LIMIT = "limit"
    OUTAGE = "outage"
    CONTEXT = "context"
    UNFINISHED = "unfinished"
    SESSION = "session"
    BUDGET = "budget"
    PERMISSION = "permission"
    AUTH = "auth"
    CREDIT = "credit"
    MODEL = "model"
    SETUP = "setup"


class AttemptKind(StrEnum):
    """What a fresh agent is asked for: new work, to go on with work that nothing is wrong with, a repair of work that failed,
    or both sides of a conflict; or a person's own work."""

    IMPLEMENTATION = "implementation"
    CONTINUATION = "continuation"
    FIX = "fix"
    CONFLICT = "conflict"
    PERSON = "person"


class SandboxLevel(StrEnum):
    """How much of the machine agents and checks see, the most first: all that the user sees, or hardly more than their
    workspace."""

    OFF = "off"
    WORKSPACE = "workspace"
    STRICT = "strict"


class SandboxMechanism(StrEnum):
    """What a sandbox is made by: bubblewrap, which hides what must not be seen, or Landlock alone, which forbids to open it."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"


class NetworkAccess(StrEnum):
    """What agents and checks reach of the network, the most first: all of it, the hosts of a list, or nothing."""

    ON = "on"
    ALLOW = "allow"
    OFF = "off"

"""What another system's files say of its tasks, in our words. Nothing of it is believed before git proves it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last that an agent said about its own progress, each part as last reported."""

    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""


class ClaimedStatus(StrEnum):
    """What a file claims of a task."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    BLOCKED = "blocked"
    DONE = "done"
    SKIPPED = "skipped"
    ABANDONED = "abandoned"


SETTLED = (ClaimedStatus.DONE, ClaimedStatus.SKIPPED)
"""Nothing is left to do of it, and nobody waits for it any longer."""
UNBEGUN = (ClaimedStatus.PENDING, ClaimedStatus.BLOCKED, ClaimedStatus.SKIPPED)
"""Nobody need have worked on it."""


def spent_of(standing: ClaimedStatus, attempts: int) -> int:
    """Return the attempts that count against the budget: not the one that succeeded or was cut short."""
    return max(attempts - (standing in (ClaimedStatus.DONE, ClaimedStatus.RUNNING)), 0)


class PastFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that failed over there: what went wrong, and the feedback meant for the next one."""

    attempt: int
    error: str
    feedback: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the files say of one task. `native` is its name over there, `said` the very word of its status.

    `commits` are the hashes it recorded, oldest first; `files` what it says it created; `summary` what it says it
    did. `outputs` are the files among the state's own that are its whole result, where it changes no code. `branch`
    and `worktree` are where its unfinished work may lie. `attempts` counts all attempts, the present one too; `spent`
    those that count against the budget.
    """

    task: str
    native: str = ""
    standing: ClaimedStatus = ClaimedStatus.PENDING
    said: str = ""
    attempts: int = 0
    spent: int = 0
    failures: tuple[PastFailure, ...] = ()
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    branch: str = ""
    worktree: str = ""
    summary: str = ""
    report: Report | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something the user should know about the files: a contradiction, a guess, or what could not be read.

    `kind` is a short fixed word for scripts (`done-with-unfinished-parts`, `unknown-status`, `copies-differ`,
    `unknown-task`, `unreadable` …); the sentence is for people. `task` is ours, or empty for the run as a whole.
    """

    kind: str
    sentence: str
    task: str = ""

"""Events of one attempt: its agent, its reports, its checks and its validators."""

from __future__ import annotations

from typing import Literal

from holdfast.core.events.base import AttemptKind, Event, FailureKind


class AttemptStarted(Event, frozen=True, tag=True):
    """Intent: a fresh agent gets workspace `slot`, checked out at `start`.

    `agent` works through `provider`. With a `session` it goes on with its own conversation instead of beginning
    one; where that was wanted and could not be, `fresh_because` says why.
    """

    task: str
    attempt: int
    token: str
    slot: int
    start: str
    reason: AttemptKind = AttemptKind.IMPLEMENTATION
    agent: str = ""
    provider: str = ""
    session: str = ""
    fresh_because: str = ""


class AttemptDone(Event, frozen=True, tag=True):
    """The agent ended well; `head` holds its work, committed by us."""

    task: str
    attempt: int
    token: str
    head: str
    tree: str
    summary: str = ""
    remarks: tuple[str, ...] = ()
    duration_s: float = 0.0


class AttemptFailed(Event, frozen=True, tag=True):
    """The attempt ended without a result to check; `carry` holds whatever it left behind."""

    task: str
    attempt: int
    token: str
    failure: FailureKind
    error: str
    detail: str = ""
    carry: str = ""
    tree: str = ""
    duration_s: float = 0.0
    clock: float = 0.0


class AttemptLost(Event, frozen=True, tag=True):
    """The attempt was cut short, by a crash or by the user's stop. It charges no failure."""

    task: str
    attempt: int
    carry: str = ""
    cause: Literal["crash", "stop"] = "crash"


class ChecksStarted(Event, frozen=True, tag=True):
    """Intent: the task's verification runs in its workspace."""

    task: str
    attempt: int


class ChecksPassed(Event, frozen=True, tag=True):
    """Every check held on the tree of the attempt's head."""

    task: str
    attempt: int


class ChecksFailed(Event, frozen=True, tag=True):
    """A check did not hold; its output feeds the next attempt."""

    task: str
    attempt: int
    check: str
    error: str
    detail: str = ""


class ChecksInterrupted(Event, frozen=True, tag=True):
    """A crash cut the checks short; all of them run again."""

    task: str
    attempt: int


class TestsPassed(Event, frozen=True, tag=True):
    """Every check held; the task's validators come next."""

    task: str
    attempt: int


class ValidationStarted(Event, frozen=True, tag=True):
    """Intent: the validators that have not given their score yet run."""

    task: str
    attempt: int


class ValidatorScored(Event, frozen=True, tag=True):
    """One validator is done. Its score is kept, whatever happens to the others."""

    task: str
    attempt: int
    validator: str
    score: float
    feedback: str = ""


class ValidationFailed(Event, frozen=True, tag=True):
    """The validators' scores stay below the gate; their feedback goes to the next attempt."""

    task: str
    attempt: int
    error: str
    detail: str = ""


class InterfacePublished(Event, frozen=True, tag=True):
    """The task settled a contract that others wait for; they may start before it lands."""

    task: str
    attempt: int
    name: str
    contract: str


class ProgressReported(Event, frozen=True, tag=True):
    """What an agent says about its own progress. Believed for display and for briefs, never as proof.

    `heard` is how many bytes of its reports this takes in, so that after a crash none is counted twice.
    """

    task: str
    attempt: int
    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""
    cost_usd: float = 0.0
    heard: int = 0


class WipSaved(Event, frozen=True, tag=True):
    """Unfinished work of a running attempt is safe in a commit."""

    task: str
    attempt: int
    commit: str

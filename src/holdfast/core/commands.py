"""Commands: what the shell must do now, the event that makes each durable first, and the event that undoes it."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from holdfast.core import events as ev
from holdfast.core.projection import Spent
from holdfast.core.status import AttemptKind


class CheckBase(msgspec.Struct, frozen=True):
    """Run set-up and the plan's checks on the base."""


class OpenStage(msgspec.Struct, frozen=True):
    """Check the entry gate of a stage."""

    stage: str


class CloseStage(msgspec.Struct, frozen=True):
    """Check the exit gate of a stage."""

    stage: str


class StartAttempt(msgspec.Struct, frozen=True):
    """Start an agent on a task, from commit `start`: a fresh one, unless it resumes a `session`. The fields are the event's."""

    task: str
    attempt: int
    workspace_number: int
    start: str
    attempt_kind: AttemptKind
    agent: str = ""
    provider: str = ""
    session: str = ""
    fresh_because: str = ""
    probes: bool = False
    session_before: Spent = Spent()
    closing_line: bool = False


class CheckTask(msgspec.Struct, frozen=True):
    """Run a task's checks on what its attempt produced."""

    task: str
    attempt: int


class ValidateTask(msgspec.Struct, frozen=True):
    """Run those of a task's validators that have given no score yet."""

    task: str
    attempt: int
    probes: bool = False


class LandTasks(msgspec.Struct, frozen=True):
    """Merge these tasks, in this order, and move the run branch once."""

    tasks: tuple[tuple[str, int], ...]


class HandOver(msgspec.Struct, frozen=True):
    """Make the workspace of the person who took a task, from commit `start`."""

    task: str
    start: str


class RecordEvent(msgspec.Struct, frozen=True):
    """Write down a decision that needs no effect."""

    event: ev.Event


Command = (
    CheckBase
    | OpenStage
    | CloseStage
    | StartAttempt
    | CheckTask
    | ValidateTask
    | LandTasks
    | HandOver
    | RecordEvent
)


def intents(command: Command, token: str, at: float = 0.0) -> list[ev.Event]:
    """Return the events that must be durable before `command` is acted on.

    `token` names a new attempt, and `at` is the wall time of its start, for people.
    """
    match command:
        case RecordEvent(event):
            return [event]
        case CheckBase():
            return [ev.BaseCheckStarted()]
        case OpenStage(stage):
            return [ev.StageOpening(stage=stage)]
        case CloseStage(stage):
            return [ev.StageClosing(stage=stage)]
        case CheckTask(task, attempt):
            return [ev.ChecksStarted(task=task, attempt=attempt)]
        case ValidateTask(task, attempt, probes):
            return [ev.ValidationStarted(task=task, attempt=attempt, probes=probes)]
        case LandTasks(tasks):
            return [ev.LandingStarted(task=task, attempt=attempt) for task, attempt in tasks]
        case HandOver(task, start):
            return [ev.HandOverStarted(task=task, start=start)]
        case StartAttempt():
            return [ev.AttemptStarted(token=token, at=at, **asdict(command))]


def undo_intents(command: Command) -> list[ev.Event]:
    """Return the events that undo a command's intent when the shell failed to act on it."""
    match command:
        case StartAttempt(task=task, attempt=attempt):
            return [ev.AttemptLost(task=task, attempt=attempt, cause="not launched")]
        case CheckTask(task, attempt) | ValidateTask(task, attempt, _):
            return [ev.ChecksInterrupted(task=task, attempt=attempt)]
        case LandTasks(tasks):
            return [ev.LandingInterrupted(task=task, attempt=attempt) for task, attempt in tasks]
        case CheckBase():
            return [ev.BaseCheckInterrupted()]
        case OpenStage(stage):
            return [ev.StageGateReset(stage=stage, gate="entry")]
        case CloseStage(stage):
            return [ev.StageGateReset(stage=stage, gate="exit")]
        case HandOver(task, _):
            return [ev.HandOverInterrupted(task=task)]
        case RecordEvent():
            return []

"""Errors of effects that are not the agent's fault: the run rests, and no attempt is charged."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from holdfast.core import events as ev
from holdfast.core.commands import (
    CheckBase,
    CheckTask,
    CloseStage,
    Command,
    HandOver,
    LandTasks,
    OpenStage,
    RecordEvent,
    StartAttempt,
    ValidateTask,
    undo_intents,
)
from holdfast.errors import ExitCode, HoldfastError, JournalError, LeaseLostError
from holdfast.repo.uncollected_work import UncollectedError
from holdfast.system_errors import as_holdfast_error


class OvertakenError(Exception):
    """What an effect wanted to record may no longer happen; it must not act on it."""


class UnsyncedLandingError(HoldfastError):
    """The run branch has moved, but may not be on disk. Nobody may say that it landed, nor that it did not."""

    exit_code = ExitCode.NEEDS_DECISION


def act_of(command: Command) -> str:
    """Return what the effect of a command does, to follow the words "could not"."""
    match command:
        case StartAttempt(task=task):
            return f"carry out attempt {command.attempt} of task {task}"
        case CheckTask(task=task):
            return f"check the work of task {task}"
        case ValidateTask(task=task):
            return f"have the work of task {task} validated"
        case LandTasks(tasks=tasks):
            return f"land {', '.join(task for task, _ in tasks)}"
        case HandOver(task=task):
            return f"make your workspace of task {task}"
        case CheckBase():
            return "check the base"
        case OpenStage(stage):
            return f"run the entry check of stage {stage}"
        case CloseStage(stage):
            return f"run the exit check of stage {stage}"
        case RecordEvent():
            return "record a decision"


def error_text(error: Exception) -> str:
    """Return any error's message. Foreign errors get their type's name: the message alone may say nothing."""
    return error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"


async def guarded(command: Command, effect: Coroutine[Any, Any, list[ev.Event]]) -> list[ev.Event]:
    """Run a command's effect; turn an error of git or the disk into a blocked run that `resume` continues.

    The command's intent is undone then. A lost lease and a journal that cannot be written stay exceptions:
    after them nothing may be recorded. So do work that could not be committed, whose attempt is not over, and a
    branch that moved without being synced: the next runner asks git what landed.
    """
    try:
        return await effect
    except OvertakenError:
        return []
    except (LeaseLostError, JournalError, UncollectedError, UnsyncedLandingError):
        raise
    except (HoldfastError, OSError) as error:
        failure = as_holdfast_error(error)
        reason = f"could not {act_of(command)}: {failure.message}. {failure.hint}".strip()
        return [*undo_intents(command), ev.StopRequested(blocked_by=reason)]

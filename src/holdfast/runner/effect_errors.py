"""Errors of effects that are not the agent's fault: the run rests, and no attempt is charged."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

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
from holdfast.repo.git import GitError
from holdfast.repo.workspace import WorkspaceGoneError
from holdfast.repo.workspaces import Workspaces
from holdfast.system_errors import machine_error, path_of

T = TypeVar("T")


class OvertakenError(Exception):
    """What an effect wanted to record may no longer happen; it must not act on it."""


class UncollectedError(HoldfastError):
    """An agent's work could not be committed. It is still in its workspace, which nothing may reuse."""

    exit_code = ExitCode.NEEDS_DECISION

    def __init__(self, workspace: Path, cause: HoldfastError | OSError) -> None:
        why = as_holdfast_error(cause)
        hint = (
            f"{why.hint} `holdfast resume` tries again; without {workspace} the task would begin again. "
            "To leave it: `holdfast reset RUN TASK` and `holdfast abandon` move it aside."
        )
        super().__init__(f"the work in {workspace} could not be committed: {why.message}", hint.strip())
        self.is_of_workspace = not why.is_lasting and (
            isinstance(cause, GitError) or (isinstance(cause, OSError) and _may_be_in(workspace, cause))
        )
        """Whether something in the workspace, or what its agent did to git, is the likely cause; not the disk."""


def _may_be_in(workspace: Path, error: OSError) -> bool:
    """Tell whether an error is about a file of a workspace. A read names none, and what is opened below a folder no folder."""
    path = Path(path_of(error))
    return not path.is_absolute() or path.is_relative_to(workspace)


class UnsyncedLandingError(HoldfastError):
    """The run branch has moved, but may not be on disk. Nobody may say that it landed, nor that it did not."""

    exit_code = ExitCode.NEEDS_DECISION


def as_holdfast_error(error: HoldfastError | OSError) -> HoldfastError:
    """Return an error as one of ours: what the system refused, and on which file."""
    return error if isinstance(error, HoldfastError) else machine_error(error, "`holdfast resume`")


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


def capture_safely(workspace: Path, capture: Callable[[], T]) -> T:
    """Commit a workspace by `capture`, which may be repeated. Raises UncollectedError if it fails twice.

    Work that exists nowhere else must not be lost to a passing disk error.
    """
    with suppress(HoldfastError, OSError):
        return capture()
    try:
        return capture()
    except WorkspaceGoneError:
        raise
    except (HoldfastError, OSError) as error:
        raise UncollectedError(workspace, error) from error


def capture_or_move_aside(pool: Workspaces, name: str, capture: Callable[[], T]) -> T:
    """Commit a workspace by `capture`, for whoever leaves a run: that must be possible, whatever an agent made.

    What cannot be committed stays, moved aside; then `capture` finds that the workspace is gone. On a full disk, say, it
    raises UncollectedError: that is for the user to change.
    """
    try:
        return capture_safely(pool.path(name), capture)
    except UncollectedError as error:
        if not error.is_of_workspace:
            raise
        pool.move_uncommitted(name)
        return capture()


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

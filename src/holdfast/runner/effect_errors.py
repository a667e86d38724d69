"""Errors of effects that are not the agent's fault: the run rests, and no attempt is charged."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core import events as ev
from holdfast.errors import ExitCode, HoldfastError, JournalError, LeaseLostError
from holdfast.repo.workspaces import WorkspaceGoneError

T = TypeVar("T")


class OvertakenError(Exception):
    """What an effect wanted to record may no longer happen; it must not act on it."""


class UncollectedError(HoldfastError):
    """An agent's work could not be committed. It is still in its workspace, which nothing may reuse."""

    exit_code = ExitCode.NEEDS_DECISION


def as_holdfast_error(error: HoldfastError | OSError) -> HoldfastError:
    """Return an error as one of ours: what the system refused, and on which file."""
    if isinstance(error, HoldfastError):
        return error
    return HoldfastError(
        f"{error.filename or 'the disk'}: {error.strerror}", "Check the disk, then `holdfast resume`."
    )


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
        why = as_holdfast_error(error)
        hint = f"{why.hint} `holdfast resume` tries again; without {workspace} the task would begin again."
        raise UncollectedError(
            f"the work in {workspace} could not be committed: {why.message}", hint.strip()
        ) from error


async def guarded(
    effect: Coroutine[Any, Any, list[ev.Event]], put_back: Sequence[ev.Event]
) -> list[ev.Event]:
    """Run an effect; turn an error of git or the disk into a blocked run that `resume` continues.

    `put_back` undoes the effect's intent. A lost lease and a journal that cannot be written stay exceptions:
    after them nothing may be recorded. So does work that could not be committed: its attempt is not over.
    """
    try:
        return await effect
    except OvertakenError:
        return []
    except (LeaseLostError, JournalError, UncollectedError):
        raise
    except (HoldfastError, OSError) as error:
        failure = as_holdfast_error(error)
        reason = f"{failure.message}. {failure.hint}".strip()
        return [*put_back, ev.StopRequested(blocked_by=reason)]

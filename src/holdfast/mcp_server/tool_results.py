"""How a tool's answer travels: as JSON, with errors that have a type, a message and the way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec

import msgspec
from mcp.types import CallToolResult, TextContent

from holdfast.core.events import AttemptKind
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.fleet.lead import Offer
from holdfast.fleet.protocol import LaunchKey
from holdfast.views.status import MetricsView, StageView

_P = ParamSpec("_P")


class ToolError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the agent gets it. `type` is one of Holdfast's own errors, `hint` what to do next."""

    type: str
    message: str
    hint: str


def json_tool(tool: Callable[_P, Awaitable[Any]]) -> Callable[_P, Awaitable[CallToolResult]]:
    """Let a tool return plain data and raise errors: the client gets both as JSON."""

    @wraps(tool)
    async def answering(*args: _P.args, **kwargs: _P.kwargs) -> CallToolResult:
        try:
            return _result(await tool(*args, **kwargs))
        except HoldfastError as error:
            trouble = ToolError(type=type(error).__name__, message=error.message, hint=error.hint)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            trouble = ToolError(
                type="OSError", message=f"{where}{error.strerror}", hint="put that right, then ask again"
            )
        return _result({"error": trouble}, is_error=True)

    # The SDK derives what it checks from the annotations: the answer's own, not the tool's.
    answering.__annotations__ = {**tool.__annotations__, "return": CallToolResult}
    return answering


def _result(answer: Any, *, is_error: bool = False) -> CallToolResult:
    content = TextContent(type="text", text=msgspec.json.encode(answer).decode())
    return CallToolResult(
        content=[content], structured_content=msgspec.to_builtins(answer), is_error=is_error
    )


_TEXT_CHARS = 500


class ReadyTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that can be claimed. `reason` says what is asked for: the implementation, a fix, a conflict's resolution."""

    task: str
    title: str
    stage: str
    attempt: int
    reason: AttemptKind


class HeldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is claimed, with what its holder needs to go on."""

    task: str
    token: str
    attempt: int
    workspace: str


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where one task stands."""

    task: str
    status: TaskStatus
    attempt: int
    error: str | None
    merge_commit: str | None


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run stands: what can be claimed, what is claimed, what else is not settled, and the totals.

    `stages` are those that are in play; `left_off` counts the unsettled tasks that are not named.
    """

    run: str
    goal: str
    status: RunStatus
    detail: str
    branch: str
    ready: tuple[ReadyTask, ...]
    claimed: tuple[HeldTask, ...]
    stages: tuple[StageView, ...]
    unsettled: tuple[TaskResult, ...]
    left_off: int
    metrics: MetricsView


class OpenResult(msgspec.Struct, frozen=True, kw_only=True):
    """What opening a run gives. `resumed` says that it had begun before: what landed then is not done again."""

    run: str
    resumed: bool
    notice: str
    standing: StatusResult


class ReadyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What can be claimed now; with a run that has come to rest, nothing more will be."""

    run: str
    status: RunStatus
    ready: tuple[ReadyTask, ...]
    claimed: tuple[str, ...]


class TakeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to work on a task. `token` proves the claim until the attempt is over.

    Processes that are started for the task should have `env`: they can report then, and are ended with the attempt.
    """

    task: str
    token: str
    attempt: int
    workspace: str
    brief: str
    env: dict[str, str]
    silence_s: float
    timeout_s: float


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life was noted; `commit` is the newest snapshot of the unfinished work, if there is any."""

    task: str
    commit: str | None


class TextResult(msgspec.Struct, frozen=True, kw_only=True):
    """A text to read."""

    run: str
    text: str


def ready_task(state: RunState, offer: Offer) -> ReadyTask:
    """Return an offer as the leading agent sees it."""
    name = offer.spec.key.owner
    return ReadyTask(
        task=name,
        title=state.specs[name].title[:_TEXT_CHARS],
        stage=state.stage_of[name],
        attempt=offer.spec.key.attempt,
        reason=state.tasks[name].reason,
    )


def held_task(offer: Offer) -> HeldTask:
    """Return a claim as its holder sees it."""
    key = offer.spec.key
    return HeldTask(
        task=key.owner, token=offer.spec.token, attempt=key.attempt, workspace=str(offer.spec.cwd)
    )


def take_result(offer: Offer, brief: str) -> TakeResult:
    """Return what whoever just claimed a task needs."""
    spec = offer.spec
    return TakeResult(
        task=spec.key.owner,
        token=spec.token,
        attempt=spec.key.attempt,
        workspace=str(spec.cwd),
        brief=brief,
        env=offer.environment,
        silence_s=spec.stall_s,
        timeout_s=spec.timeout_s,
    )


def task_result(task: TaskRow, status: TaskStatus) -> TaskResult:
    """Return where a task stands, its status as people are shown it."""
    return TaskResult(
        task=task.id,
        status=status,
        attempt=task.attempt,
        error=task.error[:_TEXT_CHARS] or None,
        merge_commit=task.merge_commit or None,
    )


def attempt_result(state: RunState, attempt: LaunchKey, status: TaskStatus) -> TaskResult:
    """Return what became of one attempt at a task; `status` is where the task stands now.

    A failure stays one though the task can be claimed again, with the number of the attempt that failed.
    """
    task = state.tasks[attempt.owner]
    failure = next((failure for failure in task.failures if failure.attempt == attempt.attempt), None)
    if failure is None:
        return task_result(task, status)
    given_up = status is TaskStatus.ABANDONED
    return TaskResult(
        task=task.id,
        status=status if given_up else TaskStatus.FAILED,
        attempt=attempt.attempt,
        error=failure.error[:_TEXT_CHARS],
        merge_commit=None,
    )

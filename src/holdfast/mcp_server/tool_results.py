"""The results of the MCP tools as data, encoded as JSON; errors have a type, a message and a hint.

Every result is bounded, because an agent's context is small. Nothing here reads or changes a run.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import msgspec
from mcp.types import CallToolResult, TextContent

from holdfast.core.people import open_questions
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import AttemptKind, RunStatus, TaskStatus
from holdfast.errors import HoldfastError, quoted
from holdfast.fleet.lead import Offer
from holdfast.fleet.protocol import LaunchKey
from holdfast.system_errors import machine_error
from holdfast.views.status import MetricsView, StageView

_TEXT_CHARS = 500
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
_P = ParamSpec("_P")


class ToolError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the agent gets it. `type` is one of Holdfast's own errors, `hint` what to do next."""

    type: str
    message: str
    hint: str


def json_tool(tool: Callable[_P, Awaitable[Any]]) -> Callable[_P, Awaitable[CallToolResult]]:
    """Let a tool return plain data and raise errors. The client gets both as JSON."""

    @wraps(tool)
    async def encoded(*args: _P.args, **kwargs: _P.kwargs) -> CallToolResult:
        try:
            _refuse_impossible(kwargs)
            return _result(await tool(*args, **kwargs))
        except HoldfastError as error:
            refused = ToolError(type=type(error).__name__, message=error.message, hint=error.hint)
        except OSError as error:
            found = machine_error(error, "call the tool again", f"finish `{tool.__name__}`")
            refused = ToolError(type=type(found).__name__, message=found.message, hint=found.hint)
        return _result({"error": refused}, is_error=True)

    # The SDK checks results against the return annotation: it must be that of the encoded result.
    encoded.__annotations__ = {**tool.__annotations__, "return": CallToolResult}
    return encoded


def _refuse_impossible(arguments: Mapping[str, object]) -> None:
    """Raise HoldfastError for a text that no file, process or journal can hold: with a NUL, or with half a character."""
    for name, value in arguments.items():
        if isinstance(value, str) and _IMPOSSIBLE.search(value):
            raise HoldfastError(
                f"{name} has a character that no file and no command can have: {quoted(value)}",
                "leave it out",
            )


def _result(answer: Any, *, is_error: bool = False) -> CallToolResult:
    content = TextContent(type="text", text=msgspec.json.encode(answer).decode())
    return CallToolResult(
        content=[content], structured_content=msgspec.to_builtins(answer), is_error=is_error
    )


class ReadyTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that can be claimed.

    `reason` is the request: the implementation, a fix, a conflict's resolution.
    """

    task: str
    title: str
    stage: str
    attempt: int
    reason: AttemptKind


class HeldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed task, with what its holder needs to continue."""

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
    question: str | None = None
    options: tuple[str, ...] = ()


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run stands: ready, claimed and other unsettled tasks, and the totals.

    `stages` are those that have begun and are not done; `left_off` counts the unsettled tasks that are not listed.
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
    """An opened run. `resumed`: it had begun before, and what landed then is not done again."""

    run: str
    resumed: bool
    notice: str
    standing: StatusResult


class ReadyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What can be claimed now. In a run that has come to rest, there will be nothing more."""

    run: str
    status: RunStatus
    ready: tuple[ReadyTask, ...]
    claimed: tuple[str, ...]


class TakeResult(HeldTask, frozen=True, kw_only=True):
    """Everything that is needed to work on a task. `token` proves the claim until the attempt is over.

    Start processes for the task with `env`: then they can report, and they are ended with the attempt.
    """

    brief: str
    env: dict[str, str]
    silence_s: float
    timeout_s: float


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life was noted. `commit` is the newest snapshot of the unfinished work, if there is one."""

    task: str
    commit: str | None


class TextResult(msgspec.Struct, frozen=True, kw_only=True):
    """A text to read."""

    run: str
    text: str


def ready_task(state: RunState, offer: Offer) -> ReadyTask:
    """Return an offered task as the leading agent sees it."""
    name = offer.spec.key.owner
    return ReadyTask(
        task=name,
        title=state.specs[name].title[:_TEXT_CHARS],
        stage=state.stage_of[name],
        attempt=offer.spec.key.attempt,
        reason=state.tasks[name].latest.kind,
    )


def held_task(offer: Offer) -> HeldTask:
    """Return a claimed task as its holder sees it."""
    key = offer.spec.key
    return HeldTask(
        task=key.owner, token=offer.spec.token, attempt=key.attempt, workspace=str(offer.spec.cwd)
    )


def take_result(offer: Offer, brief: str) -> TakeResult:
    """Return what an agent needs after it claimed a task."""
    return TakeResult(
        **msgspec.structs.asdict(held_task(offer)),
        brief=brief,
        env=offer.environment,
        silence_s=offer.spec.stall_s,
        timeout_s=offer.spec.timeout_s,
    )


def task_result(task: TaskRow, status: TaskStatus) -> TaskResult:
    """Return where a task stands; `status` is the displayed one."""
    asked = next(iter(open_questions(task)), None)
    return TaskResult(
        task=task.id,
        status=status,
        attempt=task.attempt,
        error=task.error[:_TEXT_CHARS] or None,
        merge_commit=task.merge_commit or None,
        question=asked.question if asked else None,
        options=asked.options if asked else (),
    )


def attempt_result(state: RunState, attempt: LaunchKey, status: TaskStatus) -> TaskResult:
    """Return the result of one attempt at a task; `status` is where the task stands now.

    A failed attempt is shown as failed although the task can be claimed again.
    """
    task = state.tasks[attempt.owner]
    failure = next((failure for failure in task.failures if failure.attempt == attempt.attempt), None)
    present = task_result(task, status)
    if failure is None:
        return present
    return msgspec.structs.replace(
        present,
        status=status if status is TaskStatus.ABANDONED else TaskStatus.FAILED,
        attempt=attempt.attempt,
        error=failure.error[:_TEXT_CHARS],
        merge_commit=None,
    )

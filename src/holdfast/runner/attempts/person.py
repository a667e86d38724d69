"""What a person does in an agent's place: the workspace that is handed over, and the work that is given, as an attempt.

The files are the person's: nothing here changes them after the hand-over.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import StreamSummary
from holdfast.core.projection import Taken, TaskRow
from holdfast.core.status import FailureKind
from holdfast.repo.blocking_files import blocking_files
from holdfast.repo.repository import Repository
from holdfast.repo.taken_workspaces import keep_given, prepare_taken, taken_workspace
from holdfast.repo.uncollected_work import WayOut, capture_safely
from holdfast.repo.workspace import Workspace, WorkspaceGoneError
from holdfast.runner.attempts.attempt_events import attempt_failed
from holdfast.runner.attempts.collect import carry_of, commit_attempt, first_objection, work_done
from holdfast.runner.attempts.reports import clean
from holdfast.runner.context import RunContext
from holdfast.system_errors import doing


async def hand_over(context: RunContext, name: str, start: str) -> list[ev.Event]:
    """Make the workspace of the person who took a task. Safe to repeat until it is recorded: nobody knows of it before."""
    async with context.workspaces.hand_over_lock:
        await context.require_lease()
        with doing(f"make your workspace of task {name}"):
            make = partial(prepare_taken, setting=context.state.plan.workspace)
            path = await asyncio.to_thread(make, context.repo, context.run, name, start)
    return [handed_over(context.repo, name, path)]


def handed_over(repo: Repository, name: str, path: Path) -> ev.TaskHandedOver:
    """Return the event of a workspace that was made. Its place is told below the checkout, which may be moved."""
    place = path.relative_to(repo.checkout) if path.is_relative_to(repo.checkout) else path
    return ev.TaskHandedOver(task=name, place=str(place))


async def take_in(context: RunContext, task: TaskRow) -> list[ev.Event]:
    """Commit what a person gave and return how that attempt ended. Safe to repeat after a crash: reuses the commit."""
    context.secrets.pop(task.latest.token, None)
    workspace = taken_workspace(context.repo, context.run, task.id, context.state.plan.workspace)
    way_out = WayOut(
        f"`holdfast resume {context.run}` takes it in then. It is yours: nothing removes it, no agent gets it.",
        f"To have an agent do the task without it: `holdfast retry {context.run} {task.id}`; it stays where it is.",
    )
    return await asyncio.to_thread(
        capture_safely, workspace.path, partial(_take_in, context, task, workspace), way_out
    )


def _take_in(context: RunContext, task: TaskRow, workspace: Workspace) -> list[ev.Event]:
    taken, token = task.taken or Taken(), task.latest.token
    if pipe := next(blocking_files(workspace.path), None):
        error = f"{pipe.relative_to(workspace.path)} is no regular file; git would wait for it. Remove it."
        return [attempt_failed(context, task, FailureKind.REJECTED, error, "", task.carry)]
    try:
        work = commit_attempt(context, task, workspace, clean(taken.message))
    except WorkspaceGoneError as gone:
        hint = f"`holdfast take {context.run} {task.id}` makes it again"
        return [attempt_failed(context, task, FailureKind.AGENT, f"{gone.message} {hint}", "", task.carry)]
    keep_given(context.repo, context.run, task.id, work.commit)
    carry = carry_of(context, task, work)
    if taken.given == "back":
        return [ev.AttemptReturned(task=task.id, attempt=task.attempt, token=token, carry=carry)]
    exit_ = Exit(token=token, reason=ExitReason.EXITED, code=0)
    objection = first_objection(context, task, exit_, work, StreamSummary(), None)
    if objection is None:
        return [work_done(context, task, exit_, work, clean(taken.message))]
    kind = objection.failure or FailureKind.REJECTED
    error = "what you gave changes no file" if kind is FailureKind.NO_CHANGE else objection.error
    return [attempt_failed(context, task, kind, error, "", carry, work.tree)]

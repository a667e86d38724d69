"""The merge queue: merge, check the merged tree, move the run branch by compare-and-swap."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.core import events as ev, ids
from holdfast.core.commands import LandTasks
from holdfast.core.projection import TaskRow
from holdfast.core.status import AttemptKind
from holdfast.errors import HoldfastError
from holdfast.repo.landing import LAND, Conflicted, commit_merge, merge, move_branch, trailers
from holdfast.reporting.result_messages import short
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import UnsyncedLandingError
from holdfast.runner.verification.checks import ChecksStopped
from holdfast.runner.verification.task_checks import check_merged, unrunnable
from holdfast.system_errors import as_holdfast_error


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A merge commit whose tree was checked and that the branch may move to."""

    task: TaskRow
    commit: str


async def land_tasks(context: RunContext, command: LandTasks) -> list[ev.Event]:
    """Land a batch in one move of the branch. Recovery finds in git what landed before a crash."""
    tip = context.state.row.tip
    onto = tip
    settled: list[ev.Event] = []
    prepared: list[_Prepared] = []
    for name, _attempt in command.tasks:
        task = context.state.tasks[name]
        try:
            outcome = await _prepare(context, task, onto)
        except ChecksStopped:
            settled.append(_interrupted(task))
            continue
        if isinstance(outcome, _Prepared):
            prepared.append(outcome)
            onto = outcome.commit
        else:
            settled.append(outcome)
    if not prepared:
        return settled
    return settled + await _move(context, prepared, tip)


async def _prepare(context: RunContext, task: TaskRow, onto: str) -> _Prepared | ev.Event:
    """Merge one head onto a commit and check the result, unless exactly that tree was checked before."""
    merged = await asyncio.to_thread(merge, context.repo, onto, task.latest.head)
    if isinstance(merged, Conflicted):
        return await asyncio.to_thread(_keep_conflict, context, task, onto, merged)
    message = _message(context, task)
    commit = await asyncio.to_thread(commit_merge, context.repo, merged, onto, task.latest.head, message)
    checks = context.state.checks_of(task.id)
    if checks and merged != task.latest.tree:
        failed = await check_merged(context, task, checks, onto, commit)
        if failed is not None:
            if blocked := await asyncio.to_thread(unrunnable, context, task, failed, onto, commit):
                return blocked
            await asyncio.to_thread(
                context.repo.keep, ids.merged_ref(context.run, task.id, task.attempt), commit
            )
            return ev.MergeRefused(
                task=task.id,
                attempt=task.attempt,
                check=failed.command,
                error=f"after merging with what landed before, {failed.error}",
                detail=failed.output,
                carry=commit,
            )
    return _Prepared(task, commit)


async def _move(context: RunContext, prepared: list[_Prepared], tip: str) -> list[ev.Event]:
    """Write the intent, then move the branch. The append is also the fence: it fails if we lost the lease."""
    intents = []
    onto = tip
    for item in prepared:
        intents.append(
            ev.MergePrepared(task=item.task.id, attempt=item.task.attempt, commit=item.commit, onto=onto)
        )
        onto = item.commit
    await context.record(intents)
    await context.require_lease()
    if await asyncio.to_thread(_move_branch, context, onto, tip):
        return [
            ev.TaskLanded(task=p.task.id, attempt=p.task.attempt, commit=p.commit, head=p.task.latest.head)
            for p in prepared
        ]
    return await _after_lost_race(context, prepared, tip)


def _move_branch(context: RunContext, onto: str, tip: str) -> bool:
    """Move the run branch; tell whether it did. Raises UnsyncedLandingError if it moved but could not be synced."""
    branch = context.state.row.branch
    try:
        return move_branch(context.repo, branch, onto, tip)
    except (HoldfastError, OSError) as error:
        if context.repo.read_ref(branch) != onto:
            raise
        why = as_holdfast_error(error)
        raise UnsyncedLandingError(
            f"{branch} has moved, but it may not be on disk: {why.message}", why.hint
        ) from error


async def _after_lost_race(context: RunContext, prepared: list[_Prepared], tip: str) -> list[ev.Event]:
    """Somebody else moved the branch, perhaps an agent: a person looks at it first. `resume` judges what is on it."""
    branch = context.state.row.branch
    actual = await asyncio.to_thread(context.repo.read_ref, branch)
    again: list[ev.Event] = [_interrupted(item.task) for item in prepared]
    if not actual:
        await asyncio.to_thread(move_branch, context.repo, branch, tip, "")
        return again
    name = ids.short_name(branch)
    await asyncio.to_thread(context.repo.keep, ids.archive_ref(context.run, f"moved-{actual[:12]}"), actual)
    reason = (
        f"somebody else moved branch {name} from {tip[:12]} to {actual[:12]}; put it back with "
        f"`git update-ref {branch} {tip}` and resume; `holdfast resume` without that says what is on it"
    )
    return [*again, ev.StopRequested(blocked_by=reason)]


def _keep_conflict(context: RunContext, task: TaskRow, onto: str, conflict: Conflicted) -> ev.Event:
    """Commit both sides with the markers in them, for a fresh agent, or the person who took the task, to resolve."""
    commit = commit_merge(context.repo, conflict.tree, onto, task.latest.head, _message(context, task))
    context.repo.keep(ids.merged_ref(context.run, task.id, task.attempt), commit)
    return ev.MergeConflicted(
        task=task.id,
        attempt=task.attempt,
        onto=onto,
        carry=commit,
        files=conflict.files,
        detail=conflict.detail,
        by_hand=task.latest.kind is AttemptKind.PERSON,
    )


def _interrupted(task: TaskRow) -> ev.Event:
    return ev.LandingInterrupted(task=task.id, attempt=task.attempt)


def _message(context: RunContext, task: TaskRow) -> str:
    """Return the message of a task's landing: its title, or what the person said who did it by hand."""
    subject = context.state.specs[task.id].headline
    if task.latest.kind is AttemptKind.PERSON and task.summary:
        subject = f"{task.id}: {short(task.summary.splitlines()[0])}"
    return f"{LAND}{subject}\n\n{trailers(context.run, task.id, task.attempt)}"

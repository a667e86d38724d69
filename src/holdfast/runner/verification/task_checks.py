"""The checks of a task: on what its attempt produced, and on the merge of that; in a workspace prepared anew and set up.

How commands are run is in `checks.py`. What follows for the landing is in the merge queue.
"""

from __future__ import annotations

import asyncio

from holdfast.core import events as ev
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.core.unrunnable import CommandFault, TreePath, fault_of, program_named, tree_path, words_said
from holdfast.runner.context import RunContext
from holdfast.runner.verification.checks import ChecksStopped, FailedCheck, run_checks
from holdfast.runner.workspace_setup import SetupFailedError, failed_by_work, set_up

_PATHS_SHOWN = 5


async def check_task(context: RunContext, name: str) -> list[ev.Event]:
    """Verify what a task's attempt produced, in a workspace prepared anew. Safe to repeat after a crash.

    Nothing is in it, or in its `.git`, but what lands and what set-up makes.
    """
    task, spec = context.state.tasks[name], context.state.specs[name]
    workspace = await context.workspaces.prepare_checks(task)
    checks = context.state.checks_of(name)
    try:
        await set_up(context, workspace, name, task.attempt)
        failed = await run_checks(context, checks, workspace, name, task.attempt, "check", slot=spec.slot)
    except SetupFailedError as error:
        failed = failed_by_work(context, error, task.base, task.latest.head)
    except ChecksStopped:
        return [ev.ChecksInterrupted(task=name, attempt=task.attempt)]
    if failed is None:
        passed = ev.ChecksSucceeded if spec.validators else ev.TaskVerified
        return [passed(task=name, attempt=task.attempt)]
    if blocked := await asyncio.to_thread(unrunnable, context, task, failed, task.base, task.latest.head):
        return [blocked]
    words = failed.error + _absent(context.workspaces.left_behind(task))
    return [
        ev.ChecksFailed(
            task=name, attempt=task.attempt, check=failed.command, error=words, detail=failed.output
        )
    ]


async def check_merged(
    context: RunContext, task: TaskRow, checks: tuple[str, ...], onto: str, commit: str
) -> FailedCheck | None:
    """Run a task's checks on a merge of its work onto a commit; return the first that fails."""
    workspace = await context.workspaces.prepare_landing(commit)
    slot = context.state.specs[task.id].slot
    try:
        await set_up(context, workspace, task.id, task.attempt)
        return await run_checks(context, checks, workspace, task.id, task.attempt, "merged", slot=slot)
    except SetupFailedError as error:
        return failed_by_work(context, error, onto, commit)


def unrunnable(
    context: RunContext, task: TaskRow, failed: FailedCheck, before: str, now: str
) -> ev.VerificationBlocked | None:
    """Return that finished work waits because a check of it cannot be executed; None if an agent may be to blame.

    `before` and `now` are the commits without and with the work. What the task may have been to create is told to one more
    agent first.
    """
    named = program_named(failed.code, failed.output)
    if not named:
        return None
    fault = fault_of(named, failed.command, _file_of_tree(context, tree_path(named), before, now))
    told = [one for one in task.failures[task.forgiven :] if one.check == failed.command]
    if fault is CommandFault.UNSURE and any(program_named(failed.code, one.detail) == named for one in told):
        fault = CommandFault.PLAN
    return _blocked(context.run, task, failed) if fault is CommandFault.PLAN else None


def _file_of_tree(context: RunContext, path: str, before: str, now: str) -> TreePath | None:
    if not path:
        return None
    was, is_now = context.repo.ids_of(f"{before}:{path}", f"{now}:{path}")
    return TreePath(bool(was), bool(is_now), path in context.repo.changed_files(before, now))


def _blocked(run: str, task: TaskRow, failed: FailedCheck) -> ev.VerificationBlocked:
    error = (
        f"the check `{failed.command}` cannot be executed: {words_said(failed.output)}. Correct the plan and "
        f"`holdfast amend {run}`, or install the program and `holdfast resume {run}`: the work is then checked, not done again"
    )
    return ev.VerificationBlocked(
        task=task.id, attempt=task.attempt, failure=FailureKind.UNRUNNABLE, error=error, detail=failed.output
    )


def _absent(left_behind: tuple[str, ...]) -> str:
    """Return the end of a sentence about a failed check: it may have needed what the agent made and git does not keep."""
    if not left_behind:
        return ""
    more = ", …" if len(left_behind) > _PATHS_SHOWN else ""
    return f"; these do not land and were not there: {', '.join(left_behind[:_PATHS_SHOWN])}{more}"

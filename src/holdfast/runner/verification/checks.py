"""Checks: a task's commands on what its attempt produced, one supervised process each, until one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.agents.invocation import Invocation
from holdfast.core import events as ev
from holdfast.core.brief import clip
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.core.unrunnable import CommandFault, TreePath, fault_of, program_named, tree_path, words_said
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.runner.context import RunContext
from holdfast.runner.launch import launch_when_possible, wait_or_stop, workspace_launch

_OUTPUT_CHARS = 8_000
_PATHS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """The first check that did not hold, with what it printed; `code` is its exit status, if it came to its end."""

    command: str
    error: str
    output: str
    code: int = 0


class ChecksStopped(Exception):  # noqa: N818 - it is not an error: the user asked for a stop
    """The run is to stop while checks run. They will run again."""


async def check_task(context: RunContext, name: str) -> list[ev.Event]:
    """Verify what a task's attempt produced, in its workspace, prepared anew: nothing is in it, or in its `.git`, but what lands. Safe to repeat after a crash."""
    task, spec = context.state.tasks[name], context.state.specs[name]
    workspace = await context.workspaces.prepare(task, task.latest.head)
    checks = context.state.checks_of(name)
    try:
        failed = await run_checks(context, checks, workspace, name, task.attempt, "check", slot=spec.slot)
    except ChecksStopped:
        return [ev.ChecksInterrupted(task=name, attempt=task.attempt)]
    if failed is None:
        passed = ev.ChecksSucceeded if spec.validators else ev.TaskVerified
        return [passed(task=name, attempt=task.attempt)]
    if said := await asyncio.to_thread(unrunnable, context, task, failed, task.base, task.latest.head):
        return [cannot_run(context, task, failed, said)]
    error = failed.error + _absent(context.workspaces.left_behind(task))
    return [
        ev.ChecksFailed(
            task=name, attempt=task.attempt, check=failed.command, error=error, detail=failed.output
        )
    ]


def unrunnable(context: RunContext, task: TaskRow, failed: FailedCheck, before: str, now: str) -> str:
    """Return what the shell said of a check that it could not execute, if that is the plan's or the machine's fault.

    `before` and `now` are the commits without and with the work. What the task may have been to create is told to one more
    agent first.
    """
    named = program_named(failed.code, failed.output)
    if not named:
        return ""
    fault = fault_of(named, failed.command, _file_of_tree(context, tree_path(named), before, now))
    told = [one for one in task.failures[task.forgiven :] if one.check == failed.command]
    if fault is CommandFault.UNSURE and any(program_named(failed.code, one.detail) == named for one in told):
        fault = CommandFault.PLAN
    return words_said(failed.output) if fault is CommandFault.PLAN else ""


def _file_of_tree(context: RunContext, path: str, before: str, now: str) -> TreePath | None:
    if not path:
        return None
    was, is_now = context.repo.ids_of(f"{before}:{path}", f"{now}:{path}")
    return TreePath(bool(was), bool(is_now), path in context.repo.changed_files(before, now))


def cannot_run(context: RunContext, task: TaskRow, failed: FailedCheck, said: str) -> ev.Event:
    """Return that finished work waits because a check of it cannot be executed: no agent is to blame."""
    run = context.run
    error = (
        f"the check `{failed.command}` cannot be executed: {said}. Correct the plan and `holdfast amend {run}`, or install "
        f"the program and `holdfast resume {run}`: the work is then checked, not done again"
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


async def run_checks(
    context: RunContext,
    commands: tuple[str, ...],
    workspace: Path,
    owner: str,
    attempt: int,
    label: str,
    *,
    slot: str = "",
) -> FailedCheck | None:
    """Run each command in a workspace; return the first that fails, or None. If they ran before, they run again.

    With a `slot` they wait for a place of it and keep it until the last of them is gone.
    Raises ChecksStopped if the run is to stop.
    """
    plan = context.state.plan
    async with context.slots.held(slot, context.stopping) as held:
        if held is None:
            raise ChecksStopped
        for command in commands:
            launch = partial(
                workspace_launch,
                how=Invocation(("/bin/sh", "-c", command)),
                workspace=workspace,
                timeout_s=plan.limits.check_timeout_s,
                pass_env=plan.pass_env,
                holds=held,
                sandbox=context.sandbox,
                limits=plan.limits,
            )
            key, ended = await run_to_end(context, owner, attempt, label, launch)
            failed = _judge(context, command, key, ended)
            if failed is not None:
                return failed
    return None


async def run_to_end(
    context: RunContext, owner: str, attempt: int, label: str, launch: Callable[[LaunchKey], LaunchSpec]
) -> tuple[LaunchKey, Exit | None]:
    """Run a check or a validator and return its key and how it ended. Raises ChecksStopped if the run is to stop.

    A killed supervisor says nothing about the work: what it left is ended, and the check runs once more. If that is
    lost too, there is no Exit.
    """
    key, ended = await _run_once(context, owner, attempt, label, launch)
    return (key, ended) if ended is not None else await _run_once(context, owner, attempt, label, launch)


async def _run_once(
    context: RunContext, owner: str, attempt: int, label: str, launch: Callable[[LaunchKey], LaunchSpec]
) -> tuple[LaunchKey, Exit | None]:
    key = context.check_key(owner, attempt, label)
    context.require_lease()
    await launch_when_possible(context, launch(key))
    ended = (await wait_or_stop(context, key)).exit
    if context.stopping.is_set() and (ended is None or ended.reason is ExitReason.CANCELLED):
        raise ChecksStopped
    if ended is None:
        await context.fleet.cancel(key)
    return key, ended


def _judge(context: RunContext, command: str, key: LaunchKey, ended: Exit | None) -> FailedCheck | None:
    output = clip(context.fleet.output(key).data.decode(errors="replace"), _OUTPUT_CHARS)
    if ended is None:
        return FailedCheck(command, "the check's process was lost", output)
    match ended.reason:
        case ExitReason.EXITED if ended.code == 0:
            return None
        case ExitReason.EXITED:
            why = f": {ended.error}" if ended.error else ""
            return FailedCheck(command, f"`{command}` exited with {ended.code}{why}", output, ended.code)
        case ExitReason.TIMEOUT:
            limit = context.state.plan.limits.check_timeout_s
            return FailedCheck(command, f"`{command}` took longer than {limit:g} s", output)
        case _:
            return FailedCheck(command, f"`{command}`: {ended.error or ended.reason}", output)

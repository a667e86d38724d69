"""The start of an agent: its workspace, brief and launch; and the brief that the next one would get."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from holdfast.agents.invocation import invoke_worker
from holdfast.agents.presets import Preset, find_agent, presets_of
from holdfast.core.brief import BriefFacts, build_brief
from holdfast.core.plan import PlanWorkspace
from holdfast.core.projection import AttemptRow, TaskRow
from holdfast.core.provider_limits import agents_of
from holdfast.core.retry import kind_of_next_attempt
from holdfast.core.state import RunState
from holdfast.core.task_transitions import base_of_attempt
from holdfast.fleet.protocol import LaunchSpec
from holdfast.repo.repository import Repository
from holdfast.runner.attempts.reports import report_file
from holdfast.runner.context import RunContext
from holdfast.runner.first_start import launch_agent
from holdfast.runner.launch import placeholders, workspace_launch
from holdfast.runner.workspace_setup import SetupFailedError, failed_by_work, set_up
from holdfast.runner.workspace_variables import database_name
from holdfast.system_errors import doing

_DIFF_BYTES = 32_000


async def start_agent(context: RunContext, task: TaskRow) -> None:
    """Prepare the workspace, write the brief and launch the agent. Safe to repeat after a crash."""
    if not context.workspaces.is_vacant(task):
        await asyncio.to_thread(_leave_if_occupied, context, task)
    workspace = await context.workspaces.prepare(task, task.latest.start)
    trouble = await _set_up(context, task, workspace)
    brief = await asyncio.to_thread(_write_brief, context, task, workspace, trouble)
    await context.require_lease()
    launch = _launch(context, task, workspace, brief)
    await launch_agent(context, launch, agent_of_attempt(context, task))


async def _set_up(context: RunContext, task: TaskRow, workspace: Path) -> str:
    """Set up a task's workspace. If earlier work on the task broke set-up, return how: this agent has to repair it."""
    try:
        await set_up(context, workspace, task.id, task.attempt)
    except SetupFailedError as error:
        failed_by_work(context, error, task.base, task.latest.start)
        return error.message
    return ""


def _leave_if_occupied(context: RunContext, task: TaskRow) -> None:
    """Remove a workspace in which a process still works, so that the attempt gets a new folder.

    An agent that cleared its environment carries no token. If its supervisor is killed, nobody can tell it from the
    user's own programs, so it is not signalled. Whatever it still writes must not get into this attempt.
    """
    path = context.workspaces.path(task)
    if context.fleet.is_occupied(path):
        with suppress(OSError):  # it may be writing at this moment; what is left is removed later
            context.workspaces.pool.remove(path.name)
    context.workspaces.mark_vacant(task)


def agent_of_attempt(context: RunContext, task: TaskRow) -> Preset | None:
    """Return the agent of a task's current attempt; None if the task is a command."""
    plan, spec = context.state.plan, context.state.specs[task.id]
    if spec.run:
        return None
    return find_agent(task.latest.agent or spec.agent or plan.agent, plan.agents, context.presets)


def next_brief(repo: Repository, state: RunState, task: TaskRow) -> str:
    """Return the brief that the next attempt at a task would get if it began now."""
    start = task.carry or state.row.tip
    agent = find_agent(next(agents_of(state, task), ""), state.plan.agents, presets_of(repo.checkout))
    closing = agent is not None and agent.as_provider("").closing_line
    upcoming = msgspec.structs.replace(
        task,
        attempt=task.attempt + 1,
        latest=AttemptRow(start=start, kind=kind_of_next_attempt(task), closing_line=closing),
        base=base_of_attempt(task, start),
        last_report=task.latest.report or task.last_report,
    )
    return build_brief(state, upcoming, _earlier_work(repo, upcoming))


def _write_brief(context: RunContext, task: TaskRow, workspace: Path, setup_error: str) -> Path:
    """Write the brief of a task's current attempt and return its file. Idempotent."""
    path = context.directory.brief(task.id, task.attempt)
    brought = context.state.plan.workspace.brought
    facts = replace(
        _earlier_work(context.repo, task),
        ports=context.variables.ports(workspace),
        database=database_name(workspace) if context.state.plan.workspace != PlanWorkspace() else "",
        setup_error=setup_error,
        made_by_setup=[path for path in context.workspaces.of(task).left_out if path not in brought],
    )
    text = build_brief(context.state, task, facts)
    with doing("write its brief", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def _earlier_work(repo: Repository, task: TaskRow) -> BriefFacts:
    if task.latest.start == task.base:
        return BriefFacts()
    return BriefFacts(
        earlier_diff=repo.diff(task.base, task.latest.start, _DIFF_BYTES),
        earlier_files=repo.changed_files(task.base, task.latest.start),
    )


def _launch(context: RunContext, task: TaskRow, workspace: Path, brief: Path) -> LaunchSpec:
    plan, spec = context.state.plan, context.state.specs[task.id]
    key = context.agent_key(task)
    values = placeholders(key, workspace, brief, task.latest.resumed_session)
    launch = workspace_launch(
        key,
        invoke_worker(spec, agent_of_attempt(context, task), values),
        workspace,
        brief,
        timeout_s=plan.limits.timeout_s if spec.timeout_s is None else spec.timeout_s,
        stall_s=plan.limits.stall_s if spec.stall_s is None else spec.stall_s,
        pass_env=plan.pass_env,
        report_to=(report_file(workspace), context.directory.wake_pipe),
        sandbox=context.sandbox,
        shown=context.linked,
        variables=context.variables.of(workspace),
        limits=context.state.plan.limits,
    )
    return replace(launch, secret=context.secrets[task.latest.token])  # the token was recorded before

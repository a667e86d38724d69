"""One attempt, from an empty workspace to a commit or a recorded failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from holdfast.agents.invocation import Placeholders, invoke_task
from holdfast.core import events as ev, ids
from holdfast.core.facts import ExitReason, Presence, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.repo.landing import trailers
from holdfast.repo.snapshots import count_snapshots, take_snapshot
from holdfast.repo.workspaces import WorkspaceGoneError
from holdfast.reporting.snapshot_message import snapshot_message
from holdfast.runner.attempts.collect import collect
from holdfast.runner.attempts.reports import report_file
from holdfast.runner.attempts.start import write_brief
from holdfast.runner.attempts.stream_listener import agent_of_attempt, listen, listener_for, observation
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import OvertakenError, as_holdfast_error, capture_safely
from holdfast.runner.environment import attempt_environment, report_variables
from holdfast.runner.verification.checks import wait_or_stop
from holdfast.runner.verification.syntax import reject_syntax_errors


async def run_attempt(context: RunContext, name: str) -> list[ev.Event]:
    """See the present attempt of a task through, whoever began it.

    Never launched: it is launched. Alive: it is watched. Ended: it is collected. Lost: its work is kept.
    """
    task = context.state.tasks[name]
    heard_of = (task.id, task.attempt)
    try:
        return await _carry_out(context, task)
    finally:
        context.ears.pop(heard_of, None)  # all that it heard is recorded


async def _carry_out(context: RunContext, task: TaskRow) -> list[ev.Event]:
    try:
        if context.fleet.inspect(context.agent_key(task)).presence is Presence.UNKNOWN:
            await _launch(context, task)
    except (HoldfastError, OSError) as error:
        trouble = as_holdfast_error(error)
        await context.fleet.cancel(
            context.agent_key(task)
        )  # its supervisor may have died after it had started the agent
        if trouble.out_of_space:
            raise
        return [_environment_failure(context, task, trouble)]
    with context.reports.watched(task, context.slot_path(task)):
        sighting = await _wait_and_listen(context, task)
    heard = listener_for(context, task).finish(context.fleet, context.agent_key(task))
    if last_words := [*context.reports.of(task, context.slot_path(task)), *observation(task, heard)]:
        await context.record(last_words)
    if (_was_cancelled(sighting) and task.latest.halt is None) or (
        sighting.exit is None and context.stopping.is_set()
    ):
        return [await asyncio.to_thread(_set_aside, context, task, "stop")]
    if sighting.exit is None:
        await context.fleet.sweep(context.run, _alive_agents(context, besides=task))
        return [await asyncio.to_thread(_set_aside, context, task, "crash")]
    how = partial(collect, context, task, sighting.exit, heard)
    ended = await asyncio.to_thread(capture_safely, context.slot_path(task), how)
    return [
        await reject_syntax_errors(context, task, event) if isinstance(event, ev.AttemptDone) else event
        for event in ended
    ]


def _was_cancelled(sighting: Sighting) -> bool:
    """Tell whether the agent was stopped from outside: by a runner that died before it said so, or by a shutdown."""
    return sighting.exit is not None and sighting.exit.reason is ExitReason.CANCELLED


async def _launch(context: RunContext, task: TaskRow) -> None:
    """Prepare the workspace and start the agent. If a dead runner got half-way here, it is all done again."""
    workspace = await asyncio.to_thread(
        context.workspaces.prepare, str(task.latest.workspace_number), task.latest.start
    )
    context.intact.add((task.id, task.attempt))
    context.captured.pop(str(task.latest.workspace_number), None)
    brief = await asyncio.to_thread(write_brief, context, task)
    await context.fleet.launch(_spec(context, task, workspace, brief))


def _spec(context: RunContext, task: TaskRow, workspace: Path, brief: Path) -> LaunchSpec:
    plan, spec = context.state.plan, context.state.specs[task.id]
    values = Placeholders(
        brief_path=str(brief),
        brief_text=brief.read_text(encoding="utf-8"),
        workspace=str(workspace),
        task=task.id,
        attempt=task.attempt,
        run=context.run,
        session=task.latest.resumed_session,
    )
    invocation = invoke_task(spec, agent_of_attempt(context, task), values)
    passed = plan.pass_env + invocation.pass_env
    env = attempt_environment(workspace, context.run, task.id, task.attempt, brief, passed)
    env |= report_variables(report_file(workspace), context.directory.wake_pipe)
    return LaunchSpec(
        key=context.agent_key(task),
        token=task.latest.token,
        argv=invocation.argv,
        cwd=workspace,
        env=env | invocation.env,
        stdin=brief if invocation.stdin_brief else None,
        timeout_s=plan.limits.timeout_s if spec.timeout_s is None else spec.timeout_s,
        stall_s=plan.limits.stall_s if spec.stall_s is None else spec.stall_s,
        stop_signal=invocation.stop_signal,
    )


def _alive_agents(context: RunContext, besides: TaskRow) -> frozenset[LaunchKey]:
    """Return the keys that a sweep must leave alone while one attempt's leftovers are ended."""
    lost = context.agent_key(besides)
    return frozenset(key for key in context.fleet.live_launches(context.run) if key != lost)


async def _wait_and_listen(context: RunContext, task: TaskRow) -> Sighting:
    """Wait for the agent while its stream is listened to. One that is being ended for a reason is waited for, too."""
    listener = asyncio.ensure_future(listen(context, task))
    try:
        return await _watch(context, task)
    finally:
        if task.latest.halt is None:
            listener.cancel()
        with suppress(asyncio.CancelledError, OvertakenError):
            await listener


async def _watch(context: RunContext, task: TaskRow) -> Sighting:
    """Wait for the agent, saving its unfinished work every now and then, and when asked to."""
    key = context.agent_key(task)
    with context.checkpoints.open_for(task.id) as wanted:
        while True:
            try:
                return await wait_or_stop(context, key, context.state.plan.limits.snapshot_s, wanted)
            except TimeoutError:
                with context.checkpoints.taking(task.id):
                    commit = await asyncio.to_thread(save_wip, context, task)
                    if commit and commit != task.latest.snapshot:
                        await context.record(
                            [ev.SnapshotSaved(task=task.id, attempt=task.attempt, commit=commit)]
                        )


def save_wip(context: RunContext, task: TaskRow) -> str:
    """Commit what the workspace holds to the task's WIP ref; return the newest snapshot, or "" if there is none.

    Repeating it without a change in the workspace makes no new commit. A workspace that cannot be read at this
    moment, because the agent is at work in it, leaves the snapshots taken before.
    """
    try:
        return _snapshot(context, task)
    except (HoldfastError, OSError):
        return task.latest.snapshot


def rescue_wip(context: RunContext, task: TaskRow) -> str:
    """Do as `save_wip` for an attempt that is over: its workspace will be used again, so it must succeed.

    Raises UncollectedError if it does not. Only a workspace that is gone leaves the snapshots taken before.
    """
    try:
        return capture_safely(context.slot_path(task), partial(_snapshot, context, task))
    except WorkspaceGoneError:
        return task.latest.snapshot


def _snapshot(context: RunContext, task: TaskRow) -> str:
    ref, workspace = (
        ids.snapshot_ref(context.run, task.id),
        context.workspaces.get(str(task.latest.workspace_number)),
    )

    def message(files: Sequence[str]) -> str:
        checkpoint = count_snapshots(context.repo, ref) + 1
        return snapshot_message(task, checkpoint, files, trailers(context.run, task.id, task.attempt))

    return take_snapshot(context.repo, workspace, ref, message) or task.latest.snapshot


def _set_aside(context: RunContext, task: TaskRow, cause: Literal["crash", "stop"]) -> ev.Event:
    """Keep the work of an attempt that will not finish."""
    return ev.AttemptLost(task=task.id, attempt=task.attempt, carry=rescue_wip(context, task), cause=cause)


def _environment_failure(context: RunContext, task: TaskRow, error: HoldfastError) -> ev.Event:
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=FailureKind.ENVIRONMENT,
        error=error.message,
        detail=error.hint,
        carry=task.latest.snapshot,
        clock=context.clock(),
    )

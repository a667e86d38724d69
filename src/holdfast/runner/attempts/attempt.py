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
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.repo.landing import trailers
from holdfast.repo.snapshots import count_snapshots
from holdfast.repo.workspace_commit import take_snapshot
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


async def run_attempt(shop: RunContext, name: str) -> list[ev.AnyEvent]:
    """See the present attempt of a task through, whoever began it.

    Never launched: it is launched. Alive: it is watched. Ended: it is collected. Lost: its work is kept.
    """
    task = shop.state.tasks[name]
    heard_of = (task.id, task.attempt)
    try:
        return await _carry_out(shop, task)
    finally:
        shop.ears.pop(heard_of, None)  # all that it heard is recorded


async def _carry_out(shop: RunContext, task: TaskRow) -> list[ev.AnyEvent]:
    try:
        if shop.fleet.inspect(shop.agent_key(task)).presence is Presence.UNKNOWN:
            await _launch(shop, task)
    except (HoldfastError, OSError) as error:
        trouble = as_holdfast_error(error)
        await shop.fleet.cancel(
            shop.agent_key(task)
        )  # its supervisor may have died after it had started the agent
        if trouble.out_of_space:
            raise
        return [_environment_failure(shop, task, trouble)]
    with shop.reports.watched(task, shop.slot_path(task)):
        sighting = await _wait_and_listen(shop, task)
    heard = listener_for(shop, task).finish(shop.fleet, shop.agent_key(task))
    if last_words := [*shop.reports.of(task, shop.slot_path(task)), *observation(task, heard)]:
        await shop.record(last_words)
    if (_was_cancelled(sighting) and task.halt is None) or (sighting.exit is None and shop.stopping.is_set()):
        return [await asyncio.to_thread(_set_aside, shop, task, "stop")]
    if sighting.exit is None:
        await shop.fleet.sweep(shop.run, _alive_agents(shop, besides=task))
        return [await asyncio.to_thread(_set_aside, shop, task, "crash")]
    how = partial(collect, shop, task, sighting.exit, heard)
    ended = await asyncio.to_thread(capture_safely, shop.slot_path(task), how)
    return [
        await reject_syntax_errors(shop, task, event) if isinstance(event, ev.AttemptDone) else event
        for event in ended
    ]


def _was_cancelled(sighting: Sighting) -> bool:
    """Tell whether the agent was stopped from outside: by a runner that died before it said so, or by a shutdown."""
    return sighting.exit is not None and sighting.exit.reason is ExitReason.CANCELLED


async def _launch(shop: RunContext, task: TaskRow) -> None:
    """Prepare the workspace and start the agent. If a dead runner got half-way here, it is all done again."""
    workspace = await asyncio.to_thread(shop.workspaces.prepare, str(task.slot), task.start)
    shop.intact.add((task.id, task.attempt))
    shop.captured.pop(str(task.slot), None)
    brief = await asyncio.to_thread(write_brief, shop, task)
    await shop.fleet.launch(_spec(shop, task, workspace, brief))


def _spec(shop: RunContext, task: TaskRow, workspace: Path, brief: Path) -> LaunchSpec:
    plan, spec = shop.state.plan, shop.state.specs[task.id]
    values = Placeholders(
        brief_path=str(brief),
        brief_text=brief.read_text(encoding="utf-8"),
        workspace=str(workspace),
        task=task.id,
        attempt=task.attempt,
        run=shop.run,
        session=task.resumes,
    )
    invocation = invoke_task(spec, agent_of_attempt(shop, task), values)
    passed = plan.pass_env + invocation.pass_env
    env = attempt_environment(workspace, shop.run, task.id, task.attempt, brief, passed)
    env |= report_variables(report_file(workspace), shop.directory.bell)
    return LaunchSpec(
        key=shop.agent_key(task),
        token=task.token,
        argv=invocation.argv,
        cwd=workspace,
        env=env | invocation.env,
        stdin=brief if invocation.stdin_brief else None,
        timeout_s=plan.limits.timeout_s if spec.timeout_s is None else spec.timeout_s,
        stall_s=plan.limits.stall_s if spec.stall_s is None else spec.stall_s,
        stop_signal=invocation.stop_signal,
    )


def _alive_agents(shop: RunContext, besides: TaskRow) -> frozenset[LaunchKey]:
    """Return the keys that a sweep must leave alone while one attempt's leftovers are ended."""
    lost = shop.agent_key(besides)
    return frozenset(key for key in shop.fleet.adopt(shop.run) if key != lost)


async def _wait_and_listen(shop: RunContext, task: TaskRow) -> Sighting:
    """Wait for the agent while its stream is listened to. One that is being ended for a reason is waited for, too."""
    listener = asyncio.ensure_future(listen(shop, task))
    try:
        return await _watch(shop, task)
    finally:
        if task.halt is None:
            listener.cancel()
        with suppress(asyncio.CancelledError, OvertakenError):
            await listener


async def _watch(shop: RunContext, task: TaskRow) -> Sighting:
    """Wait for the agent, saving its unfinished work every now and then, and when asked to."""
    key = shop.agent_key(task)
    with shop.checkpoints.open_for(task.id) as wanted:
        while True:
            try:
                return await wait_or_stop(shop, key, shop.state.plan.limits.snapshot_s, wanted)
            except TimeoutError:
                with shop.checkpoints.taking(task.id):
                    commit = await asyncio.to_thread(save_wip, shop, task)
                    if commit and commit != task.wip:
                        await shop.record(
                            [ev.SnapshotSaved(task=task.id, attempt=task.attempt, commit=commit)]
                        )


def save_wip(shop: RunContext, task: TaskRow) -> str:
    """Commit what the workspace holds to the task's WIP ref; return the newest snapshot, or "" if there is none.

    Repeating it without a change in the workspace makes no new commit. A workspace that cannot be read at this
    moment, because the agent is at work in it, leaves the snapshots taken before.
    """
    try:
        return _snapshot(shop, task)
    except (HoldfastError, OSError):
        return task.wip


def rescue_wip(shop: RunContext, task: TaskRow) -> str:
    """Do as `save_wip` for an attempt that is over: its workspace will be used again, so it must succeed.

    Raises UncollectedError if it does not. Only a workspace that is gone leaves the snapshots taken before.
    """
    try:
        return capture_safely(shop.slot_path(task), partial(_snapshot, shop, task))
    except WorkspaceGoneError:
        return task.wip


def _snapshot(shop: RunContext, task: TaskRow) -> str:
    ref, workspace = ids.snapshot_ref(shop.run, task.id), shop.workspaces.get(str(task.slot))

    def message(files: Sequence[str]) -> str:
        checkpoint = count_snapshots(shop.repo, ref) + 1
        return snapshot_message(task, checkpoint, files, trailers(shop.run, task.id, task.attempt))

    return take_snapshot(shop.repo, workspace, ref, message) or task.wip


def _set_aside(shop: RunContext, task: TaskRow, cause: Literal["crash", "stop"]) -> ev.AnyEvent:
    """Keep the work of an attempt that will not finish."""
    return ev.AttemptLost(task=task.id, attempt=task.attempt, carry=rescue_wip(shop, task), cause=cause)


def _environment_failure(shop: RunContext, task: TaskRow, error: HoldfastError) -> ev.AnyEvent:
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.token,
        failure=ev.FailureKind.ENVIRONMENT,
        error=error.message,
        detail=error.hint,
        carry=task.wip,
        clock=shop.clock(),
    )

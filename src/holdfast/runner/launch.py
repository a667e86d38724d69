"""Launches in a workspace: what a fleet starts for agents, planners, validators and checks; their start, which waits for
room on the machine; and the wait until a launch is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agents.invocation import Invocation, Placeholders
from holdfast.agents.presets import login_secrets
from holdfast.core.facts import Sighting
from holdfast.core.plan import Limits
from holdfast.core.retry import delay_after
from holdfast.core.status import FailureKind
from holdfast.errors import LaunchError
from holdfast.fleet.protocol import LaunchKey, LaunchSpec, ResourceBounds
from holdfast.report_channel import REPORT_VARIABLE, WAKE_VARIABLE
from holdfast.runner.context import RunContext
from holdfast.runner.environment import attempt_environment
from holdfast.runner.sandbox import Sandbox
from holdfast.runner.store_choice import store_passwords

_LAUNCH_TRIES = 6
"""With the waits between them, half a minute by default."""


def workspace_launch(
    key: LaunchKey,
    how: Invocation,
    workspace: Path,
    brief: Path | None = None,
    *,
    timeout_s: float,
    stall_s: float = 0.0,
    pass_env: Iterable[str] = (),
    report_to: tuple[Path, Path] | None = None,
    holds: tuple[int, ...] = (),
    sandbox: Sandbox | None = None,
    shown: tuple[Path, ...] = (),
    variables: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> LaunchSpec:
    """Return the launch of an agent or a check in a workspace.

    `report_to` is the file that it may report to, in the workspace, and the pipe that wakes the runner. Of Holdfast's own
    files, it sees the brief and what is `shown`, even in a sandbox. `variables` are the workspace's own. `limits` bound what it
    uses of the machine.
    """
    env = attempt_environment(key, workspace, brief, (*pass_env, *how.pass_env)) | dict(variables or {})
    if report_to is not None:
        report, wake_pipe = report_to
        env |= {REPORT_VARIABLE: str(report), WAKE_VARIABLE: str(wake_pipe)}
    env |= ({**sandbox.git_variables(), **how.sandbox_env} if sandbox else {}) | how.env
    given = (*shown, *([brief] if brief else []), *(report_to[1:] if report_to else []))
    return LaunchSpec(
        key,
        how.argv,
        workspace,
        env,
        stdin=brief if how.stdin_brief else None,
        timeout_s=timeout_s,
        stall_s=stall_s,
        holds=holds,
        stop_signal=how.stop_signal,
        secrets=(*login_secrets(how.credentials, env), *store_passwords()),
        sandbox=sandbox.policy_of_agent(key, how, workspace, env, given) if sandbox else None,
        bounds=_bounds(limits, sandboxed=sandbox is not None) if limits else ResourceBounds(),
    )


def _bounds(limits: Limits, *, sandboxed: bool) -> ResourceBounds:
    """Return what a launch may use. The number of processes is bounded without being asked for, so only in a sandbox."""
    return ResourceBounds(limits.pids if sandboxed else 0, limits.memory or 0, limits.cpus or 0.0)


def placeholders(key: LaunchKey, workspace: Path, brief: Path, session: str = "") -> Placeholders:
    """Return what the argv of an agent in a workspace may name. With a `session`, the agent resumes it."""
    text = brief.read_text(encoding="utf-8")
    return Placeholders(str(brief), text, str(workspace), key.owner, key.attempt, key.run, session)


async def launch_when_possible(context: RunContext, spec: LaunchSpec) -> None:
    """Launch, and wait a while for a machine that has no room for a process now. Raises LaunchError if it stays so.

    Launches nothing once the run is to stop.
    """
    for tried in range(1, _LAUNCH_TRIES):
        try:
            await _launch_or_stop(context, spec)
        except LaunchError as error:
            if error.is_lasting:
                raise
        else:
            return
        delay = delay_after(FailureKind.ENVIRONMENT, tried, context.state.plan.limits.retry_delay_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await context.stopping.wait()
                return
        await context.require_lease()
    await _launch_or_stop(context, spec)


async def _launch_or_stop(context: RunContext, spec: LaunchSpec) -> None:
    """Launch. A fleet may wait for a host that has room: then a stop of the run ends the waiting, and nothing is launched."""
    launching = asyncio.ensure_future(context.fleet.launch(spec))
    stop = asyncio.ensure_future(context.stopping.wait())
    try:
        await asyncio.wait([launching, stop], return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            context.fleet.give_up(spec.key)
        await launching
    finally:
        stop.cancel()
        launching.cancel()  # if this was cancelled meanwhile


async def wait_or_stop(
    context: RunContext,
    key: LaunchKey,
    timeout_s: float | None = None,
    wanted: asyncio.Event | None = None,
    unwanted: asyncio.Event | None = None,
) -> Sighting:
    """Wait until a launch is over. Cancel it when the run is to stop, or once it is `unwanted`.

    Raises TimeoutError after `timeout_s`, or as soon as `wanted` is set.
    """
    ended = asyncio.ensure_future(context.fleet.wait(key))
    stop = asyncio.ensure_future(_any_set(context.stopping, unwanted))
    waiters: list[asyncio.Future[Any]] = [ended, stop]
    if wanted is not None:
        waiters.append(asyncio.ensure_future(wanted.wait()))
    try:
        done, _ = await asyncio.wait(waiters, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ended in done:
            return ended.result()
        if stop in done:
            await context.require_lease()
            return await context.fleet.cancel(key)
        raise TimeoutError
    finally:
        for waiter in waiters:
            waiter.cancel()


async def _any_set(*events: asyncio.Event | None) -> None:
    """Wait until one of these is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events if event is not None]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()

"""Launches: the one place that says what a fleet is given to start, and the wait until a launch is over.

Agents, planners, validators and checks work in a workspace and get its environment. Anything else is a plain command.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.agents.invocation import Invocation
from holdfast.core.facts import Sighting
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.runner.context import RunContext
from holdfast.runner.environment import attempt_environment, report_variables


def workspace_launch(
    key: LaunchKey,
    how: Invocation,
    workspace: Path,
    brief: Path | None,
    *,
    timeout_s: float,
    stall_s: float = 0.0,
    pass_env: Iterable[str] = (),
    report_to: tuple[Path, Path] | None = None,
    token: str = "",
    holds: tuple[int, ...] = (),
) -> LaunchSpec:
    """Return the launch of an agent or a check in a workspace.

    `report_to` is the file that it may report to and the pipe that wakes the runner. An agent's `token` is in the
    journal before the launch; everything else gets a new one.
    """
    passed = (*pass_env, *how.pass_env)
    env = attempt_environment(workspace, key.run, key.owner, key.attempt, brief, passed)
    if report_to is not None:
        env |= report_variables(*report_to)
    return command_launch(
        key,
        how.argv,
        workspace,
        env | how.env,
        timeout_s=timeout_s,
        stdin=brief if how.stdin_brief else None,
        stall_s=stall_s,
        stop_signal=how.stop_signal,
        token=token,
        holds=holds,
    )


def command_launch(
    key: LaunchKey,
    argv: tuple[str, ...],
    cwd: Path,
    env: Mapping[str, str],
    *,
    timeout_s: float,
    stdin: Path | None = None,
    stall_s: float = 0.0,
    grace_s: float = 2.0,
    stop_signal: str = "TERM",
    token: str = "",
    holds: tuple[int, ...] = (),
) -> LaunchSpec:
    """Return the launch of a command with exactly this environment."""
    return LaunchSpec(
        key=key,
        token=token or secrets.token_hex(16),
        argv=argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        timeout_s=timeout_s,
        stall_s=stall_s,
        grace_s=grace_s,
        holds=holds,
        stop_signal=stop_signal,
    )


async def wait_or_stop(
    context: RunContext, key: LaunchKey, timeout_s: float | None = None, wanted: asyncio.Event | None = None
) -> Sighting:
    """Wait until a launch is over. Cancel it when the run is to stop.

    Raises TimeoutError after `timeout_s`, or as soon as `wanted` is set.
    """
    ended = asyncio.ensure_future(context.fleet.wait(key))
    stop = asyncio.ensure_future(context.stopping.wait())
    waiters = [ended, stop] if wanted is None else [ended, stop, asyncio.ensure_future(wanted.wait())]
    try:
        done, _ = await asyncio.wait(waiters, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ended in done:
            return ended.result()
        if stop in done:
            return await context.fleet.cancel(key)
        raise TimeoutError
    finally:
        for waiter in waiters:
            waiter.cancel()

"""Runs checks: the commands of a plan in a workspace, one supervised process each, until one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.agents.invocation import Invocation
from holdfast.agents.presets import Preset
from holdfast.core.brief import clip
from holdfast.core.facts import Exit, ExitReason, Sighting
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.runner.context import RunContext
from holdfast.runner.first_start import launch_agent
from holdfast.runner.launch import wait_or_stop, workspace_launch

_OUTPUT_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """The first check that did not hold, with what it printed; `code` is its exit status, if it came to its end."""

    command: str
    error: str
    output: str
    code: int = 0


class ChecksStopped(Exception):  # noqa: N818 - it is not an error: the user asked for a stop
    """The run is to stop while checks run. They will run again."""


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
                shown=context.linked,
                variables=context.variables.of(workspace),
                limits=plan.limits,
            )
            key, ended = await run_to_end(context, owner, attempt, label, launch)
            failed = _judge(context, command, key, ended)
            if failed is not None:
                return failed
    return None


async def run_to_end(
    context: RunContext,
    owner: str,
    attempt: int,
    label: str,
    launch: Callable[[LaunchKey], LaunchSpec],
    agent: Preset | None = None,
    wait: Callable[[RunContext, LaunchKey], Awaitable[Sighting]] = wait_or_stop,
) -> tuple[LaunchKey, Exit | None]:
    """Run a check or a validator and return its key and how it ended. Raises ChecksStopped if the run is to stop.

    A killed supervisor says nothing about the work: what it left is ended, and the check runs once more. If that is
    lost too, there is no Exit.
    """
    again = partial(_run_once, context, owner, attempt, label, launch, agent, wait)
    key, ended = await again()
    return (key, ended) if ended is not None else await again()


async def _run_once(
    context: RunContext,
    owner: str,
    attempt: int,
    label: str,
    launch: Callable[[LaunchKey], LaunchSpec],
    agent: Preset | None,
    wait: Callable[[RunContext, LaunchKey], Awaitable[Sighting]],
) -> tuple[LaunchKey, Exit | None]:
    key = context.check_key(owner, attempt, label)
    await context.require_lease()
    await launch_agent(context, launch(key), agent)
    ended = (await wait(context, key)).exit
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

"""Running check commands: one supervised process each, in order, until one fails."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.brief import clip
from holdfast.core.commands import CheckTask
from holdfast.core.facts import ExitReason, Sighting
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.runner.context import RunContext
from holdfast.runner.environment import attempt_environment

_OUTPUT_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """The first check that did not hold, with what it printed."""

    command: str
    error: str
    output: str


class ChecksStopped(Exception):  # noqa: N818 - it is not an error: the user asked for a stop
    """A stop arrived while checks were running; they will run again."""


async def run_checks(
    context: RunContext,
    commands: tuple[str, ...],
    where: Path,
    *,
    owner: str,
    attempt: int,
    label: str,
    slot: str = "",
) -> FailedCheck | None:
    """Run each command in `where`; return the first that fails, or None. If they ran before, they run again.

    With a `slot` they wait for a place of it and keep it until the last of them is gone.
    """
    if not slot:
        return await _run_each(context, commands, where, (owner, attempt, label), ())
    async with context.slots.held(slot, context.stopping) as place:
        if place is None:
            raise ChecksStopped
        return await _run_each(context, commands, where, (owner, attempt, label), (place,))


async def _run_each(
    context: RunContext,
    commands: tuple[str, ...],
    where: Path,
    name: tuple[str, int, str],
    holds: tuple[int, ...],
) -> FailedCheck | None:
    for command in commands:
        key, sighting = await _run_check(context, name, command, where, holds)
        if context.stopping.is_set() and (
            sighting.exit is None or sighting.exit.reason is ExitReason.CANCELLED
        ):
            raise ChecksStopped
        failed = _judge(context, key, command, sighting)
        if failed is not None:
            return failed
    return None


async def check_task(context: RunContext, command: CheckTask) -> list[ev.Event]:
    """Verify what an attempt produced, in its own workspace."""
    task = context.state.tasks[command.task]
    if (task.id, task.attempt) not in context.intact:
        # Another runner was interrupted here: what its checks left behind must not influence ours.
        await asyncio.to_thread(
            context.workspaces.prepare, str(task.latest.workspace_number), task.latest.head
        )
        context.intact.add((task.id, task.attempt))
    checks = context.state.checks_of(task.id)
    spec = context.state.specs[task.id]
    where = context.slot_path(task)
    try:
        failed = await run_checks(
            context, checks, where, owner=task.id, attempt=task.attempt, label="check", slot=spec.slot
        )
    except ChecksStopped:
        return [ev.ChecksInterrupted(task=task.id, attempt=task.attempt)]
    if failed is None:
        passed = ev.ChecksSucceeded if spec.validators else ev.TaskVerified
        return [passed(task=task.id, attempt=task.attempt)]
    return [
        ev.ChecksFailed(
            task=task.id, attempt=task.attempt, check=failed.command, error=failed.error, detail=failed.output
        )
    ]


async def _run_check(
    context: RunContext, name: tuple[str, int, str], command: str, where: Path, holds: tuple[int, ...]
) -> tuple[LaunchKey, Sighting]:
    """Run one check. If its supervisor is killed that says nothing about the work: what is left is ended, and it
    runs once more."""
    key = context.check_key(*name)
    sighting = await _launch_check(context, key, command, where, holds)
    if sighting.exit is None and not context.stopping.is_set():
        await context.fleet.cancel(key)
        key = context.check_key(*name)
        sighting = await _launch_check(context, key, command, where, holds)
    return key, sighting


async def _launch_check(
    context: RunContext, key: LaunchKey, command: str, where: Path, holds: tuple[int, ...]
) -> Sighting:
    """Start one check and wait for it, or for a stop."""
    spec = LaunchSpec(
        key=key,
        token=secrets.token_hex(16),
        argv=("/bin/sh", "-c", command),
        cwd=where,
        env=attempt_environment(where, key.run, key.owner, key.attempt, None, context.state.plan.pass_env),
        timeout_s=context.state.plan.limits.check_timeout_s,
        holds=holds,
    )
    await context.fleet.launch(spec)
    return await wait_or_stop(context, key)


async def wait_or_stop(
    context: RunContext, key: LaunchKey, timeout_s: float | None = None, wanted: asyncio.Event | None = None
) -> Sighting:
    """Wait until the launch is over, cancelling it when a stop is asked for.

    Raises TimeoutError after `timeout_s`, or as soon as `wanted` happens.
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


def _judge(context: RunContext, key: LaunchKey, command: str, sighting: Sighting) -> FailedCheck | None:
    output = clip(context.fleet.logs(key).decode(errors="replace"), _OUTPUT_CHARS)
    if sighting.exit is None:
        return FailedCheck(command, "the check's process was lost", output)
    match sighting.exit.reason:
        case ExitReason.EXITED if sighting.exit.code == 0:
            return None
        case ExitReason.EXITED:
            return FailedCheck(command, f"`{command}` exited with {sighting.exit.code}", output)
        case ExitReason.TIMEOUT:
            limit = context.state.plan.limits.check_timeout_s
            return FailedCheck(command, f"`{command}` took longer than {limit:g} s", output)
        case _:
            return FailedCheck(command, f"`{command}`: {sighting.exit.error or sighting.exit.reason}", output)

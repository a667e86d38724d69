"""One attempt, from an empty workspace to a commit or a recorded failure: start the agent, wait for it, collect its work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Literal

from holdfast.core import events as ev
from holdfast.core.facts import Exit, ExitReason, Presence, Sighting
from holdfast.core.observations import StreamSummary
from holdfast.core.projection import TaskRow
from holdfast.core.status import AttemptKind, FailureKind
from holdfast.errors import HoldfastError, LaunchError, LeaseLostError
from holdfast.repo.workspace_files import FilesMissingError
from holdfast.runner.amendments import end_restarted
from holdfast.runner.attempts.attempt_events import attempt_asked, attempt_failed, setup_blocked
from holdfast.runner.attempts.collect import collect, cut_short, keep_unfinished
from holdfast.runner.attempts.person import take_in
from holdfast.runner.attempts.snapshots import (
    capture_work,
    keep_set_aside,
    save_last_snapshot,
    save_snapshot,
    snapshot_saved,
)
from holdfast.runner.attempts.start import start_agent
from holdfast.runner.attempts.stream_listener import StreamListener, listen, observation
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import OvertakenError
from holdfast.runner.launch import wait_or_stop
from holdfast.runner.verification.checks import ChecksStopped
from holdfast.runner.verification.syntax import reject_syntax_errors
from holdfast.runner.workspace_setup import SetupFailedError
from holdfast.system_errors import as_holdfast_error, doing


async def run_attempt(context: RunContext, name: str) -> list[ev.Event]:
    """Bring the current attempt of a task to its end and return the events of that end.

    It does not matter which runner began the attempt. Never launched: the agent is launched. Alive: it is watched.
    Ended: its work is collected. Lost: its work is kept.
    """
    task = context.state.tasks[name]
    if task.latest.kind is AttemptKind.PERSON:
        return await take_in(context, task)
    failure = await _start_if_new(context, task)
    if failure is not None:
        return [failure]
    if task.latest.restart:
        await end_restarted(context, task)
    listener = StreamListener.of_attempt(context, task)
    with context.reports.watched(task, context.workspaces.path(task)):
        sighting = await _wait_and_listen(context, task, listener)
    heard = listener.finish()
    unrecorded = context.reports.of(task, context.workspaces.path(task)) + observation(task, heard)
    if unrecorded:
        await context.record(unrecorded)
    return await _end(context, task, sighting, heard)


async def _start_if_new(context: RunContext, task: TaskRow) -> ev.Event | None:
    """Start the agent unless that happened before; return what to record instead if it cannot be started."""
    key = context.agent_key(task)
    try:
        with doing(f"start the agent of task {task.id}"):
            if context.fleet.inspect(key).presence is Presence.UNKNOWN:
                if task.latest.token not in context.secrets:
                    # The runner that chose the token died before it launched: the token is spent, nothing was done.
                    return ev.AttemptLost(task=task.id, attempt=task.attempt, cause="not launched")
                await start_agent(context, task)
                del context.secrets[task.latest.token]
    except LeaseLostError:
        raise
    except ChecksStopped:
        return ev.AttemptLost(task=task.id, attempt=task.attempt, cause="stop")
    except (SetupFailedError, FilesMissingError) as error:
        return setup_blocked(task, error)
    except (HoldfastError, OSError) as error:
        await context.fleet.cancel(key)  # its supervisor may have died after it had started the agent
        failure = as_holdfast_error(error)
        if failure.is_lasting or isinstance(failure, LaunchError):
            raise  # the machine's trouble, whatever the task: the run rests
        keep_set_aside(context, task, task.latest.snapshot)
        carry, set_aside = context.state.carry_or_set_aside(task, task.latest.snapshot)
        kind = FailureKind.ENVIRONMENT
        return attempt_failed(context, task, kind, failure.message, failure.hint, carry, set_aside=set_aside)
    return None


async def _end(
    context: RunContext, task: TaskRow, sighting: Sighting, heard: StreamSummary
) -> list[ev.Event]:
    """Collect the work of an agent that ended by itself; keep that of one that was stopped or lost."""
    exit_ = sighting.exit
    if exit_ is None and not context.stopping.is_set():
        lost = context.agent_key(task)
        alive = frozenset(key for key in context.fleet.live_launches(context.run) if key != lost)
        await context.fleet.sweep(context.run, alive)
        context.workspaces.mark_lost(task)
        return [await asyncio.to_thread(_keep_work, context, task, "crash", sighting.worked_s)]
    cause = _ended_by_us(task, exit_)
    if exit_ is None or cause:
        return [await asyncio.to_thread(_keep_work, context, task, cause or "stop", sighting.worked_s)]
    cut = cut_short(context, task, exit_, heard)
    if cut is not None and context.state.starts_clean(task):
        if asked := attempt_asked(task, "", exit_.duration_s, failed=True):
            # The question of a command counts, and its half-done work is set aside as ever.
            kept = await asyncio.to_thread(_keep_work, context, task, "stop", exit_.duration_s)
            return [*asked[:-1], kept]
        return [await asyncio.to_thread(keep_unfinished, context, task, exit_, heard, cut)]
    how = partial(collect, context, task, exit_, heard)
    events = await asyncio.to_thread(capture_work, context, task, how)
    return [
        await reject_syntax_errors(context, task, event) if isinstance(event, ev.AttemptDone) else event
        for event in events
    ]


def _ended_by_us(task: TaskRow, exit_: Exit | None) -> Literal["stop", "budget", ""]:
    """Return why the agent was ended without any fault of its attempt; empty if it was not.

    A stop comes from outside: from a person, from a runner that died before it said so, or from a shutdown.
    """
    halt = task.latest.halt
    if exit_ is None or exit_.reason is not ExitReason.CANCELLED or (halt is not None and not halt.for_run):
        return ""
    return "stop" if halt is None else "budget"


async def _wait_and_listen(context: RunContext, task: TaskRow, listener: StreamListener) -> Sighting:
    """Wait for the agent and listen to its stream. If the listener is ending the agent, let it finish that."""
    listening = asyncio.ensure_future(listen(context, task, listener))
    try:
        return await _wait(context, task)
    finally:
        if not listener.ending:
            listening.cancel()
        with suppress(asyncio.CancelledError, OvertakenError):
            await listening


async def _wait(context: RunContext, task: TaskRow) -> Sighting:
    """Wait for the agent. Take a snapshot of its work at intervals and on request."""
    key = context.agent_key(task)
    taken = context.taken_by_person(task)
    with context.save_requests.open_for(task.id) as wanted:
        while True:
            try:
                return await wait_or_stop(context, key, context.state.plan.limits.snapshot_s, wanted, taken)
            except TimeoutError:
                await context.require_lease()
                with context.save_requests.taking(task.id) as failures:
                    try:
                        commit = await asyncio.to_thread(save_snapshot, context, task)
                    except (HoldfastError, OSError) as error:
                        # The agent may be changing what is read. The earlier snapshots stay, the next one comes soon.
                        failures[task.id] = as_holdfast_error(error).message
                        continue
                    if saved := snapshot_saved(task, commit):
                        await context.record(saved)


def _keep_work(
    context: RunContext, task: TaskRow, cause: Literal["crash", "stop", "budget"], worked_s: float
) -> ev.Event:
    commit = save_last_snapshot(context, task)
    carry, set_aside = context.state.carry_or_set_aside(task, commit, lost=cause == "crash")
    return ev.AttemptLost(
        task=task.id,
        attempt=task.attempt,
        carry=carry,
        set_aside=set_aside,
        cause=cause,
        duration_s=worked_s,
    )

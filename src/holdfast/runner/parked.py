"""Attempts that ended for reasons outside of their task: at a limit, or for want of something only a person can give."""

from __future__ import annotations

import time

from holdfast.agents.preset import Preset
from holdfast.agents.reset_times import reset_time
from holdfast.core import events as ev
from holdfast.core.events import FailureKind
from holdfast.core.facts import Exit
from holdfast.core.observations import Heard
from holdfast.core.outcome import Outcome
from holdfast.core.parking import park
from holdfast.core.projection import TaskRow
from holdfast.runner.workshop import Workshop

_MESSAGE_CHARS = 300


def limited(
    shop: Workshop, task: TaskRow, exit_: Exit, outcome: Outcome, heard: Heard, carry: str
) -> list[ev.AnyEvent]:
    """Return the events of an attempt that ended at a limit: its provider is parked, the task waits."""
    wall = time.time()
    until = heard.until or reset_time(heard.message, _written_at(shop, task, exit_, wall))
    provider = task.provider or task.agent
    parked = park(shop.state, task, until, wall, shop.clock(), "")
    when = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(parked.until))
    known = "" if until is not None else " (a guess: it does not say)"
    words = f"{provider} is at its limit until {when}{known}: {heard.message or outcome.error}"
    return [
        ev.ProviderParked(
            provider=parked.provider,
            until=parked.until,
            wait_s=parked.wait_s,
            clock=parked.clock,
            hits=parked.hits,
            words=words[:_MESSAGE_CHARS],
        ),
        ev.AttemptLimited(
            task=task.id,
            attempt=task.attempt,
            token=task.token,
            provider=provider,
            error=f"waits until {when}: {outcome.error}"[:_MESSAGE_CHARS],
            carry=carry,
            duration_s=exit_.duration_s,
        ),
    ]


def blocked(
    shop: Workshop,
    task: TaskRow,
    exit_: Exit,
    outcome: Outcome,
    detail: str,
    carry: str,
    agent: Preset | None,
) -> list[ev.AnyEvent]:
    """Return the events of an attempt that needs a person. Refused credentials shut the provider for all its tasks."""
    failure = outcome.failure or FailureKind.PERMISSION
    error = f"{outcome.error}. {_way_out(shop, task, failure, agent)}"
    ended = ev.AttemptBlocked(
        task=task.id,
        attempt=task.attempt,
        token=task.token,
        failure=failure,
        error=error,
        detail=detail,
        carry=carry,
        duration_s=exit_.duration_s,
    )
    if failure is not FailureKind.AUTH:
        return [ended]
    words = f"{task.provider or task.agent}: {error}"
    return [ev.ProviderShut(provider=task.provider or task.agent, words=words), ended]


def _way_out(shop: Workshop, task: TaskRow, failure: FailureKind, agent: Preset | None) -> str:
    then = f"then `holdfast resume {shop.run}`"
    if failure is FailureKind.AUTH:
        key = f", or set {agent.keys[0]}" if agent is not None and agent.keys else ""
        return f"Log in with {task.agent or 'the agent'}{key}; {then}"
    return f"Allow it in the agent's own settings or by `args:` of its entry in `agents:`, or skip the task; {then}"


def _written_at(shop: Workshop, task: TaskRow, exit_: Exit, now: float) -> float:
    """Return when the agent's last words were written: it may have ended long before anybody came to read them."""
    try:
        began = shop.directory.brief(task.id, task.attempt).stat().st_mtime
    except OSError:
        return now
    return min(now, began + exit_.duration_s)

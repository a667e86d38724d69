"""What the events of agents' streams and limits change. Called from `folds.py`; they write to rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core import events as ev
from holdfast.core.plan import Limits
from holdfast.core.projection import Failure, Halt, Parked, RunRow, Spent, TaskRow


def seat_agent(task: TaskRow, event: ev.AttemptStarted) -> None:
    """Note who begins to work. What the stream of the attempt before told is over."""
    task.agent, task.provider, task.resumes = event.agent, event.provider, event.session
    task.spent, task.halt = Spent(), None
    task.session = task.session_left = task.activity = task.trouble = ""
    task.session_slot, task.active_at, task.in_tool = -1, 0.0, False


def leave_session(task: TaskRow, carry: str) -> None:
    """Note in which state the agent's own session knew its workspace."""
    task.session_left = carry or task.start


def went_well(row: RunRow, task: TaskRow) -> None:
    """A provider through which work went well has no limit behind it: the next one is its first again."""
    leave_session(task, task.head)
    if task.provider in row.parked:
        row.parked = {name: parked for name, parked in row.parked.items() if name != task.provider}


def _agent_observed(row: RunRow, limits: Limits, task: TaskRow, event: ev.AgentObserved) -> None:
    tokens = max(0, event.tokens - task.spent.tokens)
    cost = max(0.0, event.cost_usd - task.spent.cost_usd)
    task.spent = Spent(tokens=task.spent.tokens + tokens, cost_usd=task.spent.cost_usd + cost)
    task.tokens += tokens
    task.cost_usd += cost
    row.tokens += tokens
    row.cost_usd += cost
    if event.session:
        task.session, task.session_slot = event.session, task.slot
    task.activity, task.in_tool, task.trouble = event.activity, event.in_tool, event.trouble
    task.active_at = max(task.active_at, event.at)


def _attempt_halted(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptHalted) -> None:
    task.halt = Halt(failure=event.failure, error=event.error)


def _attempt_limited(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptLimited) -> None:
    _end_uncharged(task, event)
    task.limited += 1


def _attempt_blocked(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptBlocked) -> None:
    _end_uncharged(task, event)
    task.blocked_in = row.epoch
    task.failures.append(
        Failure(attempt=event.attempt, kind=event.failure, error=event.error, detail=event.detail)
    )


def _end_uncharged(task: TaskRow, event: ev.AttemptLimited | ev.AttemptBlocked) -> None:
    leave_session(task, event.carry)
    task.slot = -1
    task.error = event.error
    task.carry = event.carry or task.carry
    task.worked_s += event.duration_s
    task.halt = None


def _provider_parked(row: RunRow, event: ev.ProviderParked) -> None:
    row.clock = max(row.clock, event.clock)
    row.parked = {
        **row.parked,
        event.provider: Parked(
            until=event.until,
            not_before=event.clock + event.wait_s,
            wait_s=event.wait_s,
            hits=event.hits,
            words=event.words,
        ),
    }


def _provider_shut(row: RunRow, event: ev.ProviderShut) -> None:
    row.parked = {**row.parked, event.provider: Parked(words=event.words, shut_in=row.epoch)}


LIMIT_FOLDS: dict[type[ev.Event], Callable[[RunRow, Limits, TaskRow, Any], None]] = {
    ev.AgentObserved: _agent_observed,
    ev.AttemptHalted: _attempt_halted,
    ev.AttemptLimited: _attempt_limited,
    ev.AttemptBlocked: _attempt_blocked,
}

PARKING_FOLDS: dict[type[ev.Event], Callable[[RunRow, Any], None]] = {
    ev.ProviderParked: _provider_parked,
    ev.ProviderShut: _provider_shut,
}

"""Listening to agents' event streams while they work: what they use, what they say is wrong, and when to end them.

Streams are read from the log that the supervisor keeps, from its beginning: whoever comes later hears the same, and
the totals that are recorded count once.
"""

from __future__ import annotations

import asyncio
import time

from holdfast.agents.presets import Preset, find_agent
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import StreamReader
from holdfast.core import events as ev
from holdfast.core.budgets import attempt_overrun
from holdfast.core.observations import StreamSummary
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.runner.attempts.stream_position import StreamListener
from holdfast.runner.context import RunContext

LISTEN_S = 1.0
"""How often a stream is read. An agent may use this much longer what it may not use."""
HEARTBEAT_S = 10.0
"""How often, at most, what an agent does is written down."""
LIMIT_PATIENCE_S = 120.0
"""How long an agent may try to get past a limit by itself before the waiting is done without it."""


def agent_of_attempt(context: RunContext, task: TaskRow) -> Preset | None:
    """Return the agent of a task's present attempt; None for a command of the task's own."""
    plan, spec = context.state.plan, context.state.specs[task.id]
    return (
        None
        if spec.run
        else find_agent(task.latest.agent or spec.agent or plan.agent, plan.agents, context.presets)
    )


def listener_for(context: RunContext, task: TaskRow) -> StreamListener:
    """Return the ear at a task's present attempt. A new one hears everything from the beginning."""
    key = (task.id, task.attempt)
    if key not in context.ears:
        agent = agent_of_attempt(context, task)
        signals = agent.error_patterns() if agent is not None else ErrorPatterns()
        stream = agent.stream if agent is not None else "raw"
        deaf = stream == "raw" and not signals.lines
        known = StreamSummary(
            tokens=task.latest.spent.tokens, cost_usd=task.latest.spent.cost_usd, session=task.latest.session
        )
        context.ears[key] = StreamListener(StreamReader(stream, signals), signals, known, deaf=deaf)
    return context.ears[key]


def observation(task: TaskRow, heard: StreamSummary) -> list[ev.Event]:
    """Return the event for what was heard of an attempt, if it says more than its row."""
    activity, trouble = heard.tool or heard.text[:200], heard.trouble or ""
    told = (heard.tokens, round(heard.cost_usd, 6), heard.session, trouble)
    known = (
        task.latest.spent.tokens,
        round(task.latest.spent.cost_usd, 6),
        task.latest.session,
        task.latest.trouble,
    )
    if told == known and activity == task.latest.activity:
        return []
    return [
        ev.AgentObserved(
            task=task.id,
            attempt=task.attempt,
            tokens=heard.tokens,
            cost_usd=heard.cost_usd,
            session=heard.session,
            activity=activity,
            in_tool=bool(heard.tool),
            trouble=trouble,
            at=time.time(),
        )
    ]


async def listen(context: RunContext, task: TaskRow) -> None:
    """Hear an attempt's stream until cancelled; write down what it does, and end it when it must not go on.

    Why it is ended is durable before it is: a runner that finds it ended knows the reason.
    """
    ear, key, heard = listener_for(context, task), context.agent_key(task), listener_for(context, task).heard
    while not ear.deaf:
        await asyncio.sleep(LISTEN_S)
        ear.listen(context.fleet, key)
        news = observation(task, heard)
        halt = _reason_to_halt(context, task, ear)
        if halt is not None:
            await context.record([*news, halt])
            await context.fleet.cancel(key)
            return
        if news and (_is_urgent(context, task, heard) or time.monotonic() - ear.told_at >= HEARTBEAT_S):
            ear.told_at = time.monotonic()
            await context.record(news)


def _is_urgent(context: RunContext, task: TaskRow, heard: StreamSummary) -> bool:
    """A session by which the agent can be found again, and a trouble, are worth a line at once.

    So is what was spent of a budget that all agents share: each knows of the others' only what is written down.
    """
    shared = context.state.tokens_max is not None or context.state.cost_max is not None
    spent = heard.tokens > task.latest.spent.tokens or heard.cost_usd > task.latest.spent.cost_usd
    told = heard.session != task.latest.session or (heard.trouble or "") != task.latest.trouble
    return told or (shared and spent)


def _reason_to_halt(context: RunContext, task: TaskRow, ear: StreamListener) -> ev.AttemptHalted | None:
    heard = ear.heard
    if spent := attempt_overrun(context.state, task, heard.tokens, heard.cost_usd):
        return _halt(task, FailureKind.BUDGET, spent)
    if heard.waits:
        return _halt(task, FailureKind.PERMISSION, f"the agent waits for an answer: {heard.message}")
    since = ear.limited_since
    if since is not None and time.monotonic() - since >= LIMIT_PATIENCE_S:
        return _halt(task, FailureKind.LIMIT, heard.message)
    return None


def _halt(task: TaskRow, failure: FailureKind, error: str) -> ev.AttemptHalted:
    return ev.AttemptHalted(task=task.id, attempt=task.attempt, failure=failure, error=error)

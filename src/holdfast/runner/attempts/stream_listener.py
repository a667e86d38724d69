"""Listens to an agent's stream while it works: what it uses, what it says is wrong, and when to end it.

A stream is read from its beginning, from the log that the supervisor keeps. So a later runner hears the same, and the
totals that are recorded count once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Self

from holdfast.agents.presets import Preset
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import StreamReader
from holdfast.core import events as ev
from holdfast.core.budgets import attempt_overrun, shared_overrun
from holdfast.core.facts import Presence
from holdfast.core.observations import AgentTrouble, StreamSummary, UnreadableEvent
from holdfast.core.plan import Limits
from holdfast.core.projection import Spent, TaskRow
from holdfast.core.provider_limits import probe_answered
from holdfast.core.status import FailureKind
from holdfast.fleet.protocol import Fleet, LaunchKey
from holdfast.runner.attempts.start import agent_of_attempt
from holdfast.runner.context import RunContext

LISTEN_S = 1.0
"""How often a stream is read. An agent may exceed a budget for this long; what it reports counts at once."""
HEARTBEAT_MAX_S = 10.0
"""How old an agent's recorded activity may get, however many agents there are."""
REFUSAL_PATIENCE_S = 10.0
"""How long an agent may go on after its key, its credit or its model was refused: a login may be renewed, no more."""
_MAY_PASS = (AgentTrouble.LIMIT, AgentTrouble.OUTAGE)
_REFUSALS = (AgentTrouble.AUTH, AgentTrouble.CREDIT, AgentTrouble.MODEL)
PIECE_BYTES = 512 * 1024
"""How much of a stream is read at once, so that a flood of output delays nobody."""
BACKLOG_BYTES_MAX = 8 * 1024 * 1024
"""A listener that is further behind than this skips to near the end: the last lines show how the agent is."""


@dataclass(slots=True)
class StreamListener:
    """One attempt's stream, how far it was read, and what was heard."""

    fleet: Fleet
    key: LaunchKey
    reader: StreamReader
    recorded: StreamSummary
    """What the journal says about the attempt. A listener that skips output begins with this."""
    unreadable: bool = False
    """Nothing in this stream can be understood."""
    heard: StreamSummary = field(default_factory=StreamSummary)
    offset: int = 0
    troubled_since: float | None = None
    """Since when the stream's last word is the same trouble that waiting or a person may end."""
    began: float = field(default_factory=time.monotonic)
    recorded_at: float = 0.0
    ending: bool = False
    """The agent is being ended: whoever waits for it must let that finish."""

    @classmethod
    def of_attempt(cls, context: RunContext, task: TaskRow) -> Self:
        """Return a listener that hears a task's current attempt from the beginning of its stream."""
        known = task.latest.heard
        recorded = StreamSummary(
            tokens=known.tokens,
            cost_usd=known.cost_usd,
            cache_read=known.cache_read,
            session=task.latest.session,
        )
        agent, key = agent_of_attempt(context, task), context.agent_key(task)
        return cls.of_launch(context.fleet, key, agent, recorded, task.latest.session_before)

    @classmethod
    def of_launch(
        cls,
        fleet: Fleet,
        key: LaunchKey,
        agent: Preset | None,
        recorded: StreamSummary,
        used_before: Spent,
    ) -> Self:
        """Return a listener that hears a launch of an agent, or of a command, from the beginning of its stream.

        `used_before` is what the session that it resumes had used.
        """
        patterns = agent.error_patterns() if agent is not None else ErrorPatterns()
        stream = agent.stream if agent is not None else "raw"
        unreadable = stream == "raw" and not patterns.lines
        reader = StreamReader(stream, patterns, used_before)
        return cls(fleet, key, reader, recorded, unreadable, reader.new_summary())

    def read(self) -> int:
        """Read the next piece and return how many bytes are left. Without new output nothing changes."""
        if self.unreadable:
            return 0
        piece = self.fleet.output(self.key, self.offset, PIECE_BYTES)
        if piece.end - piece.start > BACKLOG_BYTES_MAX:
            piece = self.fleet.output(self.key, piece.end - PIECE_BYTES, PIECE_BYTES)
        if piece.start != self.offset:
            self.reader.skip()
            self.heard.recall(self.recorded)
            self.heard.take(UnreadableEvent())
        self.offset = piece.start + len(piece.data)
        before = self.heard.trouble
        for seen in self.reader.feed(piece.data):
            self.heard.take(seen)
        if self.heard.trouble not in (*_MAY_PASS, *_REFUSALS):
            self.troubled_since = None
        elif self.troubled_since is None or self.heard.trouble is not before:
            self.troubled_since = time.monotonic()
        return piece.end - self.offset if piece.data else 0

    def finish(self) -> StreamSummary:
        """Read to the end, including a last line without a newline, and return all that was heard."""
        while self.read():
            continue
        for seen in self.reader.close():
            self.heard.take(seen)
        return self.heard


async def listen(context: RunContext, task: TaskRow, listener: StreamListener) -> None:
    """Hear an attempt's stream and its reports until cancelled; record activity, and end an agent that must not continue.

    The reason is durable before the agent ends: a runner that finds it ended knows why.
    """
    while True:
        halt = _reason_to_halt(context, task, listener)
        # An earlier runner may have written the reason down and died before it ended the agent.
        decided = task.latest.halt is not None
        if (halt or decided) and context.fleet.inspect(listener.key).presence is Presence.ALIVE:
            listener.ending = True
            if halt is not None and not decided:
                await context.record([*observation(task, listener.heard), halt])
            await context.require_lease()
            await context.fleet.cancel(listener.key)
            return
        observed = observation(task, listener.heard)
        if answered := _answered(context, task, listener):
            await context.record([*observed, *answered])
            observed = []
        due = time.monotonic() - listener.recorded_at >= _heartbeat_s(context)
        if observed and (due or _is_urgent(context, task, listener.heard)):
            listener.recorded_at = time.monotonic()
            await context.record(observed)
        listens = not listener.unreadable or task.latest.probes
        await context.reports.arrived(task, LISTEN_S if listens else None)
        listener.read()


def _heartbeat_s(context: RunContext) -> float:
    """Return how often an agent's activity is recorded: all of them together about once a second, or each every ten."""
    return min(float(len(context.state.active)), HEARTBEAT_MAX_S)


def observation(task: TaskRow, heard: StreamSummary) -> list[ev.Event]:
    """Return the event for what was heard of an attempt, if it says more than its row."""
    activity, trouble = heard.tool or heard.text[:200], heard.trouble or ""
    known, said = task.latest, heard.spent
    before = (known.heard.tokens, round(known.heard.cost_usd, 6), known.heard.cache_read)
    same = before == (said.tokens, round(said.cost_usd, 6), said.cache_read)
    if same and (known.session, known.trouble, known.activity) == (heard.session, trouble, activity):
        return []
    return [
        ev.AgentObserved(
            task=task.id,
            attempt=task.attempt,
            tokens=said.tokens,
            cost_usd=said.cost_usd,
            cache_read=said.cache_read,
            session=heard.session,
            activity=activity,
            in_tool=bool(heard.tool),
            trouble=trouble,
            at=time.time(),
        )
    ]


def _is_urgent(context: RunContext, task: TaskRow, heard: StreamSummary) -> bool:
    """A new session and an error are recorded at once.

    So is spending from a budget that all agents share: each knows only what the others have recorded.
    """
    shared = context.state.tokens_max is not None or context.state.cost_max is not None
    more = heard.spent.beyond(task.latest.spent)
    changed = heard.session != task.latest.session or (heard.trouble or "") != task.latest.trouble
    return changed or (shared and bool(more.tokens or more.cost_usd))


def _reason_to_halt(context: RunContext, task: TaskRow, listener: StreamListener) -> ev.AttemptHalted | None:
    heard, limits = listener.heard, context.state.plan.limits
    if spent := attempt_overrun(context.state, task, heard.spent):
        return _halt(task, FailureKind.BUDGET, spent)
    if spent := shared_overrun(context.state, task, heard.spent):
        return _halt(task, FailureKind.BUDGET, spent, for_run=True)
    nowhere = why_it_gets_nowhere(listener, limits)
    return None if nowhere is None else _halt(task, *nowhere)


def why_it_gets_nowhere(listener: StreamListener, limits: Limits) -> tuple[FailureKind, str] | None:
    """Return why an agent will not get further by itself: it waits for an answer, or has tried for long enough to get past
    what only waiting, or a person, ends. None if it may."""
    heard = listener.heard
    if heard.waits:
        return FailureKind.PERMISSION, f"the agent waits for an answer: {heard.message}"
    if heard.trouble is None or listener.troubled_since is None:
        return None
    refused = heard.trouble in _REFUSALS
    patience_s = min(limits.limit_patience_s, REFUSAL_PATIENCE_S) if refused else limits.limit_patience_s
    is_over = time.monotonic() - listener.troubled_since >= patience_s
    return (FailureKind(heard.trouble.value), heard.message) if is_over else None


def _answered(context: RunContext, task: TaskRow, listener: StreamListener) -> list[ev.ProviderAnswered]:
    """Return the event of a provider that answered the agent which was to find out, once its stream shows it.

    Plain output shows nothing but trouble: if none comes for as long as an agent may try to get past it, there is none.
    """
    if not task.latest.probes or listener.heard.trouble is not None:
        return []
    untroubled_s = time.monotonic() - listener.began
    plain = not listener.heard.has_last_word and untroubled_s >= context.state.plan.limits.limit_patience_s
    if not (plain or listener.heard.shows_work):
        return []
    return probe_answered(context.state, task.latest.provider, context.clock())


def _halt(task: TaskRow, failure: FailureKind, error: str, *, for_run: bool = False) -> ev.AttemptHalted:
    return ev.AttemptHalted(task=task.id, attempt=task.attempt, failure=failure, error=error, for_run=for_run)

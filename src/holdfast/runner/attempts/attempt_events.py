"""The events of an attempt that did not succeed: it failed, its provider is waited for, or it needs a person."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from holdfast.agents.presets import Preset
from holdfast.agents.reset_times import reset_time
from holdfast.core import events as ev
from holdfast.core.facts import Exit
from holdfast.core.observations import StreamSummary
from holdfast.core.outcome import Outcome
from holdfast.core.people import asked_in_latest
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import park_provider, park_unreachable
from holdfast.core.status import FailureKind, NetworkAccess, ParkReason
from holdfast.errors import HoldfastError
from holdfast.runner.attempts.way_out import with_way_out
from holdfast.runner.context import RunContext

_MESSAGE_CHARS = 300
_SHUTS = (FailureKind.AUTH, FailureKind.CREDIT, FailureKind.ENVIRONMENT)
"""What no other task of the same provider escapes: refused credentials, missing credit, and a program that cannot be executed."""


def attempt_failed(
    context: RunContext,
    task: TaskRow,
    failure: FailureKind,
    error: str,
    detail: str,
    carry: str,
    tree: str = "",
    duration_s: float = 0.0,
    set_aside: str = "",
) -> ev.AttemptFailed:
    """Return the event of an attempt that failed.

    `carry` is the commit that the next attempt continues from, `set_aside` the one that it starts without.
    """
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=failure,
        error=error,
        detail=detail,
        carry=carry,
        set_aside=set_aside,
        tree=tree,
        duration_s=duration_s,
        clock=context.clock(),
    )


def attempt_asked(task: TaskRow, carry: str, duration_s: float, *, failed: bool) -> list[ev.Event]:
    """Return the events of an attempt that asked a person, or that failed and said last what keeps it; none for others."""
    asked: list[ev.Event] = []
    obstacle = task.latest.report.blocked if failed and task.latest.report is not None else ""
    if not asked_in_latest(task):
        if not obstacle:
            return []
        asked = [ev.QuestionAsked(task=task.id, attempt=task.attempt, question=obstacle)]
    token = task.latest.token
    return [
        *asked,
        ev.AttemptAsked(task=task.id, attempt=task.attempt, token=token, carry=carry, duration_s=duration_s),
    ]


def attempt_limited(
    context: RunContext, task: TaskRow, exit_: Exit, outcome: Outcome, heard: StreamSummary, carry: str
) -> list[ev.Event]:
    """Return the events of an attempt that ended at a limit or in an outage: its provider is parked, the task waits."""
    provider = task.latest.provider or task.latest.agent
    if outcome.failure is FailureKind.OUTAGE:
        probed = task.latest.probes
        parked = provider_unreachable(context, provider, exit_, heard, probed=probed)
    else:
        written_at = _written_at(context.directory.brief(task.id, task.attempt), exit_)
        parked = provider_parked(context, provider, task.latest.token, heard, written_at)
    ended = ev.AttemptLimited(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        provider=provider,
        error=f"waits until {_when(parked)}: {outcome.error}"[:_MESSAGE_CHARS],
        carry=carry,
        duration_s=exit_.duration_s,
        reason=ParkReason.OUTAGE if outcome.failure is FailureKind.OUTAGE else ParkReason.LIMIT,
    )
    return [parked, ended]


def provider_parked(
    context: RunContext, provider: str, token: str, heard: StreamSummary, written_at: float
) -> ev.ProviderParked:
    """Return the event that parks a provider, for as long as the agent's words of `written_at` say, if so."""
    until = heard.until or reset_time(heard.message, written_at)
    parked = park_provider(context.state, provider, token, until, time.time(), context.clock())
    guess = "" if until is not None else " (a guess: it does not say)"
    words = f"{provider} is at its limit until {_when(parked)}{guess}: {heard.message or 'no reason given'}"
    return msgspec.structs.replace(parked, words=words[:_MESSAGE_CHARS])


def is_network_closed(context: RunContext) -> bool:
    """Tell whether no agent reaches anything, by the user's own wish: then no provider is to blame, and waiting is no help."""
    return context.state.row.network is NetworkAccess.OFF


def network_note(context: RunContext, exit_: Exit) -> str:
    """Return what of the network was closed to an agent that failed or met an outage, to be added to its error."""
    if is_network_closed(context):
        return "; the network was closed (--network off)"
    if not exit_.refused_hosts:
        return ""
    return f"; the allow-list of its network lacks {exit_.refused_hosts} ({_allowing(exit_)})"


def is_kept_from_provider(exit_: Exit) -> bool:
    """Tell whether an agent asked for nothing but hosts that the allow-list lacks: then no provider was ever reached."""
    return bool(exit_.refused_hosts) and not exit_.allowed_requests


def _allowing(exit_: Exit) -> str:
    hosts = ",".join(host.removesuffix(":443").removesuffix(":80") for host in exit_.refused_hosts.split())
    return f"HOLDFAST_NETWORK_ALLOW={hosts}, or `allow:` of the plan's `network:`, allows that"


def provider_unreachable(
    context: RunContext, provider: str, exit_: Exit, heard: StreamSummary, *, probed: bool
) -> ev.ProviderParked:
    """Return the event that parks a provider which could not be reached; `probed`: by the agent that was to find out."""
    wall, token = time.time(), exit_.token
    error = (" ".join(heard.message.split()) + network_note(context, exit_))[:_MESSAGE_CHARS]
    parked = park_unreachable(context.state, provider, token, error, wall, context.clock(), probed=probed)
    if parked.reason is ParkReason.LIMIT:
        return parked
    # Several may meet it before the first of them is recorded, so the state does not tell.
    same_wait = not probed and context.outages_told.get(provider, 0.0) > wall
    if not same_wait:
        context.outages_told[provider] = parked.until
    since = time.strftime("%H:%M", time.localtime(parked.since))
    words = (
        f"{provider} is unreachable since {since}, next try at {_when(parked)}: {error or 'no reason given'}"
    )
    return msgspec.structs.replace(parked, words=words[:_MESSAGE_CHARS], same_wait=same_wait)


def _when(parked: ev.ProviderParked) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(parked.until))


def attempt_blocked(
    context: RunContext,
    task: TaskRow,
    exit_: Exit,
    outcome: Outcome,
    detail: str,
    carry: str,
    agent: Preset | None,
) -> list[ev.Event]:
    """Return the events of an attempt that needs a person. What every task would meet shuts the provider for all of them."""
    failure = outcome.failure or FailureKind.PERMISSION
    error = f"{outcome.error}. {_allowing(exit_)}; then `holdfast resume {context.run}`"
    if not is_kept_from_provider(exit_):
        error = with_way_out(context, task.latest.agent, failure, outcome.error, agent, task.id)
    ended = ev.AttemptBlocked(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=failure,
        error=error,
        detail=detail,
        carry=carry,
        duration_s=exit_.duration_s,
    )
    provider = task.latest.provider or task.latest.agent
    if not provider or failure not in (*_SHUTS, FailureKind.MODEL):
        return [ended]
    agent_only = task.latest.agent if failure is FailureKind.MODEL else ""
    return [provider_shut(provider, error, agent_only), ended]


def setup_blocked(task: TaskRow, error: HoldfastError) -> ev.AttemptBlocked:
    """Return the event of an attempt whose workspace could not be made ready: no agent was started, nothing is charged."""
    return ev.AttemptBlocked(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=FailureKind.SETUP,
        error=f"{error.message}\n{error.hint}",
    )


def provider_shut(provider: str, error: str, agent: str = "") -> ev.ProviderShut:
    """Return the event that shuts a provider which refuses us, or only the `agent` whose model it refuses."""
    return ev.ProviderShut(provider=provider, words=f"{agent or provider}: {error}", agent=agent)


def _written_at(brief: Path, exit_: Exit) -> float:
    """Return when the agent's last output was written: it may have ended long before a runner reads it."""
    now = time.time()
    try:
        return min(now, brief.stat().st_mtime + exit_.duration_s)
    except OSError:
        return now

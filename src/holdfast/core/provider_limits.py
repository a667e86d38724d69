"""Providers at their limit: which agent may start a task, when, and how long to wait for a limit.

Waits are measured on the run's own clock, which no jump of the wall clock moves. The wall time at which a limit ends
is kept beside it: a later runner, for which the run's clock stood still, shortens the wait by it and never stretches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from holdfast.core import events as ev
from holdfast.core.plan import AgentProvider
from holdfast.core.projection import Parked, TaskRow
from holdfast.core.state import RunState

WAIT_MAX_S = 3600.0
"""The longest wait for a limit whose end is not known."""
KNOWN_WAIT_MAX_S = 8 * 86400.0
"""No provider's limit lasts longer than a week: a later reset means that a clock is wrong."""
_JITTER_SHARE = 0.1
_JITTER_MAX_S = 30.0
_SHORTER_BY_S = 0.001
NEVER = float("inf")


def provider_of(state: RunState, agent: str) -> AgentProvider:
    """Return the provider of an agent. An agent without a description shares its limits with no other."""
    return state.providers.get(agent) or AgentProvider(provider=agent)


def agents_of(state: RunState, task: TaskRow) -> Iterator[str]:
    """Yield who may work on a task: its agent, then those that it falls back on. A command has none."""
    spec = state.specs[task.id]
    agent, seen = ("" if spec.run else task.agent or state.plan.agent_of(spec)), set[str]()
    while agent and agent not in seen:
        seen.add(agent)
        yield agent
        agent = provider_of(state, agent).fallback


def earliest_start(state: RunState, task: TaskRow) -> float:
    """Return when, on the run's clock, an attempt at a task may start; infinity if not by itself."""
    if not state.row.parked:
        return 0.0
    return min((_free_at(state, agent) for agent in agents_of(state, task)), default=0.0)


def available_agent(state: RunState, task: TaskRow, now: float) -> str | None:
    """Return the agent that may start on a task now, preferred ones first; None if none may."""
    if not state.row.parked:
        return next(agents_of(state, task), "")
    agents = list(agents_of(state, task))
    return next((agent for agent in agents if _free_at(state, agent) <= now), None if agents else "")


def limits_in_the_way(state: RunState, task: TaskRow, now: float) -> list[Parked]:
    """Return what keeps a task from starting now: the parked providers of all its agents, if all are parked."""
    if available_agent(state, task, now) is not None:
        return []
    providers = dict.fromkeys(provider_of(state, agent).provider for agent in agents_of(state, task))
    return [state.row.parked[name] for name in providers]


def _free_at(state: RunState, agent: str) -> float:
    provider = provider_of(state, agent).provider
    parked = state.row.parked.get(provider)
    if parked is None:
        return 0.0
    if parked.shut_in >= 0:
        return NEVER if parked.shut_in == state.row.epoch else 0.0
    return parked.not_before


def _jitter(token: str, wait_s: float) -> float:
    """Return a short extra wait, so that not all runs come back at once. Same input, same wait."""
    return crc32(token.encode()) / 2**32 * min(_JITTER_SHARE * wait_s, _JITTER_MAX_S)


def earliest_validation(state: RunState, task: TaskRow) -> float:
    """Return when, on the run's clock, the validators that a task still waits for may start; infinity if not by itself."""
    asked = (
        one for one in state.specs[task.id].validators if one.prompt and one.id not in task.latest.scores
    )
    return max((_free_at(state, state.plan.agent_of(one)) for one in asked), default=0.0)


def parked_validators(state: RunState, task: TaskRow, now: float) -> list[Parked]:
    """Return the parked providers that keep a task's validators from starting now."""
    agents = {state.plan.agent_of(one) for one in state.specs[task.id].validators if one.prompt}
    providers = {provider_of(state, agent).provider for agent in agents if _free_at(state, agent) > now}
    return [state.row.parked[name] for name in sorted(providers)]


def park_provider(
    state: RunState, provider: str, token: str, until: float | None, wall: float, clock: float
) -> ev.ProviderParked:
    """Return the event that parks a provider. `until` is the wall time at which its limit ends, if known.

    Several attempts may run into one limit: during one wait they count as one hit, and the latest end counts.
    """
    before = state.row.parked.get(provider) or Parked()
    left = max(0.0, before.not_before - clock)
    hits = before.hits if left else before.hits + 1
    known = 0.0 if until is None else min(until - wall, KNOWN_WAIT_MAX_S)
    if known > 0 or not left:
        wait = known if known > 0 else default_wait(hits, state.plan.limits.limit_wait_s)
        left = max(left, wait + _jitter(token, wait))
    return ev.ProviderParked(provider=provider, until=wall + left, wait_s=left, clock=clock, hits=hits)


def default_wait(hits: int, first_s: float) -> float:
    """Return how long to wait for a limit without a known end: doubling from the first time, up to an hour."""
    return min(first_s * 2.0 ** min(hits - 1, 30), max(first_s, WAIT_MAX_S))


def shorten_waits(state: RunState, wall: float) -> Iterator[ev.Event]:
    """Yield events that shorten waits by the time that passed without a runner. No wait gets longer."""
    for provider, parked in state.row.parked.items():
        left = parked.not_before - state.row.clock
        shorter = min(left, max(0.0, parked.until - wall))
        if parked.shut_in < 0 and left - shorter > _SHORTER_BY_S:
            yield ev.ProviderParked(
                provider=provider,
                until=parked.until,
                wait_s=shorter,
                clock=state.row.clock,
                hits=parked.hits,
                words=parked.words,
                reckoned=True,
            )

"""Providers at their limit or out of reach: which agent may start a task, when, and how long to wait.

An outage is a provider's trouble like a limit: nobody is charged and nobody gives up. When nobody says how long to wait, one
agent tries first, the probe, and the others wait for what it finds: else all would run into the same trouble at once.

Waits are measured on the run's own clock, which no jump of the wall clock moves. The wall time at which a limit ends
is kept beside it: a later runner, for which the run's clock stood still, shortens the wait by it and never stretches it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from zlib import crc32

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.plan import AgentProvider
from holdfast.core.projection import Parked, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import ParkReason, TaskStatus

WAIT_MAX_S = 3600.0
"""The longest wait for a limit whose end is not known."""
KNOWN_WAIT_MAX_S = 8 * 86400.0
"""No provider's limit lasts longer than a week: a later reset means that a clock is wrong."""
OUTAGE_WAIT_SHARE = 0.25
"""The first wait in an outage, as a share of the first one for a limit: 15 s. Most outages are over within a minute, while
limits hardly ever are; and agents have tried again for a while before they give up."""
OUTAGE_WAIT_MAX_S = 600.0
"""The longest wait in an outage. Nobody says when it ends: work must not rest for long after it."""
LONG_OUTAGE_S = 600.0
"""An outage that will have lasted this long is told to people, and stops a run that waits for no limit."""
_JITTER_SHARE = 0.1
_JITTER_MAX_S = 30.0
_SHORTER_BY_S = 0.001
NEVER = float("inf")
_FREE = Parked()


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
    return min((_free_at(state, agent) for agent in agents_of(state, task)), default=0.0)


def awaited_start(state: RunState, task: TaskRow) -> float:
    """Return when an attempt at a task starts by itself, as `earliest_start`; infinity if the plan waits for no limit."""
    if not is_any_parked(state):
        return 0.0
    return min((_awaited_at(state, agent) for agent in agents_of(state, task)), default=0.0)


def available_agent(state: RunState, task: TaskRow, now: float, probed: Collection[str] = ()) -> str | None:
    """Return the agent that may start on a task now, preferred ones first; None if none may.

    `probed` are the providers that get their one probe just now.
    """
    if not is_any_parked(state):
        return next(agents_of(state, task), "")
    agents = list(agents_of(state, task))
    free = (agent for agent in agents if _free_at(state, agent) <= now)
    return next(
        (agent for agent in free if provider_of(state, agent).provider not in probed), None if agents else ""
    )


def is_any_parked(state: RunState) -> bool:
    """Tell whether anything may be in the way of an agent's start."""
    return bool(state.row.parked or state.row.shut_agents)


def is_probe_due(state: RunState, provider: str) -> bool:
    """Tell whether whoever starts now through a provider is the one that finds out if it works again."""
    parked = state.row.parked.get(provider)
    return parked is not None and parked.probe


def limits_in_the_way(state: RunState, task: TaskRow, now: float) -> list[Parked]:
    """Return what keeps a task from starting now: the parked providers of all its agents, if all are parked."""
    if available_agent(state, task, now) is not None:
        return []
    return [_in_the_way(state, agent) for agent in agents_of(state, task)]


def _in_the_way(state: RunState, agent: str) -> Parked:
    """Return what keeps an agent from starting: the refusal of its model, its provider, or a wait that is none."""
    refused = state.row.shut_agents.get(agent, _FREE)
    if refused.shut_in == state.row.epoch:
        return refused
    return state.row.parked.get(provider_of(state, agent).provider, _FREE)


def _free_at(state: RunState, agent: str) -> float:
    parked = _in_the_way(state, agent)
    if parked.shut_in == state.row.epoch:
        return NEVER
    if parked.probe and probe_of(state, provider_of(state, agent).provider):
        return NEVER
    return parked.not_before


def _awaited_at(state: RunState, agent: str) -> float:
    """Return when an agent starts by itself. With `on_limit: stop` nobody waits for a limit, nor for the end of a long outage."""
    free = _free_at(state, agent)
    waits = state.plan.limits.on_limit == "wait" or _is_short_outage(_in_the_way(state, agent))
    return free if waits or not free else NEVER


def _is_short_outage(parked: Parked) -> bool:
    return parked.reason is ParkReason.OUTAGE and parked.not_before - parked.began < LONG_OUTAGE_S


def probe_of(state: RunState, provider: str) -> str:
    """Return the task whose attempt, or validators, find out just now if a provider works again; empty if none does."""
    probes = (task for task in state.active.values() if task.latest.probes)
    return next((task.id for task in probes if provider in _providers_at_work(state, task)), "")


def _providers_at_work(state: RunState, task: TaskRow) -> set[str]:
    if task.status is TaskStatus.RUNNING:
        return {task.latest.provider}
    return validating_providers(state, task) if task.latest.checking else set()


def validating_providers(state: RunState, task: TaskRow) -> set[str]:
    """Return the providers of the validators that a task still waits for."""
    return {provider_of(state, agent).provider for agent in _validating_agents(state, task)}


def _validating_agents(state: RunState, task: TaskRow) -> set[str]:
    return {
        state.plan.agent_of(one)
        for one in state.specs[task.id].validators
        if one.prompt and one.id not in task.latest.scores
    }


def _jitter(token: str, wait_s: float) -> float:
    """Return a short extra wait, so that not all runs come back at once. Same input, same wait."""
    return crc32(token.encode()) / 2**32 * min(_JITTER_SHARE * wait_s, _JITTER_MAX_S)


def earliest_validation(state: RunState, task: TaskRow) -> float:
    """Return when, on the run's clock, the validators that a task still waits for may start; infinity if not by itself."""
    return max((_free_at(state, agent) for agent in _validating_agents(state, task)), default=0.0)


def awaited_validation(state: RunState, task: TaskRow) -> float:
    """Return when those validators start by themselves; infinity if the plan waits for no limit."""
    return max((_awaited_at(state, agent) for agent in _validating_agents(state, task)), default=0.0)


def parked_validators(state: RunState, task: TaskRow, now: float) -> list[Parked]:
    """Return the parked providers that keep a task's validators from starting now."""
    held = (agent for agent in sorted(_validating_agents(state, task)) if _free_at(state, agent) > now)
    return [_in_the_way(state, agent) for agent in held]


def _wait_so_far(state: RunState, provider: str, clock: float) -> tuple[Parked, float]:
    """Return how a provider is parked now, if it is, and how much of that wait is left."""
    before = state.row.parked.get(provider, _FREE)
    return before, max(0.0, before.not_before - clock)


def park_provider(
    state: RunState, provider: str, token: str, until: float | None, wall: float, clock: float
) -> ev.ProviderParked:
    """Return the event that parks a provider. `until` is the wall time at which its limit ends, if known.

    Several attempts may run into one limit: during one wait they count as one hit, and the latest end counts.
    """
    before, left = _wait_so_far(state, provider, clock)
    met = before.hits if before.reason is ParkReason.LIMIT else 0
    hits = max(1, met) if left else met + 1
    known = 0.0 if until is None else min(until - wall, KNOWN_WAIT_MAX_S)
    probe = before.probe if left else True
    if known > 0 or not left:
        wait = known if known > 0 else default_wait(hits, state.plan.limits.limit_wait_s)
        left = max(left, wait + _jitter(token, wait))
    return ev.ProviderParked(
        provider=provider,
        until=wall + left,
        wait_s=left,
        clock=clock,
        hits=hits,
        probe=probe and known <= 0,
    )


def park_unreachable(
    state: RunState, provider: str, token: str, error: str, wall: float, clock: float, *, probed: bool
) -> ev.ProviderParked:
    """Return the event that parks a provider which could not be reached.

    Only a probe (`probed`), or whoever meets it after an answer, makes the wait longer: agents that were at work when the
    outage began meet the same one. A limit that is being waited for stays one: its end is known better.
    """
    before, left = _wait_so_far(state, provider, clock)
    again = before.reason is ParkReason.OUTAGE
    if left and not again:
        return _parked_again(provider, before, left, clock)
    hits = before.hits + (probed or before.answered) if again else 1
    if probed or not left:
        wait = default_wait(hits, OUTAGE_WAIT_SHARE * state.plan.limits.limit_wait_s, OUTAGE_WAIT_MAX_S)
        left = max(left, wait + _jitter(token, wait))
    since, began = (before.since, before.began) if again else (wall, clock)
    return ev.ProviderParked(
        provider=provider,
        until=wall + left,
        wait_s=left,
        clock=clock,
        hits=hits,
        reason=ParkReason.OUTAGE,
        probe=True,
        since=since,
        began=began,
        error=error,
        tell=clock + left - began >= LONG_OUTAGE_S and not before.told,
    )


def provider_answered(state: RunState, provider: str) -> list[ev.ProviderAnswered]:
    """Return the event of a provider through which work went well, if others wait for its answer."""
    parked = state.row.parked.get(provider)
    if parked is None or not parked.probe:
        return []
    return [ev.ProviderAnswered(provider=provider, words=f"{provider} answers again", tell=parked.told)]


def probe_answered(state: RunState, provider: str, clock: float) -> list[ev.ProviderAnswered]:
    """Return the event of a provider that answers a probe which is still at work, if others wait for that.

    A wait that began since then has its time: some are answered, and others are not.
    """
    _, new_wait = _wait_so_far(state, provider, clock)
    if new_wait:
        return []
    return [replace(event, provisional=True) for event in provider_answered(state, provider)]


def default_wait(hits: int, first_s: float, most_s: float = WAIT_MAX_S) -> float:
    """Return how long to wait when nobody says: doubling from the first time, for a limit up to an hour."""
    return min(first_s * 2.0 ** min(hits - 1, 30), max(first_s, most_s))


def shorten_waits(state: RunState, wall: float) -> Iterator[ev.Event]:
    """Yield events that shorten waits by the time that passed without a runner. No wait gets longer."""
    for provider, parked in state.row.parked.items():
        left = parked.not_before - state.row.clock
        shorter = min(left, max(0.0, parked.until - wall))
        if parked.shut_in < 0 and left - shorter > _SHORTER_BY_S:
            yield _parked_again(provider, parked, shorter, state.row.clock)


def _parked_again(provider: str, parked: Parked, wait_s: float, clock: float) -> ev.ProviderParked:
    """Return the event that keeps a provider parked as it is, for `wait_s` from now on."""
    return ev.ProviderParked(
        provider=provider,
        until=parked.until,
        wait_s=wait_s,
        clock=clock,
        hits=parked.hits,
        words=parked.words,
        reckoned=True,
        reason=parked.reason,
        probe=parked.probe,
        since=parked.since,
        began=parked.began,
        error=parked.error,
    )

"""What providers do to simulated agents: limits, outages, refusals, and that they answer again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.plan import Validator
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import (
    park_provider,
    park_unreachable,
    probe_answered,
    provider_answered,
    provider_of,
)
from holdfast.core.status import FailureKind, ParkReason

if TYPE_CHECKING:
    from tests.core.simulation.machine import SimulatedAgent
    from tests.core.simulation.runner import SimulatedRunner

WAITED_FOR = (FailureKind.LIMIT, FailureKind.OUTAGE)
REFUSALS = (FailureKind.AUTH, FailureKind.PERMISSION, FailureKind.MODEL)


def limited(
    runner: SimulatedRunner, task: TaskRow, agent: SimulatedAgent, failure: FailureKind, carry: str
) -> list[ev.Event]:
    """Return the end of an attempt whose provider is waited for."""
    runner.world.met(str(failure))
    provider = task.latest.provider
    if failure is FailureKind.OUTAGE:
        parked = _unreachable(runner, provider, agent.token, probed=task.latest.probes)
    else:
        parked = _parked(runner, provider, agent.token, agent.resets_in)
    ended = ev.AttemptLimited(
        task=task.id,
        attempt=task.attempt,
        token=agent.token,
        provider=provider,
        error=str(failure),
        carry=carry,
        reason=ParkReason(failure.value),
    )
    return [parked, ended]


def is_down(runner: SimulatedRunner, task: TaskRow) -> bool:
    """Tell whether another agent of the same provider is about to meet an outage."""
    others = (one for one in runner.state.active.values() if one.latest.provider == task.latest.provider)
    met = (runner.machine.agents.get((one.id, one.attempt)) for one in others)
    return bool(task.latest.provider) and any(
        agent is not None and agent.fate == "limit" and agent.failure is FailureKind.OUTAGE for agent in met
    )


def _parked(runner: SimulatedRunner, provider: str, token: str, resets_in: float | None) -> ev.ProviderParked:
    wall = runner.machine.wall
    until = None if resets_in is None else wall + resets_in
    parked = park_provider(runner.state, provider, token, until, wall, runner.clock)
    runner.world.judge.parked(parked)
    return replace(parked, words="limit")


def _unreachable(runner: SimulatedRunner, provider: str, token: str, *, probed: bool) -> ev.ProviderParked:
    wall, before = runner.machine.wall, runner.state.row.parked.get(provider)
    if before is not None and before.answered:
        runner.world.met("outage after an answer")
    parked = park_unreachable(runner.state, provider, token, "503", wall, runner.clock, probed=probed)
    runner.world.judge.parked(parked)
    if parked.tell:
        runner.world.met("outage told")
    return replace(parked, words=parked.words or "outage")


def answered(runner: SimulatedRunner, task: TaskRow, *, done: bool) -> list[ev.ProviderAnswered]:
    """Return that a provider answered the agent that was to find out, if it was one: it is `done`, or still at work."""
    provider = task.latest.provider
    if not task.latest.probes:
        return []
    if done:
        found = provider_answered(runner.state, provider)
    else:
        found = probe_answered(runner.state, provider, runner.clock)
    if found:
        runner.world.met("answered")
    return found


def blocked(runner: SimulatedRunner, task: TaskRow, failure: FailureKind, carry: str) -> list[ev.Event]:
    """Return the end of an attempt that needs a person; some refusals are the provider's, one is the agent's only."""
    runner.world.met("needs person")
    ended = ev.AttemptBlocked(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=failure,
        error="help",
        carry=carry,
    )
    provider, agent = task.latest.provider, task.latest.agent
    if failure is FailureKind.AUTH:
        return [ev.ProviderShut(provider=provider, words="log in"), ended]
    if failure is FailureKind.MODEL:
        runner.world.met("model refused")
        return [ev.ProviderShut(provider=provider, words="no such model", agent=agent), ended]
    return [ended]


def gone_for(runner: SimulatedRunner, task: TaskRow, validator: Validator) -> ev.Event | None:
    """Return why a validator could not judge, if so: its provider is at a limit, is out of reach or refuses us."""
    world = runner.world
    if not validator.prompt or world.random() >= world.rates.limits:
        return None
    agent = validator.agent or runner.state.plan.agent
    provider = provider_of(runner.state, agent).provider
    refused = world.random()
    if refused < 0.2:
        return ev.ProviderShut(provider=provider, words="log in", agent=agent if refused < 0.1 else "")
    if world.random() < 0.5:
        world.met("outage of a validator")
        return _unreachable(runner, provider, validator.id, probed=task.latest.probes)
    world.met("limit of a validator")
    return _parked(runner, provider, validator.id, None)

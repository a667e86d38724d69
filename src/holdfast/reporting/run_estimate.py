"""What a plan may take in time and money, from what tasks took in earlier runs of the same repository.

A task counts with all its attempts. Medians, so that one that hung or was rich in retries does not decide. For people only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

import msgspec

from holdfast.core.plan import Plan
from holdfast.reporting.estimates import AttemptSpan, time_to_finish


class AgentHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks took that one agent finished: the medians of their seconds, and of their cost if it was reported.

    The agent of commands has an empty name.
    """

    agent: str
    tasks: int
    seconds: float
    cost_usd: float | None = None


class RunEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may take. `unknown` agents have no history; they are taken to be like the others."""

    seconds: float
    cost_usd: float | None
    history: tuple[AgentHistory, ...]
    unknown: tuple[str, ...] = ()


def agent_histories(runs: Iterable[Iterable[AttemptSpan]]) -> dict[str, AgentHistory]:
    """Return what is known of each agent from the attempts of several runs."""
    found: dict[str, list[tuple[float, float | None]]] = {}
    for spans in runs:
        tasks: dict[str, list[AttemptSpan]] = {}
        for span in spans:
            tasks.setdefault(span.task, []).append(span)
        for ended in tasks.values():
            if ended[-1].ended is not None:
                costs = [span.cost_usd for span in ended if span.cost_usd is not None]
                took = sum(span.seconds for span in ended), sum(costs) if costs else None
                found.setdefault(ended[-1].agent, []).append(took)
    return {agent: _history(agent, took) for agent, took in found.items()}


def _history(agent: str, took: list[tuple[float, float | None]]) -> AgentHistory:
    costs = [cost for _, cost in took if cost is not None]
    return AgentHistory(
        agent=agent,
        tasks=len(took),
        seconds=round(median(seconds for seconds, _ in took), 3),
        cost_usd=round(median(costs), 6) if costs else None,
    )


def estimate_run(plan: Plan, jobs: int, known: Mapping[str, AgentHistory]) -> RunEstimate | None:
    """Return what a run of a plan may take; None if there is no history at all."""
    if not known:
        return None
    agents = {task.id: plan.agent_of(task) for _, task in plan.tasks()}
    usual = _usual(known)
    history = {task: known.get(agent, usual) for task, agent in agents.items()}
    left = {task: one.seconds for task, one in history.items()}
    costs = [one.cost_usd for task, one in history.items() if agents[task] and one.cost_usd is not None]
    used = dict.fromkeys(agents.values())
    return RunEstimate(
        seconds=time_to_finish(plan, jobs, left, [1.0]) or 0.0,
        cost_usd=round(sum(costs), 6) if costs else None,
        history=tuple(known[agent] for agent in used if agent in known),
        unknown=tuple(agent for agent in used if agent and agent not in known),
    )


def _usual(known: Mapping[str, AgentHistory]) -> AgentHistory:
    """Return what to expect of an agent without a history: the middle of what is known of real agents, if any is."""
    real = [one for agent, one in known.items() if agent] or list(known.values())
    costs = [one.cost_usd for one in real if one.cost_usd is not None]
    return AgentHistory(
        agent="",
        tasks=0,
        seconds=median(one.seconds for one in real),
        cost_usd=median(costs) if costs else None,
    )
